package demo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
)

var now = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func collect(t *testing.T, m *Model, from, to time.Time) []event.Event {
	t.Helper()
	var out []event.Event
	require.NoError(t, m.History(from, to, func(e *event.Event) error {
		c := *e
		c.Attributes = append([]event.Attr(nil), e.Attributes...)
		c.Durations = append([]event.DurationCount(nil), e.Durations...)
		out = append(out, c)
		return nil
	}))
	return out
}

func TestHistoryIsTheSameAtEveryCall(t *testing.T) {
	a := collect(t, New(now, 7), now.Add(-3*time.Hour), now)
	b := collect(t, New(now, 7), now.Add(-3*time.Hour), now)
	require.Equal(t, a, b)
	// and does not depend on where one begins
	c := collect(t, New(now, 7), now.Add(-2*time.Hour), now)
	require.Equal(t, c, a[len(a)-len(c):])
	require.NotEqual(t, a, collect(t, New(now, 8), now.Add(-3*time.Hour), now))
}

func TestHistoryIsValid(t *testing.T) {
	ids := map[string]bool{}
	for _, e := range collect(t, New(now, 1), now.Add(-24*time.Hour), now) {
		require.False(t, ids[e.ID], "id %s twice", e.ID)
		ids[e.ID] = true
		require.False(t, e.Time.Before(now.Add(-24*time.Hour)) || !e.Time.Before(now))
		n := uint32(0)
		for _, d := range e.Durations {
			n += d.Count
		}
		switch {
		case e.HasDuration:
			require.Equal(t, uint32(1), e.Count)
		case e.Type == typeStarted || e.Type == typeIssued:
			require.Zero(t, n, "they are counted, and their time is not known")
		default:
			require.Equal(t, e.Count, n, e.ID)
		}
	}
}

// The outage must hurt MEDCARE most and leave TRVL10 nearly alone, or the demo
// has nothing to show.
func TestOutageHitsProductsUnequally(t *testing.T) {
	m := New(now, 1)
	outage := m.Incidents[0]
	bad, all := map[string]uint32{}, map[string]uint32{}
	for _, e := range collect(t, m, outage.From, outage.To) {
		if e.Type != "application" {
			continue
		}
		all[e.Attr("product")] += e.Count
		if e.Severity == "critical" {
			bad[e.Attr("product")] += e.Count
		}
	}
	ratio := func(p string) float64 { return float64(bad[p]) / float64(all[p]) }
	require.InDelta(t, 0.56, ratio("MEDCARE"), 0.05)
	require.InDelta(t, 0.20, ratio("SOMLT"), 0.05)
	require.Less(t, ratio("TRVL10"), 0.1)
}

func TestLiveMatchesTheModelsRate(t *testing.T) {
	m := New(now, 3)
	apps, ids := 0, map[string]bool{}
	for s := range 600 {
		from := now.Add(time.Duration(s) * time.Second)
		for _, e := range m.Live(from, from.Add(time.Second), "t") {
			require.False(t, ids[e.ID])
			ids[e.ID] = true
			if e.Type == "application" {
				apps++
			}
		}
	}
	// 180 a minute at peak, at 12:00 to 12:10 in Moscow, for ten minutes
	require.InDelta(t, 1770, apps, 200)
}
