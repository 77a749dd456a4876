package evaluator

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// TestFoldAndEvaluatorAgreeWithAnOracle plays random traffic with gaps, outages,
// late events, corrections and calendar windows through the real fold, and
// checks every number of the reports against counting by brute force.
func TestFoldAndEvaluatorAgreeWithAnOracle(t *testing.T) {
	worlds := 6
	if testing.Short() {
		worlds = 2
	}
	compared := 0
	defer func() { require.NotZero(t, compared, "no condition had late events") }()
	for seed := range worlds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, rand.New(rand.NewPCG(uint64(seed), 7)))
			p := newPlayer(t, w)
			for _, now := range w.ticks {
				r := p.report(now)
				c := checker{w: w, o: w.oracle(now), r: r}
				c.slos(t)
				c.slas(t)
				c.limits(t)
				compared += c.conditions(t, w.received(now))
			}
		})
	}
}

// player is an engine without a log: it gives the events to the fold as they
// were received, with the heartbeats that tell that it is up.
type player struct {
	t    *testing.T
	w    *world
	fold *fold.Fold
	eval *Evaluator
	next int       // event
	at   time.Time // of the last record
}

func newPlayer(t *testing.T, w *world) *player {
	f, err := fold.New(fold.Options{})
	require.NoError(t, err)
	cfg, err := Compile(w.Inputs)
	require.NoError(t, err)
	f.Advance(w.began.UnixNano(), fold.Start)
	require.NoError(t, f.SetConfig(cfg, w.began.UnixNano()))
	e, err := New(Options{Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) {
		return f.Sums(req), nil
	}})
	require.NoError(t, err)
	require.NoError(t, e.SetSpec(w.Inputs))
	return &player{t: t, w: w, fold: f, eval: e, at: w.began}
}

func (p *player) report(now time.Time) *sla.Report {
	for p.next < len(p.w.events) && p.w.events[p.next].received.Before(now) {
		e := &p.w.events[p.next]
		p.beat(e.received)
		p.apply(e)
		p.next++
	}
	p.beat(now)
	r, err := p.eval.Tick(p.t.Context(), now)
	require.NoError(p.t, err)
	return r
}

// beat brings the record time to t, with heartbeats while the engine was up.
func (p *player) beat(t time.Time) {
	const every = 30 * time.Second
	for p.at.Before(t) {
		next := p.at.Add(every)
		if next.After(t) {
			next = t
		}
		mark := fold.Tick
		for _, d := range p.w.down {
			switch {
			case p.at.Equal(d.From):
				next, mark = d.To, fold.Start
			case p.at.Before(d.From) && !next.Before(d.From):
				next, mark = d.From, fold.Stop
			}
		}
		p.fold.Advance(next.UnixNano(), mark)
		p.at = next
	}
}

func (p *player) apply(h *happening) {
	e := event.Event{ID: "x", Time: h.at, Service: "shop", Type: h.typ, Count: uint32(h.n)}
	if h.outcome == "failure" {
		e.Outcome = event.Failure
	}
	if h.took >= 0 {
		e.Duration, e.HasDuration = h.took, true
	}
	e.Set("stage", h.stage)
	if h.product != "" {
		e.Set("product", h.product)
	}
	var v event.View
	_, err := v.Parse(event.AppendBinary(nil, &e))
	require.NoError(p.t, err)
	require.NoError(p.t, p.fold.Apply(h.received.UnixNano(), fold.Live, &v))
}

// received are the worlds that alert conditions see, by lateness: events that came more than a minute after their time
// count when they came, unless they came too late.
func (w *world) received(now time.Time) (out []*oracle) {
	for _, bound := range slo.Lateness[:len(slo.Lateness)-1] {
		o := w.oracle(now)
		o.events = slices.Clone(o.events)
		for i := range o.events {
			if e := &o.events[i]; e.late > time.Minute {
				e.at = e.received
			}
		}
		o.events = slices.DeleteFunc(o.events, func(e happening) bool { return e.late > bound })
		out = append(out, o)
	}
	return out
}

