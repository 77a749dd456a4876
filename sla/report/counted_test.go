package report_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
)

const countedSpec = `
version: sloengine/v1
service: sales
slos:
  - name: conversion
    objective: 40
    window: 7d
    indicator: {ratio: {numerator: '{type="connected"}', denominator: '{type="applied"}'}}
  - name: daily
    objective: 50
    window: 7d
    indicator: {volume: {valid: '{type="applied"}', at_least: 10, per: day, timezone: UTC}}
  - name: feel
    objective: 80
    window: 7d
    indicator: {apdex: {valid: '{type="view"}', satisfied: 500ms, tolerating: 2s}}
  - name: orders
    objective: 80
    window: 7d
    indicator: {completion: {started: '{type="created"}', finished: '{type="shipped"}', failed: '{type="refused"}', key: order, within: 15m}}
    cost: {per_bad: 12.50, currency: EUR}
  - name: silent
    objective: 90
    window: 7d
    indicator: {events: {valid: '{type="unheard"}', bad: '{outcome="failure"}'}}
slas:
  - {name: declared, no_data: bad, window: 7d, components: {a: {slo: conversion, weight: 60}, b: {slo: silent, weight: 40}}}
  - {name: excluded, window: 7d, components: {a: {slo: conversion, weight: 60}, b: {slo: silent, weight: 40}}}
  - {name: none, no_data: bad, window: 7d, components: {b: {slo: silent, weight: 40}}}
`

// countedWeek has a row for each day from Monday, 16 November 2026.
var countedWeek = []struct {
	applied, connected               int
	satisfied, tolerated, frustrated int
	done, late, refused, never       int // work that starts at noon; the last kind starts ten minutes before midnight
}{
	{10, 3, 6, 2, 2, 3, 1, 0, 0},
	{20, 12, 10, 0, 0, 2, 0, 0, 0},
	{5, 4, 0, 4, 0, 1, 0, 1, 1},
	{0, 1, 0, 0, 0, 0, 0, 0, 0},
	{15, 0, 1, 1, 2, 1, 0, 0, 0},
	{10, 5, 0, 0, 0, 0, 0, 0, 0},
	{},
}

