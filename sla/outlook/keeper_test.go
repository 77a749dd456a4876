package outlook

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
)

// TestOutlookIsTheForecastOfTheHours compares what a report shows with the forecast of the same hours.
func TestOutlookIsTheForecastOfTheHours(t *testing.T) {
	w := newWorld(t)
	w.bad = func(_ slo.ID, _ int, at time.Time) float64 {
		if age := begin.Add(50 * day).Sub(at); age > 10*day && age <= 10*day+3*time.Hour {
			return 800
		}
		return float64(2 + at.Hour()%5)
	}
	w.start(Options{})
	require.Nil(t, w.step(0).SLOs[0].Outlook)
	r := w.step(10 * time.Second)
	got := r.SLOs[0].Outlook
	require.NotNil(t, got)

	made := begin.Add(50 * day)
	var hours []forecast.Hour
	start := made.Add(-forecast.Lookback - time.Hour)
	for at := start; at.Before(made); at = at.Add(time.Hour) {
		c := w.count("shop/availability", 0, slo.Span{From: at, To: at.Add(time.Hour)})
		hours = append(hours, forecast.Hour{Valid: float64(c.Valid()), Bad: float64(c.Bad), Observed: 1})
	}
	var p forecast.Past
	p.Load(start, hours)
	c := w.count("shop/availability", 0, slo.Span{From: made.Add(-28 * day), To: made})
	want := p.At(forecast.Question{
		Now: made, Window: w.slos[0].Window, Budget: w.slos[0].Objective.Budget(), Valid: float64(c.Valid()),
		Bad: float64(c.Bad), Seed: newGroup(&r.SLOs[0], keyOf("shop/availability", nil)).seed,
	})
	require.InDelta(t, want.Points[3].Median, got.Forecast.Points[3].Median, 1e-6)
	require.Equal(t, want.Relief, got.Forecast.Relief)
	require.Equal(t, made.Add(-10*day-3*time.Hour), got.Forecast.Relief.Incident.From)
	require.InDelta(t, 1000, got.Week[0], 1)
	require.Equal(t, 1, r.Outlooks.Groups)
}

// TestPortions has four hundred groups: no call asks for more than the bound, those that burn come first, and every
// minute all of them are forecast.
func TestPortions(t *testing.T) {
	w := newWorld(t)
	w.groups = 400
	w.bad = func(_ slo.ID, g int, at time.Time) float64 {
		if g >= 390 && begin.Add(50*day).Sub(at) <= 2*time.Hour {
			return 40
		}
		return 4
	}
	w.start(Options{})
	w.step(0)
	r := w.step(10 * time.Second)
	for i := 390; i < 400; i++ {
		require.NotNil(t, r.SLOs[i].Outlook, "group %d burns", i)
	}
	require.Less(t, outlooks(r), 100, "no more than a portion is read after one report")
	w.until("all groups have an outlook", func(r *sla.Report) bool { return outlooks(r) == 400 })
	require.LessOrEqual(t, w.most, history.MaxAsk+900, "counts in one call")

	w.asked, w.calls = 0, 0
	for range 12 {
		r = w.step(10 * time.Second)
	}
	require.Less(t, w.asked, 20_000, "the hours are not read again")
	for i := range r.SLOs {
		require.LessOrEqual(t, r.Time.Sub(r.SLOs[i].Outlook.Forecast.Time), 100*time.Second, "group %d", i)
	}
	require.Equal(t, 10*time.Second, r.Time.Sub(r.SLOs[395].Outlook.Forecast.Time),
		"a group that burns is forecast with every report")
}

func TestTheMostUrgentGroupsAreForecast(t *testing.T) {
	w := newWorld(t)
	w.groups = 50
	w.bad = func(_ slo.ID, g int, _ time.Time) float64 { return float64(g % 10) }
	w.start(Options{Groups: 10})
	r := w.until("ten groups", func(r *sla.Report) bool { return outlooks(r) == 10 })
	for i := range r.SLOs {
		require.Equal(t, i%10 >= 8, r.SLOs[i].Outlook != nil, "group %d", i)
	}
	require.Equal(t, 10, r.Outlooks.Groups)
	require.Equal(t, 50, r.Outlooks.Of)

	w.bad = func(_ slo.ID, g int, _ time.Time) float64 { return float64(g % 10 * (1 + 9*(g%2))) }
	r = w.until("others burn now", func(r *sla.Report) bool {
		return r.SLOs[17].Outlook != nil && r.SLOs[18].Outlook == nil
	})
	require.Equal(t, 10, outlooks(r))
}

// TestLateEventsAreSeen adds bad events to a past hour.
func TestLateEventsAreSeen(t *testing.T) {
	w := newWorld(t)
	w.start(Options{})
	w.step(0)
	w.bad = func(_ slo.ID, _ int, at time.Time) float64 {
		if at.Equal(begin.Add(50*day - 5*time.Hour)) {
			return 900
		}
		return 4
	}
	w.until("the incident is known", func(r *sla.Report) bool {
		o := r.SLOs[0].Outlook
		return o != nil && o.Forecast.Relief != nil && o.Forecast.Relief.Incident.From.Equal(begin.Add(50*day-5*time.Hour))
	})
}

