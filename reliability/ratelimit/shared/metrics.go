package shared

import (
	"fmt"
	"sync"

	"github.com/VictoriaMetrics/metrics"
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
	names                      []string
}

// NewMetrics makes the counters in set. One Link per Metrics.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{
		set:       set,
		up:        set.GetOrCreateGauge("sloengine_redis_up", nil),
		fallback:  set.GetOrCreateGauge("sloengine_ratelimit_fallback", nil),
		fallbacks: set.GetOrCreateCounter("sloengine_ratelimit_fallback_total"),
		lost:      set.GetOrCreateCounter("sloengine_ratelimit_fallback_errors_total"),
		roundTrip: set.GetOrCreatePrometheusHistogramExt("sloengine_redis_round_trip_seconds", []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}),
		by:        map[string]*outboundSeries{},
	}
	for r := range m.errors {
		m.errors[r] = set.GetOrCreateCounter(fmt.Sprintf("sloengine_redis_errors_total{reason=%q}", reason(r).String()))
	}
	return m
}

func (m *Metrics) of(name string) *outboundSeries {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.by[name]; s != nil {
		return s
	}
	s := &outboundSeries{}
	counter := func(what string) *metrics.Counter {
		n := fmt.Sprintf("sloengine_ratelimit_outbound_%s_total{name=%q}", what, name)
		s.names = append(s.names, n)
		return m.set.GetOrCreateCounter(n)
	}
	s.allowed, s.refused, s.fallback = counter("allowed"), counter("refused"), counter("fallback")
	wait := fmt.Sprintf("sloengine_ratelimit_outbound_wait_seconds{name=%q}", name)
	s.names = append(s.names, wait)
	s.wait = m.set.GetOrCreatePrometheusHistogramExt(wait, []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60})
	m.by[name] = s
	return s
}

// Forget takes the series of an Outbound that is gone out of the set.
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
