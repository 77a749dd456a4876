package dispatch

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/deadline"
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
	names                      []string
}

// Breakers are the counters of the sinks' breakers, for other breakers of the process.
func (m *Metrics) Breakers() *breaker.Metrics { return m.breakers }

// NewMetrics makes the counters in set. One Dispatcher per Metrics.
func NewMetrics(set *metrics.Set) *Metrics {
	return &Metrics{
		set: set, breakers: breaker.NewMetrics(set), deadlines: deadline.NewMetrics(set, "sink"), bulkheads: bulkhead.NewMetrics(set),
		lowest: set.GetOrCreateGauge("sloengine_sink_lowest_cursor", nil),
		sinks:  set.GetOrCreateGauge("sloengine_sinks", nil),
		by:     map[string]*series{},
	}
}

func (m *Metrics) of(sink string) *series {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.by[sink]; s != nil {
		return s
	}
	s := &series{letters: map[string]*metrics.Counter{}}
	name := func(base, more string) string {
		label := "sink" // what all retries go by, of sinks and of others
		if strings.HasPrefix(base, "sloengine_retry_") {
			label = "target"
		}
		n := fmt.Sprintf("%s{%s=%q%s}", base, label, sink, more)
		s.names = append(s.names, n)
		return n
	}
	counter := func(base string) *metrics.Counter { return m.set.GetOrCreateCounter(name(base, "")) }
	gauge := func(base string) *metrics.Gauge { return m.set.GetOrCreateGauge(name(base, ""), nil) }
	s.delivered = counter("sloengine_sink_delivered_items_total")
	s.dropped = counter("sloengine_sink_dropped_items_total")
	s.skipped = counter("sloengine_sink_skipped_records_total")
	s.missed = counter("sloengine_sink_missed_records_total")
	s.succeeded = counter("sloengine_sink_calls_succeeded_total")
	for c := range s.failures {
		s.failures[c] = m.set.GetOrCreateCounter(
			name("sloengine_sink_calls_failed_total", fmt.Sprintf(",class=%q", retry.Class(c).String())))
	}
	for _, r := range []string{ReasonPermanent, ReasonExhausted, ReasonExpired, ReasonRateLimited, ReasonUnreadable} {
		s.letters[r] = m.set.GetOrCreateCounter(name("sloengine_sink_dead_letters_total", fmt.Sprintf(",reason=%q", r)))
	}
	s.letterErrors = counter("sloengine_sink_dead_letter_errors_total")
	s.cursorErrors = counter("sloengine_sink_cursor_errors_total")
	s.flushErrors = counter("sloengine_sink_flush_errors_total")
	s.abandoned = counter("sloengine_sink_abandoned_calls_total")
	s.outboundLimited = counter("sloengine_sink_rate_limited_total")
	s.retries = counter("sloengine_retry_attempts_total")
	s.again = counter("sloengine_retry_attempted_items_total")
	s.retried = counter("sloengine_retry_success_items_total")
	s.exhausted = counter("sloengine_retry_exhausted_items_total")
	s.permanent = counter("sloengine_retry_permanent_failure_items_total")
	s.overBudget = counter("sloengine_retry_budget_exhausted_total")
	s.limited = counter("sloengine_retry_rate_limited_total")
	histogram := func(base string, buckets ...float64) *metrics.PrometheusHistogram {
		return m.set.GetOrCreatePrometheusHistogramExt(name(base, ""), buckets)
	}
	s.seconds = histogram("sloengine_sink_call_seconds", .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)
	s.retryDelay = histogram("sloengine_retry_delay_seconds", .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)
	s.overhead = histogram("sloengine_retry_overhead_seconds", .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1)
	s.lagRecords, s.lagBytes = gauge("sloengine_sink_lag_records"), gauge("sloengine_sink_lag_bytes")
	s.oldest = gauge("sloengine_sink_lag_seconds")
	s.inFlight = gauge("sloengine_sink_in_flight_batches")
	s.staged = gauge("sloengine_retry_staged")
	s.failing = map[string]*metrics.Gauge{}
	for _, kind := range troubleKinds {
		s.failing[kind] = m.set.GetOrCreateGauge(name("sloengine_sink_failing", fmt.Sprintf(",what=%q", kind)), nil)
	}
	s.answers = &answers{by: map[int]*metrics.Counter{}, make: func(code string) *metrics.Counter {
		n := fmt.Sprintf("sloengine_sink_answers_total{sink=%q,code=%q}", sink, code)
		m.mu.Lock()
		defer m.mu.Unlock()
		s.names = append(s.names, n)
		return m.set.GetOrCreateCounter(n)
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
		m.set.UnregisterMetric(fmt.Sprintf("sloengine_sink_max_lag_bytes{sink=%q}", sink)) // of the sink before a change
		return
	}
	s, name := m.of(sink), fmt.Sprintf("sloengine_sink_max_lag_bytes{sink=%q}", sink)
	m.mu.Lock()
	defer m.mu.Unlock()
	s.names = append(s.names, name)
	m.set.GetOrCreateGauge(name, nil).Set(float64(bytes))
}

// forget takes the series of a removed sink out of the set.
func (m *Metrics) forget(sink string) {
	m.breakers.Forget(sink)
	m.bulkheads.Forget(sink)
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.by[sink]; s != nil {
		for _, n := range s.names {
			m.set.UnregisterMetric(n)
		}
		delete(m.by, sink)
	}
}