// TestReportOfOtherIndicators has a week by hand:
//
//	             Mon     Tue     Wed    Thu    Fri     Sat    Sun    week
//	conversion   3/10    12/20   4/5    1/0    0/15    5/10   0/0    25/60 = 25 good, 35 bad, although the days have 24 and 36
//	apdex        14+6    20+0    4+4    -      3+5     -      -      41 good and 15 bad halves of 28 events
//	volume       good    good    bad    bad    good    good   bad    4 good and 3 bad days
//	completion   3+1     2+0     1+1    0+1    1+0     -      -      7 good and 3 bad, 37.50 EUR
//
// Work that starts before midnight and never ends is bad at its deadline, on the next day.
func TestReportOfOtherIndicators(t *testing.T) {
	sp, problems := spec.Load([]spec.File{{Name: "sales.yaml", Data: []byte(countedSpec)}})
	require.NoError(t, problems.Err())
	in := evaluator.Inputs{SLOs: sp.SLOs, Agreements: sp.Agreements}
	cfg, err := evaluator.Compile(in)
	require.NoError(t, err)
	f, err := fold.New(fold.Options{})
	require.NoError(t, err)
	monday := time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)
	f.Advance(monday.UnixNano(), fold.Start)
	require.NoError(t, f.SetConfig(cfg, monday.UnixNano()))

	var all []event.Event
	add := func(at time.Time, typ string, n int, took time.Duration, key string) {
		for range n {
			e := event.Event{Service: "sales", Type: typ, Time: at, Count: 1, Duration: took, HasDuration: took > 0}
			if key != "" {
				e.Set("order", key)
			}
			all = append(all, e)
		}
	}
	work := func(at time.Time, kind string, n int, typ string, took time.Duration) {
		for i := range n {
			key := fmt.Sprint(at.Day(), kind, i)
			add(at, "created", 1, 0, key)
			if typ != "" {
				add(at.Add(took), typ, 1, 0, key)
			}
		}
	}
	for i, d := range countedWeek {
		noon := monday.AddDate(0, 0, i).Add(12 * time.Hour)
		add(noon, "applied", d.applied, 0, "")
		add(noon, "connected", d.connected, 0, "")
		add(noon, "view", d.satisfied, 500*time.Millisecond, "")
		add(noon, "view", d.tolerated, 2*time.Second, "")
		add(noon, "view", d.frustrated, 2001*time.Millisecond, "")
		work(noon, "done", d.done, "shipped", 15*time.Minute)
		work(noon, "late", d.late, "shipped", 16*time.Minute)
		work(noon, "refused", d.refused, "refused", time.Minute)
		work(noon.Add(12*time.Hour-10*time.Minute), "never", d.never, "", 0)
	}
	slices.SortStableFunc(all, func(a, b event.Event) int { return a.Time.Compare(b.Time) })
	end := monday.AddDate(0, 0, 7)
	for at := monday; at.Before(end.Add(time.Hour)); at = at.Add(20 * time.Second) {
		f.Advance(at.UnixNano(), fold.Tick)
		for len(all) > 0 && !all[0].Time.After(at) {
			var v event.View
			_, err := v.Parse(event.AppendBinary(nil, &all[0]))
			require.NoError(t, err)
			require.NoError(t, f.Apply(at.UnixNano(), fold.Live, &v))
			all = all[1:]
		}
	}
	eval, err := evaluator.New(evaluator.Options{Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) { return f.Sums(req), nil }})
	require.NoError(t, err)
	require.NoError(t, eval.SetSpec(in))
	rep, err := eval.Tick(t.Context(), end.Add(time.Hour))
	require.NoError(t, err)
	week, err := report.ParsePeriod("2026-W47")
	require.NoError(t, err)
	from := report.Source{Counts: func(_ context.Context, q []fold.ReadRequest) ([]fold.ReadResult, error) { return f.Read(q), nil }}
	var m report.Maker
	r, err := m.Make(t.Context(), from, rep, report.Query{Period: week})
	require.NoError(t, err)

	type counts = slo.Counts
	for i, want := range []struct {
		id      slo.ID
		verdict report.Verdict
		sum     counts
		events  uint64
		worst   int
		days    [7]counts
	}{
		{"sales/conversion", report.Met, counts{Good: 25, Bad: 35}, 60, 4,
			[7]counts{{Good: 3, Bad: 7}, {Good: 12, Bad: 8}, {Good: 4, Bad: 1}, {}, {Bad: 15}, {Good: 5, Bad: 5}, {}}},
		{"sales/daily", report.Met, counts{Good: 4, Bad: 3}, 60, 2,
			[7]counts{{Good: 1}, {Good: 1}, {Bad: 1}, {Bad: 1}, {Good: 1}, {Good: 1}, {Bad: 1}}},
		{"sales/feel", report.Breached, counts{Good: 41, Bad: 15}, 28, 0,
			[7]counts{{Good: 14, Bad: 6}, {Good: 20}, {Good: 4, Bad: 4}, {}, {Good: 3, Bad: 5}, {}, {}}},
		{"sales/orders", report.Breached, counts{Good: 7, Bad: 3}, 10, 0,
			[7]counts{{Good: 3, Bad: 1}, {Good: 2}, {Good: 1, Bad: 1}, {Bad: 1}, {Good: 1}, {}, {}}},
	} {
		got := &r.SLOs[i]
		require.Equal(t, want.id, got.Now.SLO.ID)
		require.Equal(t, want.verdict, got.Verdict, want.id)
		require.Equal(t, want.sum, got.Net.Counts, want.id)
		require.Equal(t, want.sum, got.Raw.Counts, want.id)
		require.Equal(t, want.events, got.Events, want.id)
		require.Equal(t, want.worst, got.Worst, want.id)
		require.InDelta(t, 1, got.Coverage, 1e-9, want.id)
		require.Len(t, got.Days, 7)
		for k, d := range got.Days {
			require.Equal(t, want.days[k], d.Net.Counts, "%s on %s", want.id, d.Date)
			require.InDelta(t, float64(want.days[k].Bad)/float64(want.sum.Bad), d.Share, 1e-9, "%s on %s", want.id, d.Date)
		}
	}
	for i, want := range []struct {
		score   float64
		verdict report.Verdict
	}{{60, report.Breached}, {100, report.Met}, {0, report.Breached}} { // declared, excluded, none
		got := &r.SLAs[i]
		require.InDelta(t, want.score, got.Score, 1e-9)
		require.Equal(t, want.verdict, got.Verdict, got.SLA.Name)
	}
	before, err := report.ParsePeriod("2026-W40")
	require.NoError(t, err)
	unseen, err := m.Make(t.Context(), from, rep, report.Query{Period: before})
	require.NoError(t, err)
	require.Equal(t, report.NoData, unseen.SLAs[2].Verdict, "nothing was observed then")
	costs := r.Costs()
	require.Equal(t, "37.50 EUR", costs.Sums[0].Amount.String())
	require.Equal(t, []slo.ID{"sales/conversion", "sales/daily", "sales/feel", "sales/silent"}, costs.Other)
	require.False(t, costs.Estimate)

	rows := map[slo.ID]map[string]counts{}
	require.NoError(t, report.EachDay(t.Context(), from, rep, report.Query{Period: week}, func(d *report.DayRow) error {
		if d.SLO == nil {
			return nil // of an agreement
		}
		if rows[d.SLO.SLO.ID] == nil {
			rows[d.SLO.SLO.ID] = map[string]counts{}
		}
		rows[d.SLO.SLO.ID][d.Span.From.Format(time.DateOnly)] = d.Net.Counts
		return nil
	}))
	for i := range r.SLOs {
		for _, d := range r.SLOs[i].Days {
			require.Equal(t, d.Net.Counts, rows[r.SLOs[i].Now.SLO.ID][d.Date], "the table of days says the same of %s on %s", r.SLOs[i].Now.SLO.ID, d.Date)
		}
	}
}
