package rabbitmq

import (
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/reliability/amqpclient"
)

// This file reads the x-death header, in which RabbitMQ reports why and where a message was
// dead-lettered.

// Reasons for which RabbitMQ dead-letters a message.
const (
	ReasonExpired       = "expired"
	ReasonRejected      = "rejected"
	ReasonMaxLen        = "maxlen"
	ReasonDeliveryLimit = "delivery_limit"
)

var reasons = []string{ReasonExpired, ReasonRejected, ReasonMaxLen, ReasonDeliveryLimit}

// Headers of a message that the dead-letter handler returned to its queue.
const (
	headerDeaths    = "x-death"
	headerRetries   = "x-sloengine-retries"    // how often
	headerRetriedAt = "x-sloengine-retried-at" // the last time, in Unix milliseconds
)

// Bounds for reading the header, which any publisher can write.
const (
	maxDeaths    = 64
	maxNameBytes = 255 // of a queue or exchange, as AMQP has it
)

// Death is one entry of the x-death header: the deaths of a message in one queue for one reason.
type Death struct {
	Queue       string    `json:"queue"`
	Reason      string    `json:"reason"` // one of those above, or a value that a later version of RabbitMQ adds
	Count       int64     `json:"count"`
	Time        time.Time `json:"time,omitzero"` // of the first of them, in whole seconds
	Exchange    string    `json:"exchange,omitempty"`
	RoutingKeys []string  `json:"routing_keys,omitempty"`
	// Expiration is the TTL that the message itself had, which RabbitMQ removes, in milliseconds.
	Expiration string `json:"original_expiration,omitempty"`
}

// Deaths are all entries of a message, the latest first.
type Deaths []Death

// errNoDeath is for messages that were published to the dead-letter queue directly.
var errNoDeath = errors.New("the message has no x-death header, so it was not dead-lettered by RabbitMQ")

// ParseDeaths reads the x-death header. The error describes the malformed part.
func ParseDeaths(headers amqp.Table) (Deaths, error) {
	raw, ok := headers[headerDeaths]
	if cut, _ := headers[amqpclient.HeaderUnreadable].(string); !ok && strings.Contains(cut, headerDeaths) {
		return nil, errors.New("invalid x-death header: it cannot be read")
	}
	if !ok {
		return nil, errNoDeath
	}
	list, ok := raw.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("invalid x-death header: %T (want a list of tables)", raw)
	}
	var out Deaths
	for i, item := range list[:min(len(list), maxDeaths)] {
		t, ok := item.(amqp.Table)
		if !ok {
			return nil, fmt.Errorf("invalid x-death header: entry %d is %T (want a table)", i, item)
		}
		d := Death{
			Queue: text(t["queue"]), Reason: text(t["reason"]), Exchange: text(t["exchange"]),
			Expiration: text(t["original-expiration"]), Count: integer(t["count"]),
		}
		d.Time, _ = t["time"].(time.Time)
		d.Time = d.Time.UTC()
		if d.Queue == "" || d.Reason == "" || d.Count < 1 {
			return nil, fmt.Errorf("invalid x-death header: entry %d lacks queue, reason or count", i)
		}
		keys, _ := t["routing-keys"].([]any)
		for _, k := range keys[:min(len(keys), maxDeaths)] {
			d.RoutingKeys = append(d.RoutingKeys, text(k))
		}
		out = append(out, d)
	}
	return out, nil
}

// text is a name in a header, made short and valid.
func text(v any) string {
	s, _ := v.(string)
	return validText([]byte(s[:min(len(s), maxNameBytes)]))
}

// integer is a number in a header, in any of the types that a publisher can choose.
func integer(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case int32:
		return int64(n)
	case int16:
		return int64(n)
	case int8:
		return int64(n)
	case uint8:
		return int64(n)
	case uint16:
		return int64(n)
	case uint32:
		return int64(n)
	}
	return 0
}

// Total is how often the message was dead-lettered in all.
func (d Deaths) Total() int64 {
	n := int64(0)
	for i := range d {
		n += d[i].Count
	}
	return n
}

// history is parsed from the headers of a dead-lettered message.
type history struct {
	deaths  Deaths
	last    *Death // the death that brought it here
	count   int64  // of all deaths
	retries int64  // by this handler
	// at is when it was dead-lettered. RabbitMQ states the time of the first death of a queue and reason only, so that
	// of a later one is not known: it is zero then.
	at time.Time
}

// readHistory reads the headers of a message from the dead-letter queue. RabbitMQ 4 starts x-death afresh for each
// publication, so the number of retries is in a header of its own, too.
func readHistory(headers amqp.Table) (*history, error) {
	deaths, err := ParseDeaths(headers)
	if err != nil {
		return nil, err
	}
	l := &history{deaths: deaths, last: &deaths[0], retries: max(integer(headers[headerRetries]), 0)}
	l.count = max(deaths.Total(), l.retries+1)
	retriedAt := integer(headers[headerRetriedAt]) / 1000
	if l.last.Count == 1 && !l.last.Time.IsZero() && l.last.Time.Unix() >= retriedAt {
		l.at = l.last.Time
	}
	return l, nil
}
