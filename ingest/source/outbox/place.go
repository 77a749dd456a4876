package outbox

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/outbox"
)

// place is how far the way xid is in one bucket of the table: all rows of transactions before xid are in the log, and
// of xid itself those with an id up to id.
type place struct {
	xid uint64
	id  int64 // before the first: none
}

const noID = math.MinInt64

func (p place) before(xid uint64, id int64) bool { return p.xid < xid || p.xid == xid && p.id < id }

// identity distinguishes a table from others of its name, such as that of a restored copy or one that was
// created later.
type identity struct {
	system     uint64 // of the database cluster
	oid        uint32
	generation uint32 // raised when the cluster has gone back in time
}

func (i identity) id() (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], i.system)
	binary.BigEndian.PutUint32(id[8:], i.oid)
	binary.BigEndian.PutUint32(id[12:], i.generation)
	return id
}

func parseIdentity(id [16]byte) identity {
	return identity{binary.BigEndian.Uint64(id[:]), binary.BigEndian.Uint32(id[8:]), binary.BigEndian.Uint32(id[12:])}
}

// within is the suffix of the streams that say how far a bucket is within a transaction that has more rows than a
// batch.
const within = "/transaction"

// withinID is the ID of such a stream. Another transaction has another ID, so the position in the previous stream is
// forgotten.
func withinID(table [16]byte, xid uint64) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], xxh3.Hash(table[:]))
	binary.BigEndian.PutUint64(id[8:], xid)
	return id
}

// places are those of all buckets. The goroutine of the source owns them.
type places struct {
	table string // as the log has it
	self  identity
	at    [outbox.Buckets]place
	known [outbox.Buckets]bool // the log has a place
	full  time.Time            // when the log got the places of all buckets
	// backlog is the transaction before which rows were there when the source took the table up for the first time.
	backlog uint64
}

// load takes over the position of the table from the log, if it is the same table. old is the position of another
// table of its name.
func (p *places) load(progress []position.Progress, self identity) (old *identity) {
	p.self, p.backlog = self, 0
	for i := range p.at {
		p.at[i], p.known[i] = place{0, noID}, false
	}
	for i := range progress {
		s := &progress[i].Stream
		if s.Name != p.table {
			continue
		}
		switch id := parseIdentity(s.ID); {
		case id.system != self.system || id.oid != self.oid:
			old = &id
		case id.generation > p.self.generation:
			p.self.generation = id.generation
		}
	}
	id := p.self.id()
	for i := range progress {
		x := &progress[i]
		if x.Stream.Name != p.table || x.Stream.ID != id || x.Stream.Partition < 0 || x.Stream.Partition >= outbox.Buckets {
			continue
		}
		if next, ok := x.Next(); ok {
			p.at[x.Stream.Partition], p.known[x.Stream.Partition] = place{uint64(next), noID}, true
			p.backlog = max(p.backlog, uint64(x.Backlog))
			old = nil
		}
	}
	for i := range progress {
		x := &progress[i]
		bucket := x.Stream.Partition
		if x.Stream.Name != p.table+within || bucket < 0 || bucket >= outbox.Buckets || !p.known[bucket] {
			continue
		}
		if next, ok := x.Next(); ok && x.Stream.ID == withinID(id, p.at[bucket].xid) {
			p.at[bucket].id = next - 1
		}
	}
	return old
}

// first is the place before which no bucket of this engine has a row to be read.
func (p *places) first(owned []int) place {
	least := place{math.MaxUint64, 0}
	for _, b := range owned {
		if at := p.at[b]; at.xid < least.xid || at.xid == least.xid && at.id < least.id {
			least = at
		}
	}
	return least
}

// highest is the highest transaction that any bucket has reached.
func (p *places) highest() (xid uint64) {
	for i := range p.at {
		if p.known[i] {
			xid = max(xid, p.at[i].xid)
		}
	}
	return xid
}

// claimed is the place of a batch: that of all its rows, for the buckets in it.
type claimed struct {
	source  string
	places  *places
	batch   *source.Batch // nil: of no rows
	buckets []int         // ascending
	owned   []int         // all that this engine has
	to      place

	rows    []rowPlace // by source.Message.Stream
	scratch []position.Progress
}

type rowPlace struct {
	xid    uint64
	id     int64
	bucket int16
}

// AppendPosition implements engine.Position. Rows with events that are not decided yet, and those behind them, are left
// out: decided ones among these count once by their key.
func (c *claimed) AppendPosition(dst []byte, undecided []int32) []byte {
	to := c.to
	if len(undecided) > 0 {
		first := math.MaxInt
		c.batch.Undecided(undecided, func(row int, _ int64, _ []int32) { first = min(first, row) })
		r := c.rows[first]
		to = place{r.xid, r.id - 1}
	}
	progress := c.scratch[:0]
	id := c.places.self.id()
	for _, b := range c.buckets {
		at := c.places.at[b]
		if !at.before(to.xid, to.id) {
			continue
		}
		bucket := position.Progress{
			Stream: position.Stream{Name: c.places.table, ID: id, Partition: int32(b)},
			Ranges: []position.Range{{From: 0, To: int64(to.xid)}},
		}
		if at.xid < c.places.backlog { // a restart needs it until the rows are read
			bucket.Backlog = int64(c.places.backlog)
		}
		progress = append(progress, bucket)
		if to.id != noID {
			progress = append(progress, position.Progress{
				Stream: position.Stream{Name: c.places.table + within, ID: withinID(id, to.xid), Partition: int32(b)},
				Ranges: []position.Range{{From: 0, To: to.id + 1}},
			})
		}
	}
	c.scratch = progress
	if len(progress) == 0 {
		return dst
	}
	return position.Append(dst, c.source, progress)
}

// note takes over that the batch is durable. Buckets that have no row in it are that far as well. The log may learn it
// later.
func (c *claimed) note(now time.Time) {
	for _, b := range c.owned {
		if c.places.at[b].before(c.to.xid, c.to.id) {
			c.places.at[b] = c.to
		}
		c.places.known[b] = true
	}
	if len(c.buckets) == len(c.owned) {
		c.places.full = now
	}
}

// add notes a row of the batch, and is its number for source.Message.Stream.
func (c *claimed) add(r *row) int {
	c.rows = append(c.rows, rowPlace{r.xid, r.id, r.bucket})
	if i, found := slices.BinarySearch(c.buckets, int(r.bucket)); !found {
		c.buckets = slices.Insert(c.buckets, i, int(r.bucket))
	}
	return len(c.rows) - 1
}
