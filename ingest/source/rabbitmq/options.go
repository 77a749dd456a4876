package rabbitmq

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/ingest/source"
)

// Defaults of settings.
const (
	DefaultPrefetch  = 1000
	DefaultTTL       = 5 * time.Minute
	DefaultRetention = 24 * time.Hour
)

// maxTTL is the longest TTL that RabbitMQ takes for a message, about 49 days.
const maxTTL = (1<<32 - 1) * time.Millisecond

// Options of a source of events: one queue.
type Options struct {
	// Queue is consumed. Its messages are events.
	Queue string `yaml:"queue" is:"required"`
	// Prefetch is how many messages may be delivered and not acknowledged. Default 1000.
	Prefetch int `yaml:"prefetch" min:"1" max:"65535"`
	// Declare creates the queue if it does not exist, and reports every argument that differs.
	Declare   bool   `yaml:"declare"`
	QueueType string `yaml:"queue_type" one:"quorum classic"` // default quorum
	// TTL is the x-message-ttl of the queue. Events that expire are not counted. Default 0: no TTL.
	TTL time.Duration `yaml:"ttl"`
	// DeadLetterExchange is the x-dead-letter-exchange of the queue; "" is none.
	DeadLetterExchange string `yaml:"dead_letter_exchange"`
}

// ApplyDefaults sets unset fields.
func (o *Options) ApplyDefaults() {
	o.Prefetch, o.QueueType = or(o.Prefetch, DefaultPrefetch), or(o.QueueType, Quorum)
}

// Validate reports every problem.
func (o *Options) Validate() error {
	return errors.Join(
		checkName("queue", o.Queue, true), checkName("dead_letter_exchange", o.DeadLetterExchange, false),
		checkPrefetch(o.Prefetch), checkQueueType(o.QueueType), checkTTL("ttl", o.TTL),
	)
}

// HandlerOptions of a dead-letter handler: the dead-letter queue, and the queues whose messages end there.
type HandlerOptions struct {
	// Queue is the dead-letter queue, which is consumed.
	Queue    string `yaml:"queue" is:"required"`
	Prefetch int    `yaml:"prefetch" min:"1" max:"65535"` // default 1000
	// Declare creates queues, exchange and binding that do not exist, and reports every argument that differs.
	Declare   bool   `yaml:"declare"`
	QueueType string `yaml:"queue_type" one:"quorum classic"` // of all queues; default quorum
	// Exchange is the dead-letter exchange.
	Exchange     string `yaml:"exchange" is:"required"`
	ExchangeType string `yaml:"exchange_type"` // topic (the default) or fanout
	// Retention is the x-message-ttl of the dead-letter queue. Default 24h; 0 keeps messages without a limit.
	Retention time.Duration `yaml:"retention"`
	// WorkQueues dead-letter to Exchange.
	WorkQueues []WorkQueue

	// Severity of the failure events; "" is none. Default error.
	Severity string `yaml:"severity"`
	// Retry returns messages to their queue instead. The first rule that matches decides.
	Retry []RetryRule `yaml:"retry"`
}

// ApplyDefaults sets unset fields. 0 is a value of Retention and of the TTL of a work queue, so settings fill these
// before they are read.
func (o *HandlerOptions) ApplyDefaults() {
	o.Prefetch, o.QueueType = or(o.Prefetch, DefaultPrefetch), or(o.QueueType, Quorum)
	o.ExchangeType = or(o.ExchangeType, Topic)
}

// Validate reports every problem.
func (o *HandlerOptions) Validate() error {
	errs := []error{
		checkName("queue", o.Queue, true), checkName("exchange", o.Exchange, true),
		checkPrefetch(o.Prefetch), checkQueueType(o.QueueType), checkTTL("retention", o.Retention),
	}
	switch o.ExchangeType {
	case Topic, Fanout:
	case "direct":
		errs = append(errs, problem("exchange_type",
			`direct does not work (want topic or fanout): a direct exchange compares the whole routing key, so a binding by `+
				`"#" matches nothing`))
	default:
		errs = append(errs, problem("exchange_type", "invalid type %q (want topic or fanout)", o.ExchangeType))
	}
	seen := map[string]bool{o.Queue: true}
	for i, w := range o.WorkQueues {
		at := fmt.Sprintf("work_queues[%d].", i)
		errs = append(errs, checkName(at+"name", w.Name, true), checkTTL(at+"ttl", w.TTL))
		if w.TypicalDuration < 0 {
			errs = append(errs, problem(at+"typical_duration", "must not be negative"))
		}
		if w.DeliveryLimit > 0 && o.QueueType != Quorum {
			errs = append(errs, problem(at+"delivery_limit", "requires queue_type: quorum"))
		}
		if w.Name != "" && seen[w.Name] {
			errs = append(errs, problem(at+"name", "%q is used twice", w.Name))
		}
		seen[w.Name] = true
	}
	for i, r := range o.Retry {
		at := fmt.Sprintf("retry[%d].", i)
		if r.MaxDeaths < 1 {
			errs = append(errs, problem(at+"max_deaths", "must be at least 1"))
		}
		if r.Reason != "" && !slices.Contains(reasons, r.Reason) {
			errs = append(
				errs, problem(at+"reason", "invalid reason %q (want expired, rejected, maxlen or delivery_limit)", r.Reason))
		}
	}
	return errors.Join(errs...)
}

// problem is an invalid setting.
func problem(key, format string, args ...any) error {
	return &source.SettingError{Key: key, Text: fmt.Sprintf(format, args...)}
}

func or[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

func checkName(at, name string, required bool) error {
	switch {
	case name == "" && required:
		return problem(at, "must not be empty")
	case len(name) > maxNameBytes:
		return problem(at, "%d bytes (at most %d)", len(name), maxNameBytes)
	}
	return nil
}

func checkPrefetch(n int) error {
	if n < 1 || n > 65535 {
		return problem("prefetch", "invalid count %d (want 1 to 65535)", n)
	}
	return nil
}

func checkQueueType(t string) error {
	if t != Quorum && t != Classic {
		return problem("queue_type", "invalid type %q (want quorum or classic)", t)
	}
	return nil
}

func checkTTL(at string, d time.Duration) error {
	switch {
	case d < 0:
		return problem(at, "must not be negative")
	case d > maxTTL:
		return problem(at, "%s is longer than RabbitMQ allows (%s)", d, maxTTL.Truncate(time.Hour))
	case d > 0 && d < time.Millisecond:
		return problem(at, "must be at least 1ms")
	}
	return nil
}
