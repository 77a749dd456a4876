package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// hourly is an SLO with one page, over an hour and five minutes.
func hourly(t testing.TB) *slo.SLO {
	s := newSLO(t, "shop/availability", "99.9")
	s.Alerting.Ticket.Disabled, s.Alerting.Tiers = true, slo.Tiers[:1]
	return s
}

// counted is a report with so many bad of so many events in the hour and in the five minutes.
func counted(s *slo.SLO, now time.Time, long, bad, short, shortBad uint64) *sla.Report {
	r := sla.SLOReport{SLO: s, Coverage: 1}
	for _, w := range slo.BurnWindows {
		c := slo.Counts{Good: long - bad, Bad: bad}
		if w <= 5*time.Minute {
			c = slo.Counts{Good: short - shortBad, Bad: shortBad}
		}
		b := slo.NewBurn(w, slo.NewBudget(s.Objective, c))
		b.Observed = 1
		r.Burns = append(r.Burns, b)
	}
	r.RawBurns = rawBurns(1)
	return &sla.Report{Time: now, SLOs: []sla.SLOReport{r}}
}

// TestHold: a page goes on through quiet minutes of an incident, which say nothing of its end, over a restart as well.
// Busy ones end it.
func TestHold(t *testing.T) {
	s := hourly(t)
	firing := []string{"ErrorBudgetBurnPage/page-1h firing"}
	step := func(m *Machine, after time.Duration, short, shortBad uint64) []string {
		m.Step(counted(s, start.Add(after), 60, 3, short, shortBad))
		return names(m.View().Active)
	}
	begin := func() *Machine {
		m := newMachine(t)
		require.Equal(t, firing, step(m, 0, 6, 1))
		return m
	}
	m := begin()
	require.Equal(t, firing, step(m, 10*time.Minute, 6, 0))
	require.Equal(t, firing, step(m, 20*time.Minute, 0, 0), "no event at all")
	require.Equal(t, firing, step(m, 30*time.Minute, 694, 0))
	require.Empty(t, step(m, 30*time.Minute+10*time.Second, 6, 0))
	require.Equal(t, firing, step(m, 31*time.Minute, 6, 1), "it begins again with the next bad event")

	m = begin()
	require.Equal(t, firing, step(m, time.Minute, 694, 0))
	require.Empty(t, step(m, 2*time.Minute, 695, 0), "so many events would have shown ten bad ones at the threshold")

	m = begin()
	require.Equal(t, firing, step(m, 10*time.Minute, 6, 0))
	again := newMachine(t)
	require.NoError(t, again.Restore(m.Snapshot()))
	require.Equal(t, firing, step(again, 11*time.Minute, 6, 0), "it fired when the snapshot was made")
	require.Empty(t, step(again, 10*time.Minute+slo.Hold+time.Second, 6, 0))

	// The evidence lasts as long. The ratio of the long window does not.
	m = begin()
	m.Step(counted(s, start.Add(time.Minute), 60, 1, 6, 1))
	require.Equal(t, firing, names(m.View().Active))
	m.Step(counted(s, start.Add(2*time.Minute), 70, 1, 6, 1))
	require.Empty(t, m.View().Active)

	// Tickets end with their windows.
	s.Alerting.Ticket.Disabled, s.Alerting.Tiers = false, []slo.Tier{{Long: time.Hour, Short: 5 * time.Minute, Share: 0.02}}
	m = newMachine(t)
	require.Equal(t, []string{"ErrorBudgetBurnTicket/ticket-1h firing"}, step(m, 0, 6, 1))
	require.Empty(t, step(m, time.Minute, 6, 0))
}

// TestEvidence: a page needs three bad events, and more than chance makes of the budget. What it lacks is said in numbers.
func TestEvidence(t *testing.T) {
	for _, c := range []struct {
		name       string
		long, bad  uint64
		falsePages float64
		held       string // "" if it fires
	}{
		{"one of one", 1, 1, 0, "min_bad: 1 of 3 bad events in 1h"},
		{"two of two", 2, 2, 0, "min_bad: 2 of 3 bad events in 1h"},
		{"three of three", 3, 3, 0, ""},
		{"three of 200", 200, 3, 0, "evidence: 5.3 of 6 that more than 0.1 % of the events in 1h are bad: with 200 events it may be chance"},
		{"three of 200 where more false pages may come", 200, 3, 4, ""},
		{"three of 60 where fewer may", 60, 3, 0.1, "evidence: 8.8 of 9.5 that more than 0.1 % of the events in 1h are bad: with 60 events it may be chance"},
		{"four of 200", 200, 4, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := hourly(t)
			s.Alerting.FalsePages = c.falsePages
			m := newMachine(t)
			m.Step(counted(s, start, c.long, c.bad, c.long, c.bad))
			if c.held == "" {
				require.Equal(t, []string{"ErrorBudgetBurnPage/page-1h firing"}, names(m.View().Active))
				return
			}
			require.Empty(t, m.View().Active)
			require.Len(t, m.View().Held, 1)
			require.Len(t, m.View().Held[0].Why, 1)
			require.Equal(t, c.held, m.View().Held[0].Why[0].String())
		})
	}
}
