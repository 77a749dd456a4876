package evaluator

import "github.com/VictoriaMetrics/metrics"

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
		ticks:   set.NewCounter("sloengine_evaluate_ticks_total"),
		errors:  set.NewCounter("sloengine_evaluate_errors_total"),
		late:    set.NewCounter("sloengine_evaluate_late_total"),
		refused: set.NewCounter("sloengine_evaluate_clock_refused_total"),
		seconds: set.NewPrometheusHistogramExt("sloengine_evaluate_seconds", []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10}),
		groups:  set.NewGauge("sloengine_evaluate_groups", nil),
	}
}
