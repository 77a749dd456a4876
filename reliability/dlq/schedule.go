package dlq

import (
	"context"
	"fmt"
	"time"

	"github.com/adhocore/gronx"
)

// Schedule is a cron expression of five fields (minute, hour, day, month, weekday), six
// with seconds in front, or a name such as @daily, in a time zone.
type Schedule struct {
	text string
	zone *time.Location
}

// ParseSchedule checks an expression. A nil zone is UTC.
func ParseSchedule(text string, zone *time.Location) (*Schedule, error) {
	if zone == nil {
		zone = time.UTC
	}
	s := &Schedule{text, zone}
	if !gronx.New().IsValid(text) {
		return nil, fmt.Errorf("schedule %q is not a cron expression", text)
	}
	// Some are well-formed and never come, such as 30 February.
	if _, err := s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, zone)); err != nil {
		return nil, err
	}
	return s, nil
}

// Next is the first time after now.
func (s *Schedule) Next(now time.Time) (time.Time, error) {
	next, err := gronx.NextTickAfter(s.text, now.In(s.zone), false)
	if err != nil || !next.After(now) {
		return time.Time{}, fmt.Errorf("schedule %q never occurs", s.text)
	}
	return next, nil
}

// run calls f at every tick, with the time of the tick, until ctx ends. Ticks that pass
// while f is busy are left out.
func (s *Schedule) run(ctx context.Context, now func() time.Time, f func(time.Time)) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, err := s.Next(now())
		if err != nil {
			return err
		}
		// Not longer than an hour at once: the clock may be set meanwhile.
		for wait := next.Sub(now()); wait > 0; wait = next.Sub(now()) {
			timer.Reset(min(wait, time.Hour))
			select {
			case <-ctx.Done():
				return nil
			case <-timer.C:
			}
		}
		f(next)
		if ctx.Err() != nil {
			return nil
		}
	}
}
