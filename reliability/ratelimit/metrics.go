package ratelimit

import (
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the counters of a Limiter and its Table. The label type is the name of
// a type rule, never the event's own type.
type Metrics struct {
	set *metrics.Set
	mu  sync.Mutex
	own map[string]bool // series by the policy's rules and layers

	kept, sampledOut, aggregated, throttled *metrics.Counter
	bypassed                                [byBypass + 1]*metrics.Counter
	contexts                                *metrics.Gauge
	evictions                               *metrics.Counter
}

// ruleSeries are those of one rule. Context rules share theirs.
type ruleSeries struct {
	hits              *metrics.Counter
	dropped, critical *metrics.Counter // of a type rule
}

// layerSeries are those of one layer; nil if it has no rules.
type layerSeries struct{ current, threshold *metrics.Gauge }

// NewMetrics makes the counters in set.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{set: set, own: map[string]bool{}}
	m.kept = metric.RateLimitSampled.Counter(set, "true")
	m.sampledOut = metric.RateLimitSampled.Counter(set, "false")
	m.aggregated = metric.RateLimitAggregated.Counter(set)
	m.throttled = metric.RateLimitThrottled.Counter(set)
	m.bypassed[byAudit] = metric.RateLimitBypass.Counter(set, "audit")
	m.bypassed[byBypass] = metric.RateLimitBypass.Counter(set, "bypass")
	m.contexts = metric.RateLimitContexts.Gauge(set)
	m.evictions = metric.RateLimitEvictions.Counter(set)
	return m
}

// bind makes the series of a policy's rules, and takes those out of the set that were
// of the policy before and are not of this one.
func (m *Metrics) bind(p *Policy) ([]ruleSeries, [Context + 1]layerSeries) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := map[string]bool{}
	name := func(f *metric.Family, values ...string) string {
		n := f.Series(values...)
		now[n] = true
		return n
	}
	var layers [Context + 1]layerSeries
	rules := make([]ruleSeries, len(p.rules))
	for i := range p.rules {
		r, s := &p.rules[i], &rules[i]
		typ := ""
		if r.layer == Type {
			typ = r.name
			s.dropped = m.set.GetOrCreateCounter(name(metric.RateLimitDropped, typ))
			s.critical = m.set.GetOrCreateCounter(name(metric.RateLimitCritical, typ))
		}
		s.hits = m.set.GetOrCreateCounter(name(metric.RateLimitHits, r.layer.String(), typ))
		l := &layers[r.layer]
		if l.current == nil {
			l.current = m.set.GetOrCreateGauge(name(metric.RateLimitCurrent, r.layer.String()), nil)
			l.threshold = m.set.GetOrCreateGauge(name(metric.RateLimitThreshold, r.layer.String()), nil)
		}
	}
	for n := range m.own {
		if !now[n] {
			m.set.UnregisterMetric(n)
		}
	}
	m.own = now
	return rules, layers
}
