package relay

import (
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are those of a relay.
type Metrics struct {
	set                                  *metrics.Set
	destination                          string // of the rows
	retries, lostLeases, lostVersions    *metrics.Counter
	duplicates, stale, deleted           *metrics.Counter
	pending, failedRows, oldest, buckets *metrics.Gauge
	databaseReady, brokerReady           *metrics.Gauge
	latency, batch                       *metrics.PrometheusHistogram

	mu    sync.Mutex
	pairs map[pair]*series
}

type pair struct{ topic, eventType string }

// series are those of a topic and an event type.
type series struct {
	m                       *Metrics
	pair                    pair
	published, sent, failed *metrics.Counter
}

// maxPairs bounds the label values. Beyond, all share one pair.
const maxPairs = 200

// other is the name of all beyond them.
const other = "other"

// NewMetrics makes the series in set; nil: they are not exported. destination is the target system of rows: kafka,
// rabbitmq or http.
func NewMetrics(set *metrics.Set, destination string) *Metrics {
	if set == nil {
		set = metrics.NewSet()
	}
	return &Metrics{
		set: set, destination: destination, pairs: map[pair]*series{},
		retries: metric.OutboxRetries.Counter(set), duplicates: metric.OutboxDuplicates.Counter(set),
		stale:        metric.OutboxStale.Counter(set),
		lostLeases:   metric.OutboxLostClaims.Counter(set, Lease),
		lostVersions: metric.OutboxLostClaims.Counter(set, Optimistic),
		deleted:      metric.OutboxDeletedRows.Counter(set),
		pending:      metric.OutboxPendingRows.Gauge(set), failedRows: metric.OutboxFailedRows.Gauge(set),
		oldest:  metric.OutboxOldestPending.Gauge(set),
		buckets: metric.OutboxBuckets.Gauge(set), databaseReady: metric.OutboxReady.Gauge(set, "database"),
		brokerReady: metric.OutboxReady.Gauge(set, "broker"),
		latency:     metric.OutboxLatency.Histogram(set), batch: metric.OutboxBatchSeconds.Histogram(set),
	}
}

func (m *Metrics) ready(name string, ok bool) {
	g := m.databaseReady
	if name == "broker" {
		g = m.brokerReady
	}
	v := 0.0
	if ok {
		v = 1
	}
	g.Set(v)
}

func (m *Metrics) of(topic, eventType string) *series {
	p := pair{topic, eventType}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.pairs[p]
	if s == nil && len(m.pairs) >= maxPairs {
		p = pair{other, other}
		s = m.pairs[p]
	}
	if s == nil {
		s = &series{
			m: m, pair: p, published: metric.OutboxPublished.Counter(m.set, m.destination, p.topic, p.eventType),
			sent:   metric.OutboxSent.Counter(m.set, m.destination, p.topic, p.eventType),
			failed: metric.OutboxFailed.Counter(m.set, m.destination, p.topic, p.eventType),
		}
		m.pairs[p] = s
	}
	return s
}
