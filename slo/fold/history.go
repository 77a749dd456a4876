package fold

import (
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file answers questions about any time in the past: leaves and hours for what windows can ask, and hours
// beyond.

// MaxRead is the most counts that one ReadRequest gives: groups times spans.
//
// It bounds how long a request holds up the goroutine of the fold: no record is applied meanwhile.
const MaxRead = 200_000

// ReadRequest asks for the counts of some groups of one indicator over spans of
// its choice.
type ReadRequest struct {
	ID     string
	Groups []slo.Group
	// Spans' edges are moved as for Request.Spans. What is kept by the hour counts
	// in the span that holds the start of the hour.
	Spans []slo.Span
}

// ReadResult answers a ReadRequest. Everything in it is a copy.
type ReadResult struct {
	// Known is false for an unknown indicator and for more than MaxRead counts; the
	// rest is then zero.
	Known  bool
	Sliced bool            // bins are those of slices, SliceBins of them
	Edges  []time.Duration // of a Latency indicator

	// Oldest is how far back something is kept: what happened before it is not, and
	// what happened between it and Hourly is kept by the hour only, or by the
	// shortest multiple of a slice's length that is an hour or more. Windows reach
	// back to Hourly.
	Oldest, Hourly time.Time

	// Observed are the times in which the indicator counted and the engine was up,
	// or that were backfilled, as far back as Oldest or further; oldest first, none
	// touching. The last one ends with the last record.
	Observed []slo.Span

	// Parts are set in counts of several folds only: the times that each of them observed, nil for one that did not answer.
	// Observed are then the times that some fold observed, or all of them where slices are judged.
	Parts [][]slo.Span

	Groups [][][]uint64 // per asked group, span and bin; nil for a group that is unknown
}

// Read answers requests at one position of the log. It changes nothing that can
// be seen, and costs the number of groups times that of the buckets in the spans.
//
// The results are in the order of the requests. A request that is not Known does not fail the others.
func (f *Fold) Read(requests []ReadRequest) []ReadResult {
	out := make([]ReadResult, len(requests))
	for i, r := range requests {
		j, ok := slices.BinarySearchFunc(f.inds, r.ID, func(ind *indicator, id string) int { return strings.Compare(ind.spec.ID, id) })
		if ok && len(r.Groups)*len(r.Spans) <= MaxRead {
			out[i] = f.read(f.inds[j], r)
		}
	}
	return out
}

// read answers a request of an indicator that exists, within MaxRead.
func (f *Fold) read(ind *indicator, r ReadRequest) ReadResult {
	out := ReadResult{Known: true, Sliced: ind.slices != nil, Edges: slices.Clone(ind.spec.Edges), Groups: make([][][]uint64, len(r.Groups))}
	if s := ind.slices; s != nil {
		out.Oldest, out.Hourly = unix(s.past.start()*s.per), unix(s.first*s.per)
	} else {
		out.Oldest, out.Hourly = unix(ind.events.past.start()*int64(time.Second)), unix(ind.events.oldest()*int64(time.Second))
	}
	out.Observed = ind.era.observed(f.up.spans)

	var groups []*group
	var asked []int
	for i, values := range r.Groups {
		if g := ind.groups[values.Key()]; g != nil {
			groups, asked = append(groups, g), append(asked, i)
			out.Groups[i] = make([][]uint64, len(r.Spans))
		}
	}
	if len(groups) == 0 {
		return out
	}
	for i, sums := range f.historySums(ind, groups, r.Spans) {
		for k, at := range asked {
			out.Groups[at][i] = sums[k*ind.bins : (k+1)*ind.bins : (k+1)*ind.bins]
		}
	}
	return out
}

// Offer is how many events limits dropped of those that were offered to an indicator in a span, dropped ones among them.
// Of slices only the events of those that are closed and judged are offered.
type Offer struct{ Dropped, Offered uint64 }

// Kept is the share, in [0,1], that no limit dropped.
func (o Offer) Kept() float64 {
	if o.Dropped == 0 {
		return 1
	}
	return 1 - float64(o.Dropped)/float64(o.Offered)
}

// Offers gives, for each of some indicators, what was offered and dropped in a span, whose edges are moved as for
// Request.Spans. It is zero for an unknown indicator. It changes nothing that can be seen, and costs as much as a span of
// Sums for each store that the indicators are in.
func (f *Fold) Offers(ids []string, sp slo.Span) []Offer {
	return f.offers(ids, sp, func(*indicator) bool { return true })
}

// Kept gives, for each of some indicators, the share in [0,1] of the events offered
// to it in a span that no limit dropped: what Loss.Kept says for a span of Sums,
// whose edges are moved alike. It is 1 for an unknown indicator. It changes nothing
// that can be seen; indicators of which nothing was ever dropped cost nothing, the
// others as much as a span of Sums for each store that they are in.
func (f *Fold) Kept(ids []string, sp slo.Span) []float64 {
	out := make([]float64, len(ids))
	for i, o := range f.offers(ids, sp, func(ind *indicator) bool { return ind.dropped != nil }) {
		out[i] = o.Kept()
	}
	return out
}

// offers is Offers of the indicators that some condition holds for, and zero for the others.
func (f *Fold) offers(ids []string, sp slo.Span, counts func(*indicator) bool) []Offer {
	events := map[*store][][]uint64{}
	sliced := map[*sliceStore][][]uint64{}
	spans := []slo.Span{sp}
	out := make([]Offer, len(ids))
	for i, id := range ids {
		j, ok := slices.BinarySearchFunc(f.inds, id, func(ind *indicator, id string) int { return strings.Compare(ind.spec.ID, id) })
		if !ok || !counts(f.inds[j]) {
			continue
		}
		ind := f.inds[j]
		if s := ind.slices; s != nil {
			if sliced[s] == nil {
				sliced[s] = sumSpans(snapAll(spans, s.snap), s.sumWidth(), func(acc []uint64, from, to int64) { f.addRuns(s, acc, from, to) })
			}
			out[i] = ind.offer(sliced[s][0])
			continue
		}
		s := ind.events
		if events[s] == nil {
			events[s] = sumSpans(snapAll(spans, s.snap), int(s.cols.n), func(acc []uint64, from, to int64) { s.addAll(acc, from, to, f.clock) })
		}
		out[i] = ind.offer(events[s][0])
	}
	return out
}
