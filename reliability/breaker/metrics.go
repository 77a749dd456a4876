package breaker

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the counters of all breakers, by name.
type Metrics struct{ *metric.PerName[*series] }

// series are those of one breaker.
type series struct {
	state              *metrics.Gauge
	transitions        [3]*metrics.Counter // by the state moved to
	rejected, failures *metrics.Counter
	healthy, unhealthy *metrics.Counter
}

// NewMetrics makes the counters in set.
func NewMetrics(set *metrics.Set) *Metrics {
	return &Metrics{metric.NewPerName(set, func(g *metric.Group, name string) *series {
		s := &series{
			state:    g.Gauge(metric.BreakerState, name),
			rejected: g.Counter(metric.BreakerRejected, name), failures: g.Counter(metric.BreakerFailures, name),
			healthy:   g.Counter(metric.BreakerHealthChecks, name, "success"),
			unhealthy: g.Counter(metric.BreakerHealthChecks, name, "failure"),
		}
		for _, to := range []State{Closed, HalfOpen, Open} {
			s.transitions[to] = g.Counter(metric.BreakerTransitions, name, to.String())
		}
		return s
	})}
}
