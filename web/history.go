package web

import (
	"context"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// CountsFunc answers queries at one position of the log, in their order. It is
// asked once for every view of a detail page.
type CountsFunc func(ctx context.Context, queries []fold.ReadRequest) ([]fold.ReadResult, error)

// Ask answers queries, each with one answer.
func (f CountsFunc) Ask(ctx context.Context, queries []fold.ReadRequest) ([]fold.ReadResult, error) {
	answers, err := f(ctx, queries)
	if err == nil && len(answers) != len(queries) {
		err = fmt.Errorf("%d answers to %d queries", len(answers), len(queries))
	}
	return answers, err
}

const sliceRatioBin = 4 // of a sliced counter

// tally is what an SLO counted over a span, whatever it counts.
type tally struct {
	slo.Counts
	ratio float64 // sum over slices of the share of good events
}

func newTally(a *fold.ReadResult, bins []uint64) tally {
	var t tally
	if len(bins) > 1 {
		t.Good, t.Bad = bins[0], bins[1]
	}
	if a.Sliced && len(bins) > sliceRatioBin {
		t.ratio = float64(bins[sliceRatioBin]) / 1e9
	}
	return t
}

func (t tally) add(u tally) tally { return tally{t.Add(u.Counts), t.ratio + u.ratio} }

// sub takes u out of t. What was counted between two looks must not make it wrap.
func (t tally) sub(u tally) tally {
	u.Good, u.Bad = min(u.Good, t.Good), min(u.Bad, t.Bad)
	return tally{t.Sub(u.Counts), max(0, t.ratio-u.ratio)}
}

// byRatio reports whether the mean of the slices' ratios is what counts.
func byRatio(s *slo.SLO) bool {
	return s.Budgeting.Method == slo.RatioTimeslices && s.Indicator.Kind != slo.KindThroughput
}

// loss is how much of the budget the tally cost, in events or slices.
func (t tally) loss(s *slo.SLO) float64 {
	if byRatio(s) {
		return float64(t.Valid()) - t.ratio
	}
	return float64(t.Bad)
}

// budget is the budget as if the tally were all of the window.
func (t tally) budget(s *slo.SLO) slo.Budget {
	if n := t.Valid(); byRatio(s) && n > 0 {
		return slo.NewRatioBudget(s.Objective, t.Counts, t.ratio/float64(n), true)
	}
	return slo.NewBudget(s.Objective, t.Counts)
}

// grid cuts a time into steps, and each step into what counts and what planned
// maintenance takes out of it.
type grid struct {
	slo.Span
	Step  time.Duration // 0 if the steps differ, as days do
	steps []slo.Span
	out   []slo.Span // parts of steps that are taken out
	of    []int      // the step that each part is of
}

// newGrid covers [from, to) with steps; the last one may be shorter.
func newGrid(sp slo.Span, step time.Duration, excluded []slo.Span) grid {
	g := grid{Span: sp, Step: step}
	for at := sp.From; at.Before(sp.To); at = at.Add(step) {
		g.steps = append(g.steps, slo.Span{From: at, To: at.Add(step)}.Intersect(sp))
	}
	g.exclude(excluded)
	return g
}

func (g *grid) exclude(excluded []slo.Span) {
	first := 0
	for _, ex := range excluded {
		for first < len(g.steps) && !g.steps[first].To.After(ex.From) {
			first++
		}
		for i := first; i < len(g.steps) && g.steps[i].From.Before(ex.To); i++ {
			if part := g.steps[i].Intersect(ex); part.Duration() > 0 {
				g.out, g.of = append(g.out, part), append(g.of, i)
			}
		}
	}
}

// spans are what to ask for: the steps, then what is taken out of them.
func (g *grid) spans() []slo.Span { return append(append([]slo.Span{}, g.steps...), g.out...) }

// point is one step of a history.
type point struct {
	slo.Span
	raw  tally   // everything
	net  tally   // without planned maintenance
	seen float64 // share of the step in which it was observed
	kept bool    // the counts reach back that far
}

// points reads an answer to spans, one group's.
func (g *grid) points(a *fold.ReadResult, bins [][]uint64) []point {
	out := make([]point, len(g.steps))
	var seen observed
	if a != nil {
		seen = a.Observed
	}
	for i, sp := range g.steps {
		p := point{Span: sp}
		if a != nil {
			p.kept = !sp.From.Before(a.Oldest) || len(bins) > i && newTally(a, bins[i]).Valid() > 0
			p.seen = seen.share(sp)
		}
		if i < len(bins) {
			p.raw = newTally(a, bins[i])
		}
		p.net = p.raw
		out[i] = p
	}
	for k, i := range g.of {
		if at := len(g.steps) + k; at < len(bins) {
			out[i].net = out[i].net.sub(newTally(a, bins[at]))
		}
	}
	return out
}

// observed are spans that do not touch, oldest first.
type observed []slo.Span

// share is the part of a span, 0 to 1, that was observed.
func (o observed) share(sp slo.Span) float64 {
	d := sp.Duration()
	if d == 0 {
		return 1
	}
	lo, hi := 0, len(o)
	for lo < hi {
		if m := (lo + hi) / 2; o[m].To.After(sp.From) {
			hi = m
		} else {
			lo = m + 1
		}
	}
	var sum time.Duration
	for ; lo < len(o) && o[lo].From.Before(sp.To); lo++ {
		sum += o[lo].Intersect(sp).Duration()
	}
	return float64(sum) / float64(d)
}

// takenOut is the time that corrections take out of a span, as the engine does it:
// in whole slices where these are judged.
func takenOut(s *slo.SLO, sp slo.Span, slice time.Duration) []slo.Span {
	if len(s.Corrections) == 0 {
		return nil
	}
	out := slo.TakenOut(s.Corrections, sp)
	if slice > 0 {
		for i := range out {
			out[i] = out[i].RoundOut(slice).Intersect(sp)
		}
		out = slo.MergeSpans(out)
	}
	return out
}

// steps are the lengths that a chart may cut time into.
var steps = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour,
}

// mostSteps is how many steps a chart has at most.
const mostSteps = 200

// stepFor is the shortest step that cuts a span into no more than mostSteps, is
// made of whole slices, and is no finer than what is kept of that age: minutes for
// three days, five of them beyond.
func stepFor(sp slo.Span, now time.Time, slice time.Duration) time.Duration {
	least := time.Minute
	if now.Sub(sp.From) > 3*24*time.Hour {
		least = 5 * time.Minute
	}
	for _, d := range steps {
		if d >= least && sp.Duration() <= mostSteps*d && (slice == 0 || d >= slice && d%slice == 0) {
			return d
		}
	}
	d := steps[len(steps)-1]
	if slice > 0 {
		d = max(d/slice, 1) * slice
	}
	for sp.Duration() > mostSteps*d {
		d *= 2
	}
	return d
}

// bandCounters names the counters of further latency thresholds that agreements
// have on an SLO.
func bandCounters(rep *sla.Report, id slo.ID) []string {
	var out []string
	seen := map[*sla.Agreement]bool{}
	for i := range rep.SLAs {
		a := rep.SLAs[i].SLA
		if a == nil || seen[a] {
			continue
		}
		seen[a] = true
		for _, c := range a.Components {
			if c.SLO == id && len(c.Bands) > 0 && len(out) < 8 {
				out = append(out, sla.BandsID(id, a.Name))
				break
			}
		}
	}
	return out
}
