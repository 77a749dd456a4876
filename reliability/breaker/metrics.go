package breaker

import (
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the counters of all breakers, by name.
type Metrics struct {
	set *metrics.Set
	mu  sync.Mutex
	by  map[string]*series
}

// series are those of one breaker.
type series struct {
	state              *metrics.Gauge
	transitions        [3]*metrics.Counter // by the state moved to
	rejected, failures *metrics.Counter
	healthy, unhealthy *metrics.Counter
	group              metric.Group
}

// NewMetrics makes the counters in set.
func NewMetrics(set *metrics.Set) *Metrics { return &Metrics{set: set, by: map[string]*series{}} }

func (m *Metrics) of(name string) *series {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.by[name]; s != nil {
		return s
	}
	s := &series{group: metric.Group{Set: m.set}}
	s.state = s.group.Gauge(metric.BreakerState, name)
	for _, to := range []State{Closed, HalfOpen, Open} {
		s.transitions[to] = s.group.Counter(metric.BreakerTransitions, name, to.String())
	}
	s.rejected = s.group.Counter(metric.BreakerRejected, name)
	s.failures = s.group.Counter(metric.BreakerFailures, name)
	s.healthy = s.group.Counter(metric.BreakerHealthChecks, name, "success")
	s.unhealthy = s.group.Counter(metric.BreakerHealthChecks, name, "failure")
	m.by[name] = s
	return s
}

// Forget takes the series of a breaker that is gone out of the set.
func (m *Metrics) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.by[name]; s != nil {
		s.group.Unregister()
		delete(m.by, name)
	}
}
