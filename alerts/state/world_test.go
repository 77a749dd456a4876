package state

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit/slotest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

const day = 24 * time.Hour

var start = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

func newSLO(t testing.TB, id slo.ID, objective string, groupBy ...string) *slo.SLO {
	return &slo.SLO{
		ID: id, Objective: slotest.Objective(t, objective), Window: slo.Window{Rolling: 30 * day}, GroupBy: groupBy,
		Budgeting: slo.Budgeting{Method: slo.Occurrences}, Indicator: slo.Indicator{Kind: slo.KindEvents},
	}
}

func newMachine(t testing.TB, change ...func(*Options)) *Machine {
	var o Options
	for _, f := range change {
		f(&o)
	}
	m, err := New(o)
	require.NoError(t, err)
	return m
}

// stream is steady traffic with incidents: error ratios between two times.
type stream struct {
	rate      float64 // events per second
	from      time.Time
	incidents []incident
}

type incident struct {
	from, to time.Time
	ratio    float64
}

// counts are the events of [a, b).
func (s *stream) counts(a, b time.Time) slo.Counts {
	if a.Before(s.from) {
		a = s.from
	}
	valid := math.Max(0, s.rate*b.Sub(a).Seconds())
	bad := 0.0
	for _, i := range s.incidents {
		part := slo.Span{From: a, To: b}.Intersect(slo.Span{From: i.from, To: i.to}).Duration()
		bad += s.rate * part.Seconds() * i.ratio
	}
	v, k := uint64(math.Round(valid)), uint64(math.Round(bad))
	return slo.Counts{Good: v - min(v, k), Bad: min(v, k)}
}

// report shows a stream as one group of an SLO.
func (s *stream) report(o *slo.SLO, group slo.Group, now time.Time) sla.SLOReport {
	r := sla.SLOReport{
		SLO: o, Group: group, Informative: group.IsOther(), Period: slo.Span{From: o.Window.Start(now), To: now}, Coverage: 1}
	budget := func(w time.Duration) slo.Budget { return slo.NewBudget(o.Objective, s.counts(now.Add(-w), now)) }
	for _, w := range slo.BurnWindows {
		b := slo.NewBurn(w, budget(w))
		b.Observed = 1
		r.Burns = append(r.Burns, b)
	}
	r.Budget = budget(r.Period.Duration())
	p := slo.NewBurn(r.Period.Duration(), r.Budget)
	p.Period, p.Observed = true, 1
	r.Burns = append(r.Burns, p)
	r.RawBurns, r.Raw = r.Burns, r.Budget
	if r.Budget.HasData {
		r.LastEvent = now
	}
	return r
}

// observe sets the share of every window up to the given length that was observed.
func observe(r *sla.SLOReport, upTo time.Duration, share float64) {
	burns := append([]slo.Burn(nil), r.Burns...)
	for i := range burns {
		if burns[i].Window <= upTo {
			burns[i].Observed = share
		}
	}
	r.Burns, r.RawBurns = burns, burns
}

// names lists the alerts of a view as "name/tier state".
func names(as []Alert) []string {
	out := []string{}
	for _, a := range as {
		s := a.Name
		if t := a.Label("slo_tier"); t != "" {
			s += "/" + t
		}
		out = append(out, s+" "+string(a.State))
	}
	return out
}
