package evaluator

import (
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// request asks for what a tick as of now needs.
func (p *plan) request(now time.Time) fold.Request {
	return p.requestWith(now, slices.ContainsFunc(p.slos, func(s *sloPlan) bool {
		return s.peak != nil && s.peak.due(now)
	}))
}

// requestWith asks for every window of the plan as of now, for the times that corrections take out of them, and, if the
// peaks are due, for the minutes of the last hour.
func (p *plan) requestWith(now time.Time, minutes bool) fold.Request {
	req := fold.Request{Now: now, Minutes: minutes, Spans: make([]slo.Span, len(p.windows))}
	for i, w := range p.windows {
		req.Spans[i] = slo.Span{From: w.Start(now), To: now}
	}
	for _, c := range p.corrections {
		c.update(now, req.Spans)
	}
	ask := func(id string, c *correction) {
		if c == nil || len(c.extra) == 0 {
			return
		}
		if req.Extra == nil {
			req.Extra = map[string][]slo.Span{}
		}
		req.Extra[id] = c.extra
	}
	for _, s := range p.slos {
		if s.volume != nil {
			s.volume.ask(&req, now)
			continue
		}
		if s.peak != nil {
			s.peak.ask(&req, s.eventsID)
		}
		ask(string(s.slo.ID), s.correction)
		for _, u := range s.usages {
			if u.bands != nil {
				ask(u.bands.indicator.ID, u.bands.correction)
			}
		}
	}
	return req
}

// tick is the making of one report.
type tick struct {
	*plan
	now    time.Time
	spans  []slo.Span
	sums   *fold.Sums
	up     uptime
	groups map[string][]fold.Group // of each indicator
	slaSet map[*slaPlan]*slaGroups

	// Scratch, used group by group.
	suffix []bins
	key    []byte

	covered   []cover    // of the burn windows
	coveredOf fold.Group // the times that covered depends on

	// Where the burns of all groups are kept, so that a tick allocates a few
	// large slices and not some for every group.
	burns []slo.Burn
}

// report turns the answer to request into a Report without version and cost.
func (p *plan) report(req fold.Request, sums *fold.Sums) (*sla.Report, error) {
	t := tick{
		plan: p, now: req.Now, spans: req.Spans, sums: sums,
		up:     newUptime(sums.Up, req.Now),
		groups: make(map[string][]fold.Group, len(p.slos)+len(p.thresholds)),
		slaSet: make(map[*slaPlan]*slaGroups, len(p.slas)),
	}
	if err := t.index(req); err != nil {
		return nil, err
	}
	for _, s := range p.slas {
		t.slaSet[s] = newSLAGroups(s)
		if s.alert != nil {
			t.slaSet[s.alert] = newSLAGroups(s.alert)
		}
	}
	r := &sla.Report{Time: req.Now, Watermark: sums.Watermark, Warnings: p.warnings}
	r.SLOs = t.sloReports()
	for _, s := range p.slas {
		first := len(r.SLAs)
		r.SLAs = t.slaReports(r.SLAs, s)
		if s.alert != nil {
			t.alertScores(r.SLAs[first:], s.alert)
		}
	}
	for _, l := range p.thresholds {
		r.Thresholds = append(r.Thresholds, t.thresholdReport(l))
	}
	r.Traffic = t.traffic()
	r.Durations = t.durations()
	r.InFlight = sums.InFlight
	return r, nil
}

// index finds the groups of every indicator and checks that the answer fits the
// question.
func (t *tick) index(req fold.Request) error {
	all := t.sums.Groups
	for len(all) > 0 {
		ind := all[0].Indicator
		n := 1
		for n < len(all) && all[n].Indicator == ind {
			n++
		}
		want := len(req.Spans) + len(req.Extra[ind.ID])
		for i := range all[:n] {
			g := &all[i]
			if got := len(g.Spans); got != want {
				return fmt.Errorf("sums of %s: %d spans instead of %d", ind.ID, got, want)
			}
			if got := len(g.Excess); g.Excess != nil && got != want {
				return fmt.Errorf("weights of %s: %d spans instead of %d", ind.ID, got, want)
			}
			if got := len(g.Observed); g.Observed != nil && got != want {
				return fmt.Errorf("observed shares of %s: %d spans instead of %d", ind.ID, got, len(req.Spans))
			}
			if l := g.Loss; l != nil && (len(l.Dropped) != len(req.Spans) || len(l.Offered) != len(req.Spans)) {
				return fmt.Errorf("losses of %s: %d and %d spans instead of %d", ind.ID, len(l.Dropped),
					len(l.Offered), len(req.Spans))
			}
		}
		t.groups[ind.ID] = all[:n]
		all = all[n:]
	}
	return nil
}

// of lists the groups that are counted as the plan expects. While a changed
// spec has not reached the fold yet, or not the plan, an indicator may still be
// of another kind; then there is nothing to say about it.
func (t *tick) of(want *fold.Indicator) []fold.Group {
	gs := t.groups[want.ID]
	if len(gs) == 0 {
		return nil
	}
	have := gs[0].Indicator
	sliced := have.Slice != nil
	if have.Kind != want.Kind || sliced != (want.Slice != nil) || !slices.Equal(have.Edges, want.Edges) ||
		!slices.Equal(have.GroupBy, want.GroupBy) {
		return nil
	}
	return gs
}

// bins are the counts of one group over one span, of any indicator but bands.
type bins [fold.SliceBins]uint64

func load(counts []uint64) (b bins) {
	copy(b[:], counts)
	return b
}

// minus takes c out of b. A left edge may be rounded differently for two spans;
// a count never falls below zero for it.
func (b bins) minus(c bins) bins {
	for i := range b {
		b[i] -= min(b[i], c[i])
	}
	return b
}

func (b *bins) counts(k slo.IndicatorKind) slo.Counts { return k.Counts(b[:]) }

// corrected is what the corrections leave of each window of a group. Call
// prepare for the group first.
func (t *tick) corrected(c *correction, g *fold.Group, window int) bins {
	b := load(g.Spans[window])
	if c == nil || len(c.extra) == 0 {
		return b
	}
	u := c.uses[window]
	b = b.minus(t.suffix[u.first])
	if u.cut >= 0 {
		b = b.minus(load(g.Spans[len(t.spans)+u.cut]))
	}
	return b
}

// excess is what the corrections leave of what weights add in a window.
func (t *tick) excess(c *correction, g *fold.Group, window int) uint64 {
	if g.Excess == nil {
		return 0
	}
	n := g.Excess[window]
	if c == nil || len(c.extra) == 0 {
		return n
	}
	u := c.uses[window]
	for i := u.first; i < c.whole; i++ {
		n -= min(n, g.Excess[len(t.spans)+i])
	}
	if u.cut >= 0 {
		n -= min(n, g.Excess[len(t.spans)+u.cut])
	}
	return n
}

// prepare sums up what a group's corrections take out: suffix[i] is the sum of
// the whole spans from i on.
func (t *tick) prepare(c *correction, g *fold.Group) {
	if c == nil || len(c.extra) == 0 {
		return
	}
	t.suffix = slices.Grow(t.suffix[:0], c.whole+1)[:c.whole+1]
	t.suffix[c.whole] = bins{}
	for i := c.whole - 1; i >= 0; i-- {
		sum := &t.suffix[i]
		*sum = t.suffix[i+1]
		for bin, n := range g.Spans[len(t.spans)+i] {
			sum[bin] += n
		}
	}
}
