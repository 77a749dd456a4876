package fold

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file answers questions about any time in the past: leaves and hours for what windows can ask, and beyond that
// counts by the hour, which stay after the retention. Those are for Read only, so they cost no window any time.

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

	// Parts are set in counts of several folds only: the times that each of them observed, nil for one that did not
	// answer. Observed are then the times that some fold observed, or all of them where slices are judged.
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
		j, ok := slices.BinarySearchFunc(f.inds, r.ID, func(ind *indicator, id string) int {
			return strings.Compare(ind.spec.ID, id)
		})
		if ok && len(r.Groups)*len(r.Spans) <= MaxRead {
			out[i] = f.read(f.inds[j], r)
		}
	}
	return out
}

// read answers a request of an indicator that exists, within MaxRead.
func (f *Fold) read(ind *indicator, r ReadRequest) ReadResult {
	out := ReadResult{Known: true, Sliced: ind.slices != nil, Edges: slices.Clone(ind.spec.Edges),
		Groups: make([][][]uint64, len(r.Groups))}
	if s := ind.slices; s != nil {
		out.Oldest, out.Hourly = unix(s.past.start()*s.per), unix(s.first*s.per)
	} else {
		out.Oldest, out.Hourly = unix(ind.events.past.start()*int64(time.Second)),
			unix(ind.events.oldest()*int64(time.Second))
	}
	out.Observed = ind.era.observed(f.upFrom(ind.era))

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

// Offer is how many events limits dropped of those that were offered to an indicator in a span, dropped ones among
// them. Of slices only the events of those that are closed and judged are offered.
type Offer struct{ Dropped, Offered uint64 }

// Kept is the share, in [0,1], that no limit dropped.
func (o Offer) Kept() float64 {
	if o.Dropped == 0 {
		return 1
	}
	return 1 - float64(o.Dropped)/float64(o.Offered)
}

// Offers gives, for each of some indicators, what was offered and dropped in a span, whose edges are moved as for
// Request.Spans. It is zero for an unknown indicator. It changes nothing that can be seen, and costs as much as a span
// of Sums for each store that the indicators are in.
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
		j, ok := slices.BinarySearchFunc(f.inds, id, func(ind *indicator, id string) int {
			return strings.Compare(ind.spec.ID, id)
		})
		if !ok || !counts(f.inds[j]) {
			continue
		}
		ind := f.inds[j]
		if s := ind.slices; s != nil {
			if sliced[s] == nil {
				sliced[s] = sumSpans(snapAll(spans, s.snap), s.sumWidth(), func(acc []uint64, from, to int64) {
					f.addRuns(s, acc, from, to)
				})
			}
			out[i] = ind.offer(sliced[s][0])
			continue
		}
		s := ind.events
		if events[s] == nil {
			events[s] = sumSpans(snapAll(spans, s.snap), int(s.cols.n), func(acc []uint64, from, to int64) {
				s.addAll(acc, from, to, f.clock)
			})
		}
		out[i] = ind.offer(events[s][0])
	}
	return out
}

// historyKeep is how far back Read reaches at least.
//
// Reports can look back that far, however short the windows are.
const historyKeep = 90 * 24 * time.Hour

// HistoryWidth is the length of the pieces in which Read has what windows do not reach, by the length of the
// indicator's slices, 0 without. They begin at multiples of it since 1970.
func HistoryWidth(slice time.Duration) time.Duration {
	if slice <= 0 {
		return time.Duration(hourWidth) * time.Second
	}
	return time.Duration(runFor(int64(slice))) * slice
}

// past keeps, by the hour, what is no longer kept in finer pieces and what comes
// too late for those. It is beside the counts of windows, never part of them:
// Read adds the two. Places are Unix seconds for events, and numbers
// of slices for slices.
//
// blocks begin with the first place of a part, so a part of a snapshot is dropped as a whole and never rewritten
// for that.
type past struct {
	width  int64 // of a block: an hour, or a run of slices
	part   int64 // of a part of a snapshot, about a day; a multiple of width
	first  int64 // number of blocks[0]: place / width; first place of a part
	blocks []block[uint32]
}

// newPast makes a past whose parts are the shortest multiples of width that are
// as long as day.
func newPast(width, day int64) past { return past{width: width, part: ceil(day, width)} }

// start is the place from which on it keeps counts.
func (p *past) start() int64 { return p.first * p.width }

