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

// Metrics are the counters of all sinks, by name, and those of their breakers and
// bulkheads.
type Metrics struct {
	set       *metrics.Set
	breakers  *breaker.Metrics
	deadlines *deadline.Metrics
	bulkheads *bulkhead.Metrics
	lowest    *metrics.Gauge
	sinks     *metrics.Gauge
	mu        sync.Mutex
	by        map[string]*series
}

type series struct {
	delivered, skipped, missed *metrics.Counter
	dropped                    *metrics.Counter
	succeeded                  *metrics.Counter
	failures                   [retry.Classes]*metrics.Counter
	letters                    map[string]*metrics.Counter
	letterErrors, cursorErrors *metrics.Counter
	abandoned, flushErrors     *metrics.Counter
	retries, again, retried    *metrics.Counter
	exhausted, permanent       *metrics.Counter
	overBudget, limited        *metrics.Counter
	outboundLimited            *metrics.Counter
	seconds                    *metrics.PrometheusHistogram
	retryDelay, overhead       *metrics.PrometheusHistogram
	lagRecords, lagBytes       *metrics.Gauge
	oldest, inFlight, staged   *metrics.Gauge
	failing                    map[string]*metrics.Gauge // by kind of trouble
	answers                    *answers
	group                      metric.Group
}

// Breakers are the counters of the sinks' breakers, for other breakers of the process.
func (m *Metrics) Breakers() *breaker.Metrics { return m.breakers }

// NewMetrics makes the counters in set. One Dispatcher per Metrics.
func NewMetrics(set *metrics.Set) *Metrics {
	return &Metrics{
		set: set, breakers: breaker.NewMetrics(set), deadlines: deadline.NewMetrics(set, "sink"), bulkheads: bulkhead.NewMetrics(set),
		lowest: metric.SinkLowestCursor.Gauge(set),
		sinks:  metric.Sinks.Gauge(set),
		by:     map[string]*series{},
	}
}

func (m *Metrics) of(sink string) *series {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.by[sink]; s != nil {
		return s
	}
	s := &series{letters: map[string]*metrics.Counter{}, group: metric.Group{Set: m.set}}
	s.delivered = s.group.Counter(metric.SinkDeliveredItems, sink)
	s.dropped = s.group.Counter(metric.SinkDroppedItems, sink)
	s.skipped = s.group.Counter(metric.SinkSkippedRecords, sink)
	s.missed = s.group.Counter(metric.SinkMissedRecords, sink)
	s.succeeded = s.group.Counter(metric.SinkCallsSucceeded, sink)
	for c := range s.failures {
		s.failures[c] = s.group.Counter(metric.SinkCallsFailed, sink, retry.Class(c).String())
	}
	for _, r := range []string{ReasonPermanent, ReasonExhausted, ReasonExpired, ReasonRateLimited, ReasonUnreadable} {
		s.letters[r] = s.group.Counter(metric.SinkDeadLetters, sink, r)
	}
	s.letterErrors = s.group.Counter(metric.SinkDeadLetterErrors, sink)
	s.cursorErrors = s.group.Counter(metric.SinkCursorErrors, sink)
	s.flushErrors = s.group.Counter(metric.SinkFlushErrors, sink)
	s.abandoned = s.group.Counter(metric.SinkAbandonedCalls, sink)
	s.outboundLimited = s.group.Counter(metric.SinkRateLimited, sink)
	s.retries = s.group.Counter(metric.RetryAttempts, sink)
	s.again = s.group.Counter(metric.RetryAttemptedItems, sink)
	s.retried = s.group.Counter(metric.RetrySuccessItems, sink)
	s.exhausted = s.group.Counter(metric.RetryExhaustedItems, sink)
	s.permanent = s.group.Counter(metric.RetryPermanentFailureItems, sink)
	s.overBudget = s.group.Counter(metric.RetryBudgetExhausted, sink)
	s.limited = s.group.Counter(metric.RetryRateLimited, sink)
	s.seconds = s.group.Histogram(metric.SinkCallSeconds, sink)
	s.retryDelay = s.group.Histogram(metric.RetryDelaySeconds, sink)
	s.overhead = s.group.Histogram(metric.RetryOverheadSeconds, sink)
	s.lagRecords, s.lagBytes = s.group.Gauge(metric.SinkLagRecords, sink), s.group.Gauge(metric.SinkLagBytes, sink)
	s.oldest = s.group.Gauge(metric.SinkLagSeconds, sink)
	s.inFlight = s.group.Gauge(metric.SinkInFlightBatches, sink)
	s.staged = s.group.Gauge(metric.RetryStaged, sink)
	s.failing = map[string]*metrics.Gauge{}
	for _, kind := range troubleKinds {
		s.failing[kind] = s.group.Gauge(metric.SinkFailing, sink, kind)
	}
	s.answers = &answers{by: map[int]*metrics.Counter{}, make: func(code string) *metrics.Counter {
		m.mu.Lock()
		defer m.mu.Unlock()
		return s.group.Counter(metric.SinkAnswers, sink, code)
	}}
	m.by[sink] = s
	return s
}

// Answered counts an answer of a sink by its status code.
func (m *Metrics) Answered(sink string, code int) {
	m.mu.Lock()
	s := m.by[sink]
	m.mu.Unlock()
	if s != nil { // else it was removed while the call was under way
		s.answers.count(code)
	}
}

// maxCodes is how many codes of one sink are told apart. A receiver chooses what it
// answers, and each code is a series.
const maxCodes = 24

// answers are those of one sink by status code; 0 stands for all that are not told apart.
type answers struct {
	make func(code string) *metrics.Counter
	mu   sync.Mutex
	by   map[int]*metrics.Counter
}

func (a *answers) count(code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by[code] == nil && (len(a.by) >= maxCodes || code < 100 || code > 599) {
		code = 0
	}
	if a.by[code] == nil {
		label := "other"
		if code > 0 {
			label = strconv.Itoa(code)
		}
		a.by[code] = a.make(label)
	}
	a.by[code].Inc()
}

func (a *answers) list() map[int]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.by) == 0 {
		return nil
	}
	out := make(map[int]uint64, len(a.by))
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
	s := m.of(sink)
	m.mu.Lock()
	defer m.mu.Unlock()
	s.group.Gauge(metric.SinkMaxLagBytes, sink).Set(float64(bytes))
}

// forget takes the series of a removed sink out of the set.
func (m *Metrics) forget(sink string) {
	m.breakers.Forget(sink)
	m.bulkheads.Forget(sink)
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.by[sink]; s != nil {
		s.group.Unregister()
		delete(m.by, sink)
	}
}
