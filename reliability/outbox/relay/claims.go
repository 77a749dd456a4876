package relay

import (
	"context"
	"time"
)

// Ways to claim rows.
const (
	Lease      = "lease"      // by a lease of the bucket, in order of the key
	Optimistic = "optimistic" // one by one, by comparing the version, in no order
)

// claims is a way to claim rows. All its methods but take and run may be called at any time.
type claims interface {
	// run does the work beside the takes, until ctx ends.
	run(ctx context.Context)
	// take claims rows for up to n batches. backlog: the last take has left rows, as it says by more.
	take(ctx context.Context, n int, backlog bool) (batches []*batch, more bool, err error)
	// refuse lists the results to write for rows that are not published now, and not before the delay.
	refuse(items []*item, delay time.Duration) []result
	// done ends a batch. Rows like its rows are not taken during pause.
	done(b *batch, pause time.Duration)
	// lost counts a row whose result was refused.
	lost()
	// release ends all claims, when the relay stops.
	release()
	// count is how many buckets are leased.
	count() int
}

// roundEvery is the interval at which leases are renewed and stale ones are released.
func (r *Relay) roundEvery() time.Duration { return min(r.o.Lease/6, 5*time.Second) }
