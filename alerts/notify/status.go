package notify

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Status is how the delivery to one target goes.
type Status struct {
	Name string `json:"name"`
	URL  string `json:"url,omitempty"` // unset for receivers: their addresses may be secrets
	Sent uint64 `json:"sent"`          // alerts that it accepted since the start, repetitions included
	// Pending counts alerts whose present state an Alertmanager does not know, or groups of alerts that wait for a
	// receiver.
	Pending            int       `json:"pending"`
	LastSuccess        time.Time `json:"last_success,omitzero"` // zero: none yet
	LastSuccessSeconds float64   `json:"last_success_seconds"`  // how long that request took
	FailingSince       time.Time `json:"failing_since,omitzero"`
	Failures           uint64    `json:"failures"`        // since then
	Cause              string    `json:"cause,omitempty"` // the last error
	Brief              string    `json:"brief,omitempty"` // the same, without what others wrote
	Breaker            string    `json:"breaker"`         // closed, half_open or open
}

// Preview is a message to a receiver, as its people would read it.
type Preview struct {
	At            time.Time
	Receiver      string
	Subject, Text string
	Resolved      bool     // none of its alerts fires any more
	Services      []string // of its alerts; "" for one without
}

// Health is how the delivery to one target goes: its status, its metrics, and one line in the log at the first failure
// and one at the recovery. It is safe for concurrent use.
type Health struct {
	kind, name, url string // kind: alertmanager or receiver, for the log
	metrics         *series
	log             *slog.Logger
	failure         health.Log

	mu     sync.Mutex // guards status, without what failure knows
	status Status
}

// Health returns that of a target, which has not been called yet. url is shown: it must not hold a secret.
func (m *Metrics) Health(kind, name, url string, log *slog.Logger, now func() time.Time) *Health {
	log = log.With(kind, name)
	return &Health{kind: kind, name: name, url: url, metrics: m.Of(name), log: log, failure: health.Log{
		Tracker: health.Tracker{Now: now}, Logger: log,
		Broken: kind + " does not accept alerts, retrying", Works: kind + " accepts alerts again",
	}}
}

// Read is the present status, without the breaker.
func (h *Health) Read() Status {
	h.mu.Lock()
	s := h.status
	h.mu.Unlock()
	f := h.failure.Failure()
	if s.FailingSince, s.Failures, s.Cause = f.Since, f.Count, f.Text(); f.Count == 0 {
		s.Brief = ""
	}
	s.Name, s.URL, s.Sent = h.name, h.url, h.metrics.sent.Get()
	return s
}

// Pending notes how much the target does not know yet.
func (h *Health) Pending(n int) {
	h.mu.Lock()
	h.status.Pending = n
	h.mu.Unlock()
	h.metrics.pending.Set(float64(n))
}

// Sent counts alerts that the target accepted.
func (h *Health) Sent(alerts int) { h.metrics.sent.Add(alerts) }

// Refused counts alerts that the target did not accept and is not offered again until something changes.
func (h *Health) Refused(alerts int) { h.metrics.refused.Add(alerts) }

// Expired counts alerts that are too old to be of interest.
func (h *Health) Expired(alerts int) { h.metrics.expired.Add(alerts) }

// Called counts a call that ended, and ends a failure if it succeeded.
func (h *Health) Called(ctx context.Context, took time.Duration, err error) {
	if err == nil {
		h.succeeded(took)
	} else if class := retry.ClassOf(err); ctx.Err() == nil && h.metrics.failures[class] != nil {
		h.metrics.failures[class].Inc()
	}
}

func (h *Health) succeeded(took time.Duration) {
	now := h.failure.Now()
	h.mu.Lock()
	h.status.LastSuccess, h.status.LastSuccessSeconds = now, took.Seconds()
	h.mu.Unlock()
	h.failure.Note(nil)
	h.metrics.failing.Set(0)
	h.metrics.lastSuccess.Set(float64(now.UnixMilli()) / 1000)
	h.metrics.lastSuccessTook.Set(took.Seconds())
}

// Idle ends a failure without a success, because nothing is left to deliver.
func (h *Health) Idle() {
	if f, log := h.failure.Recovered(); log {
		h.metrics.failing.Set(0)
		h.log.Info(h.kind+" did not accept alerts, and none is left",
			"failed_for", h.failure.Now().Sub(f.Since).Round(time.Millisecond))
	}
}

// Failed begins a failure, or goes on with one. brief is the error without what others wrote.
func (h *Health) Failed(ctx context.Context, err error, brief string) {
	if ctx.Err() != nil || retry.ClassOf(err) == retry.ClassBreakerOpen {
		return // the engine stops, or the breaker has opened for the last cause
	}
	h.mu.Lock()
	h.status.Brief = brief
	h.mu.Unlock()
	h.failure.Note(err)
	h.metrics.failing.Set(1)
}
