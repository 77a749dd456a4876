package ratelimit

import (
	"fmt"
	"strings"
	"sync"

	"github.com/VictoriaMetrics/metrics"
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
	m.kept = set.GetOrCreateCounter(`sloengine_ratelimit_sampled_total{kept="true"}`)
	m.sampledOut = set.GetOrCreateCounter(`sloengine_ratelimit_sampled_total{kept="false"}`)
	m.aggregated = set.GetOrCreateCounter("sloengine_ratelimit_aggregated_total")
	m.throttled = set.GetOrCreateCounter("sloengine_ratelimit_throttled_total")
	m.bypassed[byAudit] = set.GetOrCreateCounter(`sloengine_ratelimit_bypass_total{reason="audit"}`)
	m.bypassed[byBypass] = set.GetOrCreateCounter(`sloengine_ratelimit_bypass_total{reason="bypass"}`)
	m.contexts = set.GetOrCreateGauge("sloengine_ratelimit_contexts", nil)
	m.evictions = set.GetOrCreateCounter("sloengine_ratelimit_evictions_total")
	return m
}

// label quotes a value as the text format of Prometheus does: Go's own quoting escapes
// more, which a parser refuses.
func label(v string) string { return `"` + labelEscapes.Replace(v) + `"` }

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// bind makes the series of a policy's rules, and takes those out of the set that were
// of the policy before and are not of this one.
func (m *Metrics) bind(p *Policy) ([]ruleSeries, [Context + 1]layerSeries) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := map[string]bool{}
	counter := func(format string, args ...any) *metrics.Counter {
		for i, a := range args {
			args[i] = label(fmt.Sprint(a))
		}
		name := fmt.Sprintf(format, args...)
		now[name] = true
		return m.set.GetOrCreateCounter(name)
	}
	var layers [Context + 1]layerSeries
	rules := make([]ruleSeries, len(p.rules))
	for i := range p.rules {
		r, s := &p.rules[i], &rules[i]
		typ := ""
		if r.layer == Type {
			typ = r.name
			s.dropped = counter("sloengine_ratelimit_dropped_total{type=%s}", typ)
			s.critical = counter("sloengine_ratelimit_critical_total{type=%s}", typ)
		}
		s.hits = counter("sloengine_ratelimit_hits_total{layer=%s,type=%s}", r.layer, typ)
		l := &layers[r.layer]
		if l.current == nil {
			for _, g := range []struct {
				name  string
				gauge **metrics.Gauge
			}{{"current", &l.current}, {"threshold", &l.threshold}} {
				name := fmt.Sprintf("sloengine_ratelimit_%s{layer=%q}", g.name, r.layer)
				now[name] = true
				*g.gauge = m.set.GetOrCreateGauge(name, nil)
			}
		}
	}
	for name := range m.own {
		if !now[name] {
			m.set.UnregisterMetric(name)
		}
	}
	m.own = now
	return rules, layers
}
