package outbox

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Source takes the rows of its table, from Run until its end.
type Source struct {
	o       Options
	set     resolved
	in      *source.Intake
	headers map[string]string
	show    shown
	wake    chan struct{} // holds one token once a notification has come

	// The goroutine of Run owns these.
	places   places
	loaded   bool    // places are ahead of Options.Positions
	unmarked []int64 // rows of the way claim that are durable and not marked
}

// New makes a Source. It connects to nothing.
func New(o Options) (*Source, error) {
	o.applyDefaults()
	if o.Intake == nil || o.Metrics == nil {
		return nil, errors.New("outbox source: Intake and Metrics are required")
	}
	set, err := o.Settings.resolve(o.Hostname)
	if err != nil {
		return nil, err
	}
	if err := o.Database.Validate(); err != nil {
		return nil, err
	}
	s := &Source{o: o, set: set, in: o.Intake, headers: maps.Clone(o.Headers), wake: make(chan struct{}, 1)}
	s.places.table = set.table.Name.Text()
	if set.listen {
		if err := o.listener().Validate(); err != nil {
			return nil, fmt.Errorf("listen_%w", err)
		}
	}
	s.show.init(o.Metrics, o.Intake, set.Way)
	return s, nil
}

// maxDelay is the longest wait between attempts, and minDelay the first one.
const (
	minDelay = 500 * time.Millisecond
	maxDelay = 15 * time.Second
)

