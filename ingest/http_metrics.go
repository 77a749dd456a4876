package ingest

import (
	"strconv"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/metric"
)

// HTTPMetrics are the counters of the HTTP side. All are made at the start, so
// that a request only adds to them and every series exists from the first scrape.
type HTTPMetrics struct {
	set      *metrics.Set
	requests map[int]*metrics.Counter
	accepted, duplicate,
	rejected *metrics.Counter
	limited, sampled,
	deadLettered *metrics.Counter
	codes         map[event.Code]*metrics.Counter
	unlisted      *metrics.Counter
	ignored       [3][]*metrics.Counter // by signal and otlp.Reason, of which the first is nil
	cut           *metrics.Counter
	expired       *deadline.Metrics
	wireBytes     *metrics.Counter
	bodyBytes     *metrics.Counter
	duration      *metrics.PrometheusHistogram
	authFailures  map[string]*metrics.Counter
	tokenReloads  *metrics.Counter
	tokenFailures *metrics.Counter
}

var answeredStatuses = []int{200, 202, 204, 400, 401, 403, 404, 408,
	413, 415, 422, 429, statusClientGone, 500, 503, 504}

var rejectionCodes = []event.Code{
	event.CodeInvalidJSON, event.CodeInvalidUTF8, event.CodeDuplicateKey, event.CodeTooDeep, event.CodeEventTooLarge,
	event.CodeNotAnObject, event.CodeMissingField, event.CodeUnknownField, event.CodeWrongType, event.CodeBadID,
	event.CodeBadService, event.CodeBadType, event.CodeBadOutcome, event.CodeBadSeverity, event.CodeBadTime,
	event.CodeTimeInFuture, event.CodeTimeTooOld, event.CodeBadDuration, event.CodeBadCount, event.CodeBadDurations,
	event.CodeBadAttribute, event.CodeTooManyAttributes, event.CodeReservedLabel, event.CodeUnknownService,
	event.CodeUnknownType, event.CodeServiceNotAllowed, event.CodeBadCloudEvent,
}

// Reasons of metric.IngestAuthFailures.
const (
	authMissing  = "missing"
	authUnknown  = "unknown"
	authNotGiven = "permission"
	authHost     = "host"
	authExpired  = "expired"
)

// NewHTTPMetrics makes the counters in set.
func NewHTTPMetrics(set *metrics.Set) *HTTPMetrics {
	m := &HTTPMetrics{
		set:          set,
		requests:     map[int]*metrics.Counter{},
		accepted:     metric.IngestEvents.Counter(set, "accepted"),
		duplicate:    metric.IngestEvents.Counter(set, "duplicate"),
		rejected:     metric.IngestEvents.Counter(set, "rejected"),
		limited:      metric.IngestEvents.Counter(set, "limited"),
		sampled:      metric.IngestEvents.Counter(set, "sampled"),
		deadLettered: metric.IngestEvents.Counter(set, "dead_lettered"),
		codes:        map[event.Code]*metrics.Counter{},
		// Beyond the errors and runs of an answer only their number is known.
		unlisted:      metric.IngestRejected.Counter(set, "unlisted"),
		wireBytes:     metric.IngestReceivedBytes.Counter(set),
		expired:       deadline.NewMetrics(set, "ingest"),
		bodyBytes:     metric.IngestBodyBytes.Counter(set),
		duration:      metric.IngestRequestDurationSeconds.Histogram(set),
		authFailures:  map[string]*metrics.Counter{},
		tokenReloads:  metric.IngestTokenReloads.Counter(set, "ok"),
		tokenFailures: metric.IngestTokenReloads.Counter(set, "failed"),
	}
	for _, code := range answeredStatuses {
		m.requests[code] = metric.IngestRequests.Counter(set, strconv.Itoa(code))
	}
	for _, code := range rejectionCodes {
		m.codes[code] = metric.IngestRejected.Counter(set, string(code))
	}
	m.cut = metric.OTLPCut.Counter(set)
	for _, of := range signals {
		m.ignored[of.index] = make([]*metrics.Counter, len(otlp.Reasons()))
		for why, reason := range otlp.Reasons() {
			if why > 0 {
				m.ignored[of.index][why] = metric.OTLPIgnored.Counter(set, of.name, reason)
			}
		}
	}
	for _, reason := range []string{authMissing, authUnknown, authNotGiven, authHost, authExpired} {
		m.authFailures[reason] = metric.IngestAuthFailures.Counter(set, reason)
	}
	return m
}

// gauges adds the two figures that only the handler knows.
func (m *HTTPMetrics) gauges(requests, bytes func() float64) {
	metric.IngestInFlightRequests.Read(m.set, requests)
	metric.IngestInFlightBytes.Read(m.set, bytes)
}

// counters adds the figures of the last points of metrics.
func (m *HTTPMetrics) counters(t *counter.Table) {
	metric.OTLPCounters.Read(m.set, func() float64 { n, _ := t.Size(); return float64(n) })
	metric.OTLPCounterBytes.Read(m.set, func() float64 { _, n := t.Size(); return float64(n) })
}

func (m *HTTPMetrics) countRequest(status int) {
	if c, ok := m.requests[status]; ok {
		c.Inc()
	}
}

// countAnswer counts the outcomes of the events of one request.
func (m *HTTPMetrics) countAnswer(a *Answer) {
	m.accepted.Add(a.Accepted)
	if a.Duplicates > 0 {
		m.duplicate.Add(a.Duplicates)
	}
	if a.Limited+a.Sampled+a.DeadLettered > 0 {
		m.limited.Add(a.Limited)
		m.sampled.Add(a.Sampled)
		m.deadLettered.Add(a.DeadLettered)
	}
	if a.Rejected == 0 {
		return
	}
	m.rejected.Add(a.Rejected)
	listed := 0
	for i := range a.Errors {
		if c, ok := m.codes[a.Errors[i].Code]; ok {
			c.Inc()
			listed++
		}
	}
	for _, run := range a.Unlisted {
		if c, ok := m.codes[run.Code]; ok {
			c.Add(run.To - run.From + 1)
			listed += run.To - run.From + 1
		}
	}
	m.unlisted.Add(max(0, a.Rejected-listed))
}

// Totals are the outcomes of events since the process started.
type Totals struct {
	Received, Accepted, Duplicates, Rejected uint64
	Limited, Sampled, DeadLettered           uint64
}

// Totals returns the sums of all answers so far.
func (m *HTTPMetrics) Totals() Totals {
	t := Totals{Accepted: m.accepted.Get(), Duplicates: m.duplicate.Get(), Rejected: m.rejected.Get()}
	t.Limited, t.Sampled, t.DeadLettered = m.limited.Get(), m.sampled.Get(), m.deadLettered.Get()
	t.Received = t.Accepted + t.Duplicates + t.Rejected + t.Limited + t.Sampled + t.DeadLettered
	return t
}