// advance drops the parts that end before the place oldest.
//
// Whole parts go, so up to a part more than asked is kept.
func (p *past) advance(oldest int64) {
	first := floor(max(0, oldest), p.part) / p.width
	if first > p.first {
		p.blocks = dropFront(p.blocks, first-p.first)
		p.first = first
	}
}

// at is the block of a place, nil if it is too old.
//
// The list grows up to the place.
func (p *past) at(place int64) *block[uint32] {
	i := place/p.width - p.first
	if i < 0 {
		return nil
	}
	for i >= int64(len(p.blocks)) {
		p.blocks = append(p.blocks, block[uint32]{})
	}
	return &p.blocks[i]
}

// absorb adds what a block counted, no larger than needed.
func (p *past) absorb(place int64, b []block[uint32], clock uint64) {
	if b[0].cells == nil {
		return
	}
	if into := p.at(place); into != nil {
		into.absorb(b)
		into.ver = clock
	}
}

// add counts n in one column, unless the place is too old.
func (p *past) add(place int64, col uint32, n uint64, room int, clock uint64) {
	if b := p.at(place); b != nil && n > 0 {
		b.touch(col+1, room, clock)
		b.bump1(col, n)
	}
}

// erase empties columns.
func (p *past) erase(col uint32, w int, clock uint64) {
	for i := range p.blocks {
		if p.blocks[i].erase(col, w) {
			p.blocks[i].ver = clock
		}
	}
}

// sums adds up ranges of columns, which each sum holds side by side, over spans
// of places. A block belongs to the span that holds its start. It is nil if
// nothing is kept of any span.
//
// Spans may reach into what the leaves hold. Nothing is in both: a count comes here only when its leaves go, or
// when there are none.
func (p *past) sums(spans []edges, cols []colRange) [][]uint64 {
	end := p.first + int64(len(p.blocks))
	numbers := make([]edges, len(spans))
	reached := false
	for i, sp := range spans {
		from := min(max(ceil(sp.from, p.width)/p.width, p.first), end)
		numbers[i] = edges{from, min(max(ceil(sp.to, p.width)/p.width, from), end)}
		reached = reached || from < numbers[i].to
	}
	if !reached {
		return nil
	}
	width := 0
	for _, r := range cols {
		width += int(r.hi - r.lo)
	}
	return sumSpans(numbers, width, func(acc []uint64, from, to int64) {
		for n := from; n < to; n++ {
			addRanges(acc, cols, &p.blocks[n-p.first])
		}
	})
}

// bytes is about how much memory it takes.
func (p *past) bytes() int64 { return blockBytes(p.blocks) }

// hoursPart names the hours of a day by retention and start, in seconds.
func hoursPart(keep, start int64) string { return fmt.Sprintf("hours-%d-%d", keep, start) }

// judgedPart names runs of judged slices as slicesPart does.
func judgedPart(keep, per, first int64) string {
	return fmt.Sprintf("judged-%d-%d-%d", keep, per, first)
}

// appendParts adds a part for each day or so that has counts.
func (p *past) appendParts(parts []Part, name func(place int64) string) []Part {
	return appendSegments(parts, p.blocks, int(p.part/p.width), func(at int) string {
		return name((p.first + int64(at)) * p.width)
	})
}

// place puts blocks of at most so many columns from a place on, none as late as end.
func (p *past) place(seg segment, start, end int64, columns int) error {
	for at, b := range seg.past {
		place := start + int64(at)*p.width
		if place < p.start() || place >= end || place%p.width != 0 || len(b.cells) > columns {
			return fmt.Errorf("%w: block %d from %d on", errSnapshot, at, start)
		}
		*p.at(place) = b
	}
	return nil
}

// historySums are indicatorSums of the groups' bins, and what is kept of the
// spans by the hour beside that.
func (f *Fold) historySums(ind *indicator, groups []*group, spans []slo.Span) [][]uint64 {
	out := f.indicatorSums(ind, groups, spans)
	if s := ind.slices; s != nil {
		s.addJudged(out, ind, groups, spans)
		return out
	}
	cols := make([]colRange, len(groups))
	for i, g := range groups {
		cols[i] = colRange{g.col, g.col + uint32(ind.width)}
	}
	for i, sums := range ind.events.past.sums(snapAll(spans, seconds), cols) {
		addSums(out[i], sums)
	}
	return out
}

// seconds is the first full Unix second at or after a time.
func seconds(t time.Time) int64 { return ceil(nanos(t), int64(time.Second)) / int64(time.Second) }
