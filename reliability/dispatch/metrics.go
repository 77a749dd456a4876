package dispatch

import (
	"strconv"
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/retry"
)

// This file holds the metrics of sinks. The series of a sink exist from its first use to its removal, so that a
// sink that was removed leaves no series behind.

// Metrics are the counters of all sinks, by name, and those of their breakers and
// bulkheads.
type Metrics struct {
	set       *metrics.Set
	breakers  *breaker.Metrics
	deadlines *deadline.Metrics
	bulkheads *bulkhead.Metrics
	lowest    *metrics.Gauge
	sinks     *metrics.Gauge
	lanes     *metric.PerName[*series]
}

// series are the metrics of one sink. Items, records, calls and batches are different units: the name of each
// metric says which it counts.
type series struct {
	delivered, skipped, missed     *metrics.Counter
	dropped                        *metrics.Counter
	succeeded                      *metrics.Counter
	failures                       [retry.Classes]*metrics.Counter
	deadLetters                    map[string]*metrics.Counter
	deadLetterErrors, cursorErrors *metrics.Counter
	abandoned, flushErrors         *metrics.Counter
	retries, again, retried        *metrics.Counter
	exhausted, permanent           *metrics.Counter
	overBudget, limited            *metrics.Counter
	outboundLimited                *metrics.Counter
	seconds                        *metrics.PrometheusHistogram
	retryDelay, overhead           *metrics.PrometheusHistogram
	lagRecords, lagBytes           *metrics.Gauge
	oldest, inFlight, staged       *metrics.Gauge
	failing                        map[string]*metrics.Gauge // by kind of failure
	answers                        *answers
}

// Breakers are the counters of the sinks' breakers, for other breakers of the process.
func (m *Metrics) Breakers() *breaker.Metrics { return m.breakers }

// NewMetrics makes the counters in set. One Dispatcher per Metrics.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{
		set: set, breakers: breaker.NewMetrics(set), deadlines: deadline.NewMetrics(set, "sink"),
		bulkheads: bulkhead.NewMetrics(set),
		lowest:    metric.SinkLowestCursor.Gauge(set),
		sinks:     metric.Sinks.Gauge(set),
	}
	m.lanes = metric.NewPerName(set, m.define)
	return m
}

// define makes the series of a sink.
func (m *Metrics) define(g *metric.Group, sink string) *series {
	s := &series{deadLetters: map[string]*metrics.Counter{}, failing: map[string]*metrics.Gauge{}}
	s.delivered = g.Counter(metric.SinkDeliveredItems, sink)
	s.dropped = g.Counter(metric.SinkDroppedItems, sink)
	s.skipped = g.Counter(metric.SinkSkippedRecords, sink)
	s.missed = g.Counter(metric.SinkMissedRecords, sink)
	s.succeeded = g.Counter(metric.SinkCallsSucceeded, sink)
	for c := range s.failures {
		s.failures[c] = g.Counter(metric.SinkCallsFailed, sink, retry.Class(c).String())
	}
	for _, r := range []string{ReasonPermanent, ReasonExhausted, ReasonExpired, ReasonRateLimited, ReasonUnreadable} {
		s.deadLetters[r] = g.Counter(metric.SinkDeadLetters, sink, r)
	}
	s.deadLetterErrors = g.Counter(metric.SinkDeadLetterErrors, sink)
	s.cursorErrors = g.Counter(metric.SinkCursorErrors, sink)
	s.flushErrors = g.Counter(metric.SinkFlushErrors, sink)
	s.abandoned = g.Counter(metric.SinkAbandonedCalls, sink)
	s.outboundLimited = g.Counter(metric.SinkRateLimited, sink)
	s.retries = g.Counter(metric.RetryAttempts, sink)
	s.again = g.Counter(metric.RetryAttemptedItems, sink)
	s.retried = g.Counter(metric.RetrySuccessItems, sink)
	s.exhausted = g.Counter(metric.RetryExhaustedItems, sink)
	s.permanent = g.Counter(metric.RetryPermanentFailureItems, sink)
	s.overBudget = g.Counter(metric.RetryBudgetExhausted, sink)
	s.limited = g.Counter(metric.RetryRateLimited, sink)
	s.seconds = g.Histogram(metric.SinkCallSeconds, sink)
	s.retryDelay = g.Histogram(metric.RetryDelaySeconds, sink)
	s.overhead = g.Histogram(metric.RetryOverheadSeconds, sink)
	s.lagRecords, s.lagBytes = g.Gauge(metric.SinkLagRecords, sink), g.Gauge(metric.SinkLagBytes, sink)
	s.oldest = g.Gauge(metric.SinkLagSeconds, sink)
	s.inFlight = g.Gauge(metric.SinkInFlightBatches, sink)
	s.staged = g.Gauge(metric.RetryStaged, sink)
	for _, kind := range troubleKinds {
		s.failing[kind] = g.Gauge(metric.SinkFailing, sink, kind)
	}
	s.answers = &answers{by: map[string]*metrics.Counter{}, make: func(code string) *metrics.Counter {
		c := &metrics.Counter{} // of a sink that was removed meanwhile
		m.lanes.Add(sink, func(g *metric.Group) { c = g.Counter(metric.SinkAnswers, sink, code) })
		return c
	}}
	return s
}

// Answered counts an answer of a sink by its status code.
//
// Sinks call it themselves, since only they see the code.
func (m *Metrics) Answered(sink string, code int) {
	if s, ok := m.lanes.Lookup(sink); ok { // else it was removed while the call was under way
		s.answers.count(code)
	}
}

// maxCodes is the number of codes of one sink that have series of their own. A receiver chooses its
// answers, and each code is a series.
//
// It leaves room for every code that HTTP services commonly use.
const maxCodes = 24

// answers are those of one sink by status code, "other" for the rest.
type answers struct {
	make func(code string) *metrics.Counter
	mu   sync.Mutex
	by   map[string]*metrics.Counter
}

// count counts an answer. A code beyond maxCodes, or one that is no HTTP status, counts as "other".
func (a *answers) count(code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	label := strconv.Itoa(code)
	if a.by[label] == nil && (len(a.by) >= maxCodes || code < 100 || code > 599) {
		label = "other"
	}
	if a.by[label] == nil {
		a.by[label] = a.make(label)
	}
	a.by[label].Inc()
}

// list is a copy for the status.
func (a *answers) list() map[string]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.by) == 0 {
		return nil
	}
	out := make(map[string]uint64, len(a.by))
	for code, c := range a.by {
		out[code] = c.Get()
	}
	return out
}

// bound publishes how far a sink may lag behind. Without a bound there is no series:
// shares of it would be shares of nothing.
func (m *Metrics) bound(sink string, bytes int64) {
	if bytes <= 0 {
		m.set.UnregisterMetric(metric.SinkMaxLagBytes.Series(sink)) // of the sink before a change
		return
	}
	m.lanes.Of(sink)
	m.lanes.Add(sink, func(g *metric.Group) { g.Gauge(metric.SinkMaxLagBytes, sink).Set(float64(bytes)) })
}

// forget removes the series of a removed sink from the set.
func (m *Metrics) forget(sink string) {
	m.breakers.Forget(sink)
	m.bulkheads.Forget(sink)
	m.lanes.Forget(sink)
}
