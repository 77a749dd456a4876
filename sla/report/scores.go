package report

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
)

// PeriodScores scores the groups of one agreement over times in the past, by the same
// arithmetic as the engine scores the present: sla.Scorer over the counts of the
// components, planned maintenance taken out.
type PeriodScores struct {
	agreement  *sla.Agreement
	scorer     *sla.Scorer
	steps      []slo.Span
	components []scoredComponent
	now        map[string]*sla.SLAReport // by group
}

// NotCounted is the note of a component whose SLO is on Prometheus series.
const NotCounted = "measured by Prometheus, not counted here"

// scoredComponent is where the counts of one component come from.
type scoredComponent struct {
	slo      *slo.SLO // nil if its SLO is on Prometheus series: it is not counted here
	slice    time.Duration
	groupsOf []slo.Group // of the SLO, in the order of counts
	counts   *history.Series
	bands    *history.Series  // nil without bands
	groups   map[string][]int // groups of the SLO by the agreement's group that they are part of
}

// NewPeriodScores plans the scores of an agreement over steps, for some of its groups
// or, if only is nil, for all. What it needs is added to the batch.
func NewPeriodScores(rep *sla.Report, a *sla.Agreement, steps []slo.Span, name string, only []*sla.SLAReport,
	l *history.Batch) *PeriodScores {
	b := &PeriodScores{agreement: a, scorer: sla.NewScorer(a), steps: steps, now: map[string]*sla.SLAReport{}}
	for _, r := range only {
		b.now[r.Group.Key()] = r
	}
	for i := range rep.SLAs {
		if r := &rep.SLAs[i]; only == nil && r.SLA == a {
			b.now[r.Group.Key()] = r
		}
	}
	for _, c := range a.Components {
		x := scoredComponent{groups: map[string][]int{}}
		slice := time.Duration(0)
		var groups []slo.Group
		for _, r := range Rows(rep, c.SLO) {
			x.slo, slice = r.SLO, r.Slice
			key := projected(a.GroupBy, r).Key()
			if b.now[key] == nil && only != nil {
				continue
			}
			x.groups[key] = append(x.groups[key], len(groups))
			groups = append(groups, r.Group)
		}
		if x.slo != nil {
			x.groupsOf, x.slice = groups, slice
			steps := steps
			if x.slo.Indicator.Kind == slo.KindVolume && len(steps) > 0 {
				steps = history.Periods(x.slo, slo.Span{From: steps[0].From, To: steps[len(steps)-1].To}, rep.Time.UTC())
			}
			x.counts = l.Add(string(c.SLO), name, history.GridOf(steps, func(sp slo.Span) []slo.Span {
				return history.Excluded(x.slo, sp, slice)
			}), groups)
			if a.Method == sla.Bands && len(c.Bands) > 0 {
				x.bands = l.Add(sla.BandsID(c.SLO, a.Name), name, history.GridOf(steps, func(sp slo.Span) []slo.Span {
					return history.Excluded(x.slo, sp, 0)
				}), groups)
			}
		}
		b.components = append(b.components, x)
	}
	return b
}

// Rows are the reports of all groups of an SLO.
func Rows(rep *sla.Report, id slo.ID) []*sla.SLOReport {
	var out []*sla.SLOReport
	i, _ := slices.BinarySearchFunc(rep.SLOs, id, func(r sla.SLOReport, id slo.ID) int {
		return cmp.Compare(r.SLO.ID, id)
	})
	for ; i < len(rep.SLOs) && rep.SLOs[i].SLO.ID == id; i++ {
		out = append(out, &rep.SLOs[i])
	}
	return out
}

// projected is the agreement's group that a group of a finer SLO is part of.
func projected(groupBy []string, r *sla.SLOReport) slo.Group {
	var g slo.Group
	for _, name := range groupBy {
		if i := slices.Index(r.SLO.GroupBy, name); i >= 0 && i < len(r.Group) {
			g = append(g, r.Group[i])
		}
	}
	return g
}

// whole is the first step that is kept of every component; len(steps) if none is.
// Scores of earlier times would lack what is gone.
func (b *PeriodScores) whole() (first int, keptFrom time.Time) {
	for _, c := range b.components {
		for _, e := range []*history.Series{c.counts, c.bands} {
			if e == nil || !e.Answer.Known {
				continue
			}
			if at := e.KeptFrom(); at.After(keptFrom) {
				keptFrom = at
			}
		}
	}
	for first < len(b.steps) && b.steps[first].From.Before(keptFrom) {
		first++
	}
	return first, keptFrom
}

