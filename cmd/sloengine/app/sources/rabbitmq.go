package sources

import (
	"context"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/rabbitmq"
	"github.com/sloengine/sloengine/reliability/amqpclient"
)

// rabbitReader is a source of events or a dead-letter handler.
type rabbitReader interface {
	Run(ctx context.Context)
	// Consumed is the queue that it consumes, by the last measurement; nil before the first.
	Consumed() *rabbitmq.QueueState
}

// consumed is the queue that a source consumes; nil for other sources.
func consumed(r rabbitReader) *rabbitmq.QueueState {
	if r == nil {
		return nil
	}
	return r.Consumed()
}

// rabbitMetrics are those of all sources of RabbitMQ.
type rabbitMetrics struct {
	queues  *rabbitmq.Metrics
	clients *amqpclient.Metrics
}

func newRabbitMetrics(set *metrics.Set) *rabbitMetrics {
	return &rabbitMetrics{rabbitmq.NewMetrics(set), amqpclient.NewMetrics(set)}
}

func (m *rabbitMetrics) forget(name string) {
	m.queues.Forget(name)
	m.clients.Forget("source:" + name)
}

// makeRabbitMQ makes a source of events or a dead-letter handler. The mapping of a handler is its own, because it adds
// to what the mapping makes.
func (s *Sources) makeRabbitMQ(c *config.Source, r *runningSource) (run func(context.Context) error, err error) {
	settings, err := c.RabbitMQ(s.rabbit.clients)
	if err != nil {
		return nil, err
	}
	o := s.intake(c)
	if settings.Handler != nil {
		o.Settings.Map, o.Settings.Format = nil, source.FormatJSON
	}
	if r.intake, err = source.New(o); err != nil {
		return nil, err
	}
	parts := rabbitmq.Parts{Name: c.Name, Client: settings.Client, Intake: r.intake,
		Metrics: s.rabbit.queues, Logger: s.o.Log}
	if settings.Handler != nil {
		r.rabbit, err = rabbitmq.NewHandler(*settings.Handler,
			rabbitmq.HandlerParts{Parts: parts, Map: c.Map, Catalog: s.catalog})
	} else {
		r.rabbit, err = rabbitmq.NewSource(*settings.Source, parts)
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { r.rabbit.Run(ctx); return nil }, nil
}
