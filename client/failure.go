package client

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Origin says by which way an event came to the client: the label "context" of
// sloengine_client_failures_total.
type Origin uint8

// The origins.
const (
	FromSend       Origin = iota // Send and Observe
	FromAsync                    // SendAsync
	FromMiddleware               // Middleware
	FromSpool                    // the spool, whichever way it came there
	origins
)

// String is the name in metrics and logs.
func (o Origin) String() string {
	return [...]string{"send", "async", "middleware", "spool"}[o]
}

// Reason says why an event was lost: the label "reason" of
// sloengine_client_failures_total.
type Reason uint8

// The reasons.
const (
	Permanent    Reason = iota // the server refused the event for good; Failure.Code says why
	BreakerOpen                // the queue in memory is full because the server is unwell
	QueueFull                  // events arrive faster than they can be sent
	SpoolFull                  // Spool.MaxBytes, or the disk, is used up
	SpoolFailed                // the spool is not open, or its disk failed
	SpoolTimeout               // the disk was slower than the deadline of the call; the event may yet arrive
	Refused                    // the server refuses the client: token, address
	Overloaded                 // the server asked for patience
	TimedOut                   // no answer in time
	Unavailable                // the server cannot be reached, or fails
	Stopped                    // the client was closed
	reasons
)

// String is the name in metrics and logs.
func (r Reason) String() string {
	return [...]string{
		"permanent", "breaker_open", "queue_full", "spool_full", "spool_failed", "spool_timeout",
		"refused", "overloaded", "timeout", "unavailable", "closed",
	}[r]
}

// Failure is an event that was lost, without its sender being told.
type Failure struct {
	Origin Origin
	Reason Reason
	Code   event.Code // what the server finds wrong with it, of Permanent; else ""
	Err    error      // what happened, in words
	ID     string     // of the event
	Event  []byte     // the event's JSON, valid during the call
}

// reasonOf names the reason behind an error of a request.
func reasonOf(err error) Reason {
	var open *breaker.OpenError
	var status *StatusError
	switch {
	case errors.Is(err, ErrClosed):
		return Stopped
	case errors.As(err, &open):
		return BreakerOpen
	case errors.As(err, &status) && blocks(status):
		return Refused
	case retry.ClassOf(err) == retry.ClassOverload:
		return Overloaded
	case errors.Is(err, context.DeadlineExceeded) || retry.ClassOf(err) == retry.ClassTimeout:
		return TimedOut
	}
	return Unavailable
}

// reporter counts lost events, logs now and then, and tells OnError.
type reporter struct {
	log     *slog.Logger
	m       *Metrics
	onError func(Failure)

	mu     sync.Mutex
	logged [reasons]struct {
		next       time.Time
		suppressed int
	}
}

// logEvery is the time between two log lines about the same reason.
const logEvery = 10 * time.Second

// lost reports all events of b.
func (r *reporter) lost(b *batch, why Reason, err error) {
	for i := range b.Len() {
		r.one(b.From(i).origin, why, "", err, b.Line(i))
	}
}

func (r *reporter) one(from Origin, why Reason, code event.Code, err error, line []byte) {
	r.m.failures[from][why].Inc()
	if n, ok := r.mayLog(why); ok {
		r.log.Warn("event lost", "context", from, "reason", why, "code", string(code), "err", err,
			"more_since_last_message", n)
	}
	if r.onError == nil {
		return
	}
	defer func() { _ = recover() }() // the application must not die of its bookkeeping
	line = bytes.TrimSuffix(line, []byte{'\n'})
	r.onError(Failure{Origin: from, Reason: why, Code: code, Err: err, ID: post.ID(line), Event: line})
}

func (r *reporter) mayLog(why Reason) (suppressed int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.logged[why]
	now := time.Now()
	if now.Before(l.next) {
		l.suppressed++
		return 0, false
	}
	suppressed, l.suppressed, l.next = l.suppressed, 0, now.Add(logEvery)
	return suppressed, true
}
