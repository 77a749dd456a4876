// Package rabbitmqsink publishes events to an exchange of RabbitMQ, one message for each event: the body is the event's
// JSON, as the HTTP sink sends it, and the message id is the event's id, by which a consumer can deduplicate.
//
// An event is delivered once the broker has confirmed its message. A message that reaches no queue comes back and is a
// failure of its event alone. A connection that breaks before a confirmation makes a duplicate.
//
// It does not retry, batch or limit by itself, and it declares nothing: the exchange has to exist.
package rabbitmqsink

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/sloengine/sloengine/ingest/sink/placeholder"
	"github.com/sloengine/sloengine/reliability/amqpclient"
)

// Options of a Sink. A zero field takes the default given with it.
type Options struct {
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

func (o *Options) validate() (key *placeholder.Text, p *amqpclient.Publisher, err error) {
	o.RoutingKey = cmp.Or(o.RoutingKey, DefaultRoutingKey)
	key, kerr := placeholder.Parse(o.RoutingKey)
	if kerr != nil {
		kerr = fmt.Errorf("routing_key: %w", kerr)
	}
	if len(o.Exchange) > amqpclient.MaxName {
		kerr = errors.Join(kerr, fmt.Errorf("exchange: longer than %d bytes", amqpclient.MaxName))
	}
	p, perr := amqpclient.NewPublisher(amqpclient.PublisherOptions{Options: o.Broker})
	return key, p, errors.Join(perr, kerr)
}
