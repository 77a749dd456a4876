package format

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
)

func TestForecastSentences(t *testing.T) {
	pace := func(low, high time.Duration) string {
		return Pace(&forecast.Forecast{Pace: forecast.Pace{Low: low, High: high}})
	}
	require.Equal(t, "exhausted in 6h to 9h at this pace", pace(6*time.Hour, 9*time.Hour+20*time.Second))
	require.Equal(t, "exhausted in 2d 3h at this pace", pace(51*time.Hour, 51*time.Hour+time.Minute))
	require.Equal(t, "exhausted in 6h at the fastest recent pace, not at the slowest", pace(6*time.Hour, forecast.Beyond))
	require.Equal(t, "not exhausted within the window at this pace", pace(forecast.Beyond, forecast.Beyond))
	require.Equal(t, "exhausted now", Pace(&forecast.Forecast{Exhaustion: forecast.Exhaustion{Already: true}}))
	require.Equal(t, "no forecast: less than a week was observed",
		Pace(&forecast.Forecast{TooLittle: "less than a week was observed"}))

	nov := time.Date(2026, 11, 13, 10, 0, 0, 0, time.UTC)
	r := &forecast.Relief{
		Incident: slo.Span{From: nov, To: nov.Add(3 * time.Hour)},
		Leaves:   slo.Span{From: nov.Add(30 * 24 * time.Hour), To: nov.Add(30*24*time.Hour + 3*time.Hour)}, Share: 0.7213,
	}
	require.Equal(t, "the incident of 13 Nov leaves the window on 13 Dec: +72%", Relief(r))
	r.Leaves.To = nov.Add(31 * 24 * time.Hour)
	require.Equal(t, "the incident of 13 Nov leaves the window from 13 Dec to 14 Dec: +72%", Relief(r))

	f := &forecast.Forecast{Running: &forecast.Running{Since: nov, Burn: 20, Empty: 33 * time.Hour}}
	require.Equal(t,
		"an incident has been running since 10:00 UTC at a burn rate of 20.0×. If it continues at this burn rate, the "+
			"budget is exhausted in 1d 9h",
		RunningIncident(f, time.Time{}, nov.Add(time.Hour)))
	require.Contains(t, RunningIncident(f, nov.Add(39*time.Minute), nov.Add(time.Hour)), "running since 10:39 UTC at")

	f.Pace = forecast.Pace{Low: 6 * time.Hour, High: 9 * time.Hour}
	require.Equal(t, "incident since 10:39 UTC, exhausted in 6h to 9h at this pace",
		PaceSince(f, nov.Add(39*time.Minute), nov.Add(time.Hour)))
	require.Equal(t, Pace(f), PaceSince(f, time.Time{}, nov))

	l := &forecast.Level{Since: nov, Before: 0.00104, After: 0.0074}
	require.Equal(t, "the level of failures changed 2d 6h ago, from 0.1% to 0.74%",
		LevelChange(l, nov.Add(54*time.Hour+time.Minute)))

	require.Equal(t, "<1%", Odds(0.001))
	require.Equal(t, ">99%", Odds(0.999))
	require.Equal(t, "0%", Odds(0))
	require.Equal(t, "37%", Odds(0.368))

	week := 7 * 24 * time.Hour
	require.Equal(
		t, "in 3 weeks to 5 weeks", Reach(&forecast.Capacity{Reached: forecast.ReachedWithin, Low: 3 * week, High: 5 * week}))
	require.Equal(t, "in 5d at the earliest",
		Reach(&forecast.Capacity{Reached: forecast.ReachedWithin, Low: 120 * time.Hour, High: forecast.Beyond}))
	require.Equal(t, "too little data", Reach(&forecast.Capacity{Reached: forecast.ReachUnknown}))
}
