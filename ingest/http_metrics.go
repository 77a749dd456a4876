package ingest

import (
	"strconv"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/deadline"
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
	expired       *deadline.Metrics
	wireBytes     *metrics.Counter
	bodyBytes     *metrics.Counter
	duration      *metrics.PrometheusHistogram
	authFailures  map[string]*metrics.Counter
	tokenReloads  *metrics.Counter
	tokenFailures *metrics.Counter
}

var answeredStatuses = []int{200, 202, 400, 401, 403, 408, 413, 415, 422, 429, statusClientGone, 500, 503, 504}

var rejectionCodes = []event.Code{
	event.CodeInvalidJSON, event.CodeInvalidUTF8, event.CodeDuplicateKey, event.CodeTooDeep, event.CodeEventTooLarge,
	event.CodeNotAnObject, event.CodeMissingField, event.CodeUnknownField, event.CodeWrongType, event.CodeBadID,
	event.CodeBadService, event.CodeBadType, event.CodeBadOutcome, event.CodeBadSeverity, event.CodeBadTime,
	event.CodeTimeInFuture, event.CodeTimeTooOld, event.CodeBadDuration, event.CodeBadCount, event.CodeBadDurations,
	event.CodeBadAttribute, event.CodeTooManyAttributes, event.CodeReservedLabel, event.CodeUnknownService,
	event.CodeUnknownType, event.CodeServiceNotAllowed, event.CodeBadCloudEvent,
}

// Reasons of sloengine_ingest_auth_failures_total.
const (
	authMissing  = "missing"
	authUnknown  = "unknown"
	authNotGiven = "permission"
	authHost     = "host"
)

// NewHTTPMetrics makes the counters in set.
func NewHTTPMetrics(set *metrics.Set) *HTTPMetrics {
	m := &HTTPMetrics{
		set:          set,
		requests:     map[int]*metrics.Counter{},
		accepted:     set.NewCounter(`sloengine_ingest_events_total{result="accepted"}`),
		duplicate:    set.NewCounter(`sloengine_ingest_events_total{result="duplicate"}`),
		rejected:     set.NewCounter(`sloengine_ingest_events_total{result="rejected"}`),
		limited:      set.NewCounter(`sloengine_ingest_events_total{result="limited"}`),
		sampled:      set.NewCounter(`sloengine_ingest_events_total{result="sampled"}`),
		deadLettered: set.NewCounter(`sloengine_ingest_events_total{result="dead_lettered"}`),
		codes:        map[event.Code]*metrics.Counter{},
		// Beyond the listed errors only their number is known.
		unlisted:  set.NewCounter(`sloengine_ingest_rejected_total{code="unlisted"}`),
		wireBytes: set.NewCounter(`sloengine_ingest_received_bytes_total`),
		expired:   deadline.NewMetrics(set, "ingest"),
		bodyBytes: set.NewCounter(`sloengine_ingest_body_bytes_total`),
		duration: set.NewPrometheusHistogramExt(`sloengine_ingest_request_duration_seconds`,
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}),
		authFailures:  map[string]*metrics.Counter{},
		tokenReloads:  set.NewCounter(`sloengine_ingest_token_reloads_total{result="ok"}`),
		tokenFailures: set.NewCounter(`sloengine_ingest_token_reloads_total{result="failed"}`),
	}
	for _, code := range answeredStatuses {
		m.requests[code] = set.NewCounter(`sloengine_ingest_requests_total{code="` + strconv.Itoa(code) + `"}`)
	}
	for _, code := range rejectionCodes {
		m.codes[code] = set.NewCounter(`sloengine_ingest_rejected_total{code="` + string(code) + `"}`)
	}
	for _, reason := range []string{authMissing, authUnknown, authNotGiven, authHost} {
		m.authFailures[reason] = set.NewCounter(`sloengine_ingest_auth_failures_total{reason="` + reason + `"}`)
	}
	return m
}

// gauges adds the two figures that only the handler knows.
func (m *HTTPMetrics) gauges(requests, bytes func() float64) {
	m.set.GetOrCreateGauge(`sloengine_ingest_in_flight_requests`, requests)
	m.set.GetOrCreateGauge(`sloengine_ingest_in_flight_bytes`, bytes)
}

func (m *HTTPMetrics) countRequest(status int) {
	if c, ok := m.requests[status]; ok {
		c.Inc()
	}
}

// countAnswer counts what was decided about the events of one request.
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
	m.unlisted.Add(max(0, a.Rejected-listed))
}

// Totals are what became of the events since the process started.
type Totals struct {
	Received, Accepted, Duplicates, Rejected uint64
	Limited, Sampled, DeadLettered           uint64
}

// Totals adds up what was answered so far.
func (m *HTTPMetrics) Totals() Totals {
	t := Totals{Accepted: m.accepted.Get(), Duplicates: m.duplicate.Get(), Rejected: m.rejected.Get()}
	t.Limited, t.Sampled, t.DeadLettered = m.limited.Get(), m.sampled.Get(), m.deadLettered.Get()
	t.Received = t.Accepted + t.Duplicates + t.Rejected + t.Limited + t.Sampled + t.DeadLettered
	return t
}
