package redact

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics count redacted values. They outlive a change of the rules.
type Metrics struct {
	values map[Action]*metrics.Counter
	events *metrics.Counter
}

// NewMetrics makes the counters in set.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{values: map[Action]*metrics.Counter{}, events: metric.RedactEvents.Counter(set)}
	for _, a := range Actions() {
		m.values[a] = metric.RedactValues.Counter(set, string(a))
	}
	return m
}
