// Package every does work at an interval until a context ends, as the background loops of all parts do.
package every

import (
	"context"
	"iter"
	"time"
)

// Tick yields the time at once, and then each time that the interval has passed. Work that takes longer than the
// interval is done again at once, as with time.Ticker. Nothing is yielded once ctx has ended, but for the first time.
func Tick(ctx context.Context, interval time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for now := time.Now(); yield(now); {
			select {
			case <-ctx.Done():
				return
			case now = <-tick.C:
			}
		}
	}
}

// Later is Tick without the time at once.
func Later(ctx context.Context, interval time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		first := true
		for now := range Tick(ctx, interval) {
			if !first && !yield(now) {
				return
			}
			first = false
		}
	}
}
