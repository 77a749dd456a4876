package fleet

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/sla/outlook"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

const forecastSpec = `
version: sloengine/v1
service: sales
types: [order, applied, connected, request, started, finished]
slos:
  - {name: availability, objective: 99, window: 14d, group_by: [product],
      indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}}
  - {name: conversion, objective: 35, window: 14d, group_by: [product],
      indicator: {ratio: {numerator: '{type="connected"}', denominator: '{type="applied"}'}}}
  - {name: apdex, objective: 70, window: 14d, indicator: {apdex: {valid: '{type="request"}', satisfied: 500ms,
      tolerating: 2s}}}
  - {name: fulfilment, objective: 80, window: 14d, indicator: {completion: {started: '{type="started"}',
      finished: '{type="finished"}', key: work, within: 15m}}}
  - {name: daily, objective: 90, window: 14d, indicator: {volume: {valid: '{type="order"}', at_least: 10,
      timezone: UTC}}}
`

// sell are the events of an hour at its tenth minute, of two products. Every fifth day a tenth of the orders fails for
// three hours. Work with an even number finishes two minutes later, but for every tenth.
func sell(hour int, take func(e *event.Event, minute int, replica int)) {
	at := began.Add(time.Duration(hour) * time.Hour)
	add := func(typ string, minute int, replica int, count uint32, took time.Duration, failed bool,
		attribute, value string) {
		e := &event.Event{Service: "sales", Type: typ, Time: at.Add(time.Duration(minute) * time.Minute), Count: count}
		if took > 0 {
			e.Duration, e.HasDuration = took, true
		}
		if failed {
			e.Outcome = event.Failure
		}
		e.Set(attribute, value)
		take(e, minute, replica)
	}
	busy := uint32(1)
	if h := hour % 24; h >= 8 && h < 20 {
		busy = 3
	}
	for i, product := range []string{"a", "b"} {
		bad := uint32(1)
		if day, h := hour/24, hour%24; day%5 == 2 && h >= 10 && h < 13 && i == 0 {
			bad = 30
		}
		for replica := range 2 {
			add("order", 10, replica, 100*busy, 0, false, "product", product)
			add("applied", 10, replica, 100*busy, 0, false, "product", product)
		}
		add("order", 10, hour%2, bad, 0, true, "product", product)
		add("connected", 10, (hour+1)%2, uint32(80+i*20)*busy, 0, false, "product", product)
	}
	for i, took := range []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second} {
		add("request", 10, (hour+i)%2, []uint32{60, 30, 10}[i]*busy, took, false, "page", "form")
	}
	for i := range 10 {
		id := fmt.Sprint(hour, "-", i)
		add("started", 10, i%2, 1, 0, false, "work", id)
		if i > 0 {
			add("finished", 12, i%2, 1, 0, false, "work", id) // one key stays on one engine
		}
	}
}

// forecasts are the reports with outlooks of one evaluator at a time.
func forecasts(t *testing.T, opt outlook.Options, eval *evaluator.Evaluator, now time.Time) *sla.Report {
	t.Helper()
	keeper, err := outlook.New(opt)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = keeper.Run(ctx) })
	defer running.Wait()
	defer stop()
	tick := func() *sla.Report {
		r, err := eval.Tick(ctx, now)
		require.NoError(t, err)
		return r
	}
	keeper.Observe(tick())
	out := tick()
	testkit.Eventually(t, "all groups have an outlook", func() bool {
		keeper.Complete(out)
		return !slices.ContainsFunc(out.SLOs, func(r sla.SLOReport) bool { return r.Outlook == nil })
	})
	return out
}

