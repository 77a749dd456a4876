package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// RetentionOptions say how long entries are kept.
type RetentionOptions struct {
	Store  Store
	MaxAge time.Duration  // of entries, by the time of saving; default 30 days
	Cron   string         // "0 2 * * *"
	Zone   *time.Location // UTC
	Now    func() time.Time
	// Refused reports whether the clock is not trusted. Then nothing is purged. nil: it is trusted.
	Refused func() bool
	// Done is called after every run, and may be nil.
	Done func(purged int, err error)
}

// Retention purges and compacts a store at fixed times.
type Retention struct {
	o        RetentionOptions
	schedule *Schedule
}

// NewRetention checks the options.
func NewRetention(o RetentionOptions) (*Retention, error) {
	if o.Store == nil {
		return nil, errors.New("retention of dead letters: Store is required")
	}
	if o.MaxAge = cmp.Or(o.MaxAge, 30*24*time.Hour); o.MaxAge < 0 {
		return nil, fmt.Errorf("retention of dead letters: invalid maximum age %s (must not be negative)", o.MaxAge)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	schedule, err := ParseSchedule(cmp.Or(o.Cron, "0 2 * * *"), o.Zone)
	if err != nil {
		return nil, fmt.Errorf("retention of dead letters: %w", err)
	}
	return &Retention{o, schedule}, nil
}

// Run purges at every tick until ctx ends; at once if a tick was missed by more than a
// day, so that an engine that never runs at that hour is cleaned too.
func (r *Retention) Run(ctx context.Context) error {
	if s, err := r.o.Store.Stats(ctx); err == nil && s.Count > 0 &&
		s.Oldest.Before(r.o.Now().Add(-r.o.MaxAge-24*time.Hour)) {
		r.tick(ctx)
	}
	return r.schedule.run(ctx, r.o.Now, func(time.Time) { r.tick(ctx) })
}

var errClock = errors.New("the clock jumped ahead: nothing is purged by age until it is trusted again")

func (r *Retention) tick(ctx context.Context) {
	n, err := 0, errClock
	if r.o.Refused == nil || !r.o.Refused() {
		n, err = r.Purge(ctx)
	}
	if r.o.Done != nil {
		r.o.Done(n, err)
	}
}

// Purge removes the entries that are too old now, frees their space, and returns their number.
func (r *Retention) Purge(ctx context.Context) (int, error) {
	n, err := r.o.Store.Purge(ctx, r.o.Now().Add(-r.o.MaxAge))
	if c, ok := r.o.Store.(Compacter); ok && err == nil {
		err = c.Compact(ctx)
	}
	return n, err
}
