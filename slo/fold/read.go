package fold

import (
	"maps"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file makes Sums. Every store is summed once over all spans, for all columns, and each group gets its slice
// of the result.

// Sums computes the asked window sums and copies out all counters. Its cost
// follows the number of columns times that of the blocks that make up the spans.
//
// It changes caches (days, runs) and flushes totals, and nothing that a snapshot or another Sums would show
// differently.
func (f *Fold) Sums(r Request) *Sums {
	f.plans.flush()
	out := &Sums{
		Now: r.Now, Watermark: unix(f.rec), Up: f.up.list(f.kept), Stats: f.Stats(),
		Traffic: make([]Traffic, len(f.traffic)), Durations: make([]Durations, len(f.series)),
	}
	for i, t := range f.traffic {
		out.Traffic[i] = Traffic{
			Service: t.service, Type: t.typ, Outcome: t.outcome, Severity: t.severity,
			Dimensions: slices.Clone(t.dims), Count: t.count, LastEvent: unix(t.last),
		}
	}
	for i, s := range f.series {
		d := Durations{
			Service: s.service, Type: s.typ, Outcome: s.outcome, Dimensions: slices.Clone(s.dims),
			Buckets: f.services[s.service].spec.Buckets, Counts: slices.Clone(s.counts),
		}
		d.Sum, d.SumSeconds = s.sum()
		out.Durations[i] = d
	}
	out.Groups, out.Eras = f.groupSums(r)
	out.InFlight = f.inFlight()
	return out
}

// Stats are the fold's own figures.
func (f *Fold) Stats() Stats {
	s := Stats{
		Records: f.stats.records, Events: f.stats.events, Late: f.stats.late, TooOld: f.stats.tooOld,
		Refused:  f.stats.refused,
		PlanHits: f.plans.hits, PlanMisses: f.plans.misses, Unmeasured: map[string]uint64{},
		Replayed: f.stats.replayed, Backfilled: f.stats.backfilled, Evicted: f.stats.evicted, Full: f.fulls(),
		Dropped: maps.Clone(f.dropped),
	}
	for _, ind := range f.inds {
		s.Groups += len(ind.sorted)
		if ind.unmeasured > 0 {
			s.Unmeasured[ind.spec.ID] = ind.unmeasured
		}
	}
	for _, p := range f.parked {
		s.ParkedBytes += p.bytes()
	}
	s.Parked = len(f.parked)
	for _, st := range f.stores {
		s.Bytes += st.bytes()
	}
	for _, st := range f.slices {
		s.Bytes += st.bytes()
	}
	if f.ring != nil {
		s.Bytes += f.ring.bytes()
	}
	for _, ind := range f.inds {
		if ind.flight != nil {
			s.addWork(ind)
		}
	}
	return s
}

// groupSums adds up every store over all spans at once, and hands each group its range of the sums. So the cost is that
// of the blocks in the spans and not of the groups.
func (f *Fold) groupSums(r Request) ([]Group, []Era) {
	events := map[*store][][]uint64{}
	for _, s := range f.stores {
		events[s] = sumSpans(snapAll(r.Spans, s.snap), int(s.cols.n), func(acc []uint64, from, to int64) {
			s.addAll(acc, from, to, f.clock)
		})
	}
	sliced := map[*sliceStore][][]uint64{}
	for _, s := range f.slices {
		if r.Unjudged {
			break
		}
		sliced[s] = sumSpans(snapAll(r.Spans, s.snap), s.sumWidth(), func(acc []uint64, from, to int64) {
			f.addRuns(s, acc, from, to)
		})
	}
	ring := f.ringSums(&r)
	// Few large pieces of memory for all groups, rather than a few per group.
	groups, spans, bins := 0, 0, 0
	for _, ind := range f.inds {
		groups += len(ind.sorted)
		spans += len(ind.sorted) * (len(r.Spans) + len(r.Extra[ind.spec.ID]))
		bins += len(ind.sorted) * ind.bins
	}
	out := make([]Group, 0, groups)
	lists := make([][]uint64, 0, spans)
	totals := make([]uint64, 0, bins)
	eras := make([]Era, 0, len(f.inds))
	shares := map[*stream][]float64{}
	for _, ind := range f.inds {
		sums := sliced[ind.slices]
		if ind.slices == nil {
			sums = events[ind.events]
		}
		var extra [][]uint64
		if ind.slices == nil || !r.Unjudged {
			extra = f.indicatorSums(ind, ind.sorted, r.Extra[ind.spec.ID])
		}
		squares := squaresAt(ind)
		loss := ind.loss(sums)
		era := Era{Indicator: ind.spec.ID, Generation: ind.gen, Since: unix(ind.era.since),
			Backfilled: ind.era.list(f.kept), Loss: loss}
		clear(shares)
		eras = append(eras, era)
		for i, g := range ind.sorted {
			at := int(g.col)
			if ind.slices != nil {
				at = runAt(i, g)
			}
			list, total := len(lists), len(totals)
			totals = append(totals, g.total...)
			for _, s := range sums {
				lists = append(lists, s[at:at+ind.bins:at+ind.bins])
			}
			for _, s := range extra {
				lists = append(lists, s[i*ind.bins:(i+1)*ind.bins:(i+1)*ind.bins])
			}
			var excess []uint64
			if g.squares > 0 {
				excess = make([]uint64, 0, len(sums)+len(extra))
				for _, s := range sums {
					excess = append(excess, s[g.squares-1])
				}
				for _, s := range extra {
					excess = append(excess, s[squares[g]])
				}
			}
			out = append(out, Group{
				Indicator: ind.spec, Values: slices.Clone(g.values),
				Generation: era.Generation, Since: era.Since, Backfilled: era.Backfilled, LastEvent: unix(g.last),
				Total: totals[total:len(totals):len(totals)], Old: slices.Clone(g.old), Spans: lists[list:len(lists):len(lists)],
				Excess: excess, Moved: f.moved(&r, g, ring), Loss: loss,
				Observed: f.shares(ind, g, r.Now, r.Spans, r.Extra[ind.spec.ID], shares),
			})
		}
	}
	return out, eras
}

// indicatorSums are the sums of some groups of one indicator over spans of its
// own; each sum holds the groups' bins side by side, and behind them the squares
// of those that have some.
func (f *Fold) indicatorSums(ind *indicator, groups []*group, spans []slo.Span) [][]uint64 {
	if len(spans) == 0 {
		return nil
	}
	if s := ind.slices; s != nil {
		out := sumSpans(snapAll(spans, s.snap), len(groups)*sliceSums, func(acc []uint64, from, to int64) {
			f.addIndicator(s, ind, groups, acc, from, to)
		})
		for k, sums := range out {
			for i := range groups {
				copy(sums[i*SliceBins:(i+1)*SliceBins], sums[i*sliceSums:])
			}
			out[k] = sums[:len(groups)*SliceBins]
		}
		return out
	}
	width := len(groups) * ind.bins
	cols := make([]colRange, 0, len(groups))
	for _, g := range groups {
		cols = append(cols, colRange{g.col, g.col + uint32(ind.width)})
	}
	for _, g := range groups {
		if g.squares > 0 {
			cols = append(cols, colRange{g.squares - 1, g.squares})
			width++
		}
	}
	return sumSpans(snapAll(spans, ind.events.snap), width, func(acc []uint64, from, to int64) {
		ind.events.addColumns(acc, cols, from, to)
	})
}

// snapAll moves the edges of spans onto the buckets of a store.
func snapAll(spans []slo.Span, snap func(time.Time) int64) []edges {
	out := make([]edges, len(spans))
	for i, sp := range spans {
		out[i] = edges{snap(sp.From), snap(sp.To)}
	}
	return out
}

// Shifts is how many there are of a group that has some.
const Shifts = sets

// Shift is a part of what alert conditions count at another time than windows do.
type Shift struct {
	// Spans are the counts per span of Group.Spans, per bin. It is nil without any. An entry is nil if the span begins
	// more than slo.ReceivedWindow before Request.Now.
	Spans  [][]uint64
	Excess []uint64 // likewise, as Group.Excess; nil if there was no weight above 1
}

// Received are the counts of one of the asked spans, which must begin no more than slo.ReceivedWindow ago, as alert
// conditions take them: events by the time at which they were received, without backfills and those of later
// slo.Lateness than a place. Within a minute of each other, event time and receive time count as equal. excess is that
// of Group.Excess.
func (g *Group) Received(span, lateness int) (bins []uint64, excess uint64) {
	bins = slices.Clone(g.Spans[span])
	if g.Excess != nil {
		excess = g.Excess[span]
	}
	for set := range min(len(g.Moved), setReceived+lateness+1) {
		s := &g.Moved[set]
		if s.Spans != nil {
			for i, n := range s.Spans[span] {
				if set == setMoved {
					n = -min(n, bins[i])
				}
				bins[i] += n
			}
		}
		if s.Excess != nil {
			n := s.Excess[span]
			if set == setMoved {
				n = -min(n, excess)
			}
			excess += n
		}
	}
	return bins, excess
}

// Later are the counts of one of the asked spans by receive time that Received leaves out for their lateness.
func (g *Group) Later(span, lateness int) []uint64 {
	bins := make([]uint64, len(g.Spans[span]))
	for set := setReceived + lateness + 1; set < len(g.Moved); set++ {
		if s := &g.Moved[set]; s.Spans != nil {
			addSums(bins, s.Spans[span])
		}
	}
	return bins
}

// ringSums are the sums of all columns of the ring over those of some spans that it reaches back to; nil without a
// ring.
func (f *Fold) ringSums(r *Request) [][]uint64 {
	if f.ring == nil {
		return nil
	}
	add := func(acc []uint64, from, to int64) { f.ring.addAll(acc, from, to, f.clock) }
	out := f.ringSpans(r, r.Spans, int(f.ring.cols.n), add)
	if f.rec-nanos(r.Now) > fineWidth*int64(time.Second) {
		f.addAhead(r, out, f.ringSpans(r, []slo.Span{{From: r.Now, To: unix(f.ring.end() * int64(time.Second))}},
			int(f.ring.cols.n), add)[0])
	}
	return out
}

// addAhead adds what was received after the time of a request to the spans that end then. After a clock was set back,
// receive times stand still ahead of it, and conditions would see none of the events until it has caught up.
func (f *Fold) addAhead(r *Request, out [][]uint64, ahead []uint64) {
	for i, sums := range out {
		if sums == nil || !r.Spans[i].To.Equal(r.Now) {
			continue
		}
		for _, ind := range f.inds {
			for _, g := range ind.sorted {
				if g.received == 0 {
					continue
				}
				mine := f.ring.of(g)
				for set := setReceived; set < sets; set++ {
					addColumn(sums, ahead, mine.bins[set], ind.width)
					addColumn(sums, ahead, mine.squares[set], 1)
				}
			}
		}
	}
}

// addColumn adds w columns from a place, which is one more than that of the first; 0 is none.
func addColumn(acc, sums []uint64, col uint32, w int) {
	if col > 0 {
		addSums(acc[col-1:int(col)-1+w], sums[col-1:])
	}
}

func (f *Fold) ringSpans(r *Request, spans []slo.Span, width int, add func(acc []uint64, from, to int64)) [][]uint64 {
	out := make([][]uint64, len(spans))
	var short []slo.Span
	var at []int
	for i, sp := range spans {
		if !sp.From.Before(r.Now.Add(-slo.ReceivedWindow)) {
			short, at = append(short, sp), append(at, i)
		}
	}
	for i, sums := range sumSpans(snapAll(short, f.ring.snap), width, add) {
		out[at[i]] = sums
	}
	return out
}

// moved is what a group has in the ring, of which the sums over the spans of a request are known, and over the extra
// spans of its indicator.
func (f *Fold) moved(r *Request, g *group, sums [][]uint64) []Shift {
	if g.received == 0 {
		return nil
	}
	mine := f.ring.of(g)
	var extra [][]uint64
	if spans := r.Extra[g.ind.spec.ID]; len(spans) > 0 {
		var cols []colRange
		width := 0
		mine.all(g.ind.width, func(col *uint32, w uint32) {
			cols = append(cols, colRange{*col - 1, *col - 1 + w})
			width += int(w)
		})
		extra = f.ringSpans(r, spans, width, func(acc []uint64, from, to int64) { f.ring.addColumns(acc, cols, from, to) })
	}
	out := make([]Shift, sets)
	at := 0 // in extra
	mine.all(g.ind.width, func(col *uint32, w uint32) {
		list := make([][]uint64, 0, len(sums)+len(extra))
		part := func(s []uint64, from int) {
			if s != nil {
				s = s[from : from+int(w) : from+int(w)]
			}
			list = append(list, s)
		}
		for _, s := range sums {
			part(s, int(*col-1))
		}
		for _, s := range extra {
			part(s, at)
		}
		at += int(w)
		for set := range sets {
			switch col {
			case &mine.bins[set]:
				out[set].Spans = list
			case &mine.squares[set]:
				out[set].Excess = make([]uint64, len(list))
				for i, s := range list {
					if s != nil {
						out[set].Excess[i] = s[0]
					}
				}
			}
		}
	})
	return out
}