// conditions checks the burns that alert conditions go by.
func (c *checker) conditions(t *testing.T, worlds []*oracle) (n int) {
	for i := range c.r.SLOs {
		r := &c.r.SLOs[i]
		for late := range r.Received {
			o := worlds[late]
			for raw, burns := range [][]slo.Burn{r.Received[late].Burns, r.Received[late].Raw} {
				require.GreaterOrEqual(t, len(burns), 5)
				for _, b := range burns {
					want := o.count(r.SLO, r.Group, o.now.Add(-b.Window), raw == 0).counts
					require.Equal(t, want, b.Counts, "%s %s over %s, late up to %s", r.SLO.ID, r.Group, b.Window, slo.Lateness[late])
					n++
				}
			}
		}
	}
	return n
}

type checker struct {
	w *world
	o *oracle
	r *sla.Report
}

func (c *checker) slos(t *testing.T) {
	require.True(t, slices.IsSortedFunc(c.r.SLOs, func(a, b sla.SLOReport) int {
		if a.SLO.ID != b.SLO.ID {
			return slices.Compare([]byte(a.SLO.ID), []byte(b.SLO.ID))
		}
		return compareGroups(a.Group, b.Group)
	}))
	seen := map[string]bool{}
	for i := range c.r.SLOs {
		r := &c.r.SLOs[i]
		seen[string(r.SLO.ID)+r.Group.Key()] = true
		c.slo(t, r)
	}
	for _, s := range c.w.SLOs {
		for _, e := range c.o.events {
			if g := groupOf(s, &e); len(c.o.of(s, g)) > 0 && !seen[string(s.ID)+g.Key()] {
				require.Fail(t, "group is missing", "%s %q", s.ID, g)
			}
		}
	}
}

func (c *checker) slo(t *testing.T, r *sla.SLOReport) {
	s, name := r.SLO, fmt.Sprintf("%s %q at %s", r.SLO.ID, r.Group, c.o.now)
	from := start(s.Window, c.o.now)
	require.True(t, r.Period.From.Equal(from), name)
	require.True(t, r.Period.To.Equal(c.o.now), name)

	c.budget(t, s, r.Raw, c.o.count(s, r.Group, from, false), name+", raw")
	c.budget(t, s, r.Budget, c.o.count(s, r.Group, from, true), name)
	require.Len(t, r.Burns, len(slo.BurnWindows)+1)
	for i, w := range slo.BurnWindows {
		require.Equal(t, w, r.Burns[i].Window)
		c.burn(t, s, r.RawBurns[i], c.o.count(s, r.Group, c.o.now.Add(-w), false), name+", raw burn")
		c.burn(t, s, r.Burns[i], c.o.count(s, r.Group, c.o.now.Add(-w), true), name+", burn")
	}
	last := r.Burns[len(slo.BurnWindows)]
	require.True(t, last.Period)
	require.Equal(t, r.Budget.Consumed, last.Rate)

	var latest time.Time
	var total, valid, recent uint64
	for _, e := range c.o.of(s, r.Group) {
		if e.at.After(latest) {
			latest = e.at
		}
		total += e.n
		if !e.at.Before(from) {
			valid += e.n
		}
		if !e.at.Before(c.o.now.Add(-rateWindow)) {
			recent += e.n
		}
	}
	require.True(t, r.LastEvent.Equal(latest), name)
	if s.Indicator.Kind == slo.KindRatio {
		c.parts(t, r, c.o.count(s, r.Group, from, true), name)
		valid, total, recent = r.Events.Valid(), r.Total.Valid(), uint64(math.Round(r.Rate*300)) // of the denominator
	}
	require.Equal(t, valid, r.Events.Valid(), name)
	require.InDelta(t, float64(recent)/300, r.Rate, 1e-12, name)
	require.InDelta(t, c.o.coverage(from), r.Coverage, 1e-9, name)
	switch {
	case s.Indicator.Kind == slo.KindApdex:
		require.Equal(t, 2*total, r.Total.Valid(), name)
	case s.Indicator.Kind == slo.KindVolume:
		require.Equal(t, slo.Counts{Good: total}, r.Total, name)
	case r.Slice == 0:
		require.Equal(t, total, r.Total.Valid(), name)
		require.Equal(t, r.Raw.Counts, r.Events, name)
	}
	if _, ok := c.o.count(s, r.Group, from, true).sli(s); !ok {
		require.Equal(t, slo.StateNoData, r.State, name)
	} else {
		require.NotEqual(t, slo.StateNoData, r.State, name)
	}
	if r.Slice == 0 && s.Indicator.Kind != slo.KindVolume {
		require.Equal(t, c.o.corrected(s, r.Period), r.Corrected, name)
	}
}

