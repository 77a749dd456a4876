package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// Result says what became of a batch's events.
type Result struct {
	Accepted   int
	Duplicates int
	// DupIndexes are the Item.Index of the duplicates, in order.
	DupIndexes []int
	Seq        uint64 // of the last record written for it; 0 if there was nothing new

	// Of Accepted, those that were merged with others: they count, but are not kept one
	// by one.
	Merged int
	// Over their limit, and not accepted:
	Sampled   int     // another event stands for it; a repeat is a duplicate
	Dropped   int     // lost, on the record
	Throttled []int32 // places in Batch.Events that may be admitted again later
	Critical  []int32 // likewise, that should be kept as dead letters
}

// Commit stores the events of b whose ids are not known and returns when they
// are durable. A repeat is a duplicate; if what it repeats is not durable yet,
// the answer waits for that. Events without an id of their sender always count.
//
// An error means that no promise is made about any event of b. It is an
// *UnavailableError that says when to try again, the error of ctx, or
// context.DeadlineExceeded after b.Deadline. b must
// not change until Commit returns, and is not used after that.
func (e *Engine) Commit(ctx context.Context, b *event.Batch) (Result, error) {
	return e.Admit(ctx, b, nil, nil)
}

// Admit is Commit for events that have a ticket each, by which Options.Limits decide
// about those that are no repeats. Only the places in todo are looked at; nil is all.
// The tickets must not be used until Admit returns.
func (e *Engine) Admit(ctx context.Context, b *event.Batch, tickets *ratelimit.Tickets, todo []int32) (Result, error) {
	if len(b.Events) == 0 {
		return Result{}, nil
	}
	r := e.queue.request(record.TypeEvents)
	r.batch, r.tickets, r.todo = b, tickets, todo
	r.bytes = int64(len(b.Buf)) + requestOverhead
	return e.wait(ctx, r)
}

// record writes a record of another kind.
func (e *Engine) record(ctx context.Context, kind byte, payload []byte) (Result, error) {
	r := e.queue.request(kind)
	r.payload = payload
	r.bytes = int64(len(payload)) + requestOverhead
	return e.wait(ctx, r)
}

// errSenderLeft is the answer that nobody waits for.
var errSenderLeft = errors.New("the sender left")

func (e *Engine) wait(ctx context.Context, r *request) (Result, error) {
	var expired <-chan time.Time // nil: the context says
	if r.batch != nil && !r.batch.Deadline.IsZero() {
		r.deadline = r.batch.Deadline
		expired = r.expires(time.Until(r.deadline))
	} else {
		r.deadline, _ = ctx.Deadline()
	}
	if why := e.queue.push(r); why != nil {
		e.queue.release(r)
		e.opt.Metrics.unavailable[why].Inc()
		return Result{}, why
	}
	why := error(nil)
	select {
	case <-r.done:
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-expired:
		why = context.DeadlineExceeded
	}
	if expired != nil {
		r.timer.Stop() // while r is still ours
	}
	if why != nil {
		// The committer finds what left in the queue, and releases it. While it decides
		// about r, it must be told, in case that r is to wait to be merged.
		left := r.state.CompareAndSwap(requestWaiting, requestLeft)
		if !left {
			r.leaving.Store(true)
			left = r.state.CompareAndSwap(requestWaiting, requestLeft)
		}
		if left {
			return Result{}, fmt.Errorf("wait for the log: %w", why)
		}
		<-r.done // it is being written: the sync decides soon
	}
	result, err := r.result, r.err
	e.queue.release(r)
	if err == errSenderLeft { //nolint:errorlint // never wrapped
		return result, fmt.Errorf("wait for the log: %w", why)
	}
	return result, err
}

// SetConfig writes a configuration record and returns when the State took it,
// or with the reason why it did not. It waits until the engine is ready.
func (e *Engine) SetConfig(ctx context.Context, config []byte) error {
	select {
	case <-e.ready:
	case <-e.ended:
		return ErrStopping
	case <-ctx.Done():
		return fmt.Errorf("wait for the engine: %w", context.Cause(ctx))
	}
	result, err := e.record(ctx, record.TypeConfig, config)
	if err != nil {
		return err
	}
	// It is in force once it is counted, whoever waits: an early answer could only be wrong.
	return e.read.wait(context.WithoutCancel(ctx), result.Seq)
}
