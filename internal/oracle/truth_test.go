package oracle

import (
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// truth knows how many events (or slices, at their start) there were until each
// second, for every SLO and group.
type truth map[string]*oracleTally

// For a ratio they are the denominator and the numerator, and those of an Apdex score are in halves.
type oracleTally struct {
	valid, bad []uint64 // before second i
	unit       float64
	ratio      bool
}

func truthKey(id slo.ID, g slo.Group) string { return string(id) + "|" + g.Key() }

func newTruth(all []*slo.SLO, events []*oracleEvent) truth {
	n := int(oracleLength/time.Second) + 1
	out := truth{}
	for _, s := range all {
		counted := events
		if s.Indicator.Kind == slo.KindCompletion {
			counted = completed(s, events)
		}
		for _, e := range counted {
			valid, bad := e.judged(s)
			sec := int(e.counted() / time.Second)
			if valid+bad == 0 || sec >= n-1 {
				continue
			}
			var g slo.Group
			for _, l := range s.GroupBy {
				g = append(g, e.label(l))
			}
			k := out[truthKey(s.ID, g)]
			if k == nil {
				k = &oracleTally{make([]uint64, n), make([]uint64, n), float64(s.Indicator.Kind.Unit()),
					s.Indicator.Kind == slo.KindRatio}
				out[truthKey(s.ID, g)] = k
			}
			k.valid[sec+1] += valid
			k.bad[sec+1] += bad
		}
	}
	for _, s := range all {
		for key, k := range out {
			if strings.HasPrefix(key, string(s.ID)+"|") {
				k.judge(s)
				k.add()
			}
		}
	}
	return out
}

// judge replaces the events of each slice by the slice.
func (k *oracleTally) judge(s *slo.SLO) {
	per := int(s.Budgeting.Slice / time.Second)
	if per == 0 {
		return
	}
	for from := 0; from+per < len(k.valid); from += per {
		c := slo.Counts{}
		for i := from + 1; i <= from+per; i++ {
			c = c.Add(slo.Counts{Good: k.valid[i] - k.bad[i], Bad: k.bad[i]})
			k.valid[i], k.bad[i] = 0, 0
		}
		if ratio, ok := c.Ratio(); ok {
			k.valid[from+1] = 1
			if ratio < s.Budgeting.Target.Ratio() {
				k.bad[from+1] = 1
			}
		}
	}
}

func (k *oracleTally) add() {
	for i := 1; i < len(k.valid); i++ {
		k.valid[i] += k.valid[i-1]
		k.bad[i] += k.bad[i-1]
	}
}

func (k *oracleTally) in(from, to time.Duration) (valid, bad float64) {
	clamp := func(d time.Duration) int { return min(max(0, int(d/time.Second)), len(k.valid)-1) }
	a, b := clamp(from), clamp(to)
	if a >= b {
		return 0, 0
	}
	return float64(k.valid[b]-k.valid[a]) / k.unit, float64(k.bad[b]-k.bad[a]) / k.unit
}

// piece is a part of a window, without what corrections take out.
type piece struct{ from, to time.Duration }

// band is what a count may be whatever of the events near an edge is in it.
//
// For a ratio bad is its numerator, and edgeGood and edgeBad are what its two counts have near an edge.
type band struct {
	valid, bad        float64 // that are in it for sure
	edgeGood, edgeBad float64 // near an edge
	ratio             bool
}

// near adds counts near an edge.
func (b *band) near(valid, bad float64) {
	b.edgeBad += bad
	if b.edgeGood += valid; !b.ratio {
		b.edgeGood -= bad
	}
}

// most is the greatest number of valid events.
func (b *band) most() float64 {
	if b.ratio {
		return b.valid + b.edgeGood
	}
	return b.valid + b.edgeGood + b.edgeBad
}

// band counts pieces; events at most edge away from a border may count or not.
func (tr truth) band(s *slo.SLO, g slo.Group, pieces []piece, now, edge time.Duration) band {
	k := tr[truthKey(s.ID, g)]
	if k == nil {
		return band{}
	}
	b := band{ratio: k.ratio}
	var last time.Duration
	for i, p := range pieces {
		valid, bad := k.in(p.from+edge, p.to-edge)
		b.valid, b.bad = b.valid+valid, b.bad+bad
		from, to := p.from-edge, min(p.to+edge, now)
		if i > 0 {
			from = max(from, last)
		}
		allValid, allBad := k.in(from, to)
		last = to
		b.near(allValid-valid, allBad-bad)
	}
	return b
}

// ratios are the least and the greatest error ratio. ok is false if there may be
// nothing to divide by.
func (b band) ratios() (low, high float64, ok bool) {
	if b.valid == 0 {
		return 0, 1, false
	}
	if b.ratio {
		return max(0, 1-(b.bad+b.edgeBad)/b.valid), max(0, 1-b.bad/(b.valid+b.edgeGood)), true
	}
	return b.bad / (b.valid + b.edgeGood), (b.bad + b.edgeBad) / (b.valid + b.edgeBad), true
}

// pieces is a window without the corrections of an SLO and without the gaps in
// which no engine was up.
func (w *oracleWorld) pieces(s *slo.SLO, now, window time.Duration) []piece {
	out := []piece{{max(0, now-window), now}}
	span := slo.Span{From: oracleStart.Add(now - window), To: oracleStart.Add(now)}
	all := slo.Excluded(s.Corrections, span)
	for _, g := range w.gaps {
		if gap := (slo.Span{From: oracleStart.Add(g.from), To: oracleStart.Add(g.to)}).Intersect(span); gap.Duration() > 0 {
			all = append(all, gap)
		}
	}
	for _, c := range slo.MergeSpans(all) {
		last := &out[len(out)-1]
		from, to := c.From.Sub(oracleStart), c.To.Sub(oracleStart)
		next := piece{to, last.to}
		last.to = from
		out = append(out, next)
	}
	return slices.DeleteFunc(out, func(p piece) bool { return p.from >= p.to })
}
