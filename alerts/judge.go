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

// Burns is the condition of a tier: both windows are above its threshold, and the
// long one holds enough events to mean it.
func (t Tier) Burns(long, short Reading, minEvents uint64, firing bool) bool {
	return long.above(t.Threshold, firing) && short.above(t.Threshold, firing) && long.Events >= float64(minEvents) &&
		(!t.Page || LowerBound(long.Ratio, long.Events)*long.weight(firing) > t.Threshold)
}

// InRange is the condition of LiveRatio and LiveLimit: the error ratio is in
// (Above, UpTo], over enough events.
func (l *Live) InRange(e Reading, firing bool) bool {
	return e.above(l.Above, firing) && !(l.UpTo > 0 && e.Ratio*e.weight(firing) > l.UpTo) && e.Events >= float64(l.MinEvents)
}

// Spent is the condition of LiveExhausted: no budget is left over the SLO's window,
// of which the given share was observed, by enough events.
func (l *Live) Spent(b slo.Budget, observed, events float64, firing bool) bool {
	if firing {
		observed = 1
	}
	return b.HasData && b.Consumed*observed >= 1 && events >= float64(l.MinEvents)
}

// slack keeps the last bits of a sum from crossing a threshold that a score meets
// exactly, as the levels of package sla do.
const slack = 1e-9

// Low is the condition of LiveScore: the score is below its bound.
func (l *Live) Low(r *sla.SLAReport, firing bool) bool {
	score := r.Score
	if !firing {
		score = r.ObservedScore()
	}
	return r.HasData && score < l.Below-slack
}

// Recovery is the window that must have been observed for a firing alert to be
// over: the short one of a tier, else the shortest of all.
func (l *Live) Recovery() time.Duration {
	if l.Kind == LiveBurn {
		return l.Tier.Short
	}
	return shortWindow
}
