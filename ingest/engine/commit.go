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

// This file is the senders' side of the committer: a call queues a request, waits for the answer, and gives up in
// a way that leaves each request with exactly one owner.

// Result counts the outcomes of a batch's events.
//
// Accepted includes Merged. Duplicates, Sampled, Dropped, Throttled and Critical are apart from it and from each
// other.
type Result struct {
	Accepted   int
	Duplicates int
	// DupIndexes are the Item.Index of the duplicates, in order.
	DupIndexes []int
	Seq        uint64 // of the last record written for it; 0 if there was nothing new

	// Merged is how many of Accepted were merged into others: they count, but are not stored one by one.
	Merged int

	// Events over their rate limit, which are not accepted.
	Sampled   int     // another event stands for it; sent again, it is a duplicate
	Dropped   int     // lost, which a record says
	Throttled []int32 // indexes in Batch.Events that may be sent again later
	Critical  []int32 // indexes in Batch.Events that should become dead letters

	// Forgotten are indexes in Batch.Events whose ids may have been forgotten (see Item.Earliest). They may count
	// already, so they do not count, and should become dead letters. Ids are known since KnownSince, in Unix nanoseconds.
	Forgotten  []int32
	KnownSince int64
}

// Commit stores the events of b whose ids are new and returns when they are durable. A duplicate of an event that is
// not durable yet is answered when that is. Events whose sender gave no id always count.
//
// An error means that no promise is made about any event of b. It is an *UnavailableError that says when to try again,
// the error of ctx, or context.DeadlineExceeded after b.Deadline. b must not change until Commit returns, and is not
// used after that.
//
// Any number of goroutines may call it. Calls that wait at the same time share one sync.
func (e *Engine) Commit(ctx context.Context, b *event.Batch) (Result, error) {
	return e.Admit(ctx, b, nil, nil)
}

// Admit is Commit for events that have a ticket each, by which Options.Limiter decides about those that are not
// duplicates. It looks only at the indexes in todo, and at all if todo is nil. The tickets must not be used until Admit
// returns.
func (e *Engine) Admit(ctx context.Context, b *event.Batch, tickets *ratelimit.Tickets, todo []int32) (Result, error) {
	if len(b.Events) == 0 {
		return Result{}, nil
	}
	r := e.queue.request(record.TypeEvents)
	r.batch, r.tickets, r.todo = b, tickets, todo
	r.bytes = int64(len(b.Buf)) + requestOverhead
	return e.wait(ctx, r)
}

// Position is how far a source got with the messages that the events of a batch came from.
type Position interface {
	// AppendPosition appends the form that package position reads, without the events at the given indexes of
	// Batch.Events, which are ascending: those are not in the log. It appends nothing if nothing is left. The committer
	// calls it before AdmitAt returns.
	AppendPosition(dst []byte, undecided []int32) []byte
}

// AdmitAt is Admit for a batch of a source. The position becomes durable together with the events, or not at all,
// even if all events are duplicates or the batch is empty. Events that are Throttled or Critical in the Result are
// not in the position: the source admits them again, or makes dead letters of them and then writes a position that
// has them.
func (e *Engine) AdmitAt(ctx context.Context, b *event.Batch, tickets *ratelimit.Tickets, todo []int32,
	at Position) (Result, error) {
	r := e.queue.request(record.TypeEvents)
	r.batch, r.tickets, r.todo, r.position = b, tickets, todo, at
	r.bytes = int64(len(b.Buf)) + requestOverhead
	return e.wait(ctx, r)
}

// Lose writes a position whose messages are gone, such as those that a broker deleted before they were read, together
// with the number of events to count as dropped for them. So coverage falls once, even if the engine is killed.
func (e *Engine) Lose(ctx context.Context, at Position, lost []record.Dropped) error {
	r := e.queue.request(record.TypeEvents)
	r.batch, r.position = &event.Batch{}, at
	for i := range lost {
		r.payload = lost[i].Append(r.payload)
	}
	r.bytes = int64(len(r.payload)) + requestOverhead
	_, err := e.wait(ctx, r)
	return err
}

// record writes a record of another type.
// It is not refused for a nearly full disk: these records are small, and without them nothing could be changed.
func (e *Engine) record(ctx context.Context, kind byte, payload []byte) (Result, error) {
	r := e.queue.request(kind)
	r.payload = payload
	r.bytes = int64(len(payload)) + requestOverhead
	return e.wait(ctx, r)
}

// errSenderLeft is the answer to a sender that has left.
var errSenderLeft = errors.New("the sender left")

// wait queues a request and returns its result. The request goes back to the pool exactly once: here if the sender gets
// an answer, and by the committer if the sender left before.
//
// A sender that gives up has two cases. While the request is in the queue or waits to be merged, it is withdrawn,
// and nothing of it is stored. Once the committer has taken it, the sender waits for the answer after all: it is
// one sync away, and returning earlier would let the caller reuse a batch that is being written.
func (e *Engine) wait(ctx context.Context, r *request) (Result, error) {
	var expired <-chan time.Time // nil: only the context ends the wait
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
		r.timer.Stop() // before r goes to the pool
	}
	if why != nil {
		// A request in the queue is withdrawn here, and the committer releases it. One that the committer has taken
		// cannot be withdrawn. The flag tells the committer not to let it wait to be merged.
		left := r.state.CompareAndSwap(requestWaiting, requestLeft)
		if !left {
			r.leaving.Store(true)
			left = r.state.CompareAndSwap(requestWaiting, requestLeft)
		}
		if left {
			return Result{}, fmt.Errorf("wait for the log: %w", why)
		}
		<-r.done // it is being written, so the answer is one sync away
	}
	result, err := r.result, r.err
	e.queue.release(r)
	if err == errSenderLeft { //nolint:errorlint // never wrapped
		return result, fmt.Errorf("wait for the log: %w", why)
	}
	return result, err
}

// SetConfig writes a configuration record and returns when the State has applied it, or with the reason why it did not.
// It waits until the engine is ready.
//
// The configuration takes effect at its record, so a replay counts the events in front of it by the old one and
// those behind it by the new one. An error of the State leaves the record in the log, where every replay refuses
// it again.
func (e *Engine) SetConfig(ctx context.Context, config []byte) error {
	select {
	case <-e.ready:
	case <-e.ended:
		return ErrStopping
	case <-ctx.Done():
		return fmt.Errorf("wait for the engine: %w", context.Cause(ctx))
	}
	return e.apply(ctx, record.TypeConfig, config)
}

// WriteIncident writes an incident record and returns when the State has applied it, or with the reason why it did not.
// The payload means something to the State only. It must not be called before the engine is ready.
func (e *Engine) WriteIncident(ctx context.Context, payload []byte) error {
	if len(payload) > maxRecordBytes {
		return fmt.Errorf("incident record of %d bytes: at most %d", len(payload), maxRecordBytes)
	}
	return e.apply(ctx, record.TypeIncident, payload)
}

// WriteTicks writes a record of ticks and returns when it is durable. It shares the write and the sync of events that
// wait, and takes the place of a heartbeat.
func (e *Engine) WriteTicks(ctx context.Context, payload []byte) error {
	_, err := e.record(ctx, record.TypeTicks, payload)
	return err
}

// apply writes a record and waits until the State has applied it.
func (e *Engine) apply(ctx context.Context, kind byte, payload []byte) error {
	result, err := e.record(ctx, kind, payload)
	if err != nil {
		return err
	}
	// The record is durable and will be applied whether or not the caller waits. An early answer could only be wrong.
	return e.read.wait(context.WithoutCancel(ctx), result.Seq)
}
