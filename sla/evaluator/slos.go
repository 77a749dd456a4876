package evaluator

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

func (t *tick) sloReports() []sla.SLOReport {
	n, rows := 0, 0
	for _, p := range t.slos {
		groups := len(t.of(p.indicator))
		n += groups + len(p.expect) + 1
		rows += groups
		if p.correction != nil {
			rows += groups
		}
	}
	out := make([]sla.SLOReport, 0, n)
	t.burns = make([]slo.Burn, 0, rows*(len(t.plan.burns)+1))
	for _, p := range t.slos {
		first := len(out)
		out = t.sloGroups(out, p)
		order.By(out[first:], byGroup)
	}
	return out
}

func byGroup(x, y *sla.SLOReport) int { return compareGroups(x.Group, y.Group) }

// compareGroups orders groups by their values, the "other" group last.
func compareGroups(x, y slo.Group) int {
	if a, b := x.IsOther(), y.IsOther(); a != b {
		if a {
			return 1
		}
		return -1
	}
	return slices.Compare(x, y)
}

// sloGroups appends the reports of all groups of one SLO, those that are
// expected and have not come yet among them.
func (t *tick) sloGroups(out []sla.SLOReport, p *sloPlan) []sla.SLOReport {
	groups := t.of(p.indicator)
	events := t.plainEvents(p)
	if p.peak != nil {
		p.peak.answer(events, len(t.spans))
	}
	seen := 0
	for i := range groups {
		g := &groups[i]
		out = append(out, t.sloReport(p, g))
		r := &out[len(out)-1]
		if p.eventsID == "" {
			t.events(r, p, g)
		} else if e, ok := events[string(t.groupKey(g.Values))]; ok {
			t.events(r, p, e)
			if p.peak != nil {
				r.PeakMinute = p.peak.known[string(t.groupKey(g.Values))]
			}
		}
		if p.expect != nil {
			if _, ok := p.expect[string(t.groupKey(g.Values))]; ok {
				seen++
			}
		}
	}
	switch {
	case len(p.slo.GroupBy) == 0 && len(groups) == 0:
		out = append(out, t.absent(p, nil, groups))
	case seen < len(p.expect):
		have := make(map[string]bool, len(groups))
		for i := range groups {
			have[groups[i].Values.Key()] = true
		}
		for key, values := range p.expect {
			if !have[key] {
				out = append(out, t.absent(p, values, groups))
			}
		}
	}
	for _, u := range p.usages {
		t.addBands(u)
	}
	return out
}

// plainEvents finds the counter of events beside an SLO that judges slices.
func (t *tick) plainEvents(p *sloPlan) map[string]*fold.Group {
	if p.eventsID == "" {
		return nil
	}
	gs := t.groups[p.eventsID]
	m := make(map[string]*fold.Group, len(gs))
	for i := range gs {
		if gs[i].Indicator.Slice == nil {
			m[gs[i].Values.Key()] = &gs[i]
		}
	}
	return m
}

// groupKey is slo.Group.Key without its allocation; valid until the next call.
func (t *tick) groupKey(g slo.Group) []byte {
	t.key = t.key[:0]
	for i, v := range g {
		if i > 0 {
			t.key = append(t.key, '\xff')
		}
		t.key = append(t.key, v...)
	}
	return t.key
}

// base is what is known of a group before anything is counted.
func (t *tick) base(p *sloPlan, values slo.Group) sla.SLOReport {
	r := sla.SLOReport{
		SLO: p.slo, Group: values, Informative: values.IsOther(), State: slo.StateNoData,
		Period:     t.spans[p.period],
		Unmeasured: t.sums.Stats.Unmeasured[p.indicator.ID],
	}
	if c := p.correction; c != nil {
		r.Corrected = c.uses[p.period].taken
	}
	if p.indicator.Slice != nil {
		r.Slice = p.indicator.Slice.Per
	}
	return r
}

