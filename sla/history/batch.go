package history

import (
	"context"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// MaxAsk is how many counts (groups times spans) are asked for at once: while they
// are read nothing else is counted.
const MaxAsk = 20_000

// Batch collects what counters counted over steps of time: first what to ask for,
// then, after read, the answers.
type Batch struct {
	Entries []*Series
	known   map[string]*Series
}

// Series is one counter over the steps of one grid, by group.
type Series struct {
	Counter string
	Grid    Grid
	groups  []slo.Group
	Answer  fold.ReadResult
}

// Add adds a counter over a grid; name tells apart grids of the same counter. Asked
// twice by the same name it is read once, so the groups must be the same too.
func (l *Batch) Add(counter, name string, g Grid, groups []slo.Group) *Series {
	key := counter + "\x00" + name
	if e := l.known[key]; e != nil {
		return e
	}
	if l.known == nil {
		l.known = map[string]*Series{}
	}
	e := &Series{Counter: counter, Grid: g, groups: groups}
	l.known[key] = e
	l.Entries = append(l.Entries, e)
	return e
}

// Run asks for everything, in bites that hold up the counting only for a moment.
func (l *Batch) Run(ctx context.Context, f CountsFunc) error {
	type piece struct {
		e        *Series
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
				p.e.Answer = a
				p.e.Answer.Groups = make([][][]uint64, len(p.e.groups))
			}
			copy(p.e.Answer.Groups[p.from:p.to], a.Groups)
		}
		queries, pieces, total = queries[:0], pieces[:0], 0
		return ctx.Err()
	}
	for _, e := range l.Entries {
		spans := e.Grid.Spans()
		bite := max(1, MaxAsk/max(1, len(spans)))
		for from := 0; from == 0 || from < len(e.groups); from += bite {
			to := min(from+bite, len(e.groups))
			queries, pieces = append(queries, fold.ReadRequest{ID: e.Counter, Groups: e.groups[from:to], Spans: spans}),
				append(pieces, piece{e, from, to})
			if total += (to - from) * len(spans); total >= MaxAsk {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

// Bins are what group i counted in each step: everything, and without planned
// maintenance. Both are nil if nothing is known of it.
func (e *Series) Bins(i int) (raw, net [][]uint64) {
	if i >= len(e.Answer.Groups) {
		return nil, nil
	}
	all, n := e.Answer.Groups[i], len(e.Grid.Steps)
	if len(all) < n+len(e.Grid.of) {
		return nil, nil
	}
	raw, net = all[:n], slices.Clone(all[:n])
	for k, step := range e.Grid.of {
		out := all[n+k]
		left := slices.Clone(net[step])
		for b := range min(len(left), len(out)) {
			left[b] -= min(left[b], out[b]) // what was counted between two looks must not make it wrap
		}
		net[step] = left
	}
	return raw, net
}

// Share is the part of a span that was observed and is still kept.
func (e *Series) Share(sp slo.Span) float64 {
	seen := sp
	if e.Answer.Oldest.After(seen.From) {
		seen.From = e.Answer.Oldest
	}
	if seen.Duration() == 0 || sp.Duration() == 0 {
		return 0
	}
	return min(1, Seen(&e.Answer, seen)*float64(seen.Duration())/float64(sp.Duration()))
}

// Exact reports whether what was counted in a span is divided where its steps and planned maintenance begin and end.
// Beyond the window a border that lies within a piece of fold.HistoryWidth, by the length of the slices, is moved to
// the next one.
func (e *Series) Exact(sp slo.Span, slice time.Duration) bool {
	width := int64(fold.HistoryWidth(slice))
	moved := func(t time.Time) bool { return t.Before(e.Answer.Hourly) && t.UnixNano()%width != 0 }
	off := func(x slo.Span) bool { return x.Intersect(sp).Duration() > 0 && (moved(x.From) || moved(x.To)) }
	return !slices.ContainsFunc(e.Grid.Steps, off) && !slices.ContainsFunc(e.Grid.Out, off)
}

// Began is when the first of what is kept was observed, if the grid begins earlier and retention reaches that far: the
// SLO is newer than the grid. With nothing observed at all it is now. It is zero otherwise.
func (e *Series) Began(now time.Time) time.Time {
	if len(e.Grid.Steps) == 0 || !e.Answer.Known || !e.KeptFrom().IsZero() {
		return time.Time{}
	}
	began := now
	if len(e.Answer.Observed) > 0 {
		began = e.Answer.Observed[0].From
	}
	if !began.After(e.Grid.Steps[0].From) {
		return time.Time{}
	}
	return began
}

// KeptFrom is the start of what is kept of the grid; zero if all of it is.
func (e *Series) KeptFrom() time.Time {
	if len(e.Grid.Steps) > 0 && e.Answer.Oldest.After(e.Grid.Steps[0].From) {
		return e.Answer.Oldest
	}
	return time.Time{}
}
