package report

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

func TestPeriods(t *testing.T) {
	for in, want := range map[string][2]string{
		"2026-W47": {"2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"},
		"2026-W01": {"2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z"},
		"2026-W53": {"2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		"2024-02":  {"2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		"2026-12":  {"2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
	} {
		p, err := ParsePeriod(in)
		require.NoError(t, err, in)
		require.Equal(t, in, p.String())
		sp := p.In(time.UTC)
		require.Equal(t, want, [2]string{sp.From.Format(time.RFC3339), sp.To.Format(time.RFC3339)}, in)
		require.Equal(t, p, p.Shift(1).Shift(-1), in)
		require.Equal(t, sp.To, p.Shift(1).In(time.UTC).From, in)
		require.Equal(t, p, PeriodOf(p.Unit, sp.From), in)
	}
	for _, bad := range []string{"", "2026", "2026-W00", "2026-W54", "2025-W53", "2026-00", "2026-13", "1969-12", "26-W47",
		"2026-w47", "2026-W47x", " 2026-W47", "2026-11-20", "+026-W47"} {
		_, err := ParsePeriod(bad)
		require.Error(t, err, bad)
	}
	// Summer time ends in the week: it has an hour more, and one of its days 25.
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	p, err := ParsePeriod("2026-W43")
	require.NoError(t, err)
	sp := p.In(berlin)
	require.Equal(t, 7*24*time.Hour+time.Hour, sp.Duration())
	days := history.Days(sp, berlin)
	require.Len(t, days, 7)
	require.Equal(t, 25*time.Hour, days[6].Duration())
	require.Equal(t, "Week 43 of 2026", p.Title())
	require.Equal(t, "19 to 25 October 2026", p.Dates())
	require.Equal(t, "29 December 2025 to 4 January 2026", Period{slo.Week, 2026, 1}.Dates())
}

func TestRelativePeriods(t *testing.T) {
	moscow, err := time.LoadLocation("Europe/Moscow")
	require.NoError(t, err)
	now := time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC) // Monday; 1 December in Moscow
	for in, want := range map[string][2]string{
		"last-month": {"2026-10", "2026-11"}, "this-month": {"2026-11", "2026-12"}, "last-week": {"2026-W48", "2026-W48"},
		"this-week": {"2026-W49", "2026-W49"}, "2026-W02": {"2026-W02", "2026-W02"},
	} {
		for i, zone := range []*time.Location{nil, moscow} {
			p, err := ResolvePeriod(in, now, zone)
			require.NoError(t, err, in)
			require.Equal(t, want[i], p.String(), in)
		}
	}
	newYear, err := ResolvePeriod("last-month", time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC), nil)
	require.NoError(t, err)
	require.Equal(t, "2026-12", newYear.String())
	for _, bad := range []string{"", "next-month", "last-day", "last", "LAST-MONTH"} {
		_, err := ResolvePeriod(bad, now, nil)
		require.ErrorContains(t, err, "last-month", bad)
	}
}

func TestMakerKeepsFewReports(t *testing.T) {
	var m Maker
	from := Source{Counts: func(context.Context, []fold.ReadRequest) ([]fold.ReadResult, error) { return nil, nil }}
	p, err := ParsePeriod("2026-W45")
	require.NoError(t, err)
	rep := &sla.Report{Time: p.In(time.UTC).To}
	for range 2 * keptReports {
		rep.Version++
		_, err := m.Make(t.Context(), from, rep, Query{Period: p})
		require.NoError(t, err)
	}
	require.Len(t, m.m, keptReports)
}

func TestWithin(t *testing.T) {
	in := sla.ComponentInput{Within: make([]uint64, 2)}
	addWithin(&in, []sla.Band{{Threshold: time.Second}, {}}, []time.Duration{time.Second, time.Minute}, []uint64{3, 5, 7})
	require.Equal(t, []uint64{3, 0}, in.Within, "a band holds what took as long as its threshold")
	require.EqualValues(t, 15, in.Measured)

	day := slo.Span{From: time.Unix(0, 0), To: time.Unix(86400, 0)}
	all := []onset{{at: day.From, id: "a"}, {at: day.To, id: "b"}}
	require.Equal(t, 1, (&onsets{known: true}).within(all, day), "the end is part of the next day")
	require.Equal(t, -1, (&onsets{}).within(all, day))
}
