package outlook

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

var begin = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) // a Monday

const day = 24 * time.Hour

// world is an engine whose counts are a function of time: a thousand events an hour, of which bad says how many are
// bad.
type world struct {
	backfilled slo.Counts
	t          testing.TB
	now        time.Time
	dir        string
	slos       []*slo.SLO
	groups     int // of each SLO; 0: it has none
	bad        func(id slo.ID, group int, at time.Time) float64
	keeper     *Keeper
	fails      error
	asked      int // counts
	most       int // in one call
	calls      int
}

func newWorld(t testing.TB) *world {
	return &world{
		t: t, now: begin.Add(50 * day), dir: t.TempDir(), slos: []*slo.SLO{objective(t, "shop/availability", "99")},
		bad: func(slo.ID, int, time.Time) float64 { return 4 },
	}
}

func objective(t testing.TB, id slo.ID, percent string) *slo.SLO {
	o, err := slo.ParsePercent(percent)
	require.NoError(t, err)
	return &slo.SLO{ID: id, Objective: o, Window: slo.Window{Rolling: 28 * day},
		Indicator: slo.Indicator{Kind: slo.KindEvents}}
}

func (w *world) start(opt Options) *Keeper {
	opt.Counts, opt.File = w.read, filepath.Join(w.dir, "forecasts.json")
	var err error
	w.keeper, err = New(opt)
	require.NoError(w.t, err)
	return w.keeper
}

// count is what was counted in a span, by whole minutes.
func (w *world) count(id slo.ID, group int, sp slo.Span) (c slo.Counts) {
	var bad, valid float64
	for at := sp.From; at.Before(sp.To); {
		next := at.Truncate(time.Hour).Add(time.Hour)
		if next.After(sp.To) {
			next = sp.To
		}
		part := next.Sub(at).Hours()
		valid, bad = valid+1000*part, bad+w.bad(id, group, at.Truncate(time.Hour))*part
		at = next
	}
	return slo.Counts{Good: uint64(valid - bad + 0.5), Bad: uint64(bad + 0.5)}
}

func (w *world) read(_ context.Context, queries []fold.ReadRequest) ([]fold.ReadResult, error) {
	w.calls++
	if w.fails != nil {
		return nil, w.fails
	}
	all := 0
	var out []fold.ReadResult
	for _, q := range queries {
		a := fold.ReadResult{Known: true, Oldest: begin, Hourly: begin, Observed: []slo.Span{{From: begin, To: w.now}}}
		for _, g := range q.Groups {
			n := 0
			if len(g) > 0 {
				_, err := fmt.Sscanf(g[0], "g%d", &n)
				require.NoError(w.t, err)
			}
			var bins [][]uint64
			for _, sp := range q.Spans {
				c := w.count(slo.ID(q.ID), n, sp)
				bins = append(bins, []uint64{c.Good, c.Bad})
			}
			a.Groups = append(a.Groups, bins)
			all += len(q.Spans)
		}
		out = append(out, a)
	}
	w.asked, w.most = w.asked+all, max(w.most, all)
	return out, nil
}

// report is that of now.
func (w *world) report() *sla.Report {
	r := &sla.Report{Time: w.now}
	for _, s := range w.slos {
		for i := range max(1, w.groups) {
			x := sla.SLOReport{SLO: s, Generation: 1, Backfilled: w.backfilled}
			if w.groups > 0 {
				x.Group = slo.Group{fmt.Sprintf("g%05d", i)}
			}
			x.Period = slo.Span{From: s.Window.Start(w.now), To: w.now}
			x.Budget = slo.NewBudget(s.Objective, w.count(s.ID, i, x.Period))
			hour := slo.NewBudget(s.Objective, w.count(s.ID, i, slo.Span{From: w.now.Add(-time.Hour), To: w.now}))
			x.Burns = []slo.Burn{slo.NewBurn(time.Hour, hour)}
			r.SLOs = append(r.SLOs, x)
		}
	}
	return r
}

// step makes a report after a time, and what the keeper does with it. It returns the report as it is shown.
func (w *world) step(after time.Duration) *sla.Report {
	w.now = w.now.Add(after)
	r := w.report()
	w.keeper.Complete(r)
	w.keeper.step(context.Background(), r)
	return r
}

// until makes reports every ten seconds until a condition holds.
func (w *world) until(what string, ok func(r *sla.Report) bool) *sla.Report {
	for range 1000 {
		if r := w.step(10 * time.Second); ok(r) {
			return r
		}
	}
	require.FailNow(w.t, "never: "+what)
	return nil
}

func outlooks(r *sla.Report) (n int) {
	for i := range r.SLOs {
		if r.SLOs[i].Outlook != nil {
			n++
		}
	}
	return n
}

var _ history.CountsFunc = (*world)(nil).read