// absent reports a group that the fold has not seen. It is observed as long as
// its siblings are.
func (t *tick) absent(p *sloPlan, values slo.Group, siblings []fold.Group) sla.SLOReport {
	if p.volume != nil && len(siblings) > 0 { // its empty periods are bad
		g := siblings[0]
		g.Values, g.LastEvent, g.Total, g.Old, g.Excess, g.Spans = values, time.Time{}, nil, nil, nil,
			make([][]uint64, len(g.Spans))
		return t.sloReport(p, &g)
	}
	r := t.base(p, values)
	burns := make([]slo.Burn, 0, len(t.plan.burns)+1)
	for _, w := range slo.BurnWindows {
		burns = append(burns, slo.Burn{Window: w})
	}
	burns = append(burns, slo.Burn{Window: r.Period.Duration(), Period: true})
	if len(siblings) > 0 {
		g := fold.Group{Since: siblings[0].Since, Backfilled: siblings[0].Backfilled, Loss: siblings[0].Loss,
			Observed: siblings[0].Observed}
		r.Generation, r.Since = siblings[0].Generation, g.Since
		whole := t.cover(&g, p.period)
		r.Coverage = whole.coverage
		for i, c := range append(t.burnCoverage(&g), whole) {
			burns[i].Observed, burns[i].Coverage = c.observed, c.coverage
		}
	}
	r.Burns, r.RawBurns = burns, burns
	for _, u := range p.usages {
		t.slaSet[u.sla].group(t.project(u, values), u, values)
	}
	return r
}

func (t *tick) sloReport(p *sloPlan, g *fold.Group) sla.SLOReport {
	r := t.base(p, g.Values)
	known := t.cover(g, p.period)
	r.Coverage = known.coverage
	r.Generation, r.Since, r.LastEvent, r.Understated = g.Generation, g.Since, g.LastEvent, g.Understated
	total := load(g.Total)
	r.Total = total.counts(p.slo.Indicator.Kind)
	if p.volume != nil {
		t.volumeReport(p, g, &r, known)
		return r
	}
	if g.Indicator.Slice != nil && len(g.Total) == fold.SliceBins {
		r.Slices = sla.SliceTotals{
			Ratio: float64(g.Total[fold.SliceRatio]) / 1e9, Achieved: g.Total[fold.SliceAchieved],
			Target: g.Total[fold.SliceTarget],
		}
	}

	t.prepare(p.correction, g)
	r.Raw = budget(p.slo, load(g.Spans[p.period]))
	r.Budget = r.Raw
	r.RawBurns = t.burnRates(p, g, &r, r.Raw, known, nil)
	r.Burns = r.RawBurns
	if c := p.correction; c != nil && len(c.extra) > 0 {
		r.Budget = budget(p.slo, t.corrected(c, g, p.period))
		r.Burns = t.burnRates(p, g, &r, r.Budget, known, c)
	}
	unit := p.slo.Indicator.Kind.Unit()
	for _, w := range p.tiers {
		b := burn(unit, t.plan.windows[w].Rolling, budget(p.slo, t.corrected(p.correction, g, w)),
			t.excess(p.correction, g, w), g.Excess != nil)
		known := t.cover(g, w)
		b.Observed, b.Coverage = known.observed, known.coverage
		r.TierBurns = append(r.TierBurns, b)
	}
	if p.trend != nil {
		r.Trend = trendOf(p.slo, t.corrected(p.correction, g, p.trend[0]), t.corrected(p.correction, g, p.trend[1]))
	}
	if g.Moved != nil {
		r.Received = t.received(p, g)
	}
	// A tier's factor comes from the whole period, of which a calendar window may
	// have seen little yet.
	whole := p.slo.Window.Rolling
	if p.slo.Window.Calendar != "" {
		whole = p.slo.Window.End(t.now).Sub(r.Period.From)
	}
	r.State = slo.Judge(whole, r.Budget, r.Burns)
	if names := p.slo.Indicator.Kind.PartNames(); names != nil {
		left := t.corrected(p.correction, g, p.period)
		r.Parts = &sla.PartCounts{Period: slices.Clone(left[:len(names)]), Total: g.Total, Backfilled: g.Old}
	}
	for _, u := range p.usages {
		t.addCounts(u, g, t.alertCounts(u, p.correction, g))
	}
	return r
}

