package backtest

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/sla/outlook"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// quarter is how far ahead objectives are tried.
const quarter = 13 * 7 * 24 * time.Hour

// ladder are objectives that people choose, in percent, ascending.
var ladder = []string{
	"80", "90", "95", "98", "99", "99.5", "99.8", "99.9", "99.95", "99.98", "99.99", "99.995", "99.999",
}

// Proposal is an objective and what to expect of it.
type Proposal struct {
	Objective string `json:"objective_percent"`
	// Exhausted is the probability that the budget is empty at some time of the next quarter, or of the rest of a calendar
	// window. Null: the past tells too little.
	Exhausted *float64 `json:"exhausted_probability"`
	Why       string   `json:"why,omitempty"` // it is null
}

// propose tries the objective of each SLO and its neighbors on futures drawn from the past of its worst group.
func (r *replay) propose(ctx context.Context) (map[slo.ID][]Proposal, error) {
	l := r.lanes[len(r.lanes)-1]
	report := l.eval.Latest()
	if report == nil {
		return nil, nil
	}
	worst := map[slo.ID]*sla.SLOReport{}
	for i := range report.SLOs {
		x := &report.SLOs[i]
		was := worst[x.SLO.ID]
		less := was == nil ||
			x.Budget.HasData && (!was.Budget.HasData || x.Budget.Remaining < was.Budget.Remaining)
		if less && !x.Informative {
			worst[x.SLO.ID] = x
		}
	}
	out := map[slo.ID][]Proposal{}
	counts := func(_ context.Context, q []fold.ReadRequest) ([]fold.ReadResult, error) {
		return l.tally.state.Fold.Read(q), nil
	}
	for id, x := range worst {
		var p forecast.Past
		if err := outlook.LoadPast(ctx, counts, x.SLO, x.Group, x.Slice, report.Time, &p); err != nil {
			return nil, fmt.Errorf("read the past of %s: %w", id, err)
		}
		seed := fnv.New64a()
		_, _ = seed.Write([]byte(id))
		for _, objective := range neighbors(x.SLO.Objective) {
			if err := r.rest(ctx); err != nil {
				return nil, err
			}
			answer := Proposal{Objective: objective.Percent()}
			chance, why := p.Exhausted(forecast.Question{
				Now: report.Time, Window: x.SLO.Window, Budget: objective.Budget(), Seed: seed.Sum64(),
			}, quarter)
			if answer.Why = why; why == "" {
				answer.Exhausted = &chance
			}
			out[id] = append(out[id], answer)
		}
	}
	return out, nil
}

// neighbors are an objective and the next ones below and above it.
func neighbors(of slo.Objective) (out []slo.Objective) {
	var above *slo.Objective
	for _, percent := range ladder {
		o, err := slo.ParsePercent(percent)
		switch {
		case err != nil || o.Percent() == of.Percent():
		case o.Ratio() < of.Ratio():
			out = []slo.Objective{o}
		case above == nil:
			above = &o
		}
	}
	out = append(out, of)
	if above != nil {
		out = append(out, *above)
	}
	return out
}
