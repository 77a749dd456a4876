package kafkaclient

import (
	"github.com/VictoriaMetrics/metrics"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are those of all clients, by name.
type Metrics struct{ clients *metric.PerName[*series] }

// series are those of one client.
type series struct {
	seconds                               [len(kinds)]*metrics.PrometheusHistogram
	failures                              [len(kinds)]*metrics.Counter
	throttled                             *metrics.FloatCounter
	connects, connectsFailed, disconnects *metrics.Counter
	bufferedRecords, bufferedBytes        *metrics.Gauge
}

// kinds are the requests that have series of their own.
var kinds = [...]string{"produce", "fetch", "metadata", "group", "other"}

// kindOf is the index of the kind of a request.
func kindOf(key int16) int {
	switch kmsg.Key(key) {
	case kmsg.Produce:
		return 0
	case kmsg.Fetch:
		return 1
	case kmsg.Metadata:
		return 2
	case kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.OffsetCommit,
		kmsg.OffsetFetch, kmsg.FindCoordinator:
		return 3
	}
	return 4
}

// NewMetrics makes the series in set.
func NewMetrics(set *metrics.Set) *Metrics {
	return &Metrics{metric.NewPerName(set, func(g *metric.Group, name string) *series {
		s := &series{
			throttled: g.FloatCounter(metric.KafkaThrottledSeconds, name), disconnects: g.Counter(metric.KafkaDisconnects, name),
			connects:        g.Counter(metric.KafkaConnects, name, "success"),
			connectsFailed:  g.Counter(metric.KafkaConnects, name, "failure"),
			bufferedRecords: g.Gauge(metric.KafkaBufferedRecords, name), bufferedBytes: g.Gauge(metric.KafkaBufferedBytes, name),
		}
		for i, kind := range kinds {
			s.seconds[i], s.failures[i] = g.Histogram(metric.KafkaRequestSeconds, name, kind),
				g.Counter(metric.KafkaRequestFailures, name, kind)
		}
		return s
	})}
}

// Forget removes the series of a client that is gone.
func (m *Metrics) Forget(name string) {
	if m != nil {
		m.clients.Forget(name)
	}
}
