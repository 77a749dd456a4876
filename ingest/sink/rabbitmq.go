package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/retry"
)

// RabbitMQ publishes events to an exchange, one message for each event: the body is the event's JSON, as HTTP sends it,
// and the message id is the event's id, by which a consumer can deduplicate.
//
// An event is delivered once the broker has confirmed its message. A message that reaches no queue comes back and is a
// failure of its event alone. A connection that breaks before a confirmation makes a duplicate.
//
// It is a dispatch.Checker, and safe for concurrent use.
type RabbitMQ struct {
	o         RabbitMQOptions
	key       *placeholders
	publisher *amqpclient.Publisher
}

var (
	_ dispatch.Sink    = (*RabbitMQ)(nil)
	_ dispatch.Checker = (*RabbitMQ)(nil)
)

// NewRabbitMQ checks the options and reads the password. It connects to nothing.
func NewRabbitMQ(o RabbitMQOptions) (*RabbitMQ, error) {
	key, publisher, err := o.validate()
	if err != nil {
		return nil, fmt.Errorf("rabbitmq sink: %w", err)
	}
	return &RabbitMQ{o, key, publisher}, nil
}

// Close ends the idle connections. Those in use end when their call does.
func (s *RabbitMQ) Close() error { return s.publisher.Close() }

// Send publishes a batch and waits for the confirmations. Messages that come back fail alone.
func (s *RabbitMQ) Send(ctx context.Context, batch []dispatch.Item) dispatch.Result {
	unreadable := map[int]error{}
	messages := make([]*amqpclient.Message, len(batch))
	for i := range batch {
		m, err := s.message(&batch[i])
		if err != nil {
			unreadable[i] = retry.Permanent(err)
			continue
		}
		messages[i] = m
	}
	outcomes := s.publisher.Publish(ctx, messages)
	for i, err := range unreadable {
		outcomes[i].Err = err
	}
	return rabbitMQResult(outcomes)
}

// rabbitMQResult sorts the outcomes. When no event was taken, for a reason that concerns no single event, the batch has
// failed as a whole, and the breaker should count it.
func rabbitMQResult(outcomes []amqpclient.Outcome) dispatch.Result {
	whole := len(outcomes) > 0
	errs := make([]error, len(outcomes))
	for i, o := range outcomes {
		errs[i] = o.Err
		if errors.Is(o.Err, amqpclient.ErrUnroutable) { // a later event may have another routing key
			errs[i] = retry.WithClass(o.Err, retry.ClassTransient)
			whole = false
		}
		whole = whole && (o.Away || retry.ClassOf(o.Err) == retry.ClassBlocked)
	}
	if whole {
		return dispatch.Result{Err: errs[0]}
	}
	return dispatch.ResultOf(errs)
}

func (s *RabbitMQ) message(it *dispatch.Item) (*amqpclient.Message, error) {
	key, _ := s.key.of(it)
	if len(key) > amqpclient.MaxName {
		return nil, fmt.Errorf("the routing key has %d bytes, more than %d", len(key), amqpclient.MaxName)
	}
	body, err := event.AppendBinaryAsJSON(make([]byte, 0, 2*len(it.Payload)+64), it.Payload)
	if err != nil {
		return nil, err
	}
	m := &amqpclient.Message{Exchange: s.o.Exchange, Key: key, Mandatory: !s.o.NotMandatory, Publishing: amqp.Publishing{
		ContentType: "application/json", MessageId: it.ID, Type: it.Type, AppId: "sloengine", Timestamp: time.Now(),
		DeliveryMode: amqp.Persistent, Body: body,
	}}
	if s.o.Transient {
		m.DeliveryMode = amqp.Transient
	}
	return m, nil
}

// Check connects and looks whether the exchange exists.
func (s *RabbitMQ) Check(ctx context.Context) error {
	return s.publisher.CheckExchange(ctx, s.o.Exchange)
}

// RabbitMQOptions of a Sink. A zero field takes the default given with it.
type RabbitMQOptions struct {
	Broker amqpclient.Options
	// Exchange is where messages go; "" is the default exchange, whose routing keys are names of queues.
	Exchange string `yaml:"exchange"`
	// RoutingKey has placeholders; "{service}.{type}".
	RoutingKey string `yaml:"routing_key"`
	// Unroutable messages are dropped by the broker instead of coming back.
	NotMandatory bool
	// Transient messages are lost when the broker restarts.
	Transient bool
}

// DefaultRoutingKey is that of Options.
const DefaultRoutingKey = "{service}.{type}"

func (o *RabbitMQOptions) validate() (key *placeholders, p *amqpclient.Publisher, err error) {
	o.RoutingKey = cmp.Or(o.RoutingKey, DefaultRoutingKey)
	key, kerr := parsePlaceholders(o.RoutingKey)
	if kerr != nil {
		kerr = fmt.Errorf("routing_key: %w", kerr)
	}
	if len(o.Exchange) > amqpclient.MaxName {
		kerr = errors.Join(kerr, fmt.Errorf("exchange: longer than %d bytes", amqpclient.MaxName))
	}
	p, perr := amqpclient.NewPublisher(amqpclient.PublisherOptions{Options: o.Broker})
	return key, p, errors.Join(perr, kerr)
}
