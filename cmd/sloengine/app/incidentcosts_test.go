package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/receivers"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// An incident opens with its cost so far, is resolved with its alerts, and gets its final cost once, when late events
// have had their time. What cannot be written or counted is tried again.
func TestCostsOfIncidents(t *testing.T) {
	a, _ := built(t, t.TempDir(), "", "127.0.0.1:0")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.storage.engine.Run(ctx, a.engineParts()) }()
	defer func() { cancel(); require.NoError(t, <-ended) }()
	<-a.storage.engine.Ready()

	spec := a.specs.InForce().Spec.SLOs[0] // 90 % over 1h
	start := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	fired, end := start.Add(2*time.Minute), start.Add(10*time.Minute)
	busy := errors.New("busy")
	var failure error
	asked := 0
	costs := &incidentCosts{
		report: func() *sla.Report {
			return &sla.Report{
				Time: end, SLOs: []sla.SLOReport{{SLO: spec, Budget: slo.Budget{Counts: slo.Counts{Good: 3000, Bad: 600}}}}}
		},
		// One event per second, bad from start to end.
		counts: func(_ context.Context, queries []fold.ReadRequest) ([]fold.ReadResult, error) {
			asked++
			out := make([]fold.ReadResult, len(queries))
			for i, q := range queries {
				out[i].Known = true
				for range q.Groups {
					var spans [][]uint64
					for _, sp := range q.Spans {
						bad := sp.Intersect(slo.Span{From: start, To: end}).Duration()
						spans = append(spans, []uint64{uint64((sp.Duration() - bad).Seconds()), uint64(bad.Seconds())})
					}
					out[i].Groups = append(out[i].Groups, spans)
				}
			}
			return out, failure
		},
	}
	view := &state.View{Time: fired}
	alert := state.Alert{
		Fingerprint: "f1", Name: "ErrorBudgetBurnPage", Urgent: true, Severity: "page", Service: "shop",
		SLO: spec.ID, State: state.Firing,
		FiredAt: fired, FirstBad: start.Add(time.Minute),
	}
	own := a.incidents // which does not run
	n := &incidents{
		incidentLookup: own.incidentLookup, engine: own.engine, log: own.log, costs: costs,
		alerts: func() *state.View { return view },
	}
	reconcile := func(at time.Time) *incident.Incident {
		t.Helper()
		view.Time = at
		require.NoError(t, n.reconcile(t.Context(), view))
		for inc := range n.View().All() {
			return inc
		}
		return nil
	}

	view.Active = []state.Alert{alert}
	inc := reconcile(fired)
	require.Equal(t, incident.OnsetByAlert, inc.OnsetBy, "this alert says nothing of its threshold")
	require.Equal(t, start.Add(time.Minute), inc.Onset)
	require.Equal(t, []incident.Spent{{SLO: string(spec.ID), Valid: 60, Bad: 60, Budget: 60. / 360}}, n.Spent(inc))
	before := asked
	reconcile(fired.Add(30 * time.Second))
	require.Equal(t, before, asked, "no more than once a minute")
	reconcile(fired.Add(time.Minute))
	require.EqualValues(t, 120, n.Spent(inc)[0].Bad)

	alert.State, alert.ResolvedAt = state.Resolved, end.Add(time.Minute)
	view.Active, view.Resolved = nil, []state.Alert{alert}
	inc = reconcile(end.Add(2 * time.Minute))
	require.True(t, inc.IsResolved() && inc.Resolved.Automated)
	require.Equal(t, end.Add(time.Minute), inc.Resolved.Time)
	require.False(t, inc.SpentDone, "late events may arrive")
	failure = busy
	view.Time = end.Add(time.Minute + costAfter)
	require.ErrorIs(t, n.reconcile(t.Context(), view), busy)
	failure = nil
	inc = reconcile(end.Add(time.Minute + costAfter))
	require.True(t, inc.SpentDone)
	require.Equal(t, []incident.Spent{{SLO: string(spec.ID), Valid: 600, Bad: 540, Budget: 540. / 360}}, n.Spent(inc))
	before = asked
	require.Same(t, inc, reconcile(end.Add(time.Hour)), "once")
	require.Equal(t, before, asked)

	l, ok := n.Of("f1")
	require.True(t, ok)
	require.Empty(t, l.Headline(end, strings.ToUpper), "nothing fails any more")
	l.Headline = nil
	require.Equal(t, receivers.Incident{ID: inc.ID, Onset: inc.Onset}, l, "no address is known")
	n.base = "https://slo.example"
	l, _ = n.Of("f1")
	require.Equal(t, "https://slo.example/incident?id="+inc.ID, l.URL)
	require.Contains(t, l.AckURL, "https://slo.example/acknowledge/"+inc.ID+"?signature=")
	_, ok = n.Of("other")
	require.False(t, ok)
	require.Equal(t, []*incident.Incident{inc}, n.Between(start, end))
	require.Empty(t, n.Between(start.Add(-time.Hour), start))
	require.Empty(t, n.Between(end.Add(2*time.Minute), end.Add(time.Hour)))
}

// By hand: 4 bad events at 12.50, and 3 bad slices of 10 seconds, which are half a minute, at 60 a minute.
func TestMoneyOfIncidents(t *testing.T) {
	cost := func(unit slo.CostUnit, price string) *slo.Cost {
		a, err := slo.ParseAmount(price)
		require.NoError(t, err)
		return &slo.Cost{Unit: unit, Price: a, Currency: "EUR"}
	}
	events := &sla.SLOReport{SLO: &slo.SLO{ID: "shop/a", Cost: cost(slo.PerBad, "12.50")}}
	slices := &sla.SLOReport{SLO: &slo.SLO{ID: "shop/b", Cost: cost(slo.PerMinute, "60"),
		Budgeting: slo.Budgeting{Method: slo.Timeslices, Slice: 10 * time.Second}}}
	free := &sla.SLOReport{SLO: &slo.SLO{ID: "shop/c"}}
	c := costOf([]*sla.SLOReport{free}, events, 4, 1)
	require.Equal(t, "50.00", c.Amount.In("EUR"))
	require.Equal(t, []any{"12.50 EUR per bad event", "EUR", 1., 0., []string(nil)},
		[]any{c.Basis, c.Currency, c.Coverage, c.Minutes, c.Shared})
	c = costOf([]*sla.SLOReport{free, events, events, slices}, slices, 3, 0.5)
	require.Equal(t, "30.00", c.Amount.In("EUR"))
	require.Equal(t, []any{0.5, 0.5, []string{"shop/a"}}, []any{c.Minutes, c.Coverage, c.Shared})
	require.Nil(t, costOf(nil, free, 9, 1))
}