// burnRates are those of the burn windows and the period, with the corrections
// taken out if there are some.
func (t *tick) burnRates(p *sloPlan, g *fold.Group, r *sla.SLOReport, whole slo.Budget, known cover,
	c *correction) []slo.Burn {
	first, unit := len(t.burns), p.slo.Indicator.Kind.Unit()
	coverage := t.burnCoverage(g)
	for i, w := range t.plan.burns {
		b := burn(unit, slo.BurnWindows[i], budget(p.slo, t.corrected(c, g, w)), t.excess(c, g, w), g.Excess != nil)
		b.Observed, b.Coverage = coverage[i].observed, coverage[i].coverage
		t.burns = append(t.burns, b)
	}
	last := burn(unit, r.Period.Duration(), whole, t.excess(c, g, p.period), g.Excess != nil)
	last.Period, last.Observed, last.Coverage = true, known.observed, known.coverage
	t.burns = append(t.burns, last)
	return t.burns[first:len(t.burns):len(t.burns)]
}

// burn is the burn rate of a window of a nominal length. An event makes unit counts, and excess is what weights add if
// some event is weighed.
func burn(unit uint64, length time.Duration, b slo.Budget, excess uint64, weighed bool) slo.Burn {
	x := slo.NewBurn(length, b)
	if unit > 1 {
		x.Effective /= float64(unit)
	}
	if weighed {
		x.Effective = slo.Effective(b.Counts.Valid()/unit, excess)
	}
	return x
}

// burnCoverage is how much is known of the burn windows, in order. Groups of one
// indicator mostly have it in common, so the last answer is kept.
func (t *tick) burnCoverage(g *fold.Group) []cover {
	if t.covered != nil && sameCoverage(g, &t.coveredOf) {
		return t.covered
	}
	t.covered = t.covered[:0]
	for _, w := range t.plan.burns {
		t.covered = append(t.covered, t.cover(g, w))
	}
	t.coveredOf.Since, t.coveredOf.Backfilled, t.coveredOf.Loss, t.coveredOf.Observed = g.Since,
		g.Backfilled, g.Loss, g.Observed
	return t.covered
}

func budget(s *slo.SLO, b bins) slo.Budget {
	c := b.counts(s.Indicator.Kind)
	if !s.ByRatio() {
		return slo.NewBudget(s.Objective, c)
	}
	n := c.Valid()
	if n == 0 {
		return slo.NewRatioBudget(s.Objective, c, 0, false)
	}
	return slo.NewRatioBudget(s.Objective, c, float64(b[fold.SliceRatio])/1e9/float64(n), true)
}

// events fills in what is counted in events whatever the budget counts.
func (t *tick) events(r *sla.SLOReport, p *sloPlan, g *fold.Group) {
	k := p.slo.Indicator.Kind
	r.Events = events(k, g.Spans[p.period])
	if g.Old != nil {
		r.Backfilled = events(k, g.Old)
		if k == slo.KindRatio {
			r.Backfilled = slo.Counts{Good: g.Old[fold.RatioNumerator] + g.Old[fold.RatioDenominator]}
		}
	}
	if !p.slo.Indicator.Capacity.IsZero() {
		r.EventsTotal = events(k, g.Total).Valid()
	}
	last := events(k, g.Spans[t.rate])
	r.Rate = float64(last.Valid()) / rateWindow.Seconds()
	r.Arrivals = r.Rate
	if g.Moved != nil {
		r.Arrivals = t.arrivals(k, g)
	}
}

// events are the good and bad events of bins.
func events(k slo.IndicatorKind, counts []uint64) slo.Counts {
	b := load(counts)
	switch k {
	case slo.KindThroughput, slo.KindVolume:
		return slo.Counts{Good: b[0] + b[1]} // no event is bad for coming
	case slo.KindApdex:
		return slo.Counts{Good: b[0] + b[1], Bad: b[2]}
	}
	return b.counts(k)
}
