package evaluator

import (
	"cmp"
	"slices"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// slaGroups collects what the components of one agreement counted, by group.
type slaGroups struct {
	plan   *slaPlan
	index  map[string]int
	groups []slo.Group
	inputs []sla.ComponentInput // len(components) per group
}

func newSLAGroups(p *slaPlan) *slaGroups {
	s := &slaGroups{plan: p, index: map[string]int{}}
	if len(p.agreement.GroupBy) == 0 {
		s.add("", nil)
	}
	return s
}

func (s *slaGroups) add(key string, values slo.Group) int {
	i := len(s.groups)
	s.index[key] = i
	s.groups = append(s.groups, values)
	for c, component := range s.plan.slos {
		in := sla.ComponentInput{Objective: component.Objective, Kind: component.Indicator.Kind,
			Method: component.Budgeting.Method}
		if in.Kind == slo.KindThroughput {
			in.Method = slo.Occurrences // its slices are good or bad, whatever else is said
		}
		in.Observed, in.Coverage = -1, -1 // nothing yet
		in.Within = make([]uint64, len(s.plan.agreement.Components[c].Bands))
		s.inputs = append(s.inputs, in)
	}
	return i
}

// project gives the key of the agreement's group that an SLO's group belongs
// to; valid until the next call.
func (t *tick) project(u usage, values slo.Group) []byte {
	t.key = t.key[:0]
	for i, at := range u.labels {
		if i > 0 {
			t.key = append(t.key, '\xff')
		}
		t.key = append(t.key, values[at]...)
	}
	return t.key
}

// group gives the input of a usage's component in a group of the agreement,
// which is made if it is new.
func (s *slaGroups) group(key []byte, u usage, values slo.Group) *sla.ComponentInput {
	i, ok := s.index[string(key)]
	if !ok {
		g := make(slo.Group, len(u.labels))
		for k, at := range u.labels {
			g[k] = values[at]
		}
		i = s.add(string(key), g)
	}
	return &s.inputs[i*len(s.plan.slos)+u.component]
}

// addCounts adds the counts, or judged periods, of one group of a component's SLO.
func (t *tick) addCounts(u usage, g *fold.Group, b bins) {
	in := t.slaSet[u.sla].group(t.project(u, g.Values), u, g.Values)
	in.AddBins(b[:])
	if g.Indicator.Slice != nil {
		in.Achieved += b[fold.SliceAchieved]
		in.Target += b[fold.SliceTarget]
		in.RatioSum += b[fold.SliceRatio]
	}
	t.observe(in, u, g)
}

// observe keeps the lowest share that was observed of all that is summed.
func (t *tick) observe(in *sla.ComponentInput, u usage, g *fold.Group) {
	c := t.cover(g, u.window)
	if in.Coverage < 0 || c.coverage < in.Coverage {
		in.Coverage = c.coverage
	}
	if in.Observed < 0 || c.observed < in.Observed {
		in.Observed = c.observed
	}
}

// addBands adds the counts within each band of a component.
func (t *tick) addBands(u usage) {
	if u.bands == nil {
		return
	}
	groups := t.of(u.bands.indicator)
	c := u.bands.correction
	for i := range groups {
		g := &groups[i]
		in := t.slaSet[u.sla].group(t.project(u, g.Values), u, g.Values)
		counts := g.Spans[u.window]
		received := u.sla.late >= 0 && g.Moved != nil
		if received {
			counts, _ = t.receivedCounts(c, g, u.window, u.sla.late)
		}
		for bin, n := range counts {
			if !received {
				n -= min(n, t.takenOut(c, g, u.window, bin))
			}
			in.Measured += n
			for band, bins := range u.bands.bins {
				if bin < bins {
					in.Within[band] += n
				}
			}
		}
		addTotals(in, u, g)
		t.observe(in, u, g)
	}
}

// addTotals adds what was counted within each band since the counts began.
func addTotals(in *sla.ComponentInput, u usage, g *fold.Group) {
	bands := u.sla.agreement.Components[u.component].Bands
	if in.Bands == nil {
		in.Bands = make([]sla.BandTotal, 0, len(bands))
		for _, b := range bands {
			if b.Threshold > 0 {
				in.Bands = append(in.Bands, sla.BandTotal{Threshold: b.Threshold})
			}
		}
		in.Bands = append(in.Bands, sla.BandTotal{})
	}
	last := len(in.Bands) - 1
	for bin, n := range g.Total {
		in.Bands[last].Count += n
		for band := range last {
			if bin < u.bands.bins[band] {
				in.Bands[band].Count += n
			}
		}
	}
}

// takenOut is what a correction takes out of one bin of a window.
func (t *tick) takenOut(c *correction, g *fold.Group, window, bin int) uint64 {
	if c == nil || len(c.extra) == 0 {
		return 0
	}
	u := c.uses[window]
	var n uint64
	for i := u.first; i < c.whole; i++ {
		n += g.Spans[len(t.spans)+i][bin]
	}
	if u.cut >= 0 {
		n += g.Spans[len(t.spans)+u.cut][bin]
	}
	return n
}

// slaReports appends the reports of one agreement, by group.
func (t *tick) slaReports(out []sla.SLAReport, p *slaPlan) []sla.SLAReport {
	s := t.slaSet[p]
	n := len(p.slos)
	order := make([]int, len(s.groups))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int {
		return cmp.Or(compareGroups(s.groups[x], s.groups[y]), cmp.Compare(x, y))
	})
	components := make([]sla.ComponentReport, len(order)*n)
	out = slices.Grow(out, len(order))
	for i, g := range order {
		in := s.inputs[g*n : (g+1)*n]
		for c := range in {
			in[c].Observed, in[c].Coverage = max(0, in[c].Observed), max(0, in[c].Coverage)
		}
		r := p.scorer.Score(t.spans[p.window], in, components[i*n:(i+1)*n:(i+1)*n])
		r.SetGroup(s.groups[g])
		out = append(out, r)
	}
	return out
}

// alertScores adds the scores over the alert window to the reports of an
// agreement. Both have the same groups, for they come from the same counters.
func (t *tick) alertScores(reports []sla.SLAReport, p *slaPlan) {
	scores := t.slaReports(nil, p)
	if len(scores) != len(reports) {
		return
	}
	for i := range reports {
		reports[i].Alert = &scores[i]
	}
}
