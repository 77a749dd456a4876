package relay

import (
	"context"

	"github.com/sloengine/sloengine/reliability/outbox"
)

// Message is a row as it is to be published.
type Message struct {
	*outbox.Row
	// Headers are those of the row and those that the relay adds, by name.
	Headers []Header
	// DeadLetter says that the message is about a row that is given up. Its topic is the destination of dead letters.
	DeadLetter bool
}

// Header is a header of a message.
type Header struct{ Name, Value string }

// Names of the headers that the relay adds. A header that the row has itself stays as it is.
const (
	HeaderIdempotencyKey = "idempotency-key"
	HeaderEventType      = "event-type"
	HeaderAggregateType  = "aggregate-type"
	HeaderAggregateID    = "aggregate-id"
	HeaderTraceParent    = "traceparent"
)

// Header is the value of a header, or "".
func (m *Message) Header(name string) string {
	for i := range m.Headers {
		if m.Headers[i].Name == name {
			return m.Headers[i].Value
		}
	}
	return ""
}

// Outcome of a message: the zero value is that the broker has accepted it.
type Outcome struct {
	// Err is why the message was not accepted. Its retry.Class is permanent if another attempt would not help.
	Err error
	// Away says that the broker could not be reached or used, so that the error says nothing about the message: the
	// attempt does not count, and the message may have been accepted all the same. A wait in Err (retry.After) is
	// observed.
	Away bool
	// Skipped says that the message was not sent, because one before it with the same key failed or a rate limit left no
	// time for it.
	Skipped bool
}

// Publisher publishes messages, as Kafka, RabbitMQ and HTTP do.
type Publisher interface {
	// Publish sends messages, those with the same topic and key in the order given, and returns the outcome of each once
	// the broker has decided about it or ctx has ended. It is called from many goroutines at once.
	Publish(ctx context.Context, batch []*Message) []Outcome
	// Check asks the broker whether it can be used.
	Check(ctx context.Context) error
	// MaxBytes is the size of the largest message that the broker takes, with key and headers.
	MaxBytes() int
	Close() error
}