// Score scores a group over steps first to last-1. Nothing but the group, the
// score and the components is set that needs more than the counts.
func (b *PeriodScores) Score(g slo.Group, first, last int) sla.SLAReport {
	in := make([]sla.ComponentInput, len(b.components))
	for i := range b.components {
		in[i] = b.input(i, g, first, last)
	}
	r := b.scorer.Score(between(b.steps[first:max(first, last)]), in, make([]sla.ComponentReport, len(in)))
	r.SetGroup(g)
	for i, c := range b.components {
		if c.slo == nil {
			r.Components[i].Note = NotCounted
			if now := b.now[g.Key()]; now != nil && i < len(now.Components) {
				r.Components[i].Objective = now.Components[i].Objective
			}
		}
	}
	return r
}

// input is what component i of a group counted over steps first to last-1.
func (b *PeriodScores) input(i int, g slo.Group, first, last int) sla.ComponentInput {
	c := &b.components[i]
	if c.slo == nil {
		return sla.ComponentInput{Within: make([]uint64, len(b.agreement.Components[i].Bands))}
	}
	in := history.ComponentInput(c.slo)
	bands := b.agreement.Components[i].Bands
	in.Within = make([]uint64, len(bands))
	for _, at := range c.groups[g.Key()] {
		_, net := c.counts.Bins(at)
		if c.slo.Indicator.Kind == slo.KindVolume {
			b.addPeriods(&in, c, at, net, first, last)
			continue
		}
		for k := first; k < last && k < len(net); k++ {
			history.AddBins(&in, c.counts.Answer.Sliced, net[k], history.Tally{})
		}
		if c.bands == nil {
			continue
		}
		_, net = c.bands.Bins(at)
		for k := first; k < last && k < len(net); k++ {
			addWithin(&in, bands, c.bands.Answer.Edges, net[k])
		}
	}
	sp := between(b.steps[first:max(first, last)])
	in.Coverage = c.counts.Share(sp)
	if c.bands != nil {
		in.Coverage = min(in.Coverage, c.bands.Share(sp))
	}
	return in
}

// exact is Series.Exact of all that the scores of a span are made of.
func (b *PeriodScores) exact(sp slo.Span) bool {
	for i := range b.components {
		c := &b.components[i]
		if c.counts != nil && !c.counts.Exact(sp, c.slice) || c.bands != nil && !c.bands.Exact(sp, 0) {
			return false
		}
	}
	return true
}

// between is the time from the first of some steps to the last; zero without any.
func between(steps []slo.Span) slo.Span {
	if len(steps) == 0 {
		return slo.Span{}
	}
	return slo.Span{From: steps[0].From, To: steps[len(steps)-1].To}
}

// addPeriods adds the periods of a volume that begin in steps first to last-1. It has steps of its own.
func (b *PeriodScores) addPeriods(in *sla.ComponentInput, c *scoredComponent, group int,
	net [][]uint64, first, last int) {
	read := history.NewReader(c.slo, c.groupsOf[group], &c.counts.Answer)
	for k, sp := range c.counts.Grid.Steps {
		if k >= len(net) || last <= first {
			return
		}
		_, t := read.Tallies(sp, net[k], net[k])
		if !sp.From.Before(b.steps[first].From) && sp.From.Before(b.steps[last-1].To) {
			history.AddBins(in, false, nil, t)
		}
	}
}

// addWithin counts the events within each band.
func addWithin(in *sla.ComponentInput, bands []sla.Band, edges []time.Duration, bins []uint64) {
	for bin, n := range bins {
		in.Measured += n
		for k, band := range bands {
			if at := slices.Index(edges, band.Threshold); band.Threshold > 0 && at >= 0 && bin <= at {
				in.Within[k] += n
			}
		}
	}
}

// DayScore is the score of one day.
type DayScore struct {
	slo.Span
	Report sla.SLAReport
	Kept   bool // the counts of every component reach back that far
	Seen   float64
}

func (d *DayScore) Has() bool {
	return d.Kept && d.Report.HasData && d.Report.Missing < len(d.Report.Components)
}

// DayScores scores the last n days, today so far among them.
func DayScores(ctx context.Context, counts history.CountsFunc, rep *sla.Report, r *sla.SLAReport, n int,
	zone *time.Location) ([]DayScore, error) {
	steps := history.DayGrid(rep.Time.UTC(), zone, n, func(slo.Span) []slo.Span { return nil }).Steps
	var l history.Batch
	book := NewPeriodScores(rep, r.SLA, steps, "days", []*sla.SLAReport{r}, &l)
	if err := l.Run(ctx, counts); err != nil {
		return nil, err
	}
	first, _ := book.whole()
	out := make([]DayScore, len(steps))
	for i, sp := range steps {
		out[i] = DayScore{Span: sp, Report: book.Score(r.Group, i, i+1), Kept: i >= first}
		for _, c := range book.components {
			if c.counts != nil {
				out[i].Seen = max(out[i].Seen, history.Seen(&c.counts.Answer, sp))
			}
		}
	}
	return out, nil
}
