package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// The meaning of the topic of a row in RabbitMQ.
const (
	TopicIsRoutingKey = "routing_key" // of the exchange in the options
	TopicIsExchange   = "exchange"    // the routing key is the event type
)

// RabbitMQOptions of RabbitMQ.
type RabbitMQOptions struct {
	amqpclient.PublisherOptions `yaml:"-"`
	TopicIs                     string `yaml:"topic_is" one:"routing_key exchange"`
	// Exchange is for TopicIsRoutingKey; "" is the default exchange, whose routing keys are names of queues.
	Exchange           string `yaml:"exchange"`
	DeadLetterExchange string // of dead-letter messages, whose routing key is their topic
	MaxMessageBytes    int    `yaml:"max_message_bytes" min:"1KiB" max:"64MiB" is:"size"`
	NotMandatory       bool   // the broker drops messages that reach no queue, instead of returning them
	Transient          bool   // messages are lost when the broker restarts
}

// RabbitMQ publishes rows as messages, and waits until the broker has confirmed them.
type RabbitMQ struct {
	o         RabbitMQOptions
	publisher *amqpclient.Publisher
}

var _ Publisher = (*RabbitMQ)(nil)

// NewRabbitMQ checks the options and reads the password. It connects to nothing.
func NewRabbitMQ(o RabbitMQOptions) (*RabbitMQ, error) {
	var err error
	if o.TopicIs == TopicIsExchange && o.Exchange != "" {
		err = errors.New("exchange: must not be set with topic_is: exchange")
	}
	if len(o.Exchange) > amqpclient.MaxName || len(o.DeadLetterExchange) > amqpclient.MaxName {
		err = errors.Join(err, fmt.Errorf("exchange: longer than %d bytes", amqpclient.MaxName))
	}
	p, perr := amqpclient.NewPublisher(o.PublisherOptions)
	if err = errors.Join(perr, err); err != nil {
		return nil, err
	}
	return &RabbitMQ{o, p}, nil
}

// Publish publishes messages with confirmation.
func (r *RabbitMQ) Publish(ctx context.Context, batch []*Message) []Outcome {
	return inTurn(batch, func(part []*Message) []Outcome {
		messages := make([]*amqpclient.Message, len(part))
		for i, m := range part {
			messages[i] = r.message(m)
		}
		outcomes := make([]Outcome, len(part))
		for i, o := range r.publisher.Publish(ctx, messages) {
			outcomes[i] = Outcome{Err: o.Err, Away: o.Away || !part[i].DeadLetter && r.aboutAll(o.Err)}
		}
		return outcomes
	})
}

// aboutAll reports whether an error is about the one exchange of all rows.
func (r *RabbitMQ) aboutAll(err error) bool {
	var b *remote.BrokerError
	if r.o.TopicIs == TopicIsExchange || errors.Is(err, amqpclient.ErrUnroutable) || !errors.As(err, &b) ||
		b.Class != retry.ClassBlocked {
		return false
	}
	var said *amqp.Error // a permission can be for some routing keys only
	return !errors.As(err, &said) || !strings.Contains(said.Reason, "access to topic")
}

// HeaderKey is the header with the key of a row, for brokers whose messages have no key.
const HeaderKey = "outbox-key"

func (r *RabbitMQ) message(m *Message) *amqpclient.Message {
	p := &amqpclient.Message{Exchange: r.o.Exchange, Key: m.Topic, Mandatory: !r.o.NotMandatory}
	switch {
	case m.DeadLetter:
		p.Exchange, p.Mandatory = r.o.DeadLetterExchange, true
	case r.o.TopicIs == TopicIsExchange:
		p.Exchange, p.Key = m.Topic, m.EventType
	}
	headers := make(amqp.Table, len(m.Headers)+1)
	if m.Key != "" {
		headers[HeaderKey] = m.Key
	}
	for _, h := range m.Headers {
		headers[h.Name] = h.Value
	}
	p.Publishing = amqp.Publishing{Headers: headers, ContentType: contentType(m), Timestamp: m.CreatedAt,
		DeliveryMode: amqp.Persistent, Body: m.Payload}
	if r.o.Transient && !m.DeadLetter {
		p.DeliveryMode = amqp.Transient
	}
	// The headers have them as well, of any length.
	if len(m.IdempotencyKey) <= amqpclient.MaxName {
		p.MessageId = m.IdempotencyKey
	}
	if len(m.EventType) <= amqpclient.MaxName {
		p.Type = m.EventType
	}
	return p
}

// contentType is that of the row's headers, or the apparent type of the payload.
func contentType(m *Message) string {
	for _, h := range m.Headers {
		if strings.EqualFold(h.Name, "content-type") && len(h.Value) <= amqpclient.MaxName {
			return h.Value
		}
	}
	switch {
	case json.Valid(m.Payload):
		return "application/json"
	case utf8.Valid(m.Payload):
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// Check asks the broker whether it answers, and whether the one exchange of all rows exists.
func (r *RabbitMQ) Check(ctx context.Context) error {
	if err := r.publisher.Check(ctx); err != nil || r.o.TopicIs == TopicIsExchange || r.o.Exchange == "" {
		return err
	}
	return r.publisher.CheckExchange(ctx, r.o.Exchange)
}

// MaxBytes is that of the options.
func (r *RabbitMQ) MaxBytes() int { return r.o.MaxMessageBytes }

// Close ends the connections.
func (r *RabbitMQ) Close() error { return r.publisher.Close() }
