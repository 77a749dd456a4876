package fold

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// This file reads what received.go counts.

// Shifts is how many there are of a group that has some.
const Shifts = sets

// Shift is a part of what alert conditions count at another time than windows do.
type Shift struct {
	// Spans are the counts per span of Group.Spans, per bin. It is nil without any. An entry is nil if the span begins
	// more than slo.ReceivedWindow before Request.Now.
	Spans  [][]uint64
	Excess []uint64 // likewise, as Group.Excess; nil if there was no weight above 1
}

// Received are the counts of one of the asked spans, which must begin no more than slo.ReceivedWindow ago, as alert conditions
// take them: events by the time at which they were received, without backfills and those of later slo.Lateness than a place.
// Within a minute of each other, event time and receive time count as equal. excess is that of Group.Excess.
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

// ringSums are the sums of all columns of the ring over those of some spans that it reaches back to; nil without a ring.
func (f *Fold) ringSums(r *Request) [][]uint64 {
	if f.ring == nil {
		return nil
	}
	add := func(acc []uint64, from, to int64) { f.ring.addAll(acc, from, to, f.clock) }
	out := f.ringSpans(r, r.Spans, int(f.ring.cols.n), add)
	if f.rec-nanos(r.Now) > fineWidth*int64(time.Second) {
		f.addAhead(r, out, f.ringSpans(r, []slo.Span{{From: r.Now, To: unix(f.ring.end() * int64(time.Second))}}, int(f.ring.cols.n), add)[0])
	}
	return out
}

// addAhead adds what was received after the time of a request to the spans that end then. After a clock was set back, receive
// times stand still ahead of it, and conditions would see none of the events until it has caught up.
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
