package wal

import "github.com/VictoriaMetrics/metrics"

// Metrics are the log's own counters.
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
		records:     set.NewCounter("sloengine_wal_appended_records_total"),
		bytes:       set.NewCounter("sloengine_wal_appended_bytes_total"),
		batches:     set.NewCounter("sloengine_wal_appended_batches_total"),
		writeErrors: set.NewCounter(`sloengine_wal_append_errors_total{reason="write"}`),
		noSpace:     set.NewCounter(`sloengine_wal_append_errors_total{reason="no_space"}`),
		noFiles:     set.NewCounter(`sloengine_wal_append_errors_total{reason="no_descriptors"}`),
		created:     set.NewCounter("sloengine_wal_segments_created_total"),
		removed:     set.NewCounter("sloengine_wal_segments_removed_total"),
		tornBytes:   set.NewCounter("sloengine_wal_torn_bytes_total"),
		corrupt:     set.NewCounter("sloengine_wal_corruptions_total"),
		markErrors:  set.NewCounter("sloengine_wal_marker_errors_total"),
		syncSeconds: set.NewPrometheusHistogramExt("sloengine_wal_sync_seconds", []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}),
		size:        set.NewGauge("sloengine_wal_bytes", nil),
		segments:    set.NewGauge("sloengine_wal_segments", nil),
		poisoned:    set.NewGauge("sloengine_wal_poisoned", nil),
	}
}

// measure publishes the size of the log after it changed.
func (l *Log) measure() {
	bytes, segments := l.Size()
	l.o.Metrics.size.Set(float64(bytes))
	l.o.Metrics.segments.Set(float64(segments))
}