// Run takes rows until ctx ends. Every failed step is retried from the durable position. Run only returns an
// error for settings that have become invalid.
func (s *Source) Run(ctx context.Context) error {
	defer s.show.end()
	pool, err := postgres.Open(s.o.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	if s.set.listen {
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(ctx)
		defer func() { cancel(); <-done }()
		go func() {
			defer close(done)
			s.listen(ctx)
		}()
	}
	delay := minDelay
	for {
		began := s.o.Now()
		err := s.session(ctx, pool)
		if ctx.Err() != nil || errors.Is(err, engine.ErrStopping) || errors.Is(err, engine.ErrPoisoned) {
			return nil
		}
		if s.o.Now().Sub(began) > time.Minute {
			delay = minDelay
		}
		if errors.Is(err, errAnother) {
			continue
		}
		s.failed(err)
		if !retry.Sleep(ctx, delay) {
			return nil
		}
		delay = min(2*delay, maxDelay)
	}
}

// listen makes the source read as soon as a notification comes, and after each new connection, since others may have
// been missed before.
func (s *Source) listen(ctx context.Context) {
	wake := func() {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	postgres.Listen(ctx, s.o.listener(), s.set.ListenChannel, wake, func(err error) {
		if err == nil {
			s.in.Works(source.TroubleConnection, listenName)
			return
		}
		_, brief := classify(err)
		s.in.Fails(source.TroubleConnection, listenName,
			"notifications do not come, so the table is read at intervals: "+brief, err.Error())
	})
}

const listenName = "listen_dsn"

// session is the use of a table that was checked. Its fields belong to the goroutine of Run.
type session struct {
	s     *Source
	pool  *postgres.Pool
	q     *statements
	owned []int // buckets, ascending

	oid        uint32
	generation string // the beginning of the table's identity
	limit      int    // rows of the next read
	after      int64  // where the next read of the way claim begins
	measured   time.Time
	msg        source.Message
	heads      headers
}

func (s *Source) session(ctx context.Context, pool *postgres.Pool) error {
	x := &session{s: s, pool: pool, limit: min(firstRead, s.set.Batch), after: noID}
	for b := range outbox.Buckets {
		if b%s.set.Engines == s.set.ordinal {
			x.owned = append(x.owned, b)
		}
	}
	if err := x.begin(ctx); err != nil {
		return err
	}
	s.works()
	for ctx.Err() == nil {
		if now := s.o.Now(); now.Sub(x.measured) >= s.set.Refresh {
			x.measured = now
			if err := x.measure(ctx); err != nil {
				return err
			}
		}
		more, err := x.step(ctx)
		if err != nil {
			return err
		}
		s.works()
		if more {
			continue
		}
		retry.SleepOr(ctx, s.set.Poll, s.wake)
	}
	return nil
}

// firstRead is how many rows are read first. The number follows how many fit into a batch.
const firstRead = 100

// begin checks the table, and finds the position in it.
func (x *session) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	s := x.s
	schema, err := outbox.Check(ctx, x.pool, s.set.table, s.set.need())
	if err != nil {
		return err
	}
	s.places.table = schema.Table.Text()
	set := s.set
	if schema.Key != set.table.Columns.IdempotencyKey {
		set.table = set.table.WithKey("") // rows are known by their place
	}
	x.q = set.statements(schema.PayloadType, s.headers, s.o.Most)
	var self identity
	var xmin, xmax uint64
	if self, xmin, xmax, err = x.identify(ctx); err != nil {
		return err
	}
	x.oid = self.oid
	if s.set.Way == Claim {
		if id := self.id(); s.places.self != self {
			if s.places.self != (identity{}) {
				s.show.note(s.places.table, "the table was dropped and created again",
					fmt.Sprintf("its identity changed to %x", id))
			}
			s.places.self, s.unmarked = self, nil
		}
		id := self.id()
		x.generation = hex.EncodeToString(id[4:12])
		return x.mark(ctx)
	}
	return x.locate(ctx, self, xmin, xmax)
}

// identify reads the identity of the table and the running transactions.
func (x *session) identify(ctx context.Context) (self identity, xmin, xmax uint64, err error) {
	var system int64
	var oid *uint32
	err = x.pool.QueryRow(ctx, `SELECT (pg_control_system()).system_identifier, to_regclass($1)::oid,
		pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint`,
		x.s.set.table.Name.String()).
		Scan(&system, &oid, &xmin, &xmax)
	if err == nil && oid == nil {
		return self, 0, 0, errAnother // it was dropped just now
	}
	if err != nil {
		return self, 0, 0, err
	}
	return identity{system: uint64(system), oid: *oid}, xmin, xmax, nil
}

// locate finds the position in the table. A table that is not the one that the log knows, and one that was restored
// to an earlier time, is read from its beginning: rows that were counted before count once by their key.
func (x *session) locate(ctx context.Context, self identity, xmin, xmax uint64) error {
	s := x.s
	p := &s.places
	before := p.self
	if !s.loaded || before.system != self.system || before.oid != self.oid {
		var old *identity
		if s.loaded {
			old = &before
			p.load(nil, self)
		} else {
			old = p.load(s.o.Positions, self)
			s.loaded = true
		}
		if old != nil {
			brief := "the table was dropped and created again"
			if old.system != self.system {
				brief = "the table is in another database cluster, such as one restored from a dump"
			}
			s.show.note(p.table, brief+"; it is read from its beginning",
				fmt.Sprintf("its identity changed from %x/%d to %x/%d", old.system, old.oid, self.system, self.oid))
		}
	}
	if highest := p.highest(); highest > xmax {
		next := self
		next.generation = p.self.generation + 1
		p.load(nil, next)
		s.show.note(p.table, "the database was restored to an earlier time; the table is read from its beginning",
			fmt.Sprintf("the source has read up to transaction %d, and the next one is %d", highest, xmax))
	}
	id := p.self.id()
	x.generation = hex.EncodeToString(id[4:])
	fresh := true
	for _, b := range x.owned {
		fresh = fresh && !p.known[b]
	}
	switch {
	case fresh && s.set.Start == Latest:
		// Positions are durable before the first row is read, so that a crash does not skip rows.
		return x.submit(
			ctx, nil, &claimed{source: s.in.Name(), places: p, buckets: x.owned, owned: x.owned, to: place{xmin, noID}})
	case fresh:
		p.backlog = xmax
	}
	return nil
}

// step reads rows, makes their events durable, and reports whether there may be more.
func (x *session) step(ctx context.Context) (more bool, err error) {
	var batches [2]*source.Batch // of rows that are counted live, and of those that are backfilled
	defer func() {
		for _, b := range batches {
			if b != nil {
				b.Release()
			}
		}
	}()
	var busy func() // set once there is a row
	defer func() {
		if busy != nil {
			busy()
		}
	}()
	c := &claimed{source: x.s.in.Name(), places: &x.s.places, owned: x.owned}
	var ids []int64
	limit, full, began := x.limit, false, x.after
	var last row
	read, err := x.each(ctx, limit, func(r *row) bool {
		if busy == nil {
			busy = x.s.in.Busy()
		}
		last.xid, last.id, last.xmin = r.xid, r.id, r.xmin
		if x.s.set.Way == XID && !x.s.places.at[r.bucket&(outbox.Buckets-1)].before(r.xid, r.id) {
			return true // read again because another bucket is behind
		}
		x.message(r, &x.msg)
		i := 0
		backfill := x.s.in.Backfills(&x.msg)
		if backfill {
			i = 1
		}
		if batches[i] == nil {
			batches[i] = x.s.in.Batch(backfill)
		}
		if x.s.set.Way == XID {
			x.msg.Stream = c.add(r)
		} else {
			ids = append(ids, r.id)
		}
		batches[i].Add(&x.msg)
		full = batches[i].Full()
		return !full
	})
	if err != nil {
		return false, err
	}
	// Marked rows stay in the index until a vacuum, so a read continues behind them. When it finds no more rows, it
	// starts over and finds rows that committed late.
	x.after = noID
	if read == 0 {
		return began != noID, nil
	}
	if more = full || read == limit; more {
		x.after = last.id
	}
	if full {
		x.limit = max(1, read)
	} else {
		x.limit = min(2*x.limit, x.s.set.Batch)
	}
	if x.s.set.Way == Claim {
		for _, b := range batches {
			if err := x.submit(ctx, b, nil); err != nil {
				return false, err
			}
		}
		x.s.unmarked = append(x.s.unmarked, ids...)
		return more, x.mark(ctx)
	}
	if c.to = (place{last.xmin, noID}); more {
		c.to = place{last.xid, last.id}
	}
	if x.s.o.Now().Sub(x.s.places.full) > fullEvery {
		c.buckets = x.owned
	}
	// The position comes with the last batch, whose rows are the only ones that can be undecided then.
	final := batches[1]
	if batches[0] != nil {
		if err := x.submit(ctx, batches[1], nil); err != nil {
			return false, err
		}
		final = batches[0]
	}
	return more, x.submit(ctx, final, c)
}

// fullEvery is how often the log gets the places of all buckets. In between it gets those of buckets that have rows.
const fullEvery = 10 * time.Second

// submit makes a batch durable, which may be nil, and its position.
func (x *session) submit(ctx context.Context, b *source.Batch, c *claimed) error {
	if b == nil && c == nil {
		return nil
	}
	if b == nil {
		b = x.s.in.Batch(false)
		defer b.Release()
	}
	if c == nil {
		return x.s.in.Submit(ctx, b, nil)
	}
	c.batch = b
	if err := x.s.in.Submit(ctx, b, c); err != nil {
		return err
	}
	c.note(x.s.o.Now())
	return nil
}

var _ engine.Position = (*claimed)(nil)
