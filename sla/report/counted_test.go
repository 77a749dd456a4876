package report_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
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
    indicator: {completion: {started: '{type="created"}', finished: '{type="shipped"}', failed: '{type="refused"}',
        key: order, within: 15m}}
    cost: {per_bad: 12.50, currency: EUR}
  - name: silent
    objective: 90
    window: 7d
    indicator: {events: {valid: '{type="unheard"}', bad: '{outcome="failure"}'}}
slas:
  - {name: declared, no_data: bad, window: 7d, components: {a: {slo: conversion, weight: 60},
      b: {slo: silent, weight: 40}}}
  - {name: excluded, window: 7d, components: {a: {slo: conversion, weight: 60}, b: {slo: silent, weight: 40}}}
  - {name: none, no_data: bad, window: 7d, components: {b: {slo: silent, weight: 40}}}
`

// world is an engine without a clock.
type world struct {
	t    *testing.T
	in   evaluator.Inputs
	fold *fold.Fold
	from report.Source
}

func newWorld(t *testing.T, text string, began time.Time) *world {
	sp := spectest.Spec(t, "sales.yaml", text)
	w := &world{t: t, in: evaluator.Inputs{SLOs: sp.SLOs, Agreements: sp.Agreements}}
	cfg, err := evaluator.Compile(w.in)
	require.NoError(t, err)
	w.fold, err = fold.New(fold.Options{})
	require.NoError(t, err)
	w.fold.Advance(began.UnixNano(), fold.Start)
	require.NoError(t, w.fold.SetConfig(cfg, began.UnixNano()))
	w.from.Counts = func(_ context.Context, q []fold.ReadRequest) ([]fold.ReadResult, error) { return w.fold.Read(q), nil }
	return w
}

func (w *world) apply(at time.Time, mode fold.Mode, e *event.Event) {
	var v event.View
	_, err := v.Parse(event.AppendBinary(nil, e))
	require.NoError(w.t, err)
	require.NoError(w.t, w.fold.Apply(at.UnixNano(), mode, &v))
}

// report is what the engine evaluates at a time.
func (w *world) report(at time.Time) *sla.Report {
	eval, err := evaluator.New(evaluator.Options{Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) {
		return w.fold.Sums(req), nil
	}})
	require.NoError(w.t, err)
	require.NoError(w.t, eval.SetSpec(w.in))
	rep, err := eval.Tick(w.t.Context(), at)
	require.NoError(w.t, err)
	return rep
}

// days are the rows of a period by kind, name and day.
func (w *world) days(rep *sla.Report, ask report.Query) map[string]*report.DayRow {
	out := map[string]*report.DayRow{}
	require.NoError(w.t, report.EachDay(w.t.Context(), w.from, rep, ask, func(d *report.DayRow) error {
		name := ""
		if d.SLO != nil {
			name = string(d.SLO.SLO.ID)
		} else {
			name = d.Agreement.SLA.Name
		}
		row := *d
		out[name+" "+d.Span.From.In(d.Zone).Format(time.DateOnly)] = &row
		return nil
	}))
	return out
}

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
//	conversion   3/10    12/20   4/5    1/0    0/15    5/10   0/0    25/60 = 25 good, 35 bad, although 24 and 36
//	apdex        14+6    20+0    4+4    -      3+5     -      -      41 good and 15 bad halves of 28 events
//	volume       good    good    bad    bad    good    good   bad    4 good and 3 bad days
//	completion   3+1     2+0     1+1    0+1    1+0     -      -      7 good and 3 bad, 37.50 EUR
//
// Work that starts before midnight and never ends is bad at its deadline, on the next day.
func TestReportOfOtherIndicators(t *testing.T) {
	monday := time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)
	w := newWorld(t, countedSpec, monday)

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
		w.fold.Advance(at.UnixNano(), fold.Tick)
		for len(all) > 0 && !all[0].Time.After(at) {
			w.apply(at, fold.Live, &all[0])
			all = all[1:]
		}
	}
	rep := w.report(end.Add(time.Hour))
	week, err := report.ParsePeriod("2026-W47")
	require.NoError(t, err)
	var m report.Maker
	r, err := m.Make(t.Context(), w.from, rep, report.Query{Period: week})
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
	unseen, err := m.Make(t.Context(), w.from, rep, report.Query{Period: before})
	require.NoError(t, err)
	require.Equal(t, report.NoData, unseen.SLAs[2].Verdict, "nothing was observed then")
	costs := r.Costs()
	require.Equal(t, "37.50 EUR", costs.Sums[0].Amount.String())
	require.Equal(t, []slo.ID{"sales/conversion", "sales/daily", "sales/feel", "sales/silent"}, costs.Other)
	require.False(t, costs.Estimate)

	rows := w.days(rep, report.Query{Period: week})
	for i := range r.SLOs {
		for _, d := range r.SLOs[i].Days {
			require.Equal(t, d.Net.Counts, rows[string(r.SLOs[i].Now.SLO.ID)+" "+d.Date].Net.Counts,
				"the table of days says the same of %s on %s", r.SLOs[i].Now.SLO.ID, d.Date)
		}
	}
}

const pastSpec = `
version: sloengine/v1
service: sales
slos:
  - name: calls
    objective: 90
    window: 7d
    indicator: {events: {valid: '{type="call"}', bad: '{outcome="failure"}'}}
  - name: minutes
    objective: 90
    window: 7d
    indicator: {events: {valid: '{type="call"}', bad: '{outcome="failure"}'}}
    budgeting: {timeslices: {slice: 1m, target: 90}}
  - name: weekly
    objective: 90
    window: 28d
    indicator: {volume: {valid: '{type="call"}', at_least: 10, per: week, timezone: UTC}}
