package fold

import (
	"slices"
	"strings"

	"github.com/sloengine/sloengine/slo"
)

// Kept gives, for each of some indicators, the share in [0,1] of the events offered
// to it in a span that no limit dropped: what Loss.Kept says for a span of Sums,
// whose edges are moved alike. It is 1 for an unknown indicator. It changes nothing
// that can be seen; indicators of which nothing was ever dropped cost nothing, the
// others as much as a span of Sums for each store that they are in.
func (f *Fold) Kept(ids []string, sp slo.Span) []float64 {
	events := map[*store][][]uint64{}
	sliced := map[*sliceStore][][]uint64{}
	spans := []slo.Span{sp}
	out := make([]float64, len(ids))
	for i, id := range ids {
		out[i] = 1
		j, ok := slices.BinarySearchFunc(f.inds, id, func(ind *indicator, id string) int { return strings.Compare(ind.spec.ID, id) })
		if !ok || f.inds[j].dropped == nil {
			continue
		}
		ind := f.inds[j]
		if s := ind.slices; s != nil {
			if sliced[s] == nil {
				sliced[s] = sumSpans(snapAll(spans, s.snap), s.sumWidth(), func(acc []uint64, from, to int64) { f.addRuns(s, acc, from, to) })
			}
			out[i] = ind.loss(sliced[s]).Kept(0)
			continue
		}
		s := ind.events
		if events[s] == nil {
			events[s] = sumSpans(snapAll(spans, s.snap), int(s.cols.n), func(acc []uint64, from, to int64) { s.addAll(acc, from, to, f.clock) })
		}
		out[i] = ind.loss(events[s]).Kept(0)
	}
	return out
}
