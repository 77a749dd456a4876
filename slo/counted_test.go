package slo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestConversionTable is the table of docs/specs.md.
func TestConversionTable(t *testing.T) {
	o, err := ParsePercent("35")
	require.NoError(t, err)
	for _, c := range []struct {
		connected, applied uint64
		want               Counts
		sli, burn          float64
		data               bool
	}{
		{30, 100, Counts{30, 70}, 0.3, 0.7 / 0.65, true},
		{35, 100, Counts{35, 65}, 0.35, 1, true},
		{120, 100, Counts{100, 0}, 1, 0, true},
		{5, 0, Counts{}, 0, 0, false},
		{0, 4, Counts{0, 4}, 0, 1 / 0.65, true},
	} {
		got := KindRatio.Counts([]uint64{c.connected, c.applied})
		require.Equal(t, c.want, got)
		b := NewBudget(o, got)
		require.Equal(t, c.data, b.HasData)
		require.InDelta(t, c.sli, b.SLI, 1e-12)
		require.InDelta(t, c.burn, b.Consumed, 1e-12)
	}
}

// TestApdexTable is computed by hand: (satisfied + tolerated/2) / all.
func TestApdexTable(t *testing.T) {
	for _, c := range []struct {
		satisfied, tolerated, frustrated uint64
		score                            float64
	}{
		{60, 30, 10, 0.75}, {0, 1, 0, 0.5}, {1, 1, 1, 0.5}, {7, 0, 0, 1}, {0, 0, 3, 0}, {10, 4, 2, 12.0 / 16},
	} {
		got := KindApdex.Counts([]uint64{c.satisfied, c.tolerated, c.frustrated})
		require.Equal(t, KindApdex.Unit()*(c.satisfied+c.tolerated+c.frustrated), got.Valid())
		ratio, ok := got.Ratio()
		require.True(t, ok)
		require.Equal(t, c.score, ratio)
	}
	_, ok := KindApdex.Counts(nil).Ratio()
	require.False(t, ok)
}

func TestVolumePeriods(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	at := func(text string) time.Time {
		out, err := time.ParseInLocation("2006-01-02 15:04", text, berlin)
		require.NoError(t, err)
		return out
	}
	in := Indicator{Kind: KindVolume, AtLeast: 10_000, Calendar: Day, Location: berlin}
	// The clocks are set back on October 25.
	days := in.Periods(Span{From: at("2026-10-24 12:00"), To: at("2026-10-27 00:00")})
	require.Len(t, days, 2)
	require.Equal(t, 25*time.Hour, days[0].Duration())
	require.True(t, days[1].From.Equal(at("2026-10-26 00:00")))

	p, ok := in.Period(at("2026-11-24 15:00"))
	require.True(t, ok)
	require.True(t, p.From.Equal(at("2026-11-24 00:00")))
	usual := in.Usual(p)
	require.Len(t, usual, 4)
	require.True(t, usual[0].From.Equal(at("2026-11-17 00:00")))
	require.True(t, usual[3].From.Equal(at("2026-10-27 00:00")))

	in.During, err = ParseSchedule("Mon-Fri 09:00-18:00 Europe/Berlin")
	require.NoError(t, err)
	open := in.Periods(Span{From: at("2026-11-20 09:00"), To: at("2026-11-24 09:00")}) // Friday to Tuesday
	require.Len(t, open, 2)
	require.True(t, open[0].From.Equal(at("2026-11-20 09:00")))
	require.True(t, open[1].From.Equal(at("2026-11-23 09:00")))
	require.Equal(t, 9*time.Hour, open[1].Duration())
	p, ok = in.Period(at("2026-11-22 12:00"))
	require.True(t, ok, "on Sunday it is Friday's")
	require.True(t, p.From.Equal(at("2026-11-20 09:00")))
	require.True(t, in.Usual(open[1])[0].From.Equal(at("2026-11-16 09:00")))

	in.During, in.Calendar = Schedule{}, Month
	p, _ = in.Period(at("2026-03-31 12:00"))
	require.True(t, p.To.Equal(at("2026-04-01 00:00")))
	require.True(t, in.Usual(p)[0].From.Equal(at("2026-02-01 00:00")))
}

func TestVolumeJudgement(t *testing.T) {
	in := Indicator{Kind: KindVolume, AtLeast: 10_000}
	for _, c := range []struct {
		events  uint64
		seen    float64
		excused bool
		want    Counts
	}{
		{10_000, 1, false, Counts{Good: 1}},
		{9_999, 1, false, Counts{Bad: 1}},
		{0, 1, false, Counts{Bad: 1}},
		{9_999, 0.99, false, Counts{Bad: 1}},
		{9_999, 0.98, false, Counts{}},
		{9_999, 1, true, Counts{}},
		{10_000, 0.2, true, Counts{Good: 1}},
	} {
		require.Equal(t, c.want, in.JudgeVolume(c.events, c.seen, c.excused), "%+v", c)
	}
}
