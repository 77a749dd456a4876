package rabbitmq

import (
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// This file detects that dead-lettering does not work. AMQP does not report how many messages expired, but a message
// in a queue that has a TTL and no consumer has no other way out. While every measurement of such a queue finds
// messages and no consumer, the first of them must be in the dead-letter queue after the TTL at the latest.

// arrivalGrace is how long after the TTL a message may take to the dead-letter queue and through the handler.
const arrivalGrace = time.Minute

// measuredAtLeast is the longest time between two measurements in a row. Workers may come and go in a longer one.
const measuredAtLeast = time.Minute

// arrivals are the dead letters that the work queues owe. It is safe for concurrent use.
type arrivals struct {
	deadLetters string // queue

	mu     sync.Mutex // guards the fields below
	queues map[string]*expected
	last   time.Time // measurement; zero before the first
}

// expected is the dead letter that a work queue with a TTL must produce.
type expected struct {
	ttl     time.Duration
	overdue *metrics.Gauge
	// since is the first of the measurements in a row that found messages and no consumer, with no dead letter of the
	// queue after it; zero if there is none.
	since time.Time
}

func newArrivals(o *HandlerOptions, p *Parts) *arrivals {
	a := &arrivals{deadLetters: o.Queue, queues: map[string]*expected{}}
	p.Metrics.handlers.Add(p.Name, func(g *metric.Group) {
		for _, w := range o.WorkQueues {
			if w.TTL > 0 {
				a.queues[w.Name] = &expected{ttl: w.TTL, overdue: g.Gauge(metric.RabbitDeadLettersOverdue, p.Name, w.Name)}
			}
		}
	})
	return a
}

// arrived notes a dead letter of a queue.
func (a *arrivals) arrived(queue string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.queues[queue]; e != nil {
		e.since = time.Time{}
		e.overdue.Set(0)
	}
}

// measured looks at the queues. waiting says that the handler has messages whose queue it does not know yet.
func (a *arrivals) measured(i *Inspection, waiting bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	gap := now.Sub(a.last) > measuredAtLeast
	a.last = now
	// Dead letters that wait are the business of another alert, and other consumers take dead letters that are not
	// seen here.
	dead := i.Queue(a.deadLetters)
	unknown := waiting || dead == nil || dead.Messages > 0 || dead.Consumers != 1
	for name, e := range a.queues {
		q := i.Queue(name)
		switch {
		case unknown || q == nil || q.Messages == 0 || q.Consumers > 0:
			e.since = time.Time{}
		case gap || e.since.IsZero():
			e.since = now
		}
		overdue := time.Duration(0)
		if !e.since.IsZero() {
			overdue = max(now.Sub(e.since)-e.ttl-arrivalGrace, 0)
		}
		e.overdue.Set(overdue.Seconds())
	}
}
