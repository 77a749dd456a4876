package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/reliability/retry"
)

// leases are the buckets that this relay holds, as last read from the database. The take and every write of a result
// ask the database again, so an outdated view costs time and nothing else.
type leases struct {
	r *Relay

	mu  sync.Mutex
	own map[int16]*bucket
	// busy are the buckets of batches, also of those whose lease was lost meanwhile.
	busy map[int16]bool
	// turn counts the takes, so that buckets come in turns.
	turn uint64
}

// bucket is one that this relay has leased.
type bucket struct {
	n          int16
	generation int64
	leaving    bool      // it is released once all of its rows have left their batches
	paused     time.Time // no rows are taken until then
	taken      uint64    // the turn in which rows were last taken
}

// refuse has nothing to write: rows stay as they are, and their buckets are leased on.
func (l *leases) refuse([]*item, time.Duration) []result { return nil }

func (l *leases) lost() { l.r.m.lostLeases.Inc() }

func (l *leases) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.own)
}

// run renews the leases and keeps this relay's share of the buckets, until ctx ends.
func (l *leases) run(ctx context.Context) {
	var swept time.Time
	for wait := time.Duration(0); retry.Sleep(ctx, wait); {
		round, cancel := context.WithTimeout(ctx, l.r.o.Lease/3)
		more, err := l.round(round)
		if err == nil && time.Since(swept) >= time.Minute {
			swept = time.Now()
			err = l.sweep(round)
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
		wait = l.r.roundEvery()
		if more { // another relay is about to release some
			wait = min(wait, 500*time.Millisecond)
		}
		if err != nil {
			l.r.databaseFailed(ctx, "lease buckets", err)
			wait = min(wait, time.Second)
		} else {
			l.r.database.is(nil)
		}
	}
}

// round is one look at the buckets. more: the share is larger than the number of free buckets.
func (l *leases) round(ctx context.Context) (more bool, err error) {
	o, q, db := &l.r.o, &l.r.sql, l.r.o.Database
	lease := o.Lease.Seconds()
	if _, err := db.Exec(ctx, q.join, o.Name); err != nil {
		return false, err
	}
	rows, err := db.Query(ctx, q.peers, lease)
	if err != nil {
		return false, err
	}
	peers, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return false, err
	}
	if _, err = db.Exec(ctx, q.renew, o.Name, lease); err != nil {
		return false, err
	}
	rows, err = db.Query(ctx, q.view)
	if err != nil {
		return false, err
	}
	var have, total int
	mine := map[int16]int64{}
	var n int16
	var worker string
	var generation int64
	var free bool
	if _, err = pgx.ForEachRow(rows, []any{&n, &worker, &generation, &free}, func() error {
		total++
		if worker == o.Name {
			mine[n] = generation
			have++
		}
		return nil
	}); err != nil {
		return false, err
	}
	if total < outbox.Buckets {
		return false, fmt.Errorf("%w: %s has %d rows (run sloengine outbox migrate)", errBuckets,
			o.Table.Buckets().Text(), total)
	}
	l.adopt(mine)
	share := shareOf(o.Name, peers)
	switch {
	case have > share:
		leaving := l.leave(have - share)
		if len(leaving) == 0 {
			return false, nil
		}
		_, err = db.Exec(ctx, q.release, o.Name, leaving)
		if err == nil {
			l.forget(leaving)
		}
		return false, err
	case have < share:
		got, err := l.acquire(ctx, share-have)
		return have+got < share, err
	}
	l.stay()
	return false, nil
}

var errBuckets = errors.New("the table of buckets is not complete")

// shareOf is how many buckets a relay is to have. The shares of all relays add up to all buckets.
func shareOf(name string, peers []string) int {
	at, found := slices.BinarySearch(peers, name)
	if !found { // its entry is too old already: another round comes
		return 0
	}
	share := outbox.Buckets / len(peers)
	if at < outbox.Buckets%len(peers) {
		share++
	}
	return share
}

// adopt takes over the state in the database.
func (l *leases) adopt(mine map[int16]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, b := range l.own {
		if mine[n] == 0 || mine[n] != b.generation {
			delete(l.own, n)
		}
	}
	for n, generation := range mine {
		if l.own[n] == nil {
			l.own[n] = &bucket{n: n, generation: generation}
		}
	}
	l.r.m.buckets.Set(float64(len(l.own)))
}

// leave marks buckets beyond the share, so that no more rows of them are taken, and lists those that can be released
// now.
func (l *leases) leave(over int) (now []int16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.sorted()
	slices.SortStableFunc(all, func(a, b *bucket) int { // those that were marked to leave before, then the idle ones
		return cmp.Or(compareBool(b.leaving, a.leaving), compareBool(l.busy[a.n], l.busy[b.n]))
	})
	for i, b := range all {
		if b.leaving = i < over; b.leaving && !l.busy[b.n] {
			now = append(now, b.n)
		}
	}
	return now
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// stay undoes leave.
func (l *leases) stay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.own {
		b.leaving = false
	}
}

