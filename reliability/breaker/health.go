package breaker

import (
	"context"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/internal/every"
)

// Run calls the health check every HealthInterval while the breaker is not closed,
// until ctx ends. Without a health check it only waits. It always returns nil.
func (b *Breaker) Run(ctx context.Context) error {
	if b.o.Health == nil {
		<-ctx.Done()
		return nil
	}
	for range every.Later(ctx, b.o.HealthInterval) {
		if b.State() != Closed {
			b.check(ctx)
		}
	}
	return nil
}

func (b *Breaker) check(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, b.o.ProbeTimeout)
	err := b.healthy(limited)
	cancel()
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		b.m.unhealthy.Inc()
	} else {
		b.m.healthy.Inc()
	}
	b.mu.Lock()
	defer b.unlock()
	now := time.Now()
	b.advance(now)
	if err == nil && b.state == Open {
		b.halfOpen("a health check succeeded")
	}
	if !b.o.HealthCloses || b.state != HalfOpen {
		return
	}
	// It counts as a probe of its own. Without a free slot real calls are deciding.
	if i, ok := b.probes.begin(now); ok {
		o := Success
		if err != nil {
			o = Failure
		}
		b.probes.end(i, o)
		b.judgeProbes("a health check failed")
	}
}

// healthy makes a panic of the check an error: it is foreign code in our loop.
func (b *Breaker) healthy(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("health check panicked: %v", r)
		}
	}()
	return b.o.Health(ctx)
}
