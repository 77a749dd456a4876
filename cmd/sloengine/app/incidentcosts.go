package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
)

const (
	// costAfter is how long events of a resolved incident may still arrive before its cost is written.
	costAfter = 2 * time.Minute
	// costEvery is how often the costs of open incidents are computed.
	costEvery = time.Minute
	// maxCosts bounds the SLOs and groups of one incident whose cost is computed.
	maxCosts = 50
)

// incidentCosts reads from the counts when incidents began and what they cost.
type incidentCosts struct {
	counts history.CountsFunc
	report func() *sla.Report

	mu   sync.Mutex
	open map[string][]incident.Spent // of open incidents, by ID
	at   time.Time                   // of the last refresh
}

// onset reads when an alert's trouble began, see incident.Onset. ok is false if the counts do not tell.
//
// It looks back twice the longest window of the alert, in the steps that the counts have: 10s for the last hour, 1m for
// three days, 5m beyond.
func (c *incidentCosts) onset(ctx context.Context, a *state.Alert) (at time.Time, ok bool) {
	m, ok := a.Measured()
	if !ok {
		return at, false
	}
	sp := slo.Span{From: a.FiredAt.Add(-2 * m.Over), To: a.FiredAt}
	slice := c.slice(m.SLO.ID)
	excluded := func(sp slo.Span) []slo.Span { return history.Excluded(m.SLO, sp, slice) }
	grid := history.GridOf(onsetSteps(sp, slice), excluded)
	var batch history.Batch
	series := batch.Add(string(m.SLO.ID), "onset", grid, []slo.Group{a.Group})
	if err := batch.Run(ctx, c.counts); err != nil {
		return at, false // the alert's own estimate stands in
	}
	_, net := series.Bins(0)
	buckets := make([]incident.Bucket, 0, len(net))
	for i, bins := range net {
		t := history.NewTally(m.SLO, &series.Answer, bins)
		buckets = append(buckets, incident.Bucket{From: grid.Steps[i].From, Valid: t.Valid(), Bad: t.Bad})
	}
	return incident.Onset(buckets, m.Ratio)
}

// slice is the length of the slices that an SLO judges; 0 if it judges events.
func (c *incidentCosts) slice(id slo.ID) time.Duration {
	if rep := c.report(); rep != nil {
		for i := range rep.SLOs {
			if rep.SLOs[i].SLO.ID == id {
				return rep.SLOs[i].Slice
			}
		}
	}
	return 0
}

// onsetSteps cuts a span into steps that become finer towards its end, and are whole slices where these are judged.
func onsetSteps(sp slo.Span, slice time.Duration) (out []slo.Span) {
	step := func(at time.Time) time.Duration {
		d := 10 * time.Second
		switch age := sp.To.Sub(at); {
		case age > 3*24*time.Hour:
			d = 5 * time.Minute
		case age > time.Hour:
			d = time.Minute
		}
		if slice > 0 {
			d = max(1, (d+slice-1)/slice) * slice
		}
		return d
	}
	floor := func(at time.Time, d time.Duration) time.Time { // slices are aligned to the Unix epoch
		return at.Add(-time.Duration(at.UnixNano() % int64(d)))
	}
	at := floor(sp.From, step(sp.From))
	for at.Before(sp.To) {
		next := floor(at.Add(step(at)), step(at))
		if !next.After(at) {
			next = at.Add(step(at))
		}
		out = append(out, slo.Span{From: at, To: next})
		at = next
	}
	return out
}

// of computes what an incident cost each SLO and group that its alerts are about: the bad events from its onset to its
// end, as a share of the error budget of the SLO's window.
func (c *incidentCosts) of(ctx context.Context, inc *incident.Incident, now time.Time) ([]incident.Spent, error) {
	rep := c.report()
	if rep == nil {
		return nil, nil
	}
	sp := slo.Span{From: inc.Onset, To: inc.End(now)}
	var batch history.Batch
	var out []incident.Spent
	var series []*history.Series
	var reports []*sla.SLOReport
	for _, x := range inc.Affected() {
		if x.SLO == "" || len(out) == maxCosts {
			continue
		}
		i := slices.IndexFunc(rep.SLOs, func(r sla.SLOReport) bool {
			return string(r.SLO.ID) == x.SLO && slices.Equal(r.Group, x.Group)
		})
		if i < 0 {
			continue
		}
		r := &rep.SLOs[i]
		grid := history.GridOf([]slo.Span{sp}, func(sp slo.Span) []slo.Span { return history.Excluded(r.SLO, sp, r.Slice) })
		series = append(series, batch.Add(x.SLO, slo.Group(x.Group).Key(), grid, []slo.Group{r.Group}))
		reports, out = append(reports, r), append(out, incident.Spent{SLO: x.SLO, Group: x.Group})
	}
	if len(out) == 0 {
		return nil, nil
	}
	if err := batch.Run(ctx, c.counts); err != nil {
		return nil, err
	}
	for i, s := range series {
		_, net := s.Bins(0)
		if len(net) == 0 {
			continue
		}
		t := history.NewTally(reports[i].SLO, &s.Answer, net[0])
		out[i].Valid, out[i].Bad = t.Valid(), t.Bad
		if budget := reports[i].SLO.Objective.Budget() * float64(reports[i].Budget.Counts.Valid()); budget > 0 {
			out[i].Budget = t.Loss(reports[i].SLO) / budget
		}
		out[i].Cost = costOf(reports[:i], reports[i], t.Bad, s.Share(s.Grid.Span))
	}
	return out, nil
}

// costOf is what bad events or slices cost by the present price; nil if the spec states none. before are the SLOs that
// the incident has cost already.
func costOf(before []*sla.SLOReport, r *sla.SLOReport, bad uint64, coverage float64) *incident.Cost {
	s := r.SLO
	if s.Cost == nil {
		return nil
	}
	c := &incident.Cost{Amount: s.UnitCost().Times(bad), Currency: s.Cost.Currency, Basis: s.Cost.Basis(),
		Coverage: coverage, Sampled: r.Sampled()}
	if s.Cost.Unit == slo.PerMinute {
		c.Minutes = float64(bad) * s.JudgedSlice().Minutes()
	}
	for _, x := range before {
		id := string(x.SLO.ID)
		if x.SLO.ID != s.ID && x.SLO.Cost != nil && x.SLO.Cost.Currency == s.Cost.Currency && slo.MayShare(x.SLO, s) &&
			!slices.Contains(c.Shared, id) {
			c.Shared = append(c.Shared, id)
		}
	}
	return c
}

// refresh computes the costs of open incidents, no more than once in costEvery.
func (c *incidentCosts) refresh(ctx context.Context, open []*incident.Incident, now time.Time) error {
	c.mu.Lock()
	due := now.Sub(c.at).Abs() >= costEvery
	c.mu.Unlock()
	if !due {
		return nil
	}
	costs := make(map[string][]incident.Spent, len(open))
	for _, inc := range open {
		spent, err := c.of(ctx, inc, now)
		if err != nil {
			return err
		}
		costs[inc.ID] = spent
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open, c.at = costs, now
	return nil
}

func (c *incidentCosts) latest(id string) []incident.Spent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[id]
}
