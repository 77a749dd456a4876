package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
)

// This file is the outbound rate limit of a sink, for one process. It holds for any span of its window, and not
// only on average.

// LocalLimit is a Limiter of this process. No span of its window sees more than the burst. A call gets all of its units
// at once, so that several that wait do not end up going together.
//
// grants holds at most burst entries, since each has at least one unit and their sum is bounded by burst.
type LocalLimit struct {
	most    int
	window  time.Duration
	maxWait time.Duration

	// turn holds one token. The goroutine that takes it owns grants and used, also while it waits for room: so waiters
	// are served one after the other, and a large one is not starved by small ones.
	turn   chan struct{}
	grants []grant // of the last window, oldest first
	used   int     // their sum
}

// grant is one Wait that succeeded: when, and for how many units.
type grant struct {
	at time.Time
	n  int
}

// localGuard is added to the window: 1/20 of it, at most 50 ms. Calls take unequal times on their way, and without it
// two windows' worth could arrive within one.
func localGuard(window time.Duration) time.Duration { return min(window/20, 50*time.Millisecond) }

// NewLocalLimit allows burst units (default 1) in any span of burst/perSecond seconds. perSecond is above 0, at most
// 1e9. Wait gives up after maxWait (default 5 s).
func NewLocalLimit(perSecond float64, burst int, maxWait time.Duration) (*LocalLimit, error) {
	burst = cmp.Or(burst, 1)
	maxWait = cmp.Or(maxWait, 5*time.Second)
	if !(perSecond > 0 && perSecond <= 1e9) || burst < 1 || maxWait < 0 {
		return nil,
			fmt.Errorf("invalid rate limit of %v/s, burst %d, maximum wait %s (all must be positive, and at most 1e9/s)",
				perSecond, burst, maxWait)
	}
	window := time.Duration(float64(burst) / perSecond * float64(time.Second))
	l := &LocalLimit{most: burst, window: window + localGuard(window), maxWait: maxWait, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l, nil
}

// LimitedError is returned by a Limiter whose wait would exceed MaxWait. Its class is retry.ClassOverload.
type LimitedError struct{ MaxWait time.Duration }

func (e *LimitedError) Error() string {
	return fmt.Sprintf("outbound rate limit exceeded for %s", e.MaxWait)
}

// RetryClass is retry.ClassOverload.
func (e *LimitedError) RetryClass() retry.Class { return retry.ClassOverload }

// Most is the largest number of units that one Wait can get.
func (l *LocalLimit) Most() int { return l.most }

// Wait implements Limiter. More units than Most count as that many.
func (l *LocalLimit) Wait(ctx context.Context, n int) error {
	n = min(n, l.most)
	limited, cancel := context.WithTimeout(ctx, l.maxWait)
	defer cancel()
	select {
	case <-l.turn:
	case <-limited.Done():
		return l.gaveUp(ctx)
	}
	defer func() { l.turn <- struct{}{} }()
	for {
		now := time.Now()
		wait := l.room(now, n)
		if wait <= 0 {
			l.grants = append(l.grants, grant{now, n})
			l.used += n
			return nil
		}
		if end, _ := limited.Deadline(); now.Add(wait).After(end) {
			return l.gaveUp(ctx)
		}
		if !retry.Sleep(limited, wait) {
			return l.gaveUp(ctx)
		}
	}
}

// room drops expired grants and returns how long to wait until n more units fit, 0 if they do.
func (l *LocalLimit) room(now time.Time, n int) time.Duration {
	old := 0
	for old < len(l.grants) && now.Sub(l.grants[old].at) >= l.window {
		l.used -= l.grants[old].n
		old++
	}
	l.grants = l.grants[:copy(l.grants, l.grants[old:])]
	free := l.most - l.used
	for _, g := range l.grants {
		if free >= n {
			break
		}
		if free += g.n; free >= n {
			return g.at.Add(l.window).Sub(now)
		}
	}
	return 0
}

func (l *LocalLimit) gaveUp(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the rate limit: %w", context.Cause(ctx))
	}
	return &LimitedError{l.maxWait}
}
