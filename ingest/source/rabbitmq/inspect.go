package rabbitmq

import (
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// This file holds the broker side of the command `sloengine rabbitmq`.

// Inspect compares the topology that a source needs with that of the broker, and changes nothing.
func (o *Options) Inspect(c *amqp.Connection, now time.Time) (*Inspection, error) {
	t := o.topology()
	return t.look(c, now)
}

// Inspect compares the topology that a handler needs with that of the broker, and changes nothing.
func (o *HandlerOptions) Inspect(c *amqp.Connection, now time.Time) (*Inspection, error) {
	t := o.topology()
	return t.look(c, now)
}

func (t *topology) look(c channels, now time.Time) (*Inspection, error) {
	all := *t
	all.declare = false
	if t.declare { // then every argument matters
		all.strict = true
	}
	return all.inspect(c, now)
}

// Peeked is a message of a queue, as it would be delivered.
type Peeked struct {
	Index       int            `json:"index"`
	Exchange    string         `json:"exchange"`
	RoutingKey  string         `json:"routing_key"`
	Redelivered bool           `json:"redelivered"`
	MessageID   string         `json:"message_id,omitempty"`
	Correlation string         `json:"correlation_id,omitempty"`
	Type        string         `json:"type,omitempty"`
	ContentType string         `json:"content_type,omitempty"`
	Timestamp   time.Time      `json:"timestamp,omitzero"`
	Headers     map[string]any `json:"headers,omitempty"` // without x-death
	Deaths      Deaths         `json:"deaths,omitempty"`
	DeathsError string         `json:"deaths_error,omitempty"` // why there are no Deaths
	Bytes       int            `json:"bytes"`
	Body        string         `json:"body"` // valid UTF-8, up to maxPeekBody bytes
	Truncated   bool           `json:"truncated,omitempty"`
}

const maxPeekBody = 4096

// ErrNoQueue is for a queue that does not exist.
var ErrNoQueue = errors.New("the queue does not exist")

// Peek returns up to n messages from the head of a queue, and leaves them there. The broker marks them as redelivered.
func Peek(c *amqp.Connection, queue string, n int) ([]Peeked, error) {
	ch, err := c.Channel()
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	out, last := []Peeked{}, uint64(0)
	for len(out) < n {
		d, ok, err := ch.Get(queue, false)
		if err != nil {
			return nil, queueError("read", queue, err)
		}
		if !ok {
			break
		}
		last = d.DeliveryTag
		out = append(out, peeked(&d, len(out)))
	}
	if last > 0 {
		if err := ch.Nack(last, true, true); err != nil {
			return nil, queueError("return messages to", queue, err)
		}
	}
	return out, ch.Close()
}

func peeked(d *amqp.Delivery, index int) Peeked {
	p := Peeked{
		Index: index, Exchange: text(d.Exchange), RoutingKey: text(d.RoutingKey), Redelivered: d.Redelivered,
		MessageID:   text(d.MessageId),
		Correlation: text(d.CorrelationId), Type: text(d.Type), ContentType: text(d.ContentType),
		Timestamp: d.Timestamp, Bytes: len(d.Body),
		Headers: map[string]any{},
	}
	if y := p.Timestamp.Year(); y < 1 || y > 9999 { // not a time in JSON
		p.Timestamp = time.Time{}
	}
	for name, value := range d.Headers {
		if name != headerDeaths && len(p.Headers) < maxDeaths {
			p.Headers[clip(name)] = clip(fmt.Sprint(value))
		}
	}
	var err error
	if p.Deaths, err = ParseDeaths(d.Headers); err != nil {
		p.DeathsError = clip(err.Error())
	}
	body := d.Body
	if p.Truncated = len(body) > maxPeekBody; p.Truncated {
		body = body[:maxPeekBody]
	}
	p.Body = validText(body)
	return p
}

// Purge deletes the messages of a queue that are ready, and returns how many there were.
func Purge(c *amqp.Connection, queue string) (n int, err error) {
	refused, err := try(c, func(ch *amqp.Channel) (err error) {
		n, err = ch.QueuePurge(queue, false)
		return err
	})
	if refused != nil {
		err = refused
	}
	if err != nil {
		return 0, queueError("purge", queue, err)
	}
	return n, nil
}

func queueError(what, queue string, err error) error {
	var e *amqp.Error
	if errors.As(err, &e) && e.Code == amqp.NotFound {
		err = ErrNoQueue
	}
	return fmt.Errorf("%s queue %s: %w", what, queue, err)
}
