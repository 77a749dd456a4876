package config

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/ingest/source/rabbitmq"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// rabbitBroker is a connection to RabbitMQ, of a source or a sink.
type rabbitBroker struct {
	amqpclient.Options `yaml:",inline"`
	TLS                *tlsConfig `yaml:"tls"` // of a url that begins with amqps://
}

func (b *rabbitBroker) prefill(*Config) {
	b.Heartbeat, b.ConnectTimeout = amqpclient.DefaultHeartbeat, amqpclient.DefaultConnectTimeout
	b.ClientName = amqpclient.DefaultClientName
}

// options are those of a client with a name of its own in the metrics.
func (b *rabbitBroker) options(name string, m *amqpclient.Metrics) (amqpclient.Options, error) {
	o := b.Options
	o.Name, o.Metrics = name, m
	var err error
	if o.TLS, err = b.TLS.enabled(); err != nil {
		return o, fmt.Errorf("tls: %w", err)
	}
	return o, nil
}

// client checks the settings by making what they are for.
func (b *rabbitBroker) client(name string, m *amqpclient.Metrics) (*amqpclient.Client, error) {
	o, err := b.options(name, m)
	if err != nil {
		return nil, err
	}
	return amqpclient.New(o)
}

// rabbitSource is a queue of events.
type rabbitSource struct {
	rabbitBroker     `yaml:",inline"`
	rabbitmq.Options `yaml:",inline"`
}

func (r *rabbitSource) prefill(c *Config) {
	r.rabbitBroker.prefill(c)
	r.ApplyDefaults()
}

// rabbitHandler is a dead-letter queue.
type rabbitHandler struct {
	rabbitBroker            `yaml:",inline"`
	rabbitmq.HandlerOptions `yaml:",inline"`
	WorkQueues              []rabbitWorkQueue `yaml:"work_queues"`
}

func (r *rabbitHandler) prefill(c *Config) {
	r.rabbitBroker.prefill(c)
	r.ApplyDefaults()
	r.Retention, r.Severity = rabbitmq.DefaultRetention, "error"
}

type rabbitWorkQueue struct {
	rabbitmq.WorkQueue `yaml:",inline"`
}

func (w *rabbitWorkQueue) prefill(*Config) { w.TTL = rabbitmq.DefaultTTL }

// options are those of the handler.
func (r *rabbitHandler) options() rabbitmq.HandlerOptions {
	o := r.HandlerOptions
	o.WorkQueues = nil
	for _, w := range r.WorkQueues {
		o.WorkQueues = append(o.WorkQueues, w.WorkQueue)
	}
	return o
}

// RabbitMQ is what a source wants of RabbitMQ.
type RabbitMQ struct {
	Name    string // of the source
	Client  *amqpclient.Client
	Source  *rabbitmq.Options        // exactly one of these
	Handler *rabbitmq.HandlerOptions // is set
}

// Inspect compares what a source wants of a broker with what is there, and changes nothing.
func (r *RabbitMQ) Inspect(c *amqp.Connection, now time.Time) (*rabbitmq.Inspection, error) {
	if r.Handler != nil {
		return r.Handler.Inspect(c, now)
	}
	return r.Source.Inspect(c, now)
}

// Queue is the queue that the source consumes.
func (r *RabbitMQ) Queue() string {
	if r.Handler != nil {
		return r.Handler.Queue
	}
	return r.Source.Queue
}

// RabbitMQ makes what a source of one of the two kinds needs; nil for another kind. metrics may be nil.
func (s *Source) RabbitMQ(metrics *amqpclient.Metrics) (*RabbitMQ, error) {
	out := &RabbitMQ{Name: s.Name}
	var broker *rabbitBroker
	switch {
	case s.RabbitMQQueue != nil:
		o := s.RabbitMQQueue.Options
		out.Source, broker = &o, &s.RabbitMQQueue.rabbitBroker
	case s.DeadLetterQueue != nil:
		o := s.DeadLetterQueue.options()
		out.Handler, broker = &o, &s.DeadLetterQueue.rabbitBroker
	default:
		return nil, nil
	}
	var err error
	if out.Client, err = broker.client("source:"+s.Name, metrics); err != nil {
		return nil, fmt.Errorf("source %s: %w", s.Name, err)
	}
	return out, nil
}

// checkRabbitMQ reports what is wrong with the settings of one of the two kinds.
func checkRabbitMQ(f *yamldoc.Decoder, path string, b *rabbitBroker, err error) {
	b.TLS.check(f, path+".tls")
	if f.Broken(path) {
		return
	}
	settingProblems(f, path, err)
	_, err = b.client("", nil)
	problems(f, path, "", err)
}

// adviseRabbitMQ warns of settings of RabbitMQ that are allowed and probably not meant.
func (s *Source) adviseRabbitMQ(path string, known *Known, warn func(path, hint, format string, args ...any)) {
	var advice []rabbitmq.Advice
	switch {
	case s.RabbitMQQueue != nil:
		path += ".rabbitmq."
		advice = s.RabbitMQQueue.Advice(slo.FormatDuration)
	case s.DeadLetterQueue != nil:
		path += ".rabbitmq_dead_letters."
		o := s.DeadLetterQueue.options()
		advice = o.Advice(func(typ string) time.Duration {
			if known == nil {
				return 0
			}
			return known.Typical[typ]
		}, slo.FormatDuration)
	}
	for _, a := range advice {
		warn(path+a.Key, a.Hint, "%s", a.Text)
	}
}
