package shared

import (
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the counters of a Link and of all that use it.
type Metrics struct {
	set       *metrics.Set
	up        *metrics.Gauge
	fallback  *metrics.Gauge
	fallbacks *metrics.Counter
	lost      *metrics.Counter
	roundTrip *metrics.PrometheusHistogram
	errors    [reasons]*metrics.Counter

	mu sync.Mutex
	by map[string]*outboundSeries
}

type outboundSeries struct {
	allowed, refused, fallback *metrics.Counter
	wait                       *metrics.PrometheusHistogram
	group                      metric.Group
}

// NewMetrics makes the counters in set. One Link per Metrics.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{
		set:       set,
		up:        metric.RedisUp.Gauge(set),
		fallback:  metric.RateLimitFallback.Gauge(set),
		fallbacks: metric.RateLimitFallbacks.Counter(set),
		lost:      metric.RateLimitFallbackErrors.Counter(set),
		roundTrip: metric.RedisRoundTripSeconds.Histogram(set),
		by:        map[string]*outboundSeries{},
	}
	for r := range m.errors {
		m.errors[r] = metric.RedisErrors.Counter(set, reason(r).String())
	}
	return m
}

func (m *Metrics) of(name string) *outboundSeries {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.by[name]; s != nil {
		return s
	}
	s := &outboundSeries{group: metric.Group{Set: m.set}}
	s.allowed = s.group.Counter(metric.RateLimitOutboundAllowed, name)
	s.refused = s.group.Counter(metric.RateLimitOutboundRefused, name)
	s.fallback = s.group.Counter(metric.RateLimitOutboundFallback, name)
	s.wait = s.group.Histogram(metric.RateLimitOutboundWaitSeconds, name)
	m.by[name] = s
	return s
}

// Forget takes the series of an Outbound that is gone out of the set.
func (m *Metrics) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.by[name]; s != nil {
		s.group.Unregister()
		delete(m.by, name)
	}
}
