package alerts

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// MinObserved is the share of its shortest window that must have been observed for
// a firing alert to be over. A firing alert keeps firing while less was: missing
// data is no recovery.
const MinObserved = 0.9

// Reading is what a window says of an error ratio. An alert starts by the errors
// spread over the whole window, as if the time that was not observed had been good
// at the rate of the observed time: a new engine, or one that was interrupted, sees
// an outage as soon as an old one with that traffic, and no blip is taken for one.
// An alert that fires goes by what was observed.
type Reading struct {
	Ratio    float64 // error ratio of what was observed, in [0,1]
	Observed float64 // share of the window, in [0,1]
	Events   float64 // that the ratio rests on
	HasData  bool
}

// NewReading reads the burn over a window; there is none for nil. The ratio comes
// from the counts where those decide, for a burn rate is a quotient and may be off
// in its last bit.
func NewReading(s *slo.SLO, b *slo.Burn) Reading {
	if b == nil || !b.HasData {
		return Reading{}
	}
	e := Reading{Observed: b.Observed, Events: b.Effective, HasData: true}
	if s.Budgeting.Method == slo.RatioTimeslices && s.Indicator.Kind != slo.KindThroughput {
		e.Ratio = b.Rate * s.Objective.Budget()
	} else {
		e.Ratio = float64(b.Counts.Bad) / float64(b.Counts.Valid())
	}
	return e
}

// weight is the share of a window that its errors are spread over.
func (e Reading) weight(firing bool) float64 {
	if firing {
		return 1
	}
	return e.Observed
}

// above compares the error ratio with a threshold.
func (e Reading) above(threshold float64, firing bool) bool {
	return e.HasData && e.Ratio*e.weight(firing) > threshold
}

// bad is how many of the events were bad.
func (e Reading) bad() float64 { return e.Ratio * e.Events }

// proves reports whether so many events were bad that the true error ratio is hardly at or below a rate: what a page
// and the ratios of the catalogue need beside their threshold.
func (e Reading) proves(rate, needed float64) bool {
	return e.bad() > slo.MinBad-half && slo.Evidence(e.Events, e.Ratio, rate) > needed
}

// half an event is what a number of events that was rounded or extrapolated may lack.
const half = 0.5

// Met is when the evidence for a page, and its short window, last were enough in one group, in Unix nanoseconds. The
// zero value is never.
type Met struct{ Proof, Short int64 }

// Burns is the condition of a tier: both windows are above its threshold, and the long one holds enough events to mean
// it. read is what a window says. At little traffic, the short window of a page is read by its slo.Quiet; of one below
// slo.Hold, the evidence lasts for slo.Hold, too. met is what the last call for the group left.
func (t Tier) Burns(read func(window time.Duration) Reading, minEvents uint64, firing bool,
	now time.Time, met *Met) bool {
	long := read(t.Long)
	proof := long.Events >= float64(minEvents) && (!t.Page || long.proves(t.Rate, t.Evidence))
	if t.Page && t.Short < slo.Hold {
		proof = lately(proof, &met.Proof, now, slo.Hold)
	}
	held := read(t.Short).above(t.Threshold, firing)
	if t.Quiet.For > 0 {
		quiet := held
		if t.Quiet.Window > t.Short {
			quiet = read(t.Quiet.Window).above(t.Threshold, firing)
		}
		switch quiet = lately(quiet, &met.Short, now, t.Quiet.For); {
		case quiet == held: // at any traffic
		case t.few(read):
			held = quiet
		case !held:
			met.Short = 0 // it has shown the end
		}
	}
	return long.above(t.Threshold, firing) && proof && held
}

// few reports whether there is too little traffic for the short window to show the end of a page.
func (t Tier) few(read func(time.Duration) Reading) bool {
	seen := read(slo.Hold)
	return t.Quiet.For > 0 && (!seen.HasData || seen.Events < t.QuietEvents(t.Threshold)*seen.Observed)
}

// lately reports whether a condition holds or did within a time. last is when it did last.
func lately(holds bool, last *int64, now time.Time, within time.Duration) bool {
	switch at := now.UnixNano(); {
	case holds:
		*last = at
	case *last != 0 && time.Duration(at-*last).Abs() > within:
		*last = 0
	}
	return *last != 0
}

// chanceRate is the error ratio that an alert of the catalogue must prove to be exceeded: the budget's, or half of it
// for an alert that fires before all of the budget is used.
func chanceRate(s *slo.SLO, above float64) float64 {
	budget := s.Objective.Budget()
	if above < budget {
		return budget / 2
	}
	return budget
}