// TestABackfillIsSeen backfills an incident of long ago, whose hours had been read.
func TestABackfillIsSeen(t *testing.T) {
	w := newWorld(t)
	w.start(Options{})
	w.step(0)
	incident := begin.Add(40 * day)
	w.bad = func(_ slo.ID, _ int, at time.Time) float64 {
		if at.Equal(incident) {
			return 900
		}
		return 4
	}
	w.backfilled.Bad += 896
	w.until("the incident is known", func(r *sla.Report) bool {
		o := r.SLOs[0].Outlook
		return o != nil && o.Forecast.Relief != nil && o.Forecast.Relief.Incident.From.Equal(incident)
	})
	w.asked = 0
	w.step(2 * time.Minute)
	require.Less(t, w.asked, 100, "the hours are read again although nothing was backfilled")
}

// TestReload changes what does not matter to the hours, and then the objective.
func TestReload(t *testing.T) {
	w := newWorld(t)
	w.start(Options{})
	w.step(0)
	w.step(10 * time.Second)
	w.asked = 0
	same := *w.slos[0]
	same.Labels = map[string]string{"team": "shop"}
	w.slos = []*slo.SLO{&same}
	w.step(time.Minute)
	require.NotNil(t, w.step(10 * time.Second).SLOs[0].Outlook)
	require.Less(t, w.asked, 10, "the hours are read again")
	made := w.keeper.records["shop/availability"][0].Made
	require.Equal(t, uint64(1), made)

	other := *objective(t, "shop/availability", "99.9")
	w.slos = []*slo.SLO{&other}
	w.step(time.Minute)
	r := w.step(10 * time.Second)
	require.NotNil(t, r.SLOs[0].Outlook)
	require.Equal(t, forecast.Score{Made: 2, Missed: 1}, r.SLOs[0].Outlook.Record[0],
		"a forecast for another objective cannot be checked")
}

func TestFailure(t *testing.T) {
	w := newWorld(t)
	w.start(Options{})
	w.step(0)
	require.NotNil(t, w.step(10 * time.Second).SLOs[0].Outlook)
	w.fails = errors.New("no engine answers")
	r := w.step(2 * time.Minute)
	require.NotNil(t, r.SLOs[0].Outlook, "the last forecast stands for a while")
	r = w.step(9 * time.Minute)
	require.Nil(t, r.SLOs[0].Outlook)
	require.Equal(t, "no engine answers", r.Outlooks.Failed)
	w.fails = nil
	w.step(10 * time.Second)
	r = w.step(10 * time.Second)
	require.NotNil(t, r.SLOs[0].Outlook)
	require.Empty(t, r.Outlooks.Failed)
}

// TestMaintenanceAhead: an hour that planned maintenance takes out brings nothing.
func TestMaintenanceAhead(t *testing.T) {
	s := objective(t, "shop/availability", "99")
	now := begin.Add(90 * time.Minute)
	s.Corrections = []slo.Correction{{Name: "upgrade", Start: begin.Add(3 * time.Hour), Duration: 90 * time.Minute}}
	got := ahead(s, now, 0)
	require.Equal(t, []float64{1, 1, 0, 0.5, 1}, got[:5])
	s.Window = slo.Window{Calendar: slo.Month, Location: time.UTC}
	require.Len(t, ahead(s, now, 0), 30*24, "to the end of the window")
	s.Corrections = nil
	require.Nil(t, ahead(s, now, 0))
}

func TestRunSavesAtTheEnd(t *testing.T) {
	w := newWorld(t)
	k := w.start(Options{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- k.Run(ctx) }()
	k.Observe(w.report())
	require.Eventually(t, func() bool { return k.shown.Load() != nil }, testkit.Patience, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	data, err := os.ReadFile(filepath.Join(w.dir, "forecasts.json"))
	require.NoError(t, err)
	require.Contains(t, string(data), `"made":1`)
}

func TestObserveNeverWaits(t *testing.T) {
	w := newWorld(t)
	k := w.start(Options{})
	for range 3 { // nobody runs it
		w.now = w.now.Add(time.Minute)
		k.Observe(w.report())
	}
	require.Equal(t, w.now, (<-k.latest).Time, "the newest one is kept")
}

func TestCompleteFindsMovedGroups(t *testing.T) {
	w := newWorld(t)
	w.groups = 3
	w.start(Options{})
	w.step(0)
	r := w.report()
	r.SLOs = slices.Delete(r.SLOs, 0, 1) // a group was evicted
	w.keeper.Complete(r)
	for i := range r.SLOs {
		require.NotNil(t, r.SLOs[i].Outlook)
		seed := newGroup(&r.SLOs[i], keyOf("shop/availability", r.SLOs[i].Group)).seed
		require.Equal(t, w.keeper.groups[i+1].seed, seed)
		require.Same(t, w.keeper.groups[i+1].outlook, r.SLOs[i].Outlook)
	}
	require.False(t, strings.Contains(r.SLOs[0].Group.Key(), "g00000"))
}

func BenchmarkStep1000(b *testing.B) {
	w := newWorld(b)
	w.groups = 1000
	w.start(Options{})
	w.until("all groups have an outlook", func(r *sla.Report) bool { return outlooks(r) == 1000 })
	r := w.report()
	for b.Loop() {
		r.Time = r.Time.Add(10 * time.Second)
		w.now = r.Time
		w.keeper.step(context.Background(), r)
	}
}

func BenchmarkComplete1000of10000(b *testing.B) {
	w := newWorld(b)
	w.groups = 10_000
	w.start(Options{})
	w.until("a thousand groups have an outlook", func(r *sla.Report) bool { return outlooks(r) == 1000 })
	r := w.report()
	r.Time = w.now
	b.ReportAllocs()
	for b.Loop() {
		w.keeper.Complete(r)
	}
}
