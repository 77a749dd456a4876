package client

import (
	"fmt"
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"
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
		requests:  set.NewPrometheusHistogramExt("sloengine_client_request_seconds", []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}),
		spoolOpen: set.NewCounter("sloengine_client_spool_open_errors_total"),
		spoolLoss: set.NewCounter("sloengine_client_spool_corruptions_total"),
	}
	for from := range origins {
		for why := range reasons {
			m.failures[from][why] = set.NewCounter(
				fmt.Sprintf("sloengine_client_failures_total{context=%q,reason=%q}", from.String(), why.String()))
		}
	}
	for result, c := range map[string]**metrics.Counter{
		"accepted": &m.accepted, "duplicate": &m.duplicates, "limited": &m.limited, "sampled": &m.sampled,
		"dead_lettered": &m.deadLettered, "rejected": &m.rejected, "spooled": &m.spooled,
	} {
		*c = set.NewCounter(fmt.Sprintf("sloengine_client_events_total{result=%q}", result))
	}
	gauge := func(name string, v *atomic.Int64) {
		set.NewGauge(name, func() float64 { return float64(v.Load()) })
	}
	gauge("sloengine_client_spool_bytes", &m.spoolBytes)
	gauge("sloengine_client_spool_limit_bytes", &m.spoolLimit)
	gauge("sloengine_client_queue_bytes", &m.queueBytes)
	return m
}

// count adds what the server decided.
func (m *Metrics) count(t *tally) {
	m.accepted.Add(t.accepted)
	m.duplicates.Add(max(t.duplicates, 0))
	m.limited.Add(t.limited)
	m.sampled.Add(t.sampled)
	m.deadLettered.Add(t.deadLettered)
	m.rejected.Add(t.rejected)
}
