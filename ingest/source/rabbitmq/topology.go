package rabbitmq

import (
	"cmp"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// This file says which queues and exchanges settings want. verify.go holds a broker to it.

// Arguments of queues, as RabbitMQ names them.
const (
	argTTL         = "x-message-ttl"
	argExchange    = "x-dead-letter-exchange"
	argStrategy    = "x-dead-letter-strategy"
	argOverflow    = "x-overflow"
	argQueueType   = "x-queue-type"
	argDeliveryMax = "x-delivery-limit"
)

// Queue types.
const (
	Quorum  = "quorum"
	Classic = "classic"
)

// Exchange types to which a dead-letter queue can be bound for all messages. A direct exchange does not qualify: it
// compares the whole routing key, so a binding by "#" matches nothing.
const (
	Topic  = "topic"
	Fanout = "fanout"
)

// entity is a queue or an exchange that settings want.
type entity struct {
	kind string // queue or exchange
	name string
	typ  string     // of an exchange
	args amqp.Table // of a queue
	// essential are the arguments that decide whether dead letters arrive and are kept. Only these count where the
	// topology is made by others.
	essential []string
}

// binding routes messages from an exchange to a queue.
type binding struct{ queue, key, exchange string }

// topology is all that a source or handler wants of a broker.
type topology struct {
	declare  bool // missing parts, and report every argument that differs
	strict   bool // report every argument that differs
	entities []entity
	bindings []binding
}

// WorkQueue is a queue whose messages expire, or are rejected, into the dead-letter queue.
type WorkQueue struct {
	Name string `yaml:"name" is:"required"`
	// TTL is how long a message waits before it is dead-lettered. 0 is no limit of the queue.
	TTL time.Duration `yaml:"ttl"`
	// Type of the events that stand for its executions. A latency SLO on it shows their typical duration.
	Type string `yaml:"type"`
	// TypicalDuration is how long an execution usually takes; for `check`.
	TypicalDuration time.Duration `yaml:"typical_duration"`
	// DeliveryLimit is how often a quorum queue delivers a message before it is dead-lettered; 0 is the broker's default.
	DeliveryLimit int `yaml:"delivery_limit" min:"0" max:"1000000"`
}

// topology of a source: its queue. It has no TTL by default, because an expired event is lost.
func (o *Options) topology() *topology {
	e := entity{kind: "queue", name: o.Queue, args: queueArgs(o.QueueType)}
	if o.TTL > 0 {
		e.args[argTTL] = o.TTL.Milliseconds()
		e.essential = []string{argTTL}
	}
	if o.DeadLetterExchange != "" {
		deadLetter(&e, o.QueueType, o.DeadLetterExchange)
	}
	return &topology{declare: o.Declare, entities: []entity{e}}
}

// topology of the dead-letter handler: exchange, dead-letter queue and work queues.
func (o *HandlerOptions) topology() *topology {
	t := &topology{declare: o.Declare}
	t.entities = append(t.entities, entity{kind: "exchange", name: o.Exchange, typ: o.ExchangeType})
	dlq := entity{kind: "queue", name: o.Queue, args: queueArgs(o.QueueType),
		essential: []string{argTTL, argExchange}}
	if o.Retention > 0 {
		dlq.args[argTTL] = o.Retention.Milliseconds()
	}
	t.entities = append(t.entities, dlq)
	t.bindings = append(t.bindings, binding{o.Queue, "#", o.Exchange})
	for _, w := range o.WorkQueues {
		e := entity{kind: "queue", name: w.Name, args: queueArgs(o.QueueType), essential: []string{argTTL}}
		if w.TTL > 0 {
			e.args[argTTL] = w.TTL.Milliseconds()
		}
		if w.DeliveryLimit > 0 {
			e.args[argDeliveryMax] = int64(w.DeliveryLimit)
			e.essential = append(e.essential, argDeliveryMax)
		}
		deadLetter(&e, o.QueueType, o.Exchange)
		t.entities = append(t.entities, e)
	}
	return t
}

func queueArgs(queueType string) amqp.Table {
	if queueType == Quorum {
		return amqp.Table{argQueueType: Quorum}
	}
	return amqp.Table{} // classic is the broker's default, which older queues do not name
}

// deadLetter makes a queue dead-letter to an exchange. A quorum queue keeps a message until the dead-letter queue has
// confirmed it, which requires that a full queue refuses messages instead of dropping them.
func deadLetter(e *entity, queueType, exchange string) {
	e.args[argExchange] = exchange
	if queueType == Quorum {
		e.args[argStrategy], e.args[argOverflow] = "at-least-once", "reject-publish"
	}
	e.essential = append(e.essential, argExchange)
}

// Finding is a difference between a broker and the settings.
type Finding struct {
	Kind     string `json:"kind"` // queue, exchange or binding
	Name     string `json:"name"`
	Problem  string `json:"problem"`            // missing, different or unverified
	Argument string `json:"argument,omitempty"` // of a difference
	Want     string `json:"want,omitempty"`     // "" is none
	Have     string `json:"have,omitempty"`     // "" is none
	Detail   string `json:"detail,omitempty"`   // the broker's answer, if it is unverified
}

// Problems of findings.
const (
	Missing    = "missing"
	Different  = "different"
	Unverified = "unverified" // the broker does not let the user look
)

// String is the finding for logs and pages.
func (f Finding) String() string {
	thing := f.Kind + " " + f.Name
	switch f.Problem {
	case Missing:
		return thing + " does not exist"
	case Unverified:
		return thing + " cannot be verified: " + f.Detail
	}
	return thing + " has " + f.Argument + " " + cmp.Or(f.Have, "(none)") + ", but the settings want " +
		cmp.Or(f.Want, "(none)")
}

// QueueState is the state of a queue as its broker reports it.
type QueueState struct {
	Name      string `json:"name"`
	Messages  int    `json:"messages"` // ready to be delivered
	Consumers int    `json:"consumers"`
	Missing   bool   `json:"missing,omitempty"`
	// Arguments are those that the settings want, with the values that the broker has where they differ.
	Arguments map[string]string `json:"arguments,omitempty"`
}

// Inspection is the state of a topology at one time.
type Inspection struct {
	At       time.Time    `json:"at"`
	Queues   []QueueState `json:"queues"`
	Findings []Finding    `json:"findings"`
}

// Problems are the findings that prevent messages from reaching their destination. An unverified part is
// not a problem.
func (i *Inspection) Problems() []Finding {
	return slices.DeleteFunc(slices.Clone(i.Findings), func(f Finding) bool { return f.Problem == Unverified })
}

// Queue is the state of a queue; nil if it is not part of the topology.
func (i *Inspection) Queue(name string) *QueueState {
	if k := slices.IndexFunc(i.Queues, func(q QueueState) bool { return q.Name == name }); k >= 0 {
		return &i.Queues[k]
	}
	return nil
}
