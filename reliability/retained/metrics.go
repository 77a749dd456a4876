package retained

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the figures of a Store.
type Metrics struct {
	bytes, files, ratio, oldest, from *metrics.Gauge
	rawBytes, written                 *metrics.Counter
	failures, damaged, givenUp        *metrics.Counter
	removed                           map[string]*metrics.Counter
}

// NewMetrics adds the figures to a set. One Store per Metrics.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{
		bytes:    metric.HistoryBytes.Gauge(set),
		files:    metric.HistoryFiles.Gauge(set),
		ratio:    metric.HistoryRatio.Gauge(set),
		oldest:   metric.HistoryOldest.Gauge(set),
		from:     metric.HistoryFrom.Gauge(set),
		rawBytes: metric.HistoryReadBytes.Counter(set),
		written:  metric.HistoryWrittenBytes.Counter(set),
		failures: metric.HistoryFailures.Counter(set),
		damaged:  metric.HistoryDamaged.Counter(set),
		givenUp:  metric.HistoryGivenUp.Counter(set),
		removed:  map[string]*metrics.Counter{},
	}
	for _, reason := range []string{"age", "bytes", "disk"} {
		m.removed[reason] = metric.HistoryRemoved.Counter(set, reason)
	}
	return m
}
