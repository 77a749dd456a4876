package state

import (
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// verdict is what a report says of a condition.
type verdict int8

const (
	no      verdict = iota // it does not hold
	unknown                // too little was observed to tell
	yes
)

// and is yes if both are, no if one surely is not.
func (v verdict) and(w verdict) verdict { return min(v, w) }

func is(holds bool) verdict {
	if holds {
		return yes
	}
	return no
}

// covered turns a verdict on a window that was hardly observed into unknown.
func (st *step) covered(v verdict, coverage float64) verdict {
	if coverage < st.opt.MinCoverage {
		return unknown
	}
	return v
}

// burnIndex is where a window is among the burns of a report.
func burnIndex(w time.Duration) int {
	for i, b := range slo.BurnWindows {
		if b == w {
			return i
		}
	}
	return -1
}

// burn finds the corrected burn over a window; nil if the report lacks it.
func burn(r *sla.SLOReport, hint int, w time.Duration) *slo.Burn {
	if hint >= 0 && hint < len(r.Burns) && r.Burns[hint].Window == w && !r.Burns[hint].Period {
		return &r.Burns[hint]
	}
	for _, list := range [][]slo.Burn{r.TierBurns, r.Burns} {
		for i := range list {
			if list[i].Window == w && !list[i].Period {
				return &list[i]
			}
		}
	}
	return nil
}

// errorRatio is the share of bad events of a burn. It comes from the counts where
// those decide, for a burn rate is a quotient and may be off in its last bit.
func errorRatio(s *slo.SLO, b *slo.Burn) float64 {
	if s.Budgeting.Method == slo.RatioTimeslices && s.Indicator.Kind != slo.KindThroughput {
		return b.Rate * s.Objective.Budget()
	}
	return float64(b.Counts.Bad) / float64(b.Counts.Valid())
}

// above compares the error ratio over a window.
func (st *step) above(s *slo.SLO, b *slo.Burn, threshold float64) (verdict, float64) {
	if b == nil {
		return unknown, 0
	}
	if !b.HasData {
		return st.covered(no, b.Coverage), 0
	}
	ratio := errorRatio(s, b)
	return st.covered(is(ratio > threshold), b.Coverage), ratio
}

// burning is the condition of a tier: both windows are above the threshold, and
// the long one holds enough events to mean it.
func (st *step) burning(c *condition, r *sla.SLOReport) (verdict, float64) {
	long := burn(r, c.long, c.Window)
	v, ratio := st.above(r.SLO, long, c.Tier.Threshold)
	if v == no {
		return no, ratio
	}
	w, _ := st.above(r.SLO, burn(r, c.short, c.Tier.Short), c.Tier.Threshold)
	if v = v.and(w); v != yes {
		return v, ratio
	}
	n := long.Effective // fewer than were counted, where some of them stand for others
	if n < float64(c.MinEvents) || c.Tier.Page && !(alerts.LowerBound(ratio, n) > c.Tier.Threshold) {
		return no, ratio
	}
	return yes, ratio
}

// group evaluates a condition on one group of an SLO.
func (st *step) group(c *condition, r *sla.SLOReport) (verdict, float64) {
	switch c.Kind {
	case alerts.LiveBurn:
		return st.burning(c, r)
	case alerts.LiveExhausted:
		b := &r.Budget
		n := float64(b.Counts.Valid())
		if k := len(r.Burns); k > 0 && r.Burns[k-1].Period {
			n = r.Burns[k-1].Effective
		}
		holds := b.HasData && b.Remaining <= 0 && n >= float64(c.MinEvents)
		return st.covered(is(holds), r.Coverage), b.Remaining
	case alerts.LiveRatio:
		b := burn(r, c.long, c.Window)
		v, ratio := st.above(r.SLO, b, c.Above)
		if v == yes && (c.UpTo > 0 && ratio > c.UpTo || b.Effective < float64(c.MinEvents)) {
			v = no
		}
		return v, ratio
	}
	return unknown, 0
}

// whole is what was counted in all groups of an SLO together.
type whole struct {
	quiet     total // over quietTime, raw
	quietTime time.Duration
	rate      total     // over 5m
	last      time.Time // latest valid event
}

type total struct {
	valid    uint64
	coverage float64 // lowest of all groups
}

func (t *total) add(b *slo.Burn, first bool) {
	if b == nil {
		t.coverage = 0
		return
	}
	t.valid += b.Counts.Valid()
	if first || b.Coverage < t.coverage {
		t.coverage = b.Coverage
	}
}

// raw finds the burn over a window with planned maintenance in it: what was
// counted then was sent.
func raw(r *sla.SLOReport, w time.Duration) *slo.Burn {
	if i := burnIndex(w); i >= 0 && i < len(r.RawBurns) && r.RawBurns[i].Window == w {
		return &r.RawBurns[i]
	}
	return nil
}

// all evaluates a condition on all groups of an SLO together.
func (st *step) all(c *condition, w *whole) (verdict, float64) {
	switch c.Kind {
	case alerts.LiveNoData:
		if w.quiet.valid > 0 {
			return no, float64(w.quiet.valid)
		}
		return st.covered(yes, w.quiet.coverage), 0
	case alerts.LiveLimit:
		n, known := st.breaches.recent(c.Limit, st.now, c.Window)
		if !known {
			return unknown, 0
		}
		if w.rate.valid == 0 || w.rate.valid < c.MinEvents {
			return st.covered(no, w.rate.coverage), 0
		}
		ratio := float64(n) / float64(w.rate.valid)
		return st.covered(is(ratio > c.Above), w.rate.coverage), ratio
	}
	return unknown, 0
}

// slack keeps the last bits of a sum from crossing a threshold that a score meets
// exactly, as the levels of package sla do.
const slack = 1e-9

// score evaluates a condition on one group of an agreement.
func (st *step) score(c *condition, r *sla.SLAReport) (verdict, float64) {
	if r.Alert != nil {
		r = r.Alert
	}
	coverage := 1.0
	for i := range r.Components {
		if c := &r.Components[i]; c.HasData { // of the others nothing is known, and the policy has decided
			coverage = min(coverage, c.Coverage)
		}
	}
	return st.covered(is(r.HasData && r.Score < c.Below-slack), coverage), r.Score
}
