package dispatch

import (
	"context"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// Item is one unit of delivery: a part of a record.
type Item struct {
	ID                      string
	Service, Type, Severity string
	Time                    time.Time // when it was taken in; its age for the time to live
	Seq                     uint64    // of its record; set by the dispatcher
	Index                   int       // in its record; set by the dispatcher
	Payload                 []byte    // must not be changed; may be kept
}

// Sink is one place where items go. Send must be safe for as many concurrent calls as
// the sink's concurrency, and must return soon after ctx ends: a call that does not is
// given up after a while, but keeps its place in the bulkhead until it returns. Sinks
// must bear repeats.
//
// A Sink may also be a [Flusher], a [Checker] and an io.Closer, which is closed when
// its lane ends.
type Sink interface {
	Send(ctx context.Context, batch []Item) Result
}

// Result is what became of a batch.
type Result struct {
	// Err says that the batch failed as a whole. Its class (retry.ClassOf) decides
	// what is done; a wait given with retry.After holds up the whole lane.
	Err error
	// Failed are the items that failed, by rising Index, if Err is nil.
	Failed []Failure

	took time.Duration // of the sink's own part of the call
}

// Failure is one item that failed; Err is classified as in Result.
type Failure struct {
	Index int // in the batch
	Err   error
}

// Flusher is a sink that has accepted items without making them durable. The cursor on
// disk moves only after Flush, and a replayed dead letter goes only after it; if it fails,
// everything since the last one is sent again.
// It may be called beside Send.
type Flusher interface {
	Flush(ctx context.Context) error
}

// Checker is a sink that can be asked whether it is well, for its breaker. With a method
// HealthCloses() bool that says true, the check is enough to close the breaker.
type Checker interface {
	Check(ctx context.Context) error
}

// Reasons of dead letters.
const (
	ReasonPermanent   = "permanent"          // refused for good
	ReasonExhausted   = "retry_exhausted"    // the last retry failed too
	ReasonExpired     = "expired"            // older than the sink's time to live
	ReasonRateLimited = "retry_rate_limited" // beyond the rate limit of retries, which says dead_letter
	ReasonUnreadable  = "unreadable"         // Split could not take the record apart
)

// DeadLetter is an item that was not delivered.
type DeadLetter struct {
	Item        Item
	Sink        string
	Reason      string
	Class       retry.Class // of the last failure
	Err         string      // the last failure; "" if it was never sent
	Attempts    int         // calls made for it, 0 if it was never sent
	First, Last time.Time   // of the failures; both the same if there was no call
}

// Split takes a record apart. The payload is not used again by anybody else, so items
// may point into it. A record that is not meant for sinks yields nothing. Seq and
// Index of the items are filled in afterwards.
type Split func(rec *wal.Record, yield func(Item)) error

// Limiter holds back calls to a sink, retries included. Wait returns nil when n units
// may go, and an error when that would take too long; the call is then put off.
type Limiter interface {
	Wait(ctx context.Context, n int) error
}
