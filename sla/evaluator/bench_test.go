package evaluator

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// BenchmarkTick measures the evaluator without the fold: 10,000 SLO groups, of
// 20 SLOs with 500 groups each, and 2,500 groups of agreements over them.
func BenchmarkTick(b *testing.B) {
	for _, corrections := range []int{0, 30} {
		b.Run(fmt.Sprintf("groups=10000/corrections=%d", corrections), func(b *testing.B) {
			in := benchInputs(b, 20, corrections)
			sums := func(ctx context.Context, req fold.Request) (*fold.Sums, error) { return nil, nil }
			e, err := New(Options{Source: func(ctx context.Context, req fold.Request) (*fold.Sums, error) {
				return sums(ctx, req)
			}})
			require.NoError(b, err)
			require.NoError(b, e.SetSpec(in))
			now := monday.Add(40 * 24 * time.Hour)
			answer := synthetic(b, in, e.plan.request(now), 500)
			sums = func(context.Context, fold.Request) (*fold.Sums, error) { return answer, nil }

			r, err := e.Tick(b.Context(), now)
			require.NoError(b, err)
			require.Len(b, r.SLOs, 10_000)
			require.Len(b, r.SLAs, 2_500)
			b.ReportAllocs()
			for b.Loop() {
				_, err = e.Tick(b.Context(), now)
			}
			require.NoError(b, err)
		})
	}
}

func benchInputs(b *testing.B, slos, corrections int) Inputs {
	var in Inputs
	var maintenance []slo.Correction
	for i := range corrections {
		maintenance = append(maintenance, slo.Correction{
			Name: fmt.Sprint("night ", i), Start: monday.Add(time.Duration(i+10) * 24 * time.Hour), Duration: time.Hour,
		})
	}
	for i := range slos {
		in.SLOs = append(in.SLOs, &slo.SLO{
			ID: slo.NewID("shop", fmt.Sprintf("slo-%02d", i)), Objective: percent(b, "99.9"), GroupBy: []string{"product"},
			Window:      slo.Window{Rolling: 30 * 24 * time.Hour},
			Indicator:   slo.Indicator{Kind: slo.KindEvents, Valid: sel(b, "type", "order"), Bad: sel(b, "outcome", "failure")},
			Corrections: maintenance,
		})
	}
	for i := 0; i < slos; i += 4 {
		a := &sla.Agreement{
			Service: "shop", Name: fmt.Sprintf("sla-%02d", i), GroupBy: []string{"product"}, Method: sla.Attainment,
			Window: slo.Window{Rolling: 30 * 24 * time.Hour}, NoData: sla.NoDataExclude, Warning: 95, Critical: 90,
		}
		for c := range 4 {
			a.Components = append(a.Components, sla.Component{Name: fmt.Sprint("c", c), SLO: in.SLOs[i+c].ID, Weight: 25})
		}
		in.Agreements = append(in.Agreements, a)
	}
	return in
}

func synthetic(b *testing.B, in Inputs, req fold.Request, groups int) *fold.Sums {
	cfg, err := Compile(in)
	require.NoError(b, err)
	up := []slo.Span{{From: req.Now.Add(-40 * 24 * time.Hour), To: req.Now}}
	s := &fold.Sums{Now: req.Now, Watermark: req.Now, Up: up}
	for i := range cfg.Indicators {
		ind := &cfg.Indicators[i]
		for g := range groups {
			group := fold.Group{
				Indicator: ind, Values: slo.Group{fmt.Sprintf("product-%03d", g)}, Generation: 1,
				Since: up[0].From, LastEvent: req.Now, Total: []uint64{1_000_000, 999},
			}
			for range len(req.Spans) + len(req.Extra[ind.ID]) {
				group.Spans = append(group.Spans, []uint64{100_000, uint64(g)})
			}
			s.Groups = append(s.Groups, group)
		}
	}
	return s
}

// BenchmarkTickWithFold is the whole cost of a tick: the sums of thirty days in
// the real fold, and the report on them.
func BenchmarkTickWithFold(b *testing.B) {
	const products = 500
	in := benchInputs(b, 20, 0)
	cfg, err := Compile(in)
	require.NoError(b, err)
	f, err := fold.New(fold.Options{})
	require.NoError(b, err)
	f.Advance(monday.UnixNano(), fold.Start)
	require.NoError(b, f.SetConfig(cfg, monday.UnixNano()))

	var views [products]event.View
	for p := range views {
		e := event.Event{ID: "x", Time: monday, Service: "shop", Type: "order", Count: 1}
		e.Set("product", fmt.Sprintf("product-%03d", p))
		_, err := views[p].Parse(event.AppendBinary(nil, &e))
		require.NoError(b, err)
	}
	now := monday.Add(31 * day)
	for at, i := monday, 0; at.Before(now); at, i = at.Add(2*time.Second), i+1 {
		v := &views[i%products]
		v.Time = at.UnixNano()
		require.NoError(b, f.Apply(v.Time, fold.Live, v))
	}
	e, err := New(Options{Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) {
		return f.Sums(req), nil
	}})
	require.NoError(b, err)
	require.NoError(b, e.SetSpec(in))
	r, err := e.Tick(b.Context(), now)
	require.NoError(b, err)
	require.Len(b, r.SLOs, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(DefaultInterval)
		f.Advance(now.UnixNano(), fold.Tick)
		_, err = e.Tick(b.Context(), now)
	}
	require.NoError(b, err)
}
