package state

import (
	"encoding/json"
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

// counted is a report with so many bad of so many events in the hour and in the five minutes, and good ones in the half
// hour.
func counted(s *slo.SLO, now time.Time, long, bad, half, short, shortBad uint64) *sla.Report {
	r := sla.SLOReport{SLO: s, Coverage: 1}
	for _, w := range slo.BurnWindows {
		c := slo.Counts{Good: long - bad, Bad: bad}
		switch {
		case w <= 5*time.Minute:
			c = slo.Counts{Good: short - shortBad, Bad: shortBad}
		case w == 30*time.Minute:
			c = slo.Counts{Good: half}
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
	half := uint64(30)
	step := func(m *Machine, after time.Duration, short, shortBad uint64) []string {
		m.Step(counted(s, start.Add(after), 60, 3, half, short, shortBad))
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
	require.Equal(t, firing, step(m, 30*time.Minute, 6, 0))
	require.Empty(t, step(m, 30*time.Minute+10*time.Second, 6, 0))
	require.Equal(t, firing, step(m, 31*time.Minute, 6, 1), "it begins again with the next bad event")

	m = begin()
	half = 4166
	require.Equal(t, firing, step(m, time.Minute, 694, 0))
	half = 4167
	require.Empty(
		t, step(m, 2*time.Minute, 694, 0), "at that pace, five minutes would have shown ten bad ones at the threshold")
	half = 30

	m = begin()
	require.Equal(t, firing, step(m, 10*time.Minute, 6, 0))
	again := newMachine(t)
	require.NoError(t, again.Restore(m.Snapshot()))
	require.Equal(t, firing, step(again, slo.Hold, 6, 0))
	require.Empty(t, step(again, slo.Hold+time.Second, 6, 0))

	// A snapshot before version 5 says only that it fired then.
	var former map[string]any
	require.NoError(t, json.Unmarshal(m.Snapshot(), &former))
	former["version"] = 4
	delete(former, "marks")
	data, err := json.Marshal(former)
	require.NoError(t, err)
	again = newMachine(t)
	require.NoError(t, again.Restore(data))
	require.Equal(t, firing, step(again, 10*time.Minute+slo.Hold, 6, 0))
	require.Empty(t, step(again, 10*time.Minute+slo.Hold+time.Second, 6, 0))

	// The evidence lasts as long. The ratio of the long window does not.
	m = begin()
	m.Step(counted(s, start.Add(time.Minute), 60, 1, 30, 6, 1))
	require.Equal(t, firing, names(m.View().Active))
	m.Step(counted(s, start.Add(2*time.Minute), 70, 1, 30, 6, 1))
	require.Empty(t, m.View().Active)

	// Tickets end with their windows.
	s.Alerting.Ticket.Disabled, s.Alerting.Tiers = false,
		[]slo.Tier{{Long: time.Hour, Short: 5 * time.Minute, Share: 0.02}}
	m = newMachine(t)
	require.Equal(t, []string{"ErrorBudgetBurnTicket/ticket-1h firing"}, step(m, 0, 6, 1))
	require.Empty(t, step(m, time.Minute, 6, 0))
}

// TestLittleTraffic: at little traffic a page of half an hour is read by the hour, so that it lasts through quiet half
// hours of an incident, and a single failure after it does not begin it again.
func TestLittleTraffic(t *testing.T) {
	s := newSLO(t, "shop/availability", "99.9")
	s.Alerting.Ticket.Disabled, s.Alerting.Tiers = true, slo.Tiers[1:2]
	m := newMachine(t)
	step := func(after time.Duration, half, hour slo.Counts) []string {
		r := sla.SLOReport{SLO: s, Coverage: 1, RawBurns: rawBurns(1)}
		for w, c := range map[time.Duration]slo.Counts{30 * time.Minute: half, time.Hour: hour,
			6 * time.Hour: {Good: 2052, Bad: 108}} {
			b := slo.NewBurn(w, slo.NewBudget(s.Objective, c))
			b.Observed = 1
			r.Burns = append(r.Burns, b)
		}
		m.Step(&sla.Report{Time: start.Add(after), SLOs: []sla.SLOReport{r}})
		return names(m.View().Active)
	}
	firing := []string{"ErrorBudgetBurnPage/page-6h firing"}
	few, none := slo.Counts{Good: 159, Bad: 1}, slo.Counts{Good: 160}
	require.Empty(t, step(0, few, slo.Counts{Good: 339, Bad: 1}))
	require.Len(t, m.View().Held, 1)
	require.Equal(t,
		"quiet: the short window has few events, so that the last 1h count instead: 0.294 % of it is bad, more than 0.6 "+
			"% needed", m.View().Held[0].Why[0].String())
	require.Equal(t, firing, step(time.Minute, none, slo.Counts{Good: 337, Bad: 3}))
	require.Equal(t, firing, step(16*time.Minute, none, slo.Counts{Good: 339, Bad: 1}))
	require.Empty(t, step(16*time.Minute+10*time.Second, none, slo.Counts{Good: 339, Bad: 1}))
	require.Equal(t, firing, step(20*time.Minute, slo.Counts{Good: 1666}, slo.Counts{Good: 3303, Bad: 30}),
		"one event short of enough")
	require.Empty(t, step(21*time.Minute, slo.Counts{Good: 1667}, slo.Counts{Good: 3304, Bad: 30}))
	require.Equal(t, firing, step(22*time.Minute, slo.Counts{Good: 1656, Bad: 11}, slo.Counts{Good: 3304, Bad: 30}))
}

// TestEvidence: a page needs three bad events, and more than chance makes of the budget. What it lacks is said in
// numbers.
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
		{"three of 200", 200, 3, 0,
			"evidence: 5.3 of 6 that more than 0.1 % of the events in 1h are bad: with 200 events it may be chance"},
		{"three of 200 where more false pages may come", 200, 3, 4, ""},
		{"three of 60 where fewer may", 60, 3, 0.1,
			"evidence: 8.8 of 9.5 that more than 0.1 % of the events in 1h are bad: with 60 events it may be chance"},
		{"four of 200", 200, 4, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := hourly(t)
			s.Alerting.FalsePages = c.falsePages
			m := newMachine(t)
			m.Step(counted(s, start, c.long, c.bad, 30, c.long, c.bad))
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
