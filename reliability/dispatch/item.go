package dispatch

import (
	"context"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file holds the interfaces of the package: the items that a record is split into, the sink that takes
// them, and the content of a dead letter. It has no state.

// Item is one unit of delivery: a part of a record.
//
// ID, Service, Type and Severity are for sinks and dead letters. The package itself looks at Time, Seq, Index and
// the length of Payload only.
type Item struct {
	ID                      string
	Service, Type, Severity string
	Time                    time.Time // when it was taken in; its age for the time to live
	Seq                     uint64    // of its record; set by the dispatcher
	Index                   int       // in its record, from 0; set by the dispatcher
	Payload                 []byte    // read-only; a sink may retain it
	Replayed                bool      // a dead letter, out of the order of the log; set by the dispatcher
}

// Sink is a destination of items. Send must be safe for as many concurrent calls as the sink's concurrency, and must
// return soon after ctx ends: a call that does not is abandoned after 1 s, but keeps its place in the bulkhead until it
// returns. A sink must be idempotent, because items can be sent again.
//
// A Sink may also be a [Flusher], a [Checker] and an io.Closer, which is closed when its lane ends.
//
// The batch belongs to the caller: a sink may keep payloads, but must not change the slice or its items.
type Sink interface {
	Send(ctx context.Context, batch []Item) Result
}

// Result is the outcome of a batch.
type Result struct {
	// Err is set if the batch failed as a whole. Its class (retry.ClassOf) decides the treatment of the items. A
	// wait given with retry.After pauses the whole lane.
	Err error
	// Failed are the items that failed, by ascending Index, if Err is nil. All others are delivered.
	Failed []Failure

	took time.Duration // of the sink's own part of the call
}

// Failure is one item that failed; Err is classified as in Result.
type Failure struct {
	Index int // in the batch
	Err   error
}

// ResultOf is the outcome of a batch of which each item has its own; nil is success.
func ResultOf(errs []error) (r Result) {
	for i, err := range errs {
		if err != nil {
			r.Failed = append(r.Failed, Failure{Index: i, Err: err})
		}
	}
	return r
}

// Flusher is a sink that accepts items before it makes them durable. The cursor on disk moves only after Flush, and a
// replayed dead letter is removed only after it. If Flush fails, everything since the last successful one is sent
// again. It may be called concurrently with Send, but not with itself.
type Flusher interface {
	Flush(ctx context.Context) error
}

// Collector is a Flusher whose Flush may hold items back, until they fill a file. The cursor on disk stays before the
// first of them. Replayed items are durable when Send has returned.
type Collector interface {
	Flusher
	// Held is the place of the first item that is held back; ok is false if there is none.
	Held() (at Cursor, ok bool)
	// Drop forgets what is held: it is in a log range that is retained, or sent again.
	Drop()
}

// Checker is a sink with a health check, which its breaker uses while it is not closed. If the sink has a method
// HealthCloses() bool that returns true, a successful check counts as a probe and can close the breaker.
type Checker interface {
	Check(ctx context.Context) error
}

// Reasons of dead letters.
const (
	ReasonPermanent   = "permanent"          // refused for good
	ReasonExhausted   = "retry_exhausted"    // the last retry failed too
	ReasonExpired     = "expired"            // older than TTL
	ReasonRateLimited = "retry_rate_limited" // beyond the retry rate limit, with on_exceeded: dead_letter
	ReasonUnreadable  = "unreadable"         // Split could not split the record
)

// DeadLetter is an item that was not delivered.
//
// Sink, Item.Seq and Item.Index together are unique, and the same after a crash. A store recognises an entry that
// it gets again by them.
type DeadLetter struct {
	Item        Item
	Sink        string
	Reason      string
	Class       retry.Class // of the last failure
	Err         string      // the last failure; "" if it was never sent
	Attempts    int         // calls made for it, 0 if it was never sent
	First, Last time.Time   // of the failures; both the same if there was no call
}

// Split yields the items of a record, no items if the record is not meant for sinks. The payload belongs to the
// items: they may point into it. Seq and Index are filled in afterwards. An error makes one dead letter of the whole
// record.
type Split func(rec *wal.Record, yield func(Item)) error

// Limiter limits the rate of calls to a sink, retries included. Wait returns nil when n units may go, and an error if
// that would take too long or ctx ended. The lane then tries again later.
type Limiter interface {
	Wait(ctx context.Context, n int) error
}
