package rabbitmqsink

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/sink/placeholder"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Sink is a dispatch.Sink and a dispatch.Checker. It is safe for concurrent use.
type Sink struct {
	o         Options
	key       *placeholder.Text
	publisher *amqpclient.Publisher
}

var (
	_ dispatch.Sink    = (*Sink)(nil)
	_ dispatch.Checker = (*Sink)(nil)
)

// New checks the options and reads the password. It connects to nothing.
func New(o Options) (*Sink, error) {
	key, publisher, err := o.validate()
	if err != nil {
		return nil, fmt.Errorf("rabbitmq sink: %w", err)
	}
	return &Sink{o, key, publisher}, nil
}

// Close ends the idle connections. Those in use end when their call does.
func (s *Sink) Close() error { return s.publisher.Close() }

// Send publishes a batch and waits for the confirmations. Messages that come back fail alone.
func (s *Sink) Send(ctx context.Context, batch []dispatch.Item) dispatch.Result {
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
	return result(outcomes)
}

// result sorts the outcomes. When no event was taken, for a reason that concerns no single event, the batch has
// failed as a whole, and the breaker should count it.
func result(outcomes []amqpclient.Outcome) dispatch.Result {
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

// message is that of an event.
func (s *Sink) message(it *dispatch.Item) (*amqpclient.Message, error) {
	key, _ := s.key.Of(it)
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
func (s *Sink) Check(ctx context.Context) error { return s.publisher.CheckExchange(ctx, s.o.Exchange) }
