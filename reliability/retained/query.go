package retained

import (
	"math"

	"github.com/sloengine/sloengine/reliability/wal"
)

// Query selects records. A zero field does not limit.
type Query struct {
	From, To      uint64 // numbers of records, From <= number < To
	ReceivedFrom  int64  // Unix nanoseconds, included
	ReceivedTo    int64  // excluded
	EventFrom     int64  // likewise, of events: the index skips what holds none, and other records may come along
	EventTo       int64
	Service, Type string // likewise
}

func (q *Query) upTo() uint64 {
	if q.To == 0 {
		return math.MaxUint64
	}
	return q.To
}

// wants reports whether a record is selected by its number and receive time, and whether later ones may be.
func (q *Query) wants(rec *wal.Record) (now, later bool) {
	if rec.Seq >= q.upTo() || q.ReceivedTo != 0 && rec.Time >= q.ReceivedTo {
		return false, false
	}
	return rec.Seq >= q.From && rec.Time >= q.ReceivedFrom, true
}

// skips reports whether nothing with these bounds is selected.
func (q *Query) skips(first, next uint64, from, to, eventFrom, eventTo int64) bool {
	return next <= q.From || first >= q.upTo() || to < q.ReceivedFrom || q.ReceivedTo != 0 && from >= q.ReceivedTo ||
		(q.EventFrom != 0 || q.EventTo != 0) && (eventFrom == 0 && eventTo == 0 ||
			q.EventFrom != 0 && eventTo < q.EventFrom || q.EventTo != 0 && eventFrom >= q.EventTo)
}

func (q *Query) skipsFile(f *file) bool {
	if f.err != nil {
		return f.Next <= q.From || f.First >= q.upTo()
	}
	eventFrom, eventTo := f.EventFrom, f.EventTo
	if f.MoreTags { // a block may hold more than the index says
		eventFrom, eventTo = math.MinInt64, math.MaxInt64
	}
	if q.skips(f.First, f.Next, f.From, f.To, eventFrom, eventTo) {
		return true
	}
	if q.Service == "" && q.Type == "" || f.MoreTags {
		return false
	}
	for i := range f.Tags {
		if q.names(&f.Tags[i]) {
			return false
		}
	}
	return true
}

func (q *Query) names(t *Tag) bool {
	return (q.Service == "" || t.Service == q.Service) && (q.Type == "" || t.Type == q.Type)
}

func (q *Query) skipsBlock(f *file, b *Block, next uint64) bool {
	eventFrom, eventTo := b.EventFrom, b.EventTo
	if b.anyTag { // the index claims nothing of its events
		eventFrom, eventTo = math.MinInt64, math.MaxInt64
	}
	if q.skips(b.First, next, b.From, b.To, eventFrom, eventTo) {
		return true
	}
	if q.Service == "" && q.Type == "" || b.anyTag {
		return false
	}
	for _, i := range b.tags {
		if q.names(&f.Tags[i]) {
			return false
		}
	}
	return true
}
