package client

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/retry"
)

const (
	// maxSplits bounds the requests by which bad events of a batch are looked for:
	// enough for half a dozen among a thousand.
	maxSplits = 64
	// blockedPause is the pause after an answer that refuses the client.
	blockedPause = 10 * time.Second
	// maxPause is the longest pause that a server can ask for.
	maxPause = time.Minute
)

// The parts of package post, with where an event of this client came from.
type (
	batch      = post.Batch[source]
	settlement = post.Settlement[source]
)

// source says where an event of a batch came from.
type source struct {
	index  int // among the events of the call, of Send
	origin Origin
}

// addLines adds the events of a body that was written by another batch.
func addLines(b *batch, body []byte, from Origin) {
	for line := range bytes.Lines(body) {
		b.Append(line, source{0, from})
	}
}

// deliverer brings batches to the server: what package post does, behind a breaker, a bound on the requests in flight,
// and the pauses that the server asks for. These three are shared by all calls and goroutines of a client.
type deliverer struct {
	sender  post.Sender[source]
	poster  *post.Poster
	breaker *breaker.Breaker
	slots   chan struct{} // MaxInFlight
	timeout time.Duration // of one request
	started time.Time
	paused  atomic.Int64 // until then, nanoseconds since started: the clock may be set
}

func newDeliverer(o *Options) (*deliverer, error) {
	target, err := o.target()
	if err != nil {
		return nil, err
	}
	d := &deliverer{started: time.Now(), slots: make(chan struct{}, o.MaxInFlight), timeout: o.RequestTimeout}
	d.poster, err = post.New(post.Options{
		URL: target, UserAgent: "sloengine-client", Token: o.Token, TokenFile: o.TokenFile,
		HTTPClient: o.HTTPClient, TLS: o.TLS,
		MaxInFlight: o.MaxInFlight, Compression: o.Compression, CompressFrom: leastCompressed, Deadline: true,
		Answered: func(took time.Duration, _ int) { o.Metrics.requests.Update(took.Seconds()) },
	})
	if err != nil {
		return nil, err
	}
	policy, err := retry.New(o.Retry)
	if err != nil {
		return nil, err
	}
	d.sender = post.Sender[source]{Request: d.exchange, Policy: policy, Divisible: divisible, MaxSplits: maxSplits}
	d.breaker, err = breaker.New(o.Breaker)
	return d, err
}

// exchange makes one request, if the server wants one now.
func (d *deliverer) exchange(ctx context.Context, b *batch) (*post.Answer, error) {
	if wait := d.pauseLeft(); wait > 0 {
		return nil, retry.After(errPaused, wait)
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return nil, errBusy
	}
	permit, err := d.breaker.Acquire()
	if err != nil {
		return nil, err
	}
	outcome := breaker.Failure // if Post panics
	defer func() { permit.Done(outcome) }()
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	ctx, cancelProbe := permit.Context(ctx)
	defer cancelProbe()
	a, err := d.poster.Post(ctx, b.Body, b.Len())
	status, refused := errors.AsType[*StatusError](err)
	outcome = breaker.Judge(err)
	switch {
	case err == nil && slices.ContainsFunc(a.Errors, func(e event.ItemError) bool { return e.Retryable }):
		d.pause(a.RetryAfter)
	case !refused:
	case status.DeadlinePassed():
		outcome = breaker.Ignored
		d.pause(status.RetryAfter)
	case blocks(status):
		d.pause(blockedPause)
	default:
		d.pause(status.RetryAfter)
	}
	return a, err
}

// blocks reports whether the server refuses this client rather than these events: a wrong token or address. The events
// stay until somebody fixes that.
func blocks(e *StatusError) bool { return e.RetryClass() == retry.ClassPermanent && !divisible(e) }

// divisible reports whether something in the request is at fault, which sending less at a time singles out.
func divisible(e *StatusError) bool {
	switch e.Status {
	case http.StatusBadRequest:
		return e.Code != "bad_query" && e.Code != "bad_deadline"
	case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// pause keeps all requests back for a while.
func (d *deliverer) pause(wait time.Duration) {
	if wait <= 0 {
		return
	}
	until := int64(time.Since(d.started) + min(wait, maxPause))
	for {
		old := d.paused.Load()
		if old >= until || d.paused.CompareAndSwap(old, until) {
			return
		}
	}
}

func (d *deliverer) pauseLeft() time.Duration {
	until := d.paused.Load()
	if until == 0 {
		return 0
	}
	return max(time.Duration(until)-time.Since(d.started), 0)
}

// held reports why no request would be made now, nil if one would.
func (d *deliverer) held() error {
	if wait := d.pauseLeft(); wait > 0 {
		return retry.After(errPaused, wait)
	}
	if ok, wait, _ := d.breaker.Ready(); !ok {
		return &breaker.OpenError{RetryAfter: wait}
	}
	return nil
}

// ready waits until a request may be made, or ctx ends.
func (d *deliverer) ready(ctx context.Context) error {
	for {
		wait, changed := d.pauseLeft(), (<-chan struct{})(nil)
		if wait <= 0 {
			var ok bool
			if ok, wait, changed = d.breaker.Ready(); ok {
				return ctx.Err()
			}
		}
		if !retry.SleepOr(ctx, max(wait, time.Millisecond), changed) {
			return ctx.Err()
		}
	}
}
