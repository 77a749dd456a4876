package fleet

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// Part is what one engine counted of a group in a window.
type Part struct {
	Engine   string
	Stale    bool      // it is not in the sums: the counts are those of its last answer
	Answered time.Time // when that came; zero if it gave none
	Bins     []uint64  // nil if it gave none, or does not know the group
	Other    bool      // it may have counted events of the group in its "other" group
}

// Parts are what each engine counted of a group of an indicator, in the window of the last report that begins at a
// time. It is nil for an indicator of slices, of which engines have no judgement of their own, and for an unknown one.
func (f *Fleet) Parts(id string, g slo.Group, from time.Time) []Part {
	f.mu.Lock()
	defer f.mu.Unlock()
	window := slices.IndexFunc(f.req.Spans, func(s slo.Span) bool { return s.From.Equal(from) })
	if f.cfg == nil || window < 0 {
		return nil
	}
	if !slices.ContainsFunc(f.cfg.Indicators, func(ind fold.Indicator) bool { return ind.ID == id && ind.Slice == nil }) {
		return nil
	}
	out := make([]Part, len(f.engines))
	for i := range f.engines {
		e := &f.engines[i]
		p := &out[i]
		p.Engine, p.Stale, p.Answered = e.status.Name, e.status.State != OK, e.status.Answered
		if e.last == nil {
			p.Answered = time.Time{}
			continue
		}
		for k := range e.last.Groups {
			x := &e.last.Groups[k]
			if x.Indicator.ID != id {
				continue
			}
			if slices.Equal(x.Values, g) {
				p.Bins, p.Other = slices.Clone(x.Spans[window]), false
				break
			}
			p.Other = p.Other || x.Values.IsOther()
		}
	}
	return out
}
