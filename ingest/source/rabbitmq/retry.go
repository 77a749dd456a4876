package rabbitmq

import (
	"maps"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/reliability/amqpclient"
)

// RetryRule says which dead-lettered messages return to the queue that they came from instead of counting as failures.
// An empty field matches all.
type RetryRule struct {
	Reason string `yaml:"reason" one:"expired rejected maxlen delivery_limit"`
	Type   string `yaml:"type"`  // of the event that it would become
	Queue  string `yaml:"queue"` // in which it died
	// MaxDeaths is the number of deaths, of any queue and reason, up to which it returns.
	MaxDeaths int64 `yaml:"max_deaths" is:"required" min:"1" max:"1000"`
}

// retries finds the first rule that matches and reports whether the message returns. Later rules are not asked, so
// that a rule can exempt messages that a more general one behind it matches.
func retries(rules []RetryRule, l *history, typ string) bool {
	for i := range rules {
		r := &rules[i]
		if r.Reason != "" && r.Reason != l.last.Reason || r.Type != "" && r.Type != typ ||
			r.Queue != "" && r.Queue != l.last.Queue {
			continue
		}
		return l.count <= r.MaxDeaths
	}
	return false
}

// again is a message as it returns to its queue: with all properties and headers that it has. RabbitMQ removed the TTL
// that the message itself had when it dead-lettered it, and the message gets it back. The broker refuses a user_id
// that is not that of the connection, so it becomes a header. CC and BCC are left out: they name further queues, which
// got the message when it was first published.
func again(d *amqp.Delivery, l *history, now time.Time) amqp.Publishing {
	h := maps.Clone(d.Headers)
	delete(h, "CC")
	delete(h, "BCC")
	delete(h, amqpclient.HeaderUnreadable)
	h[headerRetries], h[headerRetriedAt] = l.retries+1, now.UnixMilli()
	if d.UserId != "" {
		h["x-sloengine-user-id"] = d.UserId
	}
	p := amqp.Publishing{
		Headers: h, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: amqp.Persistent,
		Priority:      d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId,
		Timestamp: d.Timestamp,
		Type:      d.Type, AppId: d.AppId, Body: d.Body,
	}
	if _, err := strconv.ParseUint(l.last.Expiration, 10, 31); err == nil && p.Expiration == "" {
		p.Expiration = l.last.Expiration
	}
	return p
}
