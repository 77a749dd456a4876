// Package workqueue declares what Prometheus names of the package of client-go: see internal/unlinked/README.md.
package workqueue

// The metrics of a queue.
type (
	GaugeMetric interface {
		Inc()
		Dec()
	}
	SettableGaugeMetric interface{ Set(float64) }
	CounterMetric       interface{ Inc() }
	HistogramMetric     interface{ Observe(float64) }
)

// A MetricsProvider makes the metrics of queues.
type MetricsProvider interface {
	NewDepthMetric(name string) GaugeMetric
	NewAddsMetric(name string) CounterMetric
	NewLatencyMetric(name string) HistogramMetric
	NewWorkDurationMetric(name string) HistogramMetric
	NewUnfinishedWorkSecondsMetric(name string) SettableGaugeMetric
	NewLongestRunningProcessorSecondsMetric(name string) SettableGaugeMetric
	NewRetriesMetric(name string) CounterMetric
}

// SetProvider does nothing: there are no queues.
func SetProvider(MetricsProvider) {}
