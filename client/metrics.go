package client

import (
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are the counters of the clients of a process.
type Metrics struct {
	failures [origins][reasons]*metrics.Counter

	accepted, duplicates, limited, sampled, deadLettered, rejected *metrics.Counter
	spooled                                                        *metrics.Counter

	requests   *metrics.PrometheusHistogram
	spoolOpen  *metrics.Counter // times that it was opened in vain
	spoolLoss  *metrics.Counter
	spoolBytes atomic.Int64
	spoolLimit atomic.Int64
	queueBytes atomic.Int64
}

// NewMetrics makes the counters in set. Several clients may share them.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{
		requests:  metric.ClientRequestSeconds.Histogram(set),
		spoolOpen: metric.ClientSpoolOpenErrors.Counter(set),
		spoolLoss: metric.ClientSpoolCorruptions.Counter(set),
	}
	for from := range origins {
		for why := range reasons {
			m.failures[from][why] = metric.ClientFailures.Counter(set, from.String(), why.String())
		}
	}
	for result, c := range map[string]**metrics.Counter{
		"accepted": &m.accepted, "duplicate": &m.duplicates, "limited": &m.limited, "sampled": &m.sampled,
		"dead_lettered": &m.deadLettered, "rejected": &m.rejected, "spooled": &m.spooled,
	} {
		*c = metric.ClientEvents.Counter(set, result)
	}
	gauge := func(f *metric.Family, v *atomic.Int64) {
		f.Read(set, func() float64 { return float64(v.Load()) })
	}
	gauge(metric.ClientSpoolBytes, &m.spoolBytes)
	gauge(metric.ClientSpoolLimitBytes, &m.spoolLimit)
	gauge(metric.ClientQueueBytes, &m.queueBytes)
	return m
}

// count adds what the server decided.
func (m *Metrics) count(t *post.Tally) {
	m.accepted.Add(t.Accepted)
	m.duplicates.Add(max(t.Duplicates, 0))
	m.limited.Add(t.Limited)
	m.sampled.Add(t.Sampled)
	m.deadLettered.Add(t.DeadLettered)
	m.rejected.Add(t.Rejected)
}
