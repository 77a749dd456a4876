package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
)

// Two hours of maintenance with every event failing, written down only
// afterwards: the same storage, read by rules that know of it.
func TestCorrectionAfterTheFact(t *testing.T) {
	const correction = `
corrections:
  - {name: upgrade, start: 2026-03-02T04:00:00Z, duration: 2h, author: ops, reason: planned}
`
	before, after := load(t, shop), load(t, shop+correction)
	o := rules.Options{}
	w := rulestest.New(t, monday, recording(t, before, o))
	n := traffic{valid: 1e6, bad: 1e4}
	run := func(to time.Time) {
		w.Run(to, scrape, func(at time.Time, add func(string, float64)) {
			share := 0.01
			if h := at.Sub(monday); h >= 4*time.Hour && h < 6*time.Hour {
				share = 1
			}
			n.scrape(add)
			n.add(10, share)
		})
	}
	run(monday.Add(8 * time.Hour))
	s := before.SLOs[0]
	require.InDelta(t, (2*1+6*0.01)/8, value(t, w, o.PeriodErrorRatio(s)), 4e-3)
	require.InDelta(t, (2*1+4*0.01)/6, value(t, w, o.ErrorRatio(s, 6*time.Hour)), 2e-3)

	w.Replace(recording(t, after, o))
	run(monday.Add(8*time.Hour + 11*time.Minute))
	s = after.SLOs[0]
	for _, window := range []time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour,
		24 * time.Hour, 30 * 24 * time.Hour} {
		require.InDelta(t, 0.01, value(t, w, o.ErrorRatio(s, window)), 3e-4, window.String())
	}
	require.InDelta(t, 1-10, value(t, w, o.PeriodRemaining(s)), 0.3)
	// What really happened is still there to see.
	require.InEpsilon(t, 3600*10, value(t, w, o.EventsOver(s, time.Hour)), 0.01)
}

// While maintenance is on there is no data, and afterwards only what came after.
func TestCorrectionAsItHappens(t *testing.T) {
	const correction = `
corrections:
  - {name: nightly, start: 2026-03-01T02:00:00Z, duration: 30m, rrule: FREQ=DAILY, author: ops, reason: planned}
`
	in := load(t, shop+correction)
	s, o := in.SLOs[0], rules.Options{From: monday, Until: monday.AddDate(0, 1, 0)}
	w := rulestest.New(t, monday, short(recording(t, in, o)))
	n := traffic{valid: 1e6, bad: 1e4}
	from, to := monday.Add(2*time.Hour), monday.Add(150*time.Minute)
	w.After = func(at time.Time) {
		for _, window := range []time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour} {
			if got, ok := w.Value(o.ErrorRatio(s, window), at); ok && at.Sub(monday) > 10*time.Minute {
				require.InDelta(t, 0.01, got, 1e-3, "%s at %s", window, at)
			}
		}
		if at.After(from.Add(time.Minute)) && at.Before(to.Add(5*time.Minute)) {
			require.Empty(t, w.Query(o.ErrorRatio(s, 5*time.Minute), at))
		}
	}
	w.Run(monday.Add(5*time.Hour), scrape, func(at time.Time, add func(string, float64)) {
		share := 0.01
		if !at.Before(from) && at.Before(to) {
			share = 1
		}
		n.scrape(add)
		n.add(10, share)
	})
	end, ok := w.Value(o.TablesEnd("shop"), w.Now())
	require.True(t, ok)
	require.Equal(t, float64(o.Until.Unix()), end)
}

// In Berlin March 2026 is an hour short, and it begins an hour before UTC's.
func TestCalendarMonthWithClockChange(t *testing.T) {
	if testing.Short() {
		t.Skip("a month of scrapes")
	}
	in := load(t, strings.Replace(shop, "objective: 99.9",
		"objective: 99.9\n    window: {calendar: month, timezone: Europe/Berlin}", 1))
	s := in.SLOs[0]
	o := rules.Options{From: monday, Until: monday.AddDate(0, 6, 0)}
	groups := coarse(recording(t, in, o),
		"slo:valid_events:rate5m", "slo:bad_events:rate5m", "slo:period_start:seconds", "slo:period_end:seconds",
		"slo:time_period:days",
		"slo:sli_error:ratio_rate_month", "slo:period_burn_rate:ratio", "slo:period_error_budget_remaining:ratio")
	groups = seldom(groups, time.Hour)
	// The month is added up from these; the rest is evaluated in the hours that are asked for.
	counting := coarse(groups, "slo:valid_events:rate5m", "slo:bad_events:rate5m")
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	march, april := time.Date(2026, 3, 1, 0, 0, 0, 0, berlin), time.Date(2026, 4, 1, 0, 0, 0, 0, berlin)
	w := rulestest.New(t, march.Add(-24*time.Hour), counting)
	w.Phase = 0 // the rates of five minutes end where the steps of the windows are
	n := traffic{valid: 1e6, bad: 1e4}
	run := func(to time.Time) {
		w.Run(to, time.Minute, func(at time.Time, add func(string, float64)) {
			share := 0.0
			switch h := at.Sub(april); {
			case at.Before(march), h >= -2*time.Hour && h < -time.Hour, h >= time.Hour && h < 2*time.Hour:
				share = 1
			}
			n.scrape(add)
			n.add(10, share)
		})
	}
	o.Scrape = time.Minute
	run(march)
	w.Replace(groups)
	run(march.Add(2*time.Hour + 2*time.Second))
	require.Zero(t, value(t, w, o.PeriodErrorRatio(s)), "what February did is over")
	require.InDelta(t, 31-1.0/24, value(t, w, o.Days(s)), 1e-9)
	w.Replace(counting)
	run(april.Add(-2 * time.Hour))
	w.Replace(groups)
	run(april.Add(-time.Hour + 2*time.Second))
	hours := april.Sub(march).Hours()
	require.Equal(t, 743.0, hours)
	require.InEpsilon(t, 1/(hours-1), value(t, w, o.PeriodErrorRatio(s)), 0.01)
	run(april.Add(time.Hour + 2*time.Second))
	require.Zero(t, value(t, w, o.PeriodErrorRatio(s)))
	require.Equal(t, 1.0, value(t, w, o.PeriodRemaining(s)))
	require.InDelta(t, 30, value(t, w, o.Days(s)), 1e-9)
	run(april.Add(4*time.Hour + 2*time.Second))
	require.InEpsilon(t, 0.25, value(t, w, o.PeriodErrorRatio(s)), 0.001)
}

func TestTablesAreAskedFor(t *testing.T) {
	for _, text := range []string{
		strings.Replace(shop, "objective: 99.9", "objective: 99.9\n    window: {calendar: day, timezone: UTC}", 1),
		shop +
			"corrections:\n  - {name: x, start: 2026-03-01T02:00:00Z, duration: 30m, rrule: FREQ=DAILY, author: a, reason: b}\n",
	} {
		in := load(t, text)
		require.True(t, rules.NeedsTables(in, "shop"))
		_, err := rules.Recording(in, rules.Options{})
		require.ErrorIs(t, err, rules.ErrNoTables)
		_, err = rules.Recording(in, year)
		require.NoError(t, err)
	}
	require.False(t, rules.NeedsTables(load(t, shop), "shop"))
}
