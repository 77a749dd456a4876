package breaker

import "time"

// Trip opens the breaker for d because another instance found the target failing. It does nothing to a breaker that
// is not closed, which has found the failure itself.
func (b *Breaker) Trip(d time.Duration, reason string) {
	b.mu.Lock()
	defer b.unlock()
	if b.state != Closed || b.o.Off || d <= 0 {
		return
	}
	probes := b.o.Consecutive.Probes
	b.until = time.Now().Add(d)
	b.probes = newProbes(probes, probes, d)
	b.move(Open, reason)
}

// Release ends the open time because another instance found the target healthy: probes begin now. It does
// nothing to a breaker that is not open.
func (b *Breaker) Release(reason string) {
	b.mu.Lock()
	defer b.unlock()
	if b.state == Open {
		b.halfOpen(reason)
	}
}
