package spec

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

func instant(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	require.NoError(t, err)
	return at
}

func TestRecurrence(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	type row struct {
		name, rule, start string
		loc               *time.Location
		duration          time.Duration
		from, to          string
		want              []string // starts
	}
	for _, c := range []row{
		{"monthly", "FREQ=MONTHLY", "2026-01-31T00:00:00Z", time.UTC, time.Hour, "2026-01-01T00:00:00Z",
			"2026-06-01T00:00:00Z", []string{"2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"}},
		{"count", "FREQ=DAILY;COUNT=2", "2026-01-01T00:00:00Z", time.UTC, time.Hour, "2026-01-01T00:00:00Z",
			"2027-01-01T00:00:00Z", []string{"2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"}},
		{"until", "FREQ=WEEKLY;UNTIL=20260110T000000Z", "2026-01-01T00:00:00Z", time.UTC, time.Hour, "2026-01-01T00:00:00Z",
			"2027-01-01T00:00:00Z", []string{"2026-01-01T00:00:00Z", "2026-01-08T00:00:00Z"}},
		{"keeps the hour over a change of clocks", "FREQ=WEEKLY", "2026-03-22T03:00:00+01:00", berlin, time.Hour,
			"2026-03-20T00:00:00Z", "2026-04-01T00:00:00Z", []string{"2026-03-22T02:00:00Z", "2026-03-29T01:00:00Z"}},
		{"before the first", "FREQ=WEEKLY", "2026-03-22T03:00:00Z", time.UTC, time.Hour, "2026-01-01T00:00:00Z",
			"2026-03-22T03:00:00Z", nil},
		{"one that began before the span", "FREQ=DAILY", "2026-01-01T23:00:00Z", time.UTC, 2 * time.Hour,
			"2026-01-03T00:30:00Z", "2026-01-03T00:40:00Z", []string{"2026-01-02T23:00:00Z"}},
		{"one that ends where the span begins", "FREQ=DAILY", "2026-01-01T23:00:00Z", time.UTC, time.Hour,
			"2026-01-03T00:00:00Z", "2026-01-03T01:00:00Z", nil},
		{"far ahead", "FREQ=YEARLY", "2000-02-29T00:00:00Z", time.UTC, time.Hour, "2090-01-01T00:00:00Z",
			"2097-01-01T00:00:00Z", []string{"2092-02-29T00:00:00Z", "2096-02-29T00:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := parseRRule(c.rule, instant(t, c.start).In(c.loc), c.duration)
			require.NoError(t, err)
			sp := slo.Span{From: instant(t, c.from), To: instant(t, c.to)}
			for range 2 { // the second time from what is kept
				var got []string
				for _, s := range r.between(sp) {
					require.Equal(t, c.duration, s.Duration())
					got = append(got, s.From.UTC().Format(time.RFC3339))
				}
				require.Equal(t, c.want, got)
			}
		})
	}
}

func TestRecurrenceIsBounded(t *testing.T) {
	start := instant(t, "2020-01-01T00:00:00Z")
	// Sparse at first, then every second of some days: caught when asked for.
	r, err := parseRRule("FREQ=DAILY;BYHOUR=1;BYMINUTE=0,10,20,30,40,50;BYSECOND=0,15,30,45", start, time.Second)
	require.NoError(t, err)
	require.Len(t, r.between(slo.Span{From: start, To: start.Add(366 * day)}), 366*24)
	require.Len(t, r.between(slo.Span{From: start, To: start.Add(3660 * day)}), maxOccurrences)
}

func TestRecurrenceIsSafeForConcurrentUse(t *testing.T) {
	start := instant(t, "2020-01-01T00:00:00Z")
	r, err := parseRRule("FREQ=DAILY", start, time.Hour)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			from := start.Add(time.Duration(i) * 300 * day)
			require.Len(t, r.between(slo.Span{From: from, To: from.Add(30 * day)}), 30)
		})
	}
	wg.Wait()
}

func BenchmarkExcluded(b *testing.B) {
	start := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	r, err := parseRRule("FREQ=DAILY", start, time.Hour)
	require.NoError(b, err)
	now := start.Add(2400 * day)
	cs := []slo.Correction{{Start: start, Duration: time.Hour, Between: r.between}}
	for b.Loop() {
		slo.Excluded(cs, slo.Span{From: now.Add(-30 * day), To: now})
	}
}