func (c *checker) parts(t *testing.T, r *sla.SLOReport, v verdict, name string) {
	require.Equal(t, []uint64{v.above, v.below}, r.Parts.Period, name)
	above, below := uint64(0), uint64(0)
	for _, e := range c.o.of(r.SLO, r.Group) {
		if e.matches(r.SLO.Indicator.Numerator) {
			above += e.n
		}
		if e.matches(r.SLO.Indicator.Valid) {
			below += e.n
		}
	}
	require.Equal(t, []uint64{above, below}, r.Parts.Total, name)
}

func (c *checker) budget(t *testing.T, s *slo.SLO, b slo.Budget, v verdict, name string) {
	require.Equal(t, v.counts, b.Counts, name)
	sli, ok := v.sli(s)
	require.Equal(t, ok, b.HasData, name)
	if ok {
		require.InDelta(t, sli, b.SLI, 1e-9, name)
		require.InDelta(t, 1-(1-sli)/(1-s.Objective.Ratio()), b.Remaining, 1e-6, name)
	}
}

func (c *checker) burn(t *testing.T, s *slo.SLO, b slo.Burn, v verdict, name string) {
	require.Equal(t, v.counts, b.Counts, "%s over %s", name, b.Window)
	sli, ok := v.sli(s)
	require.Equal(t, ok, b.HasData, name)
	if ok {
		require.InDelta(t, (1-sli)/(1-s.Objective.Ratio()), b.Rate, 1e-6, "%s over %s", name, b.Window)
	}
}

func (c *checker) slas(t *testing.T) {
	want := 0
	for _, a := range c.w.Agreements {
		if len(a.GroupBy) == 0 {
			want++
			continue
		}
		groups := map[string]bool{}
		for i := range c.r.SLOs {
			if r := &c.r.SLOs[i]; len(r.Group) > 0 {
				groups[r.Group[slices.Index(r.SLO.GroupBy, "product")]] = true
			}
		}
		want += len(groups)
	}
	require.Len(t, c.r.SLAs, want)
	for i := range c.r.SLAs {
		c.sla(t, &c.r.SLAs[i])
	}
}

func (c *checker) sla(t *testing.T, r *sla.SLAReport) {
	a, name := r.SLA, fmt.Sprintf("%s %q at %s", r.SLA.Name, r.Group, c.o.now)
	from := start(a.Window, c.o.now)
	require.True(t, r.Period.From.Equal(from), name)
	var score, weights, all float64
	missing, breached := 0, false
	for i, comp := range a.Components {
		all += comp.Weight
		s := c.find(comp.SLO)
		v, within, measured := c.component(s, comp, r.Group, from)
		got := r.Components[i]
		require.Equal(t, comp.Name, got.Name)
		require.Equal(t, v.counts, got.Counts, "%s, %s", name, comp.Name)
		sli, ok := v.sli(s)
		if ok && a.Method == sla.Bands && len(comp.Bands) > 0 {
			ok = measured > 0
		}
		require.Equal(t, ok, got.HasData, "%s, %s", name, comp.Name)
		if !ok {
			missing++
			breached = breached || a.NoData == sla.NoDataBad
			continue
		}
		attainment := min(1, (1-s.Objective.Ratio())/(1-sli))
		require.InDelta(t, attainment, got.Attainment, 1e-6)
		breached = breached || attainment < 1-1e-9
		points := sli
		switch {
		case a.Method == sla.Attainment:
			points = attainment
		case a.Method == sla.Bands && len(comp.Bands) > 0:
			points = comp.Bands[len(comp.Bands)-1].Score / 100
			for b := len(comp.Bands) - 2; b >= 0; b-- {
				if 10*within[b] >= 9*measured {
					points = comp.Bands[b].Score / 100
				}
			}
		case v.target > 0:
			points = float64(v.achieved) / float64(v.target)
		}
		require.InDelta(t, points, got.Points, 1e-6, "%s, %s: %+v", name, comp.Name, got)
		score += comp.Weight * points
		weights += comp.Weight
	}
	require.Equal(t, missing, r.Missing, name)
	require.Equal(t, breached, r.Breached, name)
	require.InDelta(t, 100*score/all, r.Low, 1e-6, name)
	require.InDelta(t, 100*(score+all-weights)/all, r.High, 1e-6, name)
	switch {
	case a.NoData == sla.NoDataBad:
		require.Equal(t, r.Low, r.Score)
	case a.NoData == sla.NoDataGood:
		require.Equal(t, r.High, r.Score)
	case weights > 0:
		require.InDelta(t, 100*score/weights, r.Score, 1e-6, name)
	default:
		require.False(t, r.HasData, name)
	}
}

