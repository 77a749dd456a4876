package client

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/retry"
)

const (
	// maxSplits bounds the requests by which bad events of a batch are looked for:
	// enough for half a dozen among a thousand.
	maxSplits = 64
	// partEvents is how many events are sent at a time to learn of all their errors,
	// when an answer left some out: a server lists at least so many.
	partEvents = 100
	// blockedPause is the pause after an answer that refuses the client.
	blockedPause = 10 * time.Second
	// maxPause is the longest pause that a server can ask for.
	maxPause = time.Minute
)

// tally is what the server decided about events.
type tally struct{ accepted, duplicates, limited, sampled, deadLettered, rejected int }

// settlement is the outcome of a delivery, as far as it is decided.
type settlement struct {
	tally
	refused []refusal
	splits  int
}

// refusal is an event that the server doesn't want, now or later.
type refusal struct {
	event.ItemError
	origin Origin
	line   []byte
}

func (s *settlement) refuse(b *batch, i int, e event.ItemError) {
	line := append([]byte(nil), b.line(i)...)
	e.Index, e.Line = b.items[i].index, 0 // those of the request mean nothing to the caller
	e.ID = idOf(line)
	s.rejected++
	s.refused = append(s.refused, refusal{e, b.items[i].origin, line})
}

// deliverer brings batches to the server: requests, retries, breaker, pauses.
type deliverer struct {
	poster  *poster
	breaker *breaker.Breaker
	policy  *retry.Policy
	slots   chan struct{} // MaxInFlight
	timeout time.Duration // of one request
	paused  atomic.Int64  // until then, Unix nanoseconds
}

// deliver posts b until every event of it is decided or the policy gives up. rest are
// the events that are not decided, nil if there are none; err is then why.
func (d *deliverer) deliver(ctx context.Context, b *batch, s *settlement) (rest *batch, err error) {
	rest = b
	err = d.policy.Do(ctx, func(ctx context.Context, _ int) error {
		var err error
		rest, err = d.round(ctx, rest, s)
		if err == nil && rest != nil {
			err = errSomeLater
		}
		return err
	})
	if rest == nil {
		return nil, nil
	}
	return rest, err
}

// round sends b once, in parts if that is needed to learn about its events. rest are
// those that are to be sent again; err is why no more could be learned.
func (d *deliverer) round(ctx context.Context, b *batch, s *settlement) (rest *batch, err error) {
	a, err := d.exchange(ctx, b)
	var status *StatusError
	switch {
	case err == nil:
		return d.resolve(ctx, b, a, s)
	case !errors.As(err, &status) || !status.halves():
		return b, err
	case b.len() > 1 && s.splits < maxSplits:
		s.splits++
		return d.parts(ctx, b, (b.len()+1)/2, s)
	}
	code := event.Code(status.Code)
	if code == "" {
		code = "bad_request"
	}
	for i := range b.items {
		s.refuse(b, i, event.ItemError{Code: code, Detail: status.Error()})
	}
	return nil, nil
}

// parts sends b in parts of n events.
func (d *deliverer) parts(ctx context.Context, b *batch, n int, s *settlement) (rest *batch, err error) {
	for i := 0; i < b.len(); i += n {
		later, err := d.round(ctx, b.span(i, min(i+n, b.len())), s)
		rest = joined(rest, later)
		if err != nil {
			if i+n < b.len() {
				rest = joined(rest, b.span(i+n, b.len()))
			}
			return rest, err
		}
	}
	return rest, nil
}

// resolve notes what the answer decides and returns the events that the server wants
// again later.
func (d *deliverer) resolve(ctx context.Context, b *batch, a *answer, s *settlement) (rest *batch, err error) {
	named := make(map[int]bool, len(a.Errors))
	again := &batch{}
	for i := range a.Errors {
		e := a.Errors[i]
		if named[e.Index] {
			continue
		}
		named[e.Index] = true
		if e.Retryable {
			again.pick(b, e.Index)
			continue
		}
		s.refuse(b, e.Index, e)
	}
	if again.len() == 0 {
		again = nil
	} else if a.after > 0 {
		d.pause(a.after)
	}
	if a.ErrorsTruncated || a.Rejected > len(named) {
		if b.len() > 1 {
			return d.resolveRest(ctx, b, a, named, again, s)
		}
		s.refuse(b, 0, event.ItemError{Code: "rejected", Detail: "the server doesn't say why"})
		return nil, nil
	}
	s.accepted += a.Accepted
	s.duplicates += a.Duplicates
	s.sampled += a.Sampled
	s.deadLettered += a.DeadLettered
	s.limited += a.Limited
	if again != nil {
		// Those that are sent again are limited or rejected in this answer. They
		// will be counted once they are decided.
		s.limited -= min(a.Limited, again.len())
	}
	return again, nil
}

// resolveRest learns of the errors that an answer had no room for, by sending the
// events that it doesn't name again in small parts. What the first answer accepted
// comes back as a duplicate, and is counted as accepted.
func (d *deliverer) resolveRest(ctx context.Context, b *batch, a *answer, named map[int]bool, again *batch, s *settlement) (*batch, error) {
	unnamed := &batch{}
	for i := range b.items {
		if !named[i] {
			unnamed.pick(b, i)
		}
	}
	s.accepted += a.Accepted
	s.duplicates -= a.Accepted
	rest, err := d.parts(ctx, unnamed, max(1, min(partEvents, b.len()/2)), s)
	return joined(again, rest), err
}

// exchange makes one request, if the server wants one now.
func (d *deliverer) exchange(ctx context.Context, b *batch) (*answer, error) {
	if wait := d.pauseLeft(); wait > 0 {
		return nil, retry.After(errors.New("the server asked for a pause"), wait)
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
	outcome := breaker.Failure // if post panics
	defer func() { permit.Done(outcome) }()
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	ctx, cancelProbe := permit.Context(ctx)
	defer cancelProbe()
	a, err := d.poster.post(ctx, b)
	outcome = d.judge(err)
	var status *StatusError
	if errors.As(err, &status) {
		switch {
		case status.blocks():
			d.pause(blockedPause)
		case status.RetryAfter > 0:
			d.pause(status.RetryAfter)
		}
	}
	return a, err
}

func (d *deliverer) judge(err error) breaker.Outcome {
	var status *StatusError
	if errors.As(err, &status) && status.Code == codeDeadlinePassed {
		return breaker.Ignored // it answers, and had no chance to do more
	}
	return breaker.Judge(err)
}

// pause keeps all requests back for a while.
func (d *deliverer) pause(wait time.Duration) {
	until := time.Now().Add(min(wait, maxPause)).UnixNano()
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
	return max(time.Until(time.Unix(0, until)), 0)
}

// held reports why no request would be made now, nil if one would.
func (d *deliverer) held() error {
	if wait := d.pauseLeft(); wait > 0 {
		return retry.After(errors.New("the server asked for a pause"), wait)
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
		t := time.NewTimer(max(wait, time.Millisecond))
		select {
		case <-t.C:
		case <-changed:
		case <-ctx.Done():
		}
		t.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
