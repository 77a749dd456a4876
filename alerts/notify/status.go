package notify

import (
	"context"
	"time"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Status is how the delivery to one peer goes.
type Status struct {
	Name, URL string

	Pending     int // alerts whose present state the peer does not know
	Sent        uint64
	LastSuccess time.Time     // zero: none yet
	Took        time.Duration // of that request

	FailingSince time.Time // zero: it works
	Failures     uint64    // since then
	Cause, Brief string    // the last error; Brief is without what the peer wrote

	Breaker breaker.Status
}

// read is the present status.
func (p *peer) read() Status {
	p.mu.Lock()
	s := p.status
	p.mu.Unlock()
	s.Name, s.URL, s.Sent, s.Breaker = p.settings.Name, p.settings.URL, p.metrics.sent.Get(), p.breaker.Status()
	return s
}

func (p *peer) pending(n int) {
	p.mu.Lock()
	p.status.Pending = n
	p.mu.Unlock()
	p.metrics.pending.Set(float64(n))
}

// succeeded ends a failure.
func (p *peer) succeeded(took time.Duration) {
	now := p.now()
	p.mu.Lock()
	s := &p.status
	since, failures := s.FailingSince, s.Failures
	s.LastSuccess, s.Took = now, took
	s.FailingSince, s.Failures, s.Cause, s.Brief = time.Time{}, 0, "", ""
	p.mu.Unlock()
	p.metrics.failing.Set(0)
	p.metrics.lastSuccess.Set(float64(now.UnixMilli()) / 1000)
	p.metrics.lastSuccessTook.Set(took.Seconds())
	if !since.IsZero() {
		p.log.Info("alertmanager accepts alerts again", "alertmanager", p.settings.Name, "failed_for", now.Sub(since).Round(time.Millisecond), "failures", failures)
	}
}

// failed begins a failure, or goes on with one.
func (p *peer) failed(ctx context.Context, err error) {
	if ctx.Err() != nil || retry.ClassOf(err) == retry.ClassBreakerOpen {
		return // the engine stops, or the breaker has opened for the last cause
	}
	p.mu.Lock()
	s := &p.status
	first := s.FailingSince.IsZero()
	if first {
		s.FailingSince = p.now()
	}
	s.Failures++
	s.Cause, s.Brief = err.Error(), brief(err)
	p.mu.Unlock()
	p.metrics.failing.Set(1)
	if first {
		p.log.Error("alertmanager does not accept alerts, retrying", "alertmanager", p.settings.Name, "err", err)
	}
}
