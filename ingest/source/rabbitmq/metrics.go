package rabbitmq

import (
	"slices"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
)

// This file holds the metrics of all RabbitMQ sources. The series of a source exist until it is removed. Messages are
// foreign text, so labels that come from them have a bound.

// Outcomes of a message in the dead-letter queue.
const (
	outcomeFailure   = "failure"
	outcomeDuplicate = "duplicate"
	outcomeRetried   = "retried"
	outcomeKept      = "kept"
)

// other stands for label values that the settings and the spec do not name.
const other = "other"

// maxTypes is the number of event types of one source that have metrics of their own.
const maxTypes = 200

// Metrics are those of all RabbitMQ sources of an engine. One per metrics.Set.
type Metrics struct {
	sources  *metric.PerName[*sourceSeries]
	handlers *metric.PerName[*handlerSeries]
}

// sourceSeries are the series of any source.
type sourceSeries struct {
	redelivered, cancelled *metrics.Counter
	problems               *metrics.Gauge
	queues                 map[string]queueSeries // by those of the topology
	mu                     sync.Mutex             // guards queues
}

type queueSeries struct{ messages, consumers *metrics.Gauge }

// handlerSeries are the further series of a dead-letter handler.
type handlerSeries struct {
	depth             *metrics.Gauge
	handled, requeued *metrics.Counter
	age               *metrics.PrometheusHistogram

	mu       sync.Mutex // guards the fields below
	types    map[string]bool
	outcomes map[[4]string]*metrics.Counter // by queue, type, reason and outcome
}

// NewMetrics makes the metrics in set.
func NewMetrics(set *metrics.Set) *Metrics {
	return &Metrics{
		sources: metric.NewPerName(set, func(g *metric.Group, source string) *sourceSeries {
			return &sourceSeries{
				redelivered: g.Counter(metric.RabbitRedelivered, source), cancelled: g.Counter(metric.RabbitCancelled, source),
				problems: g.Gauge(metric.RabbitTopologyProblems, source), queues: map[string]queueSeries{},
			}
		}),
		handlers: metric.NewPerName(set, func(g *metric.Group, source string) *handlerSeries {
			return &handlerSeries{
				depth:   g.Gauge(metric.RabbitDeadLetterDepth, source),
				handled: g.Counter(metric.RabbitDeadLetterHandled, source), requeued: g.Counter(metric.RabbitRequeued, source),
				age: g.Histogram(metric.RabbitDeadLetterAge, source), types: map[string]bool{},
				outcomes: map[[4]string]*metrics.Counter{},
			}
		}),
	}
}

// Forget removes the series of a source that is gone.
func (m *Metrics) Forget(source string) {
	m.sources.Forget(source)
	m.handlers.Forget(source)
}

// expect makes the series of the queues of a topology, so that they exist before the broker answers.
func (m *Metrics) expect(source string, t *topology) {
	s := m.sources.Of(source)
	m.sources.Add(source, func(g *metric.Group) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range t.entities {
			if e := &t.entities[i]; e.kind == "queue" {
				s.queues[e.name] = queueSeries{g.Gauge(metric.RabbitQueueMessages, source, e.name),
					g.Gauge(metric.RabbitQueueConsumers, source, e.name)}
			}
		}
	})
}

// inspected publishes the findings at the broker.
func (s *sourceSeries) inspected(i *Inspection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems.Set(float64(len(i.Problems())))
	for _, q := range i.Queues {
		if series, ok := s.queues[q.Name]; ok {
			series.messages.Set(float64(q.Messages))
			series.consumers.Set(float64(q.Consumers))
		}
	}
}

// outcome counts a message of the dead-letter queue. known says that a spec names its type.
func (m *Metrics) outcome(source string, h *handlerSeries, queue, typ, reason, outcome string, known bool) {
	if !slices.Contains(reasons, reason) {
		reason = other
	}
	h.mu.Lock()
	if !known || !h.types[typ] && len(h.types) >= maxTypes {
		typ = other
	} else {
		h.types[typ] = true
	}
	key := [4]string{queue, typ, reason, outcome}
	c := h.outcomes[key]
	h.mu.Unlock()
	if c == nil {
		c = &metrics.Counter{} // of a source that was removed meanwhile
		m.handlers.Add(source, func(g *metric.Group) {
			c = g.Counter(metric.RabbitDeadLetters, source, queue, typ, reason, outcome)
		})
		h.mu.Lock()
		h.outcomes[key] = c
		h.mu.Unlock()
	}
	c.Inc()
}

// handledAfter counts a message and its age. An age below zero is a difference of clocks.
func (h *handlerSeries) handledAfter(age time.Duration, known bool) {
	h.handled.Inc()
	if known {
		h.age.Update(max(age, 0).Seconds())
	}
}
