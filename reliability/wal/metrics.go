package wal

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the log's own counters.
//
// The counters are updated with atomics, by the goroutine that does the work. The gauges are set by
// measure.
type Metrics struct {
	records, bytes, batches *metrics.Counter
	writeErrors             *metrics.Counter
	noSpace, noFiles        *metrics.Counter
	created, removed        *metrics.Counter
	tornBytes               *metrics.Counter
	corrupt, markErrors     *metrics.Counter
	syncSeconds             *metrics.PrometheusHistogram
	size, segments          *metrics.Gauge
	poisoned                *metrics.Gauge
}

// NewMetrics adds the log's counters to a set. One Log per Metrics.
func NewMetrics(set *metrics.Set) *Metrics {
	return &Metrics{
		records:     metric.WALAppendedRecords.Counter(set),
		bytes:       metric.WALAppendedBytes.Counter(set),
		batches:     metric.WALAppendedBatches.Counter(set),
		writeErrors: metric.WALAppendErrors.Counter(set, "write"),
		noSpace:     metric.WALAppendErrors.Counter(set, "no_space"),
		noFiles:     metric.WALAppendErrors.Counter(set, "no_descriptors"),
		created:     metric.WALSegmentsCreated.Counter(set),
		removed:     metric.WALSegmentsRemoved.Counter(set),
		tornBytes:   metric.WALTornBytes.Counter(set),
		corrupt:     metric.WALCorruptions.Counter(set),
		markErrors:  metric.WALMarkerErrors.Counter(set),
		syncSeconds: metric.WALSyncSeconds.Histogram(set),
		size:        metric.WALBytes.Gauge(set),
		segments:    metric.WALSegments.Gauge(set),
		poisoned:    metric.WALPoisoned.Gauge(set),
	}
}

// measure publishes the size of the log after it changed.
//
// It takes mu for a moment. Callers hold appendMu, truncateMu, or nothing yet, but not mu.
func (l *Log) measure() {
	bytes, segments := l.Size()
	l.o.Metrics.size.Set(float64(bytes))
	l.o.Metrics.segments.Set(float64(segments))
}
