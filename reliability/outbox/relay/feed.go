package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/retry"
)

type item struct {
	outbox.Row
	bucket     int16
	generation int64   // of the lease of the bucket, or the version of the row
	age        float64 // seconds by the database's clock, when it was taken
	bytes      int     // of the payload, which is nil if that is too large
}

// batch is a set of rows that are published together.
type batch struct {
	items   []*item
	buckets []int16   // of the rows, with leases: no other batch has rows of them meanwhile
	taken   time.Time // before the database was asked
	full    bool      // there may be more rows in its buckets
}

// wakeUp makes the feed look for rows now.
func (r *Relay) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Waits between two looks for rows.
const (
	shortestPoll = 20 * time.Millisecond // after rows were found
	wakeSpacing  = 5 * time.Millisecond  // before a requested look, so that one finds the rows of several requests
)

// feed takes rows and processes them, at most Workers batches at once, until ctx ends. Batches in flight continue
// with working, and feed returns when they are done.
func (r *Relay) feed(ctx, working context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	slots := make(chan struct{}, r.o.Workers)
	poll := r.o.Poll
	backlog := false // the last look has not found all rows
	for ctx.Err() == nil {
		if ok, wait, changed := r.breaker.Ready(); !ok {
			retry.SleepOr(ctx, wait, changed)
			continue
		}
		free := 1
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		for free < r.o.Workers && len(slots) < cap(slots) { // there is no other sender
			slots <- struct{}{}
			free++
		}
		batches, more, err := r.claims.take(ctx, free, backlog)
		for _, b := range batches {
			group.Go(func() {
				defer func() { <-slots }()
				r.process(working, b)
			})
		}
		for range free - len(batches) {
			<-slots
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.databaseFailed(ctx, "take rows", err)
			retry.Sleep(ctx, time.Second)
		case more || backlog: // a look at all buckets comes last
			backlog = more
			poll = shortestPoll
		default:
			if len(batches) > 0 {
				poll = shortestPoll
			}
			r.rest(ctx, poll)
			poll = min(2*poll, r.o.Poll)
		}
	}
}

// rest waits until the next look for rows.
func (r *Relay) rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.wake:
		retry.Sleep(ctx, min(d, wakeSpacing))
	case <-t.C:
	case <-ctx.Done():
	}
}

// memoryFor is how many bytes the rows of n batches may have.
func (r *Relay) memoryFor(n int) int64 { return r.o.Memory / int64(r.o.Workers) * int64(n) }

// read asks the database for rows. cut: there were more than memory bytes.
func (r *Relay) read(ctx context.Context, memory int64, args ...any) (items []*item, cut bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.SendTimeout)
	defer cancel()
	rows, err := r.o.Database.Query(ctx, r.sql.take, args...)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for rows.Next() {
		if memory <= 0 {
			cut = true // the rest is read by the driver and dropped
			break
		}
		it := &item{}
		if err := rows.Scan(append([]any{&it.bucket, &it.generation, &it.bytes, &it.age}, it.Targets()...)...); err != nil {
			return nil, false, err
		}
		memory -= int64(len(it.Payload) + len(it.Headers) + 512)
		items = append(items, it)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return nil, false, err
	}
	return items, cut, nil
}

// pack makes up to n batches of up to size rows. Rows of a bucket stay together and in order; those that do not fit are
// left for another time.
func pack(items []*item, n, size int) (batches []*batch, more bool) {
	slices.SortStableFunc(items, func(a, b *item) int {
		if a.bucket != b.bucket {
			return int(a.bucket) - int(b.bucket)
		}
		return compareIDs(a.ID, b.ID)
	})
	var b *batch
	for len(items) > 0 {
		rest := slices.IndexFunc(items, func(i *item) bool { return i.bucket != items[0].bucket })
		if rest < 0 {
			rest = len(items)
		}
		group := items[:rest]
		items = items[rest:]
		if b == nil || len(b.items)+len(group) > size && len(batches) < n {
			if len(batches) == n {
				return batches, true
			}
			b = &batch{}
			batches = append(batches, b)
		}
		fits := min(len(group), size-len(b.items))
		if fits == 0 {
			return batches, true
		}
		b.items, b.buckets = append(b.items, group[:fits]...), append(b.buckets, group[0].bucket)
		if fits < len(group) || len(group) == size {
			b.full, more = true, true
		}
	}
	return batches, more
}

func compareIDs(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
