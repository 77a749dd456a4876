package public

import (
	"testing"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/stretchr/testify/require"
)

func TestPublicState(t *testing.T) {
	objective, err := slo.ParsePercent("99.9")
	require.NoError(t, err)
	noon := time.Date(2026, 11, 20, 12, 0, 7, 0, time.UTC)
	s := &slo.SLO{ID: "a/b", Objective: objective, Window: slo.Window{Rolling: 30 * 24 * time.Hour}}
	burns := func(short, hour slo.Counts, day slo.Counts) (out []slo.Burn) {
		for _, w := range slo.BurnWindows {
			c := day
			switch {
			case w <= 30*time.Minute:
				c = short
			case w <= 2*time.Hour:
				c = hour
			}
			out = append(out, slo.NewBurn(w, slo.NewBudget(s.Objective, c)))
		}
		return out
	}
	row := func(b []slo.Burn, g ...string) *sla.SLOReport {
		return &sla.SLOReport{SLO: s, Group: g, Burns: b, Period: slo.Span{From: noon.Add(-30 * 24 * time.Hour), To: noon}}
	}
	c := func(good, bad uint64) slo.Counts { return slo.Counts{Good: good, Bad: bad} }
	for name, x := range map[string]struct {
		rows []*sla.SLOReport
		want PublicState
	}{
		"fine":             {[]*sla.SLOReport{row(burns(c(100, 0), c(1000, 0), c(9000, 0)))}, Operational},
		"half of it fails": {[]*sla.SLOReport{row(burns(c(50, 50), c(950, 50), c(9000, 50)))}, Outage},
		"one failure":      {[]*sla.SLOReport{row(burns(c(0, 1), c(900, 1), c(9000, 1)))}, Operational},
		"burns fast":       {[]*sla.SLOReport{row(burns(c(97, 3), c(970, 30), c(9000, 30)))}, DegradedNow},
		"nothing recently": {[]*sla.SLOReport{row(burns(c(0, 0), c(0, 0), c(9000, 0)))}, Operational},
		"nothing in a day": {[]*sla.SLOReport{row(burns(c(0, 0), c(0, 0), c(0, 0)))}, UnknownNow},
		"one group of two": {[]*sla.SLOReport{row(burns(c(10000, 0), c(100000, 0), c(900000, 0)), "x"),
			row(burns(c(0, 5), c(20, 5), c(90, 5)), "y")}, DegradedNow},
		"the others of a mix": {
			[]*sla.SLOReport{row(burns(c(100000, 0), c(1000000, 0), c(9000000, 0)), "x"), func() *sla.SLOReport {
				r := row(burns(c(0, 5), c(20, 5), c(90, 5)), slo.OtherGroup)
				r.Informative = true
				return r
			}()}, Operational},
	} {
		got := combine(x.rows)
		require.Equal(t, x.want, got.state(), name)
	}
	require.Equal(t, Outage, Operational.worse(Outage))
	require.Equal(t, Operational, UnknownNow.worse(Operational))
}

func TestFeedIsEscaped(t *testing.T) {
	x := Incident{Title: "Slow", Service: "a<b>"}
	require.Contains(t, x.content(), "<p>Service: a&lt;b&gt;</p>")
}
