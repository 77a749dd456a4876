package amqpclient

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Metrics are those of all clients, by name.
type Metrics struct{ clients *metric.PerName[*series] }

// series are those of one client.
type series struct {
	connected, blocked                    *metrics.Gauge // of all its connections
	connects, connectsFailed, disconnects *metrics.Counter
}

// NewMetrics makes the series in set.
func NewMetrics(set *metrics.Set) *Metrics {
	return &Metrics{metric.NewPerName(set, func(g *metric.Group, name string) *series {
		return &series{
			connected: g.Gauge(metric.RabbitMQConnected, name), blocked: g.Gauge(metric.RabbitMQBlocked, name),
			connects:       g.Counter(metric.RabbitMQConnects, name, "success"),
			connectsFailed: g.Counter(metric.RabbitMQConnects, name, "failure"),
			disconnects:    g.Counter(metric.RabbitMQDisconnects, name),
		}
	})}
}

// Forget removes the series of a client that is gone.
func (m *Metrics) Forget(name string) {
	if m != nil {
		m.clients.Forget(name)
	}
}
