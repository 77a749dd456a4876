package dispatch

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/sloengine/sloengine/reliability/retry"
)

// LocalLimit is a Limiter for this process alone: a token bucket.
type LocalLimit struct {
	limiter *rate.Limiter
	maxWait time.Duration
}

// NewLocalLimit allows perSecond units a second, burst at once (1 if 0). Wait gives up
// beyond maxWait, 5 s if 0.
func NewLocalLimit(perSecond float64, burst int, maxWait time.Duration) (*LocalLimit, error) {
	def(&burst, 1)
	def(&maxWait, 5*time.Second)
	if !(perSecond > 0 && perSecond <= 1e9) || burst < 1 || maxWait < 0 {
		return nil, fmt.Errorf("rate limit of %v/s, burst %d, wait %s: all must be positive", perSecond, burst, maxWait)
	}
	return &LocalLimit{rate.NewLimiter(rate.Limit(perSecond), burst), maxWait}, nil
}

// LimitedError says that a call was put off by a rate limit. Its class is
// retry.ClassOverload.
type LimitedError struct{ MaxWait time.Duration }

func (e *LimitedError) Error() string {
	return fmt.Sprintf("no turn within %s under the outbound rate limit", e.MaxWait)
}

// RetryClass makes retry.ClassOf know it.
func (e *LimitedError) RetryClass() retry.Class { return retry.ClassOverload }

// Wait implements Limiter. More units than the burst are taken bit by bit.
func (l *LocalLimit) Wait(ctx context.Context, n int) error {
	limited, cancel := context.WithTimeout(ctx, l.maxWait)
	defer cancel()
	for n > 0 {
		part := min(n, l.limiter.Burst())
		if err := l.limiter.WaitN(limited, part); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("wait for the rate limit: %w", context.Cause(ctx))
			}
			return &LimitedError{l.maxWait}
		}
		n -= part
	}
	return nil
}
