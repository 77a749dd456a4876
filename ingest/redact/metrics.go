package redact

import "github.com/VictoriaMetrics/metrics"

// Metrics count what was redacted. They outlive a change of the rules.
type Metrics struct {
	values map[Action]*metrics.Counter
	events *metrics.Counter
}

// NewMetrics makes the counters in set.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{values: map[Action]*metrics.Counter{}, events: set.NewCounter("sloengine_redact_events_total")}
	for _, a := range Actions() {
		m.values[a] = set.NewCounter(`sloengine_redact_values_total{action="` + string(a) + `"}`)
	}
	return m
}
