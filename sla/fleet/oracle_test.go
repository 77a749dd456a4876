package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

func crowded(r *sla.SLOReport) bool { return r.SLO.ID == "shop/crowded" }

// TestFleetIsOneEngine: three engines that got disjoint parts of a random stream are evaluated exactly as one that got
// all of it, with late events, weights, backfills, drops, planned maintenance and times in which they were down.
func TestFleetIsOneEngine(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			for _, p := range w.parts {
				p.bytes = []int{1000, 20_000, 4 << 20}[seed] // some tell of slices in many answers
			}
			covers := func(spans ...slo.Span) {
				w.whole.fold.Covers(spans, false)
				for _, p := range w.parts {
					p.fold.Covers(spans, false)
				}
			}
			covers(slo.Span{From: began.Add(-2 * time.Hour), To: began.Add(-time.Minute)})
			for _, p := range w.parts { // a backfill that every engine got its part of
				for _, at := range []time.Duration{-2 * time.Hour, -time.Minute} {
					e := &event.Event{Service: "shop", Type: "none", Time: began.Add(at), Count: 1}
					take1(t, p.fold, w.now, fold.Backfill, e)
					take1(t, w.whole.fold, w.now, fold.Backfill, e)
				}
			}
			for range 30 {
				e := orderAt(w.rng, began.Add(-10*time.Minute))
				e.Time = began.Add(-time.Duration(w.rng.IntN(110*60)) * time.Second)
				w.event(fold.Backfill, e)
			}
			covers()
			compared := 0
			for round := range 6 {
				w.pass(time.Duration(2+w.rng.IntN(9))*time.Hour, 3+w.rng.IntN(9))
				if round%2 == 1 {
					w.drop(uint64(1 + w.rng.IntN(50)))
				}
				if round == 3 {
					w.down(17 * time.Minute)
					w.pass(time.Hour, 6)
				}
				want, got := w.tick(w.one), w.tick(w.all)
				require.Equal(t, comparable(want, crowded), comparable(got, crowded))
				for i := range want.Durations {
					require.InDelta(t, want.Durations[i].SumSeconds, got.Durations[i].SumSeconds, 1e-9*want.Durations[i].SumSeconds)
				}
				compared += len(want.SLOs) + len(want.SLAs)
				w.crowded(got)
				w.history(got)
			}
			judged := w.tick(w.all)
			for _, id := range []slo.ID{"shop/throughput", "shop/slices", "shop/means"} {
				n := uint64(0)
				for i := range judged.SLOs {
					if judged.SLOs[i].SLO.ID == id {
						n += judged.SLOs[i].Budget.Counts.Valid()
						require.NotZero(t, judged.SLOs[i].Total.Valid())
					}
				}
				require.Greater(t, n, uint64(100), id)
			}
			t.Logf("%d SLO groups and agreements compared", compared)
		})
	}
}

// crowded checks the groups of an SLO whose names are taken on each engine by other values: none is lost, and those
// that are not marked are right.
func (w *world) crowded(r *sla.Report) {
	total, sum, marked := uint64(0), uint64(0), 0
	for _, n := range w.truth {
		total += n
	}
	for i := range r.SLOs {
		x := &r.SLOs[i]
		if !crowded(x) {
			continue
		}
		n := x.Total.Valid() + x.Backfilled.Valid()
		sum += n
		switch {
		case x.Group.IsOther():
			require.False(w.t, x.Understated)
		case x.Understated:
			marked++
			require.LessOrEqual(w.t, n, w.truth[x.Group[0]])
		default:
			require.Equal(w.t, w.truth[x.Group[0]], n, x.Group)
		}
	}
	require.Equal(w.t, total, sum)
	require.NotZero(w.t, marked)
}

// history checks counts of past times, also of slices, and what limits dropped.
func (w *world) history(r *sla.Report) {
	var spans []slo.Span
	for at := r.Time.Add(-6 * time.Hour).Truncate(time.Hour); at.Before(r.Time); at = at.Add(time.Hour) {
		spans = append(spans, slo.Span{From: at, To: at.Add(time.Hour)})
	}
	ask := []fold.ReadRequest{
		{ID: "shop/availability", Groups: []slo.Group{{"a"}, {"nobody"}, {"c"}}, Spans: spans},
		{ID: "shop/throughput", Groups: []slo.Group{{"a"}, {"b"}}, Spans: spans},
		{ID: "shop/latency#bands:main", Groups: []slo.Group{{"b", "web"}}, Spans: spans},
		{ID: "shop/unknown", Groups: []slo.Group{{}}, Spans: spans},
	}
	want := w.whole.fold.Read(ask)
	got, err := w.fleet.Read(w.t.Context(), ask)
	require.NoError(w.t, err)
	for i := range want {
		require.Equal(w.t, want[i].Known, got[i].Known, ask[i].ID)
		require.Equal(w.t, want[i].Groups, got[i].Groups, ask[i].ID)
		require.Equal(w.t, want[i].Observed, got[i].Observed, ask[i].ID)
		require.Equal(w.t, want[i].Edges, got[i].Edges, ask[i].ID)
		require.Equal(w.t, want[i].Hourly, got[i].Hourly, ask[i].ID)
	}
	require.Len(w.t, got[0].Parts, 3)
	ids, day := []string{"shop/availability", "shop/throughput", "shop/unknown"},
		slo.Span{From: r.Time.Add(-24 * time.Hour), To: r.Time}
	kept, err := w.fleet.Kept(w.t.Context(), ids, day)
	require.NoError(w.t, err)
	require.Equal(w.t, w.whole.fold.Kept(ids, day), kept)
}