// component sums what the SLO's groups of one group of the agreement counted.
func (c *checker) component(s *slo.SLO, comp sla.Component, g slo.Group, from time.Time) (sum verdict,
	within []uint64, measured uint64) {
	within = make([]uint64, len(comp.Bands))
	groups := map[string]slo.Group{}
	for _, e := range c.o.events {
		if len(g) == 0 || e.product == g[0] {
			values := groupOf(s, &e)
			groups[values.Key()] = values
		}
	}
	for _, values := range groups {
		v := c.o.count(s, values, from, true)
		sum.counts = sum.counts.Add(v.counts)
		if sum.above, sum.below = sum.above+v.above, sum.below+v.below; s.Indicator.Kind == slo.KindRatio {
			good := min(sum.above, sum.below) // the sums are compared, not the groups
			sum.counts = slo.Counts{Good: good, Bad: sum.below - good}
		}
		sum.ratios += v.ratios
		sum.achieved += v.achieved
		sum.target += v.target
		for _, e := range c.o.of(s, values) {
			if e.took < 0 || e.at.Before(from) || c.o.touched(s, slo.Span{From: e.at, To: e.at.Add(1)}) {
				continue
			}
			measured += e.n
			for b := range comp.Bands {
				if e.took <= comp.Bands[b].Threshold {
					within[b] += e.n
				}
			}
		}
	}
	return sum, within, measured
}

func (c *checker) find(id slo.ID) *slo.SLO {
	i := slices.IndexFunc(c.w.SLOs, func(s *slo.SLO) bool { return s.ID == id })
	return c.w.SLOs[i]
}

func (c *checker) limits(t *testing.T) {
	require.Len(t, c.r.Thresholds, len(c.w.Thresholds))
	for _, r := range c.r.Thresholds {
		var group slo.Group
		count := func(from time.Time) (v sla.Violations) {
			for _, e := range c.o.events {
				l := r.Threshold
				switch {
				case group != nil && !slices.Equal(group, groupOf(&slo.SLO{GroupBy: l.GroupBy}, &e)):
				case e.at.Before(from) || !e.matches(l.Match) || l.Each == "" && e.took < 0:
				case l.Each == "critical" || l.Each == "" && e.took > l.Critical:
					v.Critical += e.n
				case e.took > l.Warning:
					v.Warning += e.n
				default:
					v.Within += e.n
				}
			}
			return v
		}
		require.Equal(t, count(time.Time{}), r.Total, r.Threshold.Name)
		require.Equal(t, count(c.o.now.Add(-thresholdDay)), r.Day, r.Threshold.Name)
		require.Equal(t, count(c.o.now.Add(-thresholdMonth)), r.Month, r.Threshold.Name)
		var all sla.Violations
		for _, g := range r.Groups {
			group = g.Group
			require.Equal(t, count(time.Time{}), g.Total, "%s %v", r.Threshold.Name, g.Group)
			require.Equal(t, count(c.o.now.Add(-thresholdDay)), g.Day, "%s %v", r.Threshold.Name, g.Group)
			require.Equal(t, count(c.o.now.Add(-thresholdMonth)), g.Month, "%s %v", r.Threshold.Name, g.Group)
			all.Add(g.Total)
		}
		if len(r.Threshold.GroupBy) > 0 {
			require.Equal(t, r.Total, all)
		}
	}
}
