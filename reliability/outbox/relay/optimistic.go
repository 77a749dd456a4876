package relay

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/reliability/retry"
)

// optimistic claims rows one by one: it reads rows and sets those PROCESSING whose version is still the one that it
// read. Every write increases the version, so a result is written only under the version of the claim. Rows of a key
// may be claimed by several relays at once, so they are published in no particular order.
type optimistic struct {
	r *Relay

	// The feed owns these.
	unknown   []result // of rows whose claim was asked for and not confirmed, so that it may stand in the table
	contended bool     // the last take lost claims
}

const (
	// contendedSpread is from how many times as many rows a take chooses at random after it has lost claims to another
	// relay, which otherwise would go for the same rows again.
	contendedSpread = 8
	// staleBatch is how many stale claims one statement releases.
	staleBatch = 1000
)

func (c *optimistic) count() int { return 0 }

// take reads rows for up to n batches and claims them. more: there are rows that were not taken.
func (c *optimistic) take(ctx context.Context, n int, _ bool) (batches []*batch, more bool, err error) {
	if err := c.releaseUnknown(ctx); err != nil {
		return nil, false, err
	}
	r := c.r
	limit := n * r.o.Batch
	window := limit
	if c.contended {
		window *= contendedSpread
	}
	began := time.Now()
	items, cut, err := r.read(ctx, r.memoryFor(n), window, limit, r.o.Publisher.MaxBytes())
	if err != nil || len(items) == 0 {
		c.contended = false
		return nil, false, err
	}
	claimed, err := c.claim(ctx, items)
	if err != nil {
		return nil, false, err
	}
	lost := len(items) - len(claimed)
	r.m.lostVersions.Add(lost)
	c.contended = lost > 0
	for rest := claimed; len(rest) > 0; {
		size := min(len(rest), r.o.Batch)
		batches = append(batches, &batch{items: rest[:size], taken: began})
		rest = rest[size:]
	}
	return batches, cut || lost > 0 || len(items) >= limit, nil
}

// claim sets the rows PROCESSING that were not changed since they were read, and returns them.
func (c *optimistic) claim(ctx context.Context, items []*item) (claimed []*item, err error) {
	r := c.r
	ctx, cancel := context.WithTimeout(ctx, r.o.SendTimeout)
	defer cancel()
	ids, created, versions := make([]int64, len(items)), make([]pgtype.Timestamptz, len(items)), make([]int64, len(items))
	for i, it := range items {
		ids[i], created[i], versions[i] = it.ID, it.StoredAt, it.generation
		it.generation++ // that of the claim
	}
	got := make(map[int64]bool, len(items))
	rows, err := r.o.Database.Query(ctx, r.sql.claim, r.o.Name, ids, created, versions)
	if err == nil {
		var id int64
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error { got[id] = true; return nil })
	}
	if err != nil {
		c.unknown = append(c.unknown, released(items, 0)...)
		return nil, err
	}
	for _, it := range items {
		if got[it.ID] {
			claimed = append(claimed, it)
		}
	}
	return claimed, nil
}

// releaseUnknown releases the claims that may stand in the table although their answer was lost.
func (c *optimistic) releaseUnknown(ctx context.Context) error {
	if len(c.unknown) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.r.o.SendTimeout)
	defer cancel()
	if _, err := c.r.store(ctx, c.unknown); err != nil {
		return err
	}
	c.unknown = nil
	return nil
}

// released are results that make rows PENDING again, as they were before they were claimed.
func released(items []*item, delay time.Duration) []result {
	results := make([]result, len(items))
	for i, it := range items {
		results[i] = result{item: it, status: outbox.Pending, attempts: it.Attempts, delay: delay,
			err: it.Error, released: true}
	}
	return results
}

// refuse releases rows whose sending has said nothing about them.
func (c *optimistic) refuse(items []*item, delay time.Duration) []result {
	return released(items, delay)
}

func (c *optimistic) done(*batch, time.Duration) {}

func (c *optimistic) lost() { c.r.m.lostVersions.Inc() }

// run releases stale claims, those of relays that were killed, until ctx ends.
func (c *optimistic) run(ctx context.Context) {
	for wait := time.Duration(0); retry.Sleep(ctx, wait); wait = c.r.roundEvery() {
		limited, cancel := context.WithTimeout(ctx, c.r.o.Lease/3)
		err := c.sweep(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			c.r.databaseFailed(ctx, "release stale claims", err)
		default:
			c.r.database.is(nil)
		}
	}
}

// sweep releases the claims that are older than the lease by the database's clock.
func (c *optimistic) sweep(ctx context.Context) error {
	for {
		tag, err := c.r.o.Database.Exec(ctx, c.r.sql.sweep, c.r.o.Lease.Seconds(), staleBatch)
		if err != nil {
			return err
		}
		n := int(tag.RowsAffected())
		if n > 0 {
			c.r.m.stale.Add(n)
			c.r.o.Log.Warn("released claims that their relay left", "rows", n)
			c.r.wakeUp()
		}
		if n < staleBatch {
			return nil
		}
	}
}

func (c *optimistic) release() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := c.r.o.Database.Exec(ctx, c.r.sql.releaseAll, c.r.o.Name); err != nil {
		c.r.o.Log.Warn("claims could not be released, other relays take the rows over when the lease ends",
			"err", postgres.Explain(err))
	}
}
