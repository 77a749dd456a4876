package fleet

import (
	"slices"
	"strings"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// This file adds up the work in flight of several engines. All events of one piece of work must reach one engine.

// counters are the figures of an InFlight that add up.
func counters(x *slo.InFlight) []*uint64 {
	return []*uint64{&x.Finished, &x.Expired, &x.Corrected, &x.Repeated, &x.Unmatched, &x.Untracked, &x.Displaced}
}

// completeInFlight gives work in flight what cfg says of it, and reports whether it is that of the indicators of
// completion of cfg, in their order.
func completeInFlight(all []slo.InFlight, cfg *fold.Config) bool {
	for i := range cfg.Indicators {
		ind := &cfg.Indicators[i]
		if ind.Kind != fold.Completion {
			continue
		}
		if len(all) == 0 {
			return false
		}
		x := &all[0]
		all = all[1:]
		x.GroupBy, x.Max = ind.GroupBy, ind.Work.MaxInFlight
		if x.SLO != slo.ID(ind.ID) || len(x.Items) > slo.MaxInFlightItems {
			return false
		}
		for k, g := range x.Groups {
			if len(g.Group) != len(ind.GroupBy) || k > 0 && compareValues(x.Groups[k-1].Group, g.Group) >= 0 {
				return false
			}
		}
	}
	return len(all) == 0
}

// inFlight adds up the work of an indicator. What an engine without an answer has in flight is not known.
func (a *adder) inFlight(ind *fold.Indicator) {
	sum := slo.InFlight{SLO: slo.ID(ind.ID), GroupBy: ind.GroupBy}
	for _, p := range a.parts {
		if p == nil {
			continue
		}
		for i := range p.InFlight {
			x := &p.InFlight[i]
			if x.SLO != sum.SLO {
				continue
			}
			sum.Max += x.Max // of each engine
			to := counters(&sum)
			for k, n := range counters(x) {
				*to[k] += *n
			}
			sum.Held, sum.Bytes = sum.Held+x.Held, sum.Bytes+x.Bytes
			if !x.Oldest.IsZero() && (sum.Oldest.IsZero() || x.Oldest.Before(sum.Oldest)) {
				sum.Oldest = x.Oldest
			}
			for _, g := range x.Groups {
				addGroup(&sum, g)
			}
			sum.Items = append(sum.Items, x.Items...)
		}
	}
	order.By(sum.Items, func(x, y *slo.InFlightItem) int { return x.Start.Compare(y.Start) })
	sum.Items = sum.Items[:min(len(sum.Items), slo.MaxInFlightItems)]
	a.out.InFlight = append(a.out.InFlight, sum)
}

// addGroup adds the work of a group, which stays with its part.
func addGroup(sum *slo.InFlight, g slo.InFlightGroup) {
	at, ok := slices.BinarySearchFunc(sum.Groups, g.Group, func(x slo.InFlightGroup, values slo.Group) int {
		return compareValues(x.Group, values)
	})
	if !ok {
		sum.Groups = slices.Insert(sum.Groups, at, slo.InFlightGroup{Group: g.Group, Stages: slices.Clone(g.Stages)})
		return
	}
	stages := &sum.Groups[at].Stages
	for _, s := range g.Stages {
		i, ok := slices.BinarySearchFunc(*stages, s.Stage, func(x slo.InFlightStage, name string) int {
			return strings.Compare(x.Stage, name)
		})
		if !ok {
			*stages = slices.Insert(*stages, i, s)
			continue
		}
		(*stages)[i].Open += s.Open
		(*stages)[i].Overdue += s.Overdue
	}
}
