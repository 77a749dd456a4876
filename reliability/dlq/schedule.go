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

// Next is the first time after now. A time that the clocks show twice is the first of the two, and one that they skip
// has the offset from before the change. A schedule of every hour also runs in an hour that the clocks repeat.
func (s *Schedule) Next(now time.Time) (time.Time, error) {
	segments, err := gronx.Segments(s.text)
	if err != nil {
		return time.Time{}, err
	}
	everyHour := segments[2] == "*"
	// The library steps through readings of a clock with one offset, which has no gaps.
	tick := func(after time.Time, offset time.Duration) (time.Time, error) {
		reading := after.UTC().Add(offset)
		next, err := gronx.NextTickAfter(s.text, reading, false)
		if err != nil || !next.After(reading) {
			return time.Time{}, fmt.Errorf("schedule %q never occurs", s.text)
		}
		return next.Add(-offset).In(s.zone), nil
	}
	for at := now.In(s.zone); ; { // from one change of the clocks to the next
		from, to := at.ZoneBounds()
		offset, gap := offsetOf(at), time.Duration(0)
		if !from.IsZero() {
			gap = offset - offsetOf(from.Add(-1))
		}
		after := now
		if gap < 0 && !everyHour && now.Before(from.Add(-gap)) {
			after = from.Add(-gap - 1) // times that the clocks show again until then have passed
		}
		next, err := tick(after, offset)
		if err != nil {
			return time.Time{}, err
		}
		if gap > 0 && now.Before(from.Add(gap)) {
			skipped, err := tick(now, offset-gap)
			if err == nil && skipped.Before(from.Add(gap)) && skipped.Before(next) {
				next = skipped
			}
		}
		if to.IsZero() || next.Before(to) {
			return next, nil
		}
		now, at = to.Add(-1), to
	}
}

func offsetOf(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
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
