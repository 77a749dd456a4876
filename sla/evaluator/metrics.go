package evaluator

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the evaluator's own figures.
type Metrics struct {
	ticks   *metrics.Counter // reports made
	errors  *metrics.Counter // ticks without a report, the source having failed
	late    *metrics.Counter // ticks that took longer than the interval
	refused *metrics.Counter // ticks refused for a clock that jumped
	seconds *metrics.PrometheusHistogram
	groups  *metrics.Gauge // SLO groups in the latest report
}

// NewMetrics registers the sloengine_evaluate_* metrics in a set.
func NewMetrics(set *metrics.Set) *Metrics {
	return &Metrics{
		ticks:   metric.EvaluateTicks.Counter(set),
		errors:  metric.EvaluateErrors.Counter(set),
		late:    metric.EvaluateLate.Counter(set),
		refused: metric.EvaluateClockRefused.Counter(set),
		seconds: metric.EvaluateSeconds.Histogram(set),
		groups:  metric.EvaluateGroups.Gauge(set),
	}
}
