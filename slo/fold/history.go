package fold

import (
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// MaxPoints is the most points that History gives.
const MaxPoints = 20_000

// Point is what a group counted from Start to the next point's Start.
type Point struct {
	Start time.Time
	Bins  []uint64 // the indicator's, or SliceBins of a sliced one
}

// History gives the counts of one group over time: of each step from from on, up
// to to. Edges are moved as for Request.Spans; what is kept by the hour counts in
// the step that holds the start of the hour, see ReadResult.Hourly. It is nil for
// an unknown indicator or group, a span without length, and more than MaxPoints
// steps.
func (f *Fold) History(id string, values slo.Group, from, to time.Time, step time.Duration) []Point {
	i, ok := slices.BinarySearchFunc(f.inds, id, func(ind *indicator, id string) int { return strings.Compare(ind.spec.ID, id) })
	if !ok || step <= 0 || !to.After(from) || to.Sub(from)/step >= MaxPoints {
		return nil
	}
	ind := f.inds[i]
	g := ind.groups[values.Key()]
	if g == nil {
		return nil
	}
	var spans []slo.Span
	for at := from; at.Before(to); at = at.Add(step) {
		end := at.Add(step)
		if end.After(to) {
			end = to
		}
		spans = append(spans, slo.Span{From: at, To: end})
	}
	out := make([]Point, len(spans))
	for i, sums := range f.historySums(ind, []*group{g}, spans) {
		out[i] = Point{Start: spans[i].From, Bins: sums[:ind.bins:ind.bins]}
	}
	return out
}