corrections:
  - {name: upgrade, start: 2026-11-05T10:20:00Z, duration: 30m, slos: [calls], author: ops, reason: planned}
slas:
  - {name: promise, window: 7d, components: {a: {slo: minutes, weight: 60}, b: {slo: weekly, weight: 40}}}
`

// TestReportOfThePast: a backfill of 20 days, a call every five minutes, into windows of seven. Slices before the
// window are not judged, so they are not observed. Days and maintenance that do not begin on a full hour of UTC are
// rounded there.
func TestReportOfThePast(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	w := newWorld(t, pastSpec, now)
	w.fold.Covers(nil, true)
	for at := now.AddDate(0, 0, -20); at.Before(now); at = at.Add(5 * time.Minute) {
		w.apply(now, fold.Backfill, &event.Event{Service: "sales", Type: "call", Time: at, Count: 1})
	}
	w.fold.Advance(now.Add(5*time.Minute).UnixNano(), fold.Start)
	rep := w.report(now.Add(5 * time.Minute))
	week, err := report.ParsePeriod("2026-W45") // 2 to 8 November
	require.NoError(t, err)
	month, err := report.ParsePeriod("2026-11")
	require.NoError(t, err)
	kolkata, err := time.LoadLocation("Asia/Kolkata")
	require.NoError(t, err)

	rows := w.days(rep, report.Query{Period: month})
	for _, name := range []string{"sales/minutes", "promise"} {
		row := rows[name+" 2026-11-05"]
		require.Zero(t, row.Coverage, name)
		require.False(t, row.Complete(), name)
		require.Equal(t, "not observed", row.Note(), name)
		row = rows[name+" 2026-11-20"]
		require.InDelta(t, 1, row.Coverage, 1e-9, name)
		require.True(t, row.Complete(), name)
		require.Empty(t, row.Note(), name)
	}
	require.Equal(t, uint64(288), rows["sales/minutes 2026-11-20"].Net.Good)
	require.Equal(t, slo.Counts{}, rows["sales/minutes 2026-11-05"].Net.Counts)
	require.Equal(t, uint64(288), rows["sales/calls 2026-11-06"].Net.Good, "events are counted by the hour")
	require.True(t, rows["sales/calls 2026-11-06"].Complete())
	row := rows["sales/calls 2026-11-05"]
	require.True(t, row.Rounded, "half an hour of maintenance within an hour")
	require.False(t, row.Complete())
	require.Contains(t, row.Note(), "whole hours")

	var m report.Maker
	r, err := m.Make(t.Context(), w.from, rep, report.Query{Period: week})
	require.NoError(t, err)
	require.Equal(t, report.Met, r.SLOs[0].Verdict)
	require.True(t, r.SLOs[0].Rounded)
	require.True(t, r.SLOs[0].Days[3].Rounded)
	require.False(t, r.SLOs[0].Days[4].Rounded)
	require.Equal(t, report.NoData, r.SLOs[1].Verdict)
	require.Zero(t, r.SLOs[1].Coverage)
	require.Zero(t, r.SLAs[0].Components[0].Coverage)
	r, err = m.Make(t.Context(), w.from, rep, report.Query{Period: month})
	require.NoError(t, err)
	first := w.fold.Read([]fold.ReadRequest{{ID: "sales/minutes"}})[0].Hourly
	require.InDelta(t, history.Observed{{From: first, To: now}}.Share(r.SLOs[1].Span), r.SLOs[1].Coverage, 0.01)

	// In a zone half an hour off, a day is right within the window and rounded beyond.
	for _, zone := range []*time.Location{kolkata, time.UTC} {
		rows = w.days(rep, report.Query{Period: month, Zone: zone})
		for _, name := range []string{"sales/calls", "sales/minutes"} {
			require.True(t, rows[name+" 2026-11-20"].Complete(), "%s in %s", name, zone)
			require.Equal(t, zone == kolkata, rows[name+" 2026-11-06"].Rounded, "%s in %s", name, zone)
		}
		require.Equal(t, zone == time.UTC, rows["sales/calls 2026-11-06"].Complete(), zone)
	}
}
