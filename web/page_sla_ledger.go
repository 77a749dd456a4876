package web

import (
	"context"
	"slices"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// maxAsk is how many counts (groups times spans) are asked for at once: while they
// are read nothing else is counted.
const maxAsk = 20_000

// ledger collects what counters counted over steps of time: first what to ask for,
// then, after read, the answers.
type ledger struct {
	entries []*entry
	known   map[string]*entry
}

// entry is one counter over the steps of one grid, by group.
type entry struct {
	counter string
	grid    grid
	groups  []slo.Group
	answer  fold.ReadResult
}

// ask adds a counter over a grid; name tells apart grids of the same counter. Asked
// twice by the same name it is read once, so the groups must be the same too.
func (l *ledger) ask(counter, name string, g grid, groups []slo.Group) *entry {
	key := counter + "\x00" + name
	if e := l.known[key]; e != nil {
		return e
	}
	if l.known == nil {
		l.known = map[string]*entry{}
	}
	e := &entry{counter: counter, grid: g, groups: groups}
	l.known[key] = e
	l.entries = append(l.entries, e)
	return e
}

// read asks for everything, in bites that hold up the counting only for a moment.
func (l *ledger) read(ctx context.Context, f CountsFunc) error {
	type piece struct {
		e        *entry
		from, to int
	}
	var queries []fold.ReadRequest
	var pieces []piece
	total := 0
	flush := func() error {
		if len(queries) == 0 {
			return nil
		}
		answers, err := f.Ask(ctx, queries)
		if err != nil {
			return err
		}
		for i, p := range pieces {
			a := answers[i]
			if p.from == 0 {
				p.e.answer = a
				p.e.answer.Groups = make([][][]uint64, len(p.e.groups))
			}
			copy(p.e.answer.Groups[p.from:p.to], a.Groups)
		}
		queries, pieces, total = queries[:0], pieces[:0], 0
		return ctx.Err()
	}
	for _, e := range l.entries {
		spans := e.grid.spans()
		bite := max(1, maxAsk/max(1, len(spans)))
		for from := 0; from == 0 || from < len(e.groups); from += bite {
			to := min(from+bite, len(e.groups))
			queries, pieces = append(queries, fold.ReadRequest{ID: e.counter, Groups: e.groups[from:to], Spans: spans}), append(pieces, piece{e, from, to})
			if total += (to - from) * len(spans); total >= maxAsk {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

// bins are what group i counted in each step: everything, and without planned
// maintenance. Both are nil if nothing is known of it.
func (e *entry) bins(i int) (raw, net [][]uint64) {
	if i >= len(e.answer.Groups) {
		return nil, nil
	}
	all, n := e.answer.Groups[i], len(e.grid.steps)
	if len(all) < n+len(e.grid.of) {
		return nil, nil
	}
	raw, net = all[:n], slices.Clone(all[:n])
	for k, step := range e.grid.of {
		out := all[n+k]
		left := slices.Clone(net[step])
		for b := range min(len(left), len(out)) {
			left[b] -= min(left[b], out[b]) // what was counted between two looks must not make it wrap
		}
		net[step] = left
	}
	return raw, net
}

// share is the part of steps first to last-1 that was observed and is still kept.
func (e *entry) share(first, last int) float64 {
	if first >= last {
		return 0
	}
	sp := slo.Span{From: e.grid.steps[first].From, To: e.grid.steps[last-1].To}
	seen := sp
	if e.answer.Oldest.After(seen.From) {
		seen.From = e.answer.Oldest
	}
	if seen.Duration() == 0 || sp.Duration() == 0 {
		return 0
	}
	return min(1, observed(e.answer.Observed).share(seen)*float64(seen.Duration())/float64(sp.Duration()))
}

// keptFrom is the start of what is kept of the grid; zero if all of it is.
func (e *entry) keptFrom() time.Time {
	if len(e.grid.steps) > 0 && e.answer.Oldest.After(e.grid.steps[0].From) {
		return e.answer.Oldest
	}
	return time.Time{}
}

// zoneOf is the zone in which the days of a window are cut.
func zoneOf(w slo.Window) *time.Location {
	if w.Calendar != "" && w.Location != nil {
		return w.Location
	}
	return time.UTC
}

// daysIn cuts a span into the days of a zone, which may have 23 or 25 hours; the
// first and the last may be parts.
func daysIn(sp slo.Span, loc *time.Location) []slo.Span {
	day := slo.Window{Calendar: slo.Day, Location: loc}
	var out []slo.Span
	for at := sp.From; at.Before(sp.To); {
		end := day.End(at)
		if end.After(sp.To) {
			end = sp.To
		}
		out = append(out, slo.Span{From: at, To: end})
		at = end
	}
	return out
}

// gridOf has the given steps, with what planned maintenance takes out of them.
func gridOf(steps []slo.Span, excluded func(slo.Span) []slo.Span) grid {
	g := grid{steps: slices.Clone(steps)}
	if len(steps) > 0 {
		g.Span = slo.Span{From: steps[0].From, To: steps[len(steps)-1].To}
		g.exclude(excluded(g.Span))
	}
	return g
}

// addBins puts the bins of an SLO's counter into the input of a component.
func addBins(in *sla.ComponentInput, sliced bool, bins []uint64) {
	if len(bins) < 2 {
		return
	}
	in.Counts = in.Counts.Add(slo.Counts{Good: bins[0], Bad: bins[1]})
	if sliced && len(bins) > sliceRatioBin {
		in.Achieved += bins[2]
		in.Target += bins[3]
		in.RatioSum += bins[sliceRatioBin]
	}
}

// inputOf is the input of an SLO of which nothing is counted yet, as the engine
// scores it.
func inputOf(s *slo.SLO) sla.ComponentInput {
	in := sla.ComponentInput{Objective: s.Objective, Kind: s.Indicator.Kind, Method: s.Budgeting.Method}
	if in.Kind == slo.KindThroughput {
		in.Method = slo.Occurrences // its slices are good or bad, whatever else is said
	}
	return in
}