// InRange is the condition of LiveRatio and LiveLimit: the error ratio is in (Above, UpTo], over enough events, and
// not by chance. held is what keeps it from holding though the ratio of what was observed is in that range. Slices of
// time, which do not fail by chance alone, need no evidence.
func (l *Live) InRange(e Reading, firing bool) (holds bool, held []Hold) {
	if !e.above(l.Above, true) || l.UpTo > 0 && e.Ratio*e.weight(firing) > l.UpTo {
		return false, nil
	}
	held = append(l.unobserved(l.Window, e, l.Above, firing), l.fewEvents(l.Window, e.Events)...)
	if l.Evidence > 0 {
		held = append(held, l.unproven(l.Window, e, l.Rate, l.Evidence)...)
	}
	if len(held) > 0 && l.UpTo > 0 && e.Ratio > l.UpTo { // the alert on the range above it says why
		return false, nil
	}
	return len(held) == 0, held
}

// Spent is the condition of LiveExhausted: at most Below of the budget is left over the SLO's window of the given
// length, of which a share was observed, by enough events. held is as in InRange.
func (l *Live) Spent(
	b slo.Budget, period time.Duration, observed, events float64, firing bool,
) (holds bool, held []Hold) {
	spent := exact(1 - l.Below)
	if !b.HasData || b.Consumed < spent {
		return false, nil
	}
	held = l.fewEvents(period, events)
	if have := b.Consumed * observed; have < spent && !firing {
		held = append(held, Hold{
			Reason: HoldObserved, Window: period, Have: have, Want: spent, Observed: observed, Events: events, kind: l.Kind,
		})
	}
	return len(held) == 0, held
}

// slack keeps the last bits of a sum from crossing a threshold that a score meets
// exactly, as the levels of package sla do.
const slack = 1e-9

// Low is the condition of LiveScore: the score is below its bound. held is as in InRange.
func (l *Live) Low(r *sla.SLAReport, firing bool) (holds bool, held []Hold) {
	low := r.HasData && r.Score < l.Below-slack
	if !low || firing || r.ObservedScore() < l.Below-slack {
		return low, nil
	}
	observed := 1.0
	for i := range r.Components {
		if c := &r.Components[i]; c.HasData {
			observed = min(observed, c.Observed)
		}
	}
	return false, []Hold{{
		Reason: HoldObserved, Window: r.Period.Duration(), Have: r.ObservedScore(), Want: l.Below,
		Observed: observed, kind: l.Kind,
	}}
}

// Recovery is the window that must have been observed for a firing alert to be
// over: the short one of a tier, else the shortest of all.
func (l *Live) Recovery() time.Duration {
	if l.Kind == LiveBurn {
		return l.Tier.Short
	}
	return shortWindow
}

// Rises is the condition of LiveTrend: much of the budget's ratio is used by enough events, and the last ten minutes
// were worse than the ten before by more than chance makes them.
func (l *Live) Rises(short, now, before Reading) bool {
	return short.above(l.Above, true) && short.Events >= float64(l.MinEvents) &&
		now.HasData && before.HasData && now.Ratio > trendGrowth*before.Ratio
}

// Declines is the condition of LiveDecline. perSlice is how many events a slice gets at the present rate, and judged
// how many slices of Window were judged: none while closed.
func (l *Live) Declines(perSlice float64, judged uint64) bool {
	return judged > 0 && perSlice >= float64(l.SLO.Indicator.AtLeast) && perSlice < l.Below
}

// FailsBelow and FailsAbove are the two sides of LiveCascade, each about one group: so many events are bad, and more of
// them than the SLO allows.
func FailsBelow(e Reading, s *slo.SLO, bad uint64) bool { return fails(e, s, bad, cascadeCause) }

// FailsAbove is FailsBelow for the effect.
func FailsAbove(e Reading, s *slo.SLO, bad uint64) bool { return fails(e, s, bad, cascadeEffect) }

func fails(e Reading, s *slo.SLO, bad, most uint64) bool {
	return bad > most && e.above(s.Objective.Budget(), true)
}

// Recovered is the condition of LiveRecovered, apart from the alert that must be over: there is data, and it is within
// the bound.
func (l *Live) Recovered(e Reading) bool { return e.HasData && e.Ratio <= l.Above }

// Restored is Recovered for LiveRestored.
func (l *Live) Restored(r *sla.SLAReport) bool { return r.HasData && r.Score >= l.Below-slack }
