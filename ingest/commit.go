package ingest

import (
	"context"
	"fmt"

	"github.com/sloengine/sloengine/ingest/event"
)

// Result says what became of a batch's events.
type Result struct {
	Accepted   int
	Duplicates int
	// DupIndexes are the Item.Index of the duplicates, in order.
	DupIndexes []int
	Seq        uint64 // of the last record written for it; 0 if there was nothing new
}

// Commit stores the events of b whose ids are not known and returns when they
// are durable. A repeat is a duplicate; if what it repeats is not durable yet,
// the answer waits for that. Events without an id of their sender always count.
//
// An error means that no promise is made about any event of b. It is an
// *UnavailableError that says when to try again, or the error of ctx. b must
// not change until Commit returns, and is not used after that.
func (e *Engine) Commit(ctx context.Context, b *event.Batch) (Result, error) {
	if len(b.Events) == 0 {
		return Result{}, nil
	}
	r := e.queue.request(RecordEvents)
	r.batch = b
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

func (e *Engine) wait(ctx context.Context, r *request) (Result, error) {
	if why := e.queue.push(r); why != nil {
		e.queue.release(r)
		e.opt.Metrics.unavailable[why].Inc()
		return Result{}, why
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(requestWaiting, requestLeft) {
			// The committer finds r in the queue, and releases it.
			return Result{}, fmt.Errorf("wait for the log: %w", context.Cause(ctx))
		}
		<-r.done // it is being written: the sync decides soon
	}
	result, err := r.result, r.err
	e.queue.release(r)
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
	result, err := e.record(ctx, RecordConfig, config)
	if err != nil {
		return err
	}
	return e.read.wait(ctx, result.Seq)
}
