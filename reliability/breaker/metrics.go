package breaker

import (
	"fmt"
	"sync"

	"github.com/VictoriaMetrics/metrics"
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
	names              []string
}

// NewMetrics makes the counters in set.
func NewMetrics(set *metrics.Set) *Metrics { return &Metrics{set: set, by: map[string]*series{}} }

func (m *Metrics) of(name string) *series {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.by[name]; s != nil {
		return s
	}
	s := &series{}
	counter := func(format string, args ...any) *metrics.Counter {
		n := fmt.Sprintf(format, append([]any{name}, args...)...)
		s.names = append(s.names, n)
		return m.set.GetOrCreateCounter(n)
	}
	gauge := fmt.Sprintf("sloengine_breaker_state{breaker=%q}", name)
	s.names = append(s.names, gauge)
	s.state = m.set.GetOrCreateGauge(gauge, nil)
	for _, to := range []State{Closed, HalfOpen, Open} {
		s.transitions[to] = counter("sloengine_breaker_transitions_total{breaker=%q,to=%q}", to.String())
	}
	s.rejected = counter("sloengine_breaker_rejected_total{breaker=%q}")
	s.failures = counter("sloengine_breaker_failures_total{breaker=%q}")
	s.healthy = counter(`sloengine_breaker_health_checks_total{breaker=%q,result="success"}`)
	s.unhealthy = counter(`sloengine_breaker_health_checks_total{breaker=%q,result="failure"}`)
	m.by[name] = s
	return s
}

// Forget takes the series of a breaker that is gone out of the set.
func (m *Metrics) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.by[name]; s != nil {
		for _, n := range s.names {
			m.set.UnregisterMetric(n)
		}
		delete(m.by, name)
	}
}
