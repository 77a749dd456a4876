package alerts

import (
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Rises is the condition of LiveTrend: much of the budget's ratio is used by enough events, and the last ten minutes
// were worse than the ten before by more than chance makes them.
func (l *Live) Rises(short, now, before Reading) bool {
	return short.above(l.Above, true) && short.Events >= float64(l.MinEvents) &&
		now.HasData && before.HasData && now.Ratio > trendGrowth*before.Ratio
}

// Declines is the condition of LiveDecline. perSlice is how many events a slice gets at the present rate, and judged how
// many slices of Window were judged: none while closed.
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
