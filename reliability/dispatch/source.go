package dispatch

import (
	"context"

	"github.com/sloengine/sloengine/reliability/wal"
)

// Source is the log that is dispatched: a *wal.Log.
//
// All methods are called by many lanes at the same time.
type Source interface {
	// NewReader reads from a record on. The error wraps wal.ErrTruncated or wal.ErrAhead if there is no such record.
	NewReader(from uint64) (*wal.Reader, error)
	// Wait returns nil once a record after the given one is durable.
	Wait(ctx context.Context, after uint64) error
	// FirstSeq is the oldest record in the log, DurableSeq the newest durable one.
	FirstSeq() uint64
	DurableSeq() uint64
	// SizeFrom is about how many bytes the records from a number to the end take. It never grows with from.
	SizeFrom(from uint64) int64
}