func (l *leases) forget(buckets []int16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range buckets {
		delete(l.own, n)
	}
	l.r.m.buckets.Set(float64(len(l.own)))
}

// sorted lists the buckets, those first whose rows were taken longest ago. l.mu is held.
func (l *leases) sorted() []*bucket {
	all := make([]*bucket, 0, len(l.own))
	for _, b := range l.own {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b *bucket) int { return cmp.Or(cmp.Compare(a.taken, b.taken), cmp.Compare(a.n, b.n)) })
	return all
}

// acquire leases up to n buckets that are free or whose lease has ended.
func (l *leases) acquire(ctx context.Context, n int) (got int, err error) {
	l.stay()
	rows, err := l.r.o.Database.Query(ctx, l.r.sql.acquire, l.r.o.Name, l.r.o.Lease.Seconds(), n)
	if err != nil {
		return 0, err
	}
	var b bucket
	var stale bool
	_, err = pgx.ForEachRow(rows, []any{&b.n, &b.generation, &stale}, func() error {
		got++
		if stale {
			l.r.m.stale.Inc()
		}
		l.mu.Lock()
		l.own[b.n] = &bucket{n: b.n, generation: b.generation}
		l.mu.Unlock()
		return nil
	})
	l.r.m.buckets.Set(float64(l.count()))
	if got > 0 {
		l.r.wakeUp()
		l.r.o.Log.Info("leased buckets", "count", got, "of", outbox.Buckets)
	}
	return got, err
}

// sweep releases leases that have ended, and forgets relays that are gone.
func (l *leases) sweep(ctx context.Context) error {
	tag, err := l.r.o.Database.Exec(ctx, l.r.sql.sweep)
	if err != nil {
		return err
	}
	if n := tag.RowsAffected(); n > 0 {
		l.r.m.stale.Add(int(n))
		l.r.o.Log.Warn("released leases that were not renewed", "count", n)
	}
	_, err = l.r.o.Database.Exec(ctx, l.r.sql.forget, "", l.r.o.Lease.Seconds())
	return err
}

// release gives everything back at the end.
func (l *leases) release() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := l.r.o.Database.Exec(ctx, l.r.sql.releaseAll, l.r.o.Name)
	if err == nil {
		_, err = l.r.o.Database.Exec(ctx, l.r.sql.forget, l.r.o.Name, l.r.o.Lease.Seconds())
	}
	if err != nil {
		l.r.o.Log.Warn("leases could not be released, other relays take them over when they end",
			"err", postgres.Explain(err))
	}
	l.forget(l.idle(0))
}

// idle lists the buckets whose rows may be taken, those first whose turn it is; at most n, 0: all.
func (l *leases) idle(n int) (list []int16) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.sorted() {
		if !l.busy[b.n] && !b.leaving && !now.Before(b.paused) {
			list = append(list, b.n)
			if len(list) == n {
				break
			}
		}
	}
	return list
}

// occupy keeps the buckets of a batch from being taken again.
func (l *leases) occupy(buckets []int16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn++
	for _, n := range buckets {
		l.busy[n] = true
		if b := l.own[n]; b != nil {
			b.taken = l.turn
		}
	}
}

// done ends that. Rows of the buckets are not taken during pause.
func (l *leases) done(b *batch, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range b.buckets {
		delete(l.busy, n)
		if own := l.own[n]; own != nil && pause > 0 {
			own.paused = time.Now().Add(pause)
		}
	}
}

// take takes rows for up to n batches. With a backlog, it looks at as many buckets only, in turns, since each is likely
// to have enough rows for a batch. more: there are rows that were not taken.
func (l *leases) take(ctx context.Context, n int, backlog bool) (batches []*batch, more bool, err error) {
	most := 0
	if backlog {
		most = n
	}
	buckets := l.idle(most)
	if len(buckets) == 0 {
		return nil, false, nil
	}
	r := l.r
	began := time.Now()
	limit := n * r.o.Batch
	items, cut, err := r.read(ctx, r.memoryFor(n), r.o.Name, r.o.SendTimeout.Seconds(), buckets, r.o.Batch,
		r.o.Publisher.MaxBytes(), limit)
	if err != nil {
		return nil, false, err
	}
	batches, more = pack(items, n, r.o.Batch)
	more = more || cut || len(items) >= limit
	for _, b := range batches {
		b.taken = began
		l.occupy(b.buckets)
	}
	return batches, more, nil
}