// TestForecastsOfAView: two engines counted halves of the events of five weeks, of every kind of indicator. A view over
// them forecasts what one engine forecasts that counted all. A volume says why it has no forecast.
func TestForecastsOfAView(t *testing.T) {
	t.Parallel()
	sp := spectest.Spec(t, "spec.yaml", forecastSpec)
	in := evaluator.Inputs{SLOs: sp.SLOs, Services: []fold.Service{{Name: "sales", Types: sp.Services[0].Types}}}
	cfg, err := evaluator.Compile(in)
	require.NoError(t, err)
	whole := newCounter(t, in, cfg)
	parts := []*counter{newCounter(t, in, cfg), newCounter(t, in, cfg)}
	var urls []*url.URL
	for _, c := range parts {
		u, err := url.Parse(c.URL)
		require.NoError(t, err)
		urls = append(urls, u)
	}
	const hours = 36*24 + 9
	for hour := range hours {
		for half := range 120 { // an engine that is silent for longer was down
			minute := half / 2
			at := began.Add(time.Duration(hour)*time.Hour + time.Duration(half)*30*time.Second)
			for _, c := range append(parts, whole) {
				c.fold.Advance(at.UnixNano(), fold.Tick)
			}
			if half == 20 || half == 24 {
				sell(hour, func(e *event.Event, when, replica int) {
					if when == minute {
						take1(t, whole.fold, at, fold.Live, e)
						take1(t, parts[replica].fold, at, fold.Live, e)
					}
				})
			}
		}
	}
	now := began.Add(hours * time.Hour)
	for _, c := range append(parts, whole) {
		c.fold.Advance(now.UnixNano(), fold.Tick)
	}

	all, err := New(Options{Engines: urls, Timeout: time.Minute})
	require.NoError(t, err)
	require.NoError(t, all.SetSpec("hash", cfg))
	view, err := evaluator.New(evaluator.Options{Source: all.Sums})
	require.NoError(t, err)
	require.NoError(t, view.SetSpec(in))
	one, err := evaluator.New(evaluator.Options{Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) {
		return whole.fold.Sums(req), nil
	}})
	require.NoError(t, err)
	require.NoError(t, one.SetSpec(in))

	want := forecasts(t, outlook.Options{Counts: func(_ context.Context, q []fold.ReadRequest) ([]fold.ReadResult, error) {
		return whole.fold.Read(q), nil
	}}, one, now)
	got := forecasts(t, outlook.Options{Counts: all.Read}, view, now)
	require.Len(t, got.SLOs, 7)
	for i := range want.SLOs {
		a, b := &want.SLOs[i], &got.SLOs[i]
		name := string(a.SLO.ID) + " " + a.Group.Key()
		require.Equal(t, a.SLO.ID, b.SLO.ID)
		require.Equal(t, a.Outlook.Forecast, b.Outlook.Forecast, name)
		x, y := *a, *b
		x.Outlook, y.Outlook = nil, nil
		require.Equal(t, x, y, name)
		f := &b.Outlook.Forecast
		if b.SLO.Indicator.Kind == slo.KindVolume {
			require.Equal(t, "a volume is judged when its day, week or month is over, not by the hour", f.TooLittle)
			continue
		}
		require.Empty(t, f.TooLittle, name)
		require.Len(t, f.Points, 4, name)
		// The world repeats itself, so that the budget stays about where it is.
		for _, p := range f.Points {
			require.LessOrEqual(t, p.Low, p.High, name)
			require.InDelta(t, b.Budget.Remaining, p.Median, 0.15, "%s in %s", name, p.Ahead)
		}
	}
	require.Len(t, got.InFlight, 1)
	work := got.InFlight[0]
	work.Bytes, work.Max = want.InFlight[0].Bytes, want.InFlight[0].Max // of all tables together
	require.Equal(t, want.InFlight[0], work)
	// By hand: 13 whole days are in a window of 14 that ends at nine. By then 8 hours of 100 and one of 300 orders came on
	// two engines for two products, and one more each hour for each product that failed.
	daily := find(got, "sales/daily")
	require.Equal(t, slo.Counts{Good: 13}, daily.Budget.Counts)
	require.EqualValues(t, 4*(8*100+300)+2*9, daily.Volume.Events)
	// By hand: 1 of 10 pieces of work does not finish, and half of the budget of 20 % is left. 60 + 30 / 2 of 100 requests
	// are good, and a sixth of the budget of 30 % is left.
	require.InDelta(t, 0.5, find(got, "sales/fulfilment").Outlook.Forecast.Points[3].Median, 0.02)
	require.InDelta(t, 1.0/6, find(got, "sales/apdex").Outlook.Forecast.Points[3].Median, 0.02)
	// 80 of 200 applied are connected: bad are 60 % of what may be 65 %.
	require.InDelta(t, 1-0.6/0.65, find(got, "sales/conversion", "a").Outlook.Forecast.Points[3].Median, 0.02)
	// Three hours with 30 bad of 630 do not come every day.
	incidents := find(got, "sales/availability", "a").Outlook.Forecast
	require.Greater(t, incidents.Points[3].High-incidents.Points[3].Low, 0.01)
}
