package fleet

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/internal/binread"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// maxGroups is how many groups an answer may have. A group takes much more memory than it has bytes.
const maxGroups = 1 << 20

// Decode reads an answer to a request. Its indicators are those of cfg, by ID: an answer that counts others, or in
// another way, does not fit. Groups must come in their order, which is what adding up relies on.
func Decode(data []byte, cfg *fold.Config, req *fold.Request) (*Answer, error) {
	if len(data) == 0 || data[0] != FormatVersion {
		return nil, ErrFormat
	}
	r := reader{binread.New(data[1:])}
	var h answerHead
	if json.Unmarshal(r.Bytes(), &h) != nil {
		return nil, ErrFormat
	}
	a := &Answer{Run: h.Run, Request: h.Request, Sums: h.Sums}
	if a.Sums != nil {
		if err := r.sums(a.Sums, cfg, req); err != nil {
			return nil, err
		}
		if h.Notes != nil {
			a.Notes = *h.Notes
		}
		if err := a.Notes.check(); err != nil {
			return nil, err
		}
	}
	a.Raw = r.raw()
	if !r.Done() {
		return nil, ErrFormat
	}
	return a, nil
}

// sums completes and checks the sums of an answer.
func (r *reader) sums(s *fold.Sums, cfg *fold.Config, req *fold.Request) error {
	s.Now, s.Groups, s.Eras = req.Now, nil, nil
	n := r.Count(4)
	if !r.Bad() && n != len(cfg.Indicators) {
		return fmt.Errorf("it counts %d indicators instead of %d (give the view and all engines the same sources)", n,
			len(cfg.Indicators))
	}
	for i := range n {
		if err := r.indicator(s, &cfg.Indicators[i], req); err != nil {
			return err
		}
	}
	for i := range s.Durations {
		if d := &s.Durations[i]; len(d.Counts) != len(d.Buckets)+1 {
			return ErrFormat
		}
	}
	if r.Bad() || !completeInFlight(s.InFlight, cfg) {
		return ErrFormat
	}
	return nil
}

func (r *reader) indicator(s *fold.Sums, ind *fold.Indicator, req *fold.Request) error {
	e := fold.Era{Indicator: r.Text(), Generation: uint32(r.Uint()), Since: r.time(), Backfilled: r.spans()}
	if r.Bad() {
		return ErrFormat
	}
	if e.Indicator != ind.ID {
		return fmt.Errorf("it counts %q in the place of %q", e.Indicator, ind.ID)
	}
	if dropped := r.Counts(); len(dropped) == len(req.Spans) {
		e.Loss = &fold.Loss{Dropped: dropped, Offered: make([]uint64, len(dropped))}
	} else if len(dropped) > 0 {
		return ErrFormat
	}
	s.Eras = append(s.Eras, e)
	spans := len(req.Spans) + len(req.Extra[ind.ID])
	n := r.Count(2)
	first := len(s.Groups)
	if first+n > maxGroups {
		return fmt.Errorf("it counts more than %d groups", maxGroups)
	}
	s.Groups = slices.Grow(s.Groups, min(n, 1<<14))
	bins := binsOf(ind)
	for range n {
		g := fold.Group{Indicator: ind, Values: r.texts(), Generation: e.Generation, Since: e.Since}
		g.LastEvent = r.time()
		if ind.Slice == nil {
			g.Total, g.Old = r.Counts(), r.Counts()
			if have := int(r.Uint()); !r.Bad() &&
				(have != spans || len(g.Total) != bins || len(g.Old) != 0 && len(g.Old) != bins || len(r.Rest) < spans*bins) {
				return ErrFormat
			}
			flat := make([]uint64, spans*bins)
			for i := range flat {
				flat[i] = r.Uint()
			}
			g.Spans = make([][]uint64, spans)
			for i := range g.Spans {
				g.Spans[i] = flat[i*bins : (i+1)*bins : (i+1)*bins]
			}
			if g.Excess = r.Counts(); len(g.Excess) != 0 && len(g.Excess) != spans {
				return ErrFormat
			}
			if err := r.moved(&g, bins); err != nil {
				return err
			}
		}
		if r.Bad() || len(g.Values) != len(ind.GroupBy) {
			return ErrFormat
		}
		if k := len(s.Groups); k > first && compareValues(s.Groups[k-1].Values, g.Values) >= 0 {
			return ErrFormat
		}
		s.Groups = append(s.Groups, g)
	}
	return nil
}

// moved reads what alert conditions count at another time.
func (r *reader) moved(g *fold.Group, bins int) error {
	n := r.Count(2)
	if n > 0 && n != fold.Shifts {
		return ErrFormat
	}
	for range n {
		var m fold.Shift
		if k := r.Count(1); k > 0 {
			m.Spans = make([][]uint64, k)
		}
		for i := range m.Spans {
			if m.Spans[i] = r.Counts(); len(m.Spans[i]) != 0 && len(m.Spans[i]) != bins {
				return ErrFormat
			}
		}
		m.Excess = r.Counts()
		for _, k := range [2]int{len(m.Spans), len(m.Excess)} {
			if k != 0 && k != len(g.Spans) {
				return ErrFormat
			}
		}
		g.Moved = append(g.Moved, m)
	}
	return nil
}

// binsOf is how many counts a group of an indicator has in a span.
func binsOf(ind *fold.Indicator) int {
	switch {
	case ind.Slice != nil:
		return fold.SliceBins
	case ind.Kind == fold.Latency:
		return len(ind.Edges) + 1
	}
	return 2
}

// compareValues orders groups as sums do: by values, the "other" group last.
func compareValues(a, b slo.Group) int {
	if x, y := a.IsOther(), b.IsOther(); x != y {
		if x {
			return 1
		}
		return -1
	}
	return slices.Compare(a, b)
}

func (r *reader) raw() fold.RawSlices {
	out := fold.RawSlices{Clock: r.Uint(), Config: r.Uint()}
	for range r.Count(6) {
		s := fold.RawStore{Per: time.Duration(r.Varint()), Keep: time.Duration(r.Varint()),
			First: r.Varint(), Next: r.Varint()}
		for range r.Count(5) {
			c := fold.RawColumn{At: uint32(min(r.Uint(), math.MaxUint32)), Indicator: r.Text(),
				Values: r.texts(), From: r.Varint()}
			c.Dropped = r.Bool()
			s.Columns = append(s.Columns, c)
		}
		for range r.Count(2) {
			s.Blocks = append(s.Blocks, fold.RawBlock{Number: r.Varint(), Data: r.Bytes()})
		}
		out.Stores = append(out.Stores, s)
	}
	out.More = r.Bool()
	out.Next = fold.RawCursor{Store: int(min(r.Uint(), 1<<20)), Slice: r.Varint()}
	return out
}
