package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
)

// LocalLimit is a Limiter for this process alone. It holds strictly, and a call gets
// all of its units at once, so that several that wait don't go together in the end.
type LocalLimit struct {
	most    int
	window  time.Duration
	maxWait time.Duration

	turn   chan struct{} // holds one while nobody is asked for; the rest belongs to who took it
	grants []grant       // of the last window, rising
	used   int           // their sum
}

type grant struct {
	at time.Time
	n  int
}

// localGuard is added to the window, so that calls which are under way for unequal times
// do not meet at the other end: a twentieth, at most 50 ms.
func localGuard(window time.Duration) time.Duration { return min(window/20, 50*time.Millisecond) }

// NewLocalLimit allows burst units (1 if 0) in any span of burst/perSecond seconds.
// Wait gives up beyond maxWait, 5 s if 0.
func NewLocalLimit(perSecond float64, burst int, maxWait time.Duration) (*LocalLimit, error) {
	burst = cmp.Or(burst, 1)
	maxWait = cmp.Or(maxWait, 5*time.Second)
	if !(perSecond > 0 && perSecond <= 1e9) || burst < 1 || maxWait < 0 {
		return nil, fmt.Errorf("rate limit of %v/s, burst %d, wait %s: all must be positive", perSecond, burst, maxWait)
	}
	window := time.Duration(float64(burst) / perSecond * float64(time.Second))
	l := &LocalLimit{most: burst, window: window + localGuard(window), maxWait: maxWait, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l, nil
}

// LimitedError says that a call was put off by a rate limit. Its class is
// retry.ClassOverload.
type LimitedError struct{ MaxWait time.Duration }

func (e *LimitedError) Error() string {
	return fmt.Sprintf("no turn within %s under the outbound rate limit", e.MaxWait)
}

// RetryClass makes retry.ClassOf know it.
func (e *LimitedError) RetryClass() retry.Class { return retry.ClassOverload }

// Most is how many units a single Wait can get at most.
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
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-limited.Done():
			timer.Stop()
			return l.gaveUp(ctx)
		}
	}
}

// room forgets old grants and says how long to wait until n more fit.
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
