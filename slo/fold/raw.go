package fold

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file gives the raw counts of slices to whoever adds up several folds. The threshold of a slice applies to what
// all folds counted in it together, so judgements cannot be added, and counts must travel.

// RawRequest asks for the slices that changed.
type RawRequest struct {
	Since uint64    // RawSlices.Clock of an earlier answer; 0 asks for all slices
	From  RawCursor // RawSlices.Next of the answer before; zero for the first
	Bytes int       // most bytes of counts in the answer, at least one slice
}

// RawCursor is a place in the slices of all stores. The zero value is their start.
type RawCursor struct {
	Store int   // index into RawSlices.Stores
	Slice int64 // number of a slice
}

// RawSlices are raw counts of slices at one position of the log. Everything in it is a copy.
type RawSlices struct {
	Clock  uint64 // what Since is the next time, once Next has been followed to its end
	Config uint64 // differs between configurations: what an earlier one counted is to be forgotten
	Stores []RawStore
	More   bool      // the answer was cut at Bytes
	Next   RawCursor // where it was cut
}

// RawStore are the slices of one length and retention.
type RawStore struct {
	Per, Keep   time.Duration
	First, Next int64 // slices [First, Next) are kept and closed; slices are numbered from the Unix epoch
	Columns     []RawColumn
	Blocks      []RawBlock // by number; open slices are among them
}

// RawColumn says whose counts a column holds.
type RawColumn struct {
	At        uint32
	Indicator string
	Values    slo.Group
	From      int64 // Unix nanoseconds from which on the group exists, as empty slices count
	Dropped   bool  // events that limits dropped; it has no values
}

// RawBlock are the counts of one slice, of all groups that have some. It replaces what an earlier answer gave.
type RawBlock struct {
	Number int64
	Data   []byte // for each column, rising: the difference to the one before, good and bad, as uvarints
}

// Raw answers a request for raw counts of slices. It changes nothing, and costs the number of slices that are kept plus
// that of the counts in those that changed.
func (f *Fold) Raw(r RawRequest) RawSlices {
	out := RawSlices{Clock: f.clock, Config: f.cfgVersion}
	for _, s := range f.slices {
		out.Stores = append(out.Stores, s.rawStore())
	}
	left := max(1, r.Bytes)
	for i := min(max(0, r.From.Store), len(f.slices)); i < len(f.slices); i++ {
		s, store := f.slices[i], &out.Stores[i]
		at := int64(0)
		if i == r.From.Store {
			at = max(0, r.From.Slice-s.first)
		}
		for ; at < int64(len(s.blocks)); at++ {
			b := &s.blocks[at]
			if b.ver <= r.Since || r.Since == 0 && b.cells == nil {
				continue
			}
			if left <= 0 {
				out.More, out.Next = true, RawCursor{i, s.first + at}
				return out
			}
			data := appendRaw(nil, b)
			left -= len(data) + 8
			store.Blocks = append(store.Blocks, RawBlock{s.first + at, data})
		}
	}
	return out
}

// rawStore is a store without its counts.
func (s *sliceStore) rawStore() RawStore {
	out := RawStore{Per: time.Duration(s.per), Keep: time.Duration(s.keep), First: s.first, Next: s.next}
	for _, ind := range s.inds {
		for _, g := range ind.all() {
			out.Columns = append(out.Columns, RawColumn{
				At: g.col / sliceColumns, Indicator: ind.spec.ID, Values: slices.Clone(g.values), From: g.from,
				Dropped: g == ind.dropped,
			})
		}
	}
	slices.SortFunc(out.Columns, func(a, b RawColumn) int { return cmp.Compare(a.At, b.At) })
	return out
}

// appendRaw encodes the counts of a slice as RawBlock.Data says.
func appendRaw(out []byte, b *block[uint16]) []byte {
	last := uint32(0)
	for c := uint32(0); int(c) < len(b.cells); c += sliceColumns {
		good, bad := b.at(c), b.at(c+1)
		if good == 0 && bad == 0 {
			continue
		}
		at := c / sliceColumns
		out = binary.AppendUvarint(out, uint64(at-last))
		out = binary.AppendUvarint(out, good)
		out = binary.AppendUvarint(out, bad)
		last = at
	}
	return out
}

// readRaw is the inverse of appendRaw. It reports false for data that appendRaw would not write.
func readRaw(data []byte, each func(at uint32, good, bad uint64)) bool {
	r := newReader(data)
	at := uint64(0)
	for len(r.Rest) > 0 {
		at += r.Uint()
		good, bad := r.Uint(), r.Uint()
		if r.Bad() || at > maxColumns {
			return false
		}
		each(uint32(at), good, bad)
	}
	return true
}

// ConfigVersion is RawSlices.Config of the configuration in force.
func (f *Fold) ConfigVersion() uint64 { return f.cfgVersion }
