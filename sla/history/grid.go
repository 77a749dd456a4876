package history

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// Grid cuts a time into steps, and each step into what counts and what planned
// maintenance takes out of it.
type Grid struct {
	slo.Span
	Step  time.Duration // 0 if the steps differ, as days do
	Steps []slo.Span
	Out   []slo.Span // parts of steps that are taken out
	of    []int      // the step that each part is of
}

// NewGrid covers [from, to) with steps; the last one may be shorter.
func NewGrid(sp slo.Span, step time.Duration, excluded []slo.Span) Grid {
	g := Grid{Span: sp, Step: step}
	for at := sp.From; at.Before(sp.To); at = at.Add(step) {
		g.Steps = append(g.Steps, slo.Span{From: at, To: at.Add(step)}.Intersect(sp))
	}
	g.Exclude(excluded)
	return g
}

func (g *Grid) Exclude(excluded []slo.Span) {
	first := 0
	for _, ex := range excluded {
		for first < len(g.Steps) && !g.Steps[first].To.After(ex.From) {
			first++
		}
		for i := first; i < len(g.Steps) && g.Steps[i].From.Before(ex.To); i++ {
			if part := g.Steps[i].Intersect(ex); part.Duration() > 0 {
				g.Out, g.of = append(g.Out, part), append(g.of, i)
			}
		}
	}
}

// Spans are what to ask for: the steps, then what is taken out of them.
func (g *Grid) Spans() []slo.Span { return append(append([]slo.Span{}, g.Steps...), g.Out...) }

// Point is one step of a history.
type Point struct {
	slo.Span
	Raw  Tally   // everything
	Net  Tally   // without planned maintenance
	Seen float64 // share of the step in which it was observed
	Kept bool    // the counts reach back that far
}

// Points reads an answer to spans, of one group of an SLO.
func (g *Grid) Points(s *slo.SLO, group slo.Group, a *fold.ReadResult, bins [][]uint64) []Point {
	out := make([]Point, len(g.Steps))
	var r Reader
	if a != nil {
		r = NewReader(s, group, a)
	}
	for i, sp := range g.Steps {
		p := Point{Span: sp}
		if i < len(bins) && a != nil {
			p.Raw, p.Net = r.Tallies(sp, bins[i], bins[i])
		}
		if a != nil {
			p.Kept = !sp.From.Before(a.Oldest) || p.Raw.Valid() > 0
			p.Seen = Seen(a, sp)
		}
		out[i] = p
	}
	for k, i := range g.of {
		if at := len(g.Steps) + k; at < len(bins) && a != nil {
			out[i].Net = out[i].Net.Minus(NewTally(s, a, bins[at]))
		}
	}
	return out
}

// Observed are spans that do not touch, oldest first.
type Observed []slo.Span

// Share is the part of a span, 0 to 1, that was observed.
func (o Observed) Share(sp slo.Span) float64 {
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

// Seen is the part of a span, 0 to 1, that an answer observed: of several folds the mean, unless slices are judged by
// what all of them counted.
func Seen(a *fold.ReadResult, sp slo.Span) float64 {
	if len(a.Parts) == 0 || a.Sliced {
		return Observed(a.Observed).Share(sp)
	}
	sum := 0.0
	for _, spans := range a.Parts {
		sum += Observed(spans).Share(sp)
	}
	return sum / float64(len(a.Parts))
}

// Excluded is the time that corrections take out of a span, as the engine does it:
// in whole slices where these are judged. Of a volume they take out no time: they excuse periods.
func Excluded(s *slo.SLO, sp slo.Span, slice time.Duration) []slo.Span {
	if len(s.Corrections) == 0 || s.Indicator.Kind == slo.KindVolume {
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

// DayGrid has a step for each of the last n days in a zone. Today ends now.
func DayGrid(now time.Time, loc *time.Location, n int, excluded func(slo.Span) []slo.Span) Grid {
	y, m, d := now.In(loc).Date()
	first := slo.Window{Calendar: slo.Day, Location: loc}.Start(time.Date(y, m, d-n+1, 12, 0, 0, 0, loc))
	return GridOf(Days(slo.Span{From: first, To: now}, loc), excluded)
}

// Zone is the zone in which the days of a window are cut.
func Zone(w slo.Window) *time.Location {
	if w.Calendar != "" && w.Location != nil {
		return w.Location
	}
	return time.UTC
}

// ZoneOf is the zone in which the days of an SLO are cut.
func ZoneOf(s *slo.SLO) *time.Location {
	if s.Indicator.Kind == slo.KindVolume {
		return s.Indicator.Location
	}
	return Zone(s.Window)
}

// Days cuts a span into the days of a zone, which may have 23 or 25 hours; the
// first and the last may be parts.
func Days(sp slo.Span, loc *time.Location) []slo.Span {
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

// Periods are the days, weeks or months that a volume is judged over and that begin within a span, up to now.
func Periods(s *slo.SLO, sp slo.Span, now time.Time) []slo.Span {
	all := s.Indicator.Periods(sp)
	for i := range all {
		if all[i].To.After(now) {
			return append(all[:i], all[i].Intersect(slo.Span{From: all[i].From, To: now}))
		}
	}
	return all
}

// GridOf has the given steps, with what planned maintenance takes out of them.
func GridOf(steps []slo.Span, excluded func(slo.Span) []slo.Span) Grid {
	g := Grid{Steps: slices.Clone(steps)}
	if len(steps) > 0 {
		g.Span = slo.Span{From: steps[0].From, To: steps[len(steps)-1].To}
		g.Exclude(excluded(g.Span))
	}
	return g
}

// Query asks for the counts of some groups of a counter over the grid.
func (g *Grid) Query(counter string, groups []slo.Group) fold.ReadRequest {
	return fold.ReadRequest{ID: counter, Groups: groups, Spans: g.Spans()}
}
