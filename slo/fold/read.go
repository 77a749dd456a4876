package fold

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Sums computes the asked window sums and copies out all counters. Its cost
// follows the number of columns times that of the blocks that make up the spans.
func (f *Fold) Sums(r Request) *Sums {
	f.plans.settle()
	out := &Sums{
		Now: r.Now, Watermark: unix(f.rec), Up: f.up.list(), Stats: f.figures(),
		Traffic: make([]Traffic, len(f.traffic)), Durations: make([]Durations, len(f.series)),
	}
	for i, t := range f.traffic {
		out.Traffic[i] = Traffic{
			Service: t.service, Type: t.typ, Outcome: t.outcome, Severity: t.severity,
			Dimensions: slices.Clone(t.dims), Count: t.count, LastEvent: unix(t.last),
		}
	}
	for i, s := range f.series {
		d := Durations{Service: s.service, Type: s.typ, Counts: slices.Clone(s.counts)}
		d.Sum, d.SumSeconds = s.sum()
		for _, e := range s.edges {
			d.Buckets = append(d.Buckets, time.Duration(e))
		}
		out.Durations[i] = d
	}
	out.Groups = f.groupSums(r)
	return out
}

// figures are the fold's own.
func (f *Fold) figures() Stats {
	s := Stats{
		Records: f.stats.records, Events: f.stats.events, Late: f.stats.late, TooOld: f.stats.tooOld, Refused: f.stats.refused,
		PlanHits: f.plans.hits, PlanMisses: f.plans.misses, Unmeasured: map[string]uint64{},
	}
	for _, ind := range f.inds {
		s.Groups += len(ind.sorted)
		if ind.unmeasured > 0 {
			s.Unmeasured[ind.spec.ID] = ind.unmeasured
		}
	}
	for _, st := range f.stores {
		s.Bytes += st.bytes()
	}
	for _, st := range f.slices {
		s.Bytes += st.bytes()
	}
	return s
}

func (f *Fold) groupSums(r Request) []Group {
	events := map[*store][][]uint64{}
	for _, s := range f.stores {
		events[s] = sumSpans(snapAll(r.Spans, s.snap), int(s.cols.n), func(acc []uint64, from, to int64) { s.addAll(acc, from, to, f.clock) })
	}
	sliced := map[*sliceStore][][]uint64{}
	for _, s := range f.slices {
		sliced[s] = sumSpans(snapAll(r.Spans, s.snap), s.sumWidth(), func(acc []uint64, from, to int64) { f.addRuns(s, acc, from, to) })
	}
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
	for _, ind := range f.inds {
		sums := sliced[ind.slices]
		if ind.slices == nil {
			sums = events[ind.events]
		}
		extra := f.indicatorSums(ind, ind.sorted, r.Extra[ind.spec.ID])
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
			out = append(out, Group{
				Indicator: ind.spec, Values: slices.Clone(g.values),
				Generation: ind.gen, Since: unix(ind.era.since), Backfilled: ind.era.list(), LastEvent: unix(g.last),
				Total: totals[total:len(totals):len(totals)], Spans: lists[list:len(lists):len(lists)],
			})
		}
	}
	return out
}

// indicatorSums are the sums of some groups of one indicator over spans of its
// own; each sum holds the groups' bins side by side.
func (f *Fold) indicatorSums(ind *indicator, groups []*group, spans []slo.Span) [][]uint64 {
	if len(spans) == 0 {
		return nil
	}
	width := len(groups) * ind.bins
	if s := ind.slices; s != nil {
		return sumSpans(snapAll(spans, s.snap), width, func(acc []uint64, from, to int64) { f.addIndicator(s, ind, groups, acc, from, to) })
	}
	cols := make([]colRange, len(groups))
	for i, g := range groups {
		cols[i] = colRange{g.col, g.col + uint32(ind.width)}
	}
	return sumSpans(snapAll(spans, ind.events.snap), width, func(acc []uint64, from, to int64) { ind.events.addColumns(acc, cols, from, to) })
}

func snapAll(spans []slo.Span, snap func(time.Time) int64) []edges {
	out := make([]edges, len(spans))
	for i, sp := range spans {
		out[i] = edges{snap(sp.From), snap(sp.To)}
	}
	return out
}
