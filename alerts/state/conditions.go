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

// verdictOf is what a condition's being met or not says of its alert: nothing, if it
// fires and too little of the window that would show its end was observed.
func verdictOf(holds, firing bool, observed float64) verdict {
	switch {
	case holds:
		return yes
	case firing && observed < alerts.MinObserved:
		return unknown
	}
	return no
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

// burn finds the burn over a window for a condition whose longest window is long; nil if the report lacks it.
func burn(r *sla.SLOReport, hint int, w, long time.Duration) *slo.Burn {
	if r.Received == nil && hint >= 0 && hint < len(r.Burns) && r.Burns[hint].Window == w && !r.Burns[hint].Period {
		return &r.Burns[hint]
	}
	return r.Condition(w, long)
}

// observed is the share of a window that was observed; 0 if the report lacks it.
func observed(b *slo.Burn) float64 {
	if b == nil {
		return 0
	}
	return b.Observed
}

// finding is what a report says of a condition.
type finding struct {
	verdict
	value float64
	held  []alerts.Hold // what keeps it from holding

	forecast string // of a budget of which little is left
}

// found makes the finding of a condition. Nothing holds a firing alert.
func found(holds, firing bool, observed, value float64, held []alerts.Hold) finding {
	if firing {
		held = nil
	}
	return finding{verdict: verdictOf(holds, firing, observed), value: value, held: held}
}

// group evaluates a condition on one group of an SLO.
func (st *step) group(k int, r *sla.SLOReport, row *row) (f finding) {
	c, firing := &row.plan[k], row.firing(k)
	var holds bool
	reach := max(c.Window, c.Recovery())
	recovery := burn(r, c.short, c.Recovery(), reach)
	switch c.Kind {
	case alerts.LiveBurn:
		long, short := alerts.NewReading(r.SLO, burn(r, c.long, c.Window, reach)), alerts.NewReading(r.SLO, recovery)
		read := func(w time.Duration) alerts.Reading {
			switch w {
			case c.Tier.Long:
				return long
			case c.Tier.Short:
				return short
			}
			return alerts.NewReading(r.SLO, r.Condition(w, reach))
		}
		met := row.lastMet(k)
		holds, f.value = c.Tier.Burns(read, c.MinEvents, firing, st.now, &met), long.Ratio
		row.meet(k, met)
		if !holds && !firing {
			f.held = c.HeldBurn(read)
			if r.Received != nil {
				later := r.Received[slo.LatenessOf(c.Window)].Later
				f.held = append(f.held, c.HeldLate(r.Condition(slo.ReceivedWindow, c.Window), later)...)
			}
		}
	case alerts.LiveExhausted:
		known, events := r.Coverage, float64(r.Budget.Counts.Valid())
		if k := len(r.Burns); k > 0 && r.Burns[k-1].Period {
			known, events = r.Burns[k-1].Observed, r.Burns[k-1].Effective
		}
		f.value = r.Budget.Remaining
		holds, f.held = c.Spent(r.Budget, r.Period.Duration(), known, events, firing)
	case alerts.LiveTrend, alerts.LiveDecline, alerts.LiveCascade, alerts.LiveRecovered:
		holds, f.value = st.catalogue(c, r, row)
		f.verdict = verdictOf(holds, false, 1) // their rules end with the data, too
		return f
	case alerts.LiveSoon:
		if r.Outlook == nil {
			f.verdict = unknown // the counts could not be read, or not yet
			return f
		}
		e := &r.Outlook.Forecast.Exhaustion
		holds, f.value = r.Outlook.Forecast.TooLittle == "" && !e.Already && e.Soon >= c.Above, e.Soon
		f.verdict = verdictOf(holds, false, 1)
		return f
	case alerts.LiveRatio:
		e := alerts.NewReading(r.SLO, burn(r, c.long, c.Window, reach))
		f.value = e.Ratio
		holds, f.held = c.InRange(e, firing)
	case alerts.LiveLimit:
		return st.limit(c, r.Group, alerts.NewReading(r.SLO, recovery), firing)
	}
	forecast := ""
	if holds && c.Kind == alerts.LiveExhausted && c.Tier.Name != "" && r.Outlook != nil {
		forecast = r.Outlook.Forecast.AtThisPace(slo.FormatDuration)
	}
	f = found(holds, firing, observed(recovery), f.value, f.held)
	f.forecast = forecast
	return f
}

// limit compares the critical breaches of an event threshold with the events of the last minutes, of one group or of
// all. Of the events, their ratio is not used.
func (st *step) limit(c *condition, g slo.Group, events alerts.Reading, firing bool) (f finding) {
	n, whole := st.breaches.recent(c.limit, g, st.now, c.Window)
	e := events
	e.Ratio = 0
	if e.HasData = e.Events > 0; e.HasData {
		e.Ratio = float64(n) / e.Events
	}
	holds, held := c.InRange(e, firing)
	known := e.Observed
	if !whole {
		known = 0
	}
	return found(holds, firing, known, e.Ratio, held)
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
	observed float64 // share of the window, the lowest of all groups
}

func (t *total) add(b *slo.Burn, first bool) {
	if b == nil {
		t.observed = 0
		return
	}
	t.valid += b.Counts.Valid()
	if first || b.Observed < t.observed {
		t.observed = b.Observed
	}
}

// raw finds the burn over a window with planned maintenance in it: what was
// counted then was sent.
func raw(r *sla.SLOReport, w time.Duration) *slo.Burn {
	if r.Received != nil {
		return r.RawCondition(w, w)
	}
	if i := burnIndex(w); i >= 0 && i < len(r.RawBurns) && r.RawBurns[i].Window == w {
		return &r.RawBurns[i]
	}
	return nil
}

// all evaluates a condition on all groups of an SLO together.
func (st *step) all(c *condition, w *whole, firing bool) (f finding) {
	switch c.Kind {
	case alerts.LiveNoData:
		if w.quiet.valid > 0 {
			return finding{value: float64(w.quiet.valid)}
		}
		f.verdict = yes
		if w.quiet.observed < alerts.MinObserved { // while no engine observes, the state is unknown
			f.verdict = unknown
		}
	case alerts.LiveLimit:
		return st.limit(c, nil, alerts.Reading{Observed: w.rate.observed, Events: float64(w.rate.valid)}, firing)
	}
	return f
}

// score evaluates a condition on one group of an agreement.
func (st *step) score(c *condition, r *sla.SLAReport, row *row, firing bool) (f finding) {
	if r.Alert != nil {
		r = r.Alert
	}
	if c.Kind == alerts.LiveRestored {
		holds := c.Restored(r) && st.isOver(c, row, alerts.NameCompositeWarning, alerts.NameCompositeCritical)
		return finding{verdict: verdictOf(holds, false, 1), value: r.Score}
	}
	holds, held := c.Low(r, firing)
	known := 1.0
	for i := range r.Components {
		if share, ok := st.recent[r.Components[i].SLO]; ok {
			known = min(known, share)
		}
	}
	return found(holds, firing, known, r.Score, held)
}
