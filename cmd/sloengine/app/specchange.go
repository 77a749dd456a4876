package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web"
)

// noteChange tells log, page and the answer to a reload what the last change of the spec
// did to counts. It changes nothing where the spec counts what it counted.
func (a *App) noteChange(ctx context.Context) error {
	var change fold.Change
	var at time.Time
	err := a.engine.Do(ctx, func() { change, at = a.fold.LastChange(), a.fold.Watermark() })
	if err != nil {
		return fmt.Errorf("ask what the spec changed: %w", err)
	}
	all, err := a.generations(ctx)
	if err != nil {
		return fmt.Errorf("ask what the spec changed: %w", err)
	}
	if len(change.Started)+len(change.Resumed)+len(change.Parked) == 0 {
		return nil
	}
	c := DescribeChange(change, all, at)
	a.change.Store(c)
	if len(c.Started) == 0 || len(change.Started) < len(all) {
		a.logChange(c)
	} else {
		a.log.Info("new engine, every SLO starts from zero", "slos", len(a.specs.current.Load().spec.SLOs))
	}
	return nil
}

func (a *App) logChange(c *web.SpecChange) {
	if len(c.Started) > 0 {
		a.log.Warn("SLOs start from zero", "slos", nameList(c.Started))
	}
	if len(c.Resumed) > 0 {
		a.log.Info("SLOs resume the counts that were parked", "slos", nameList(c.Resumed))
	}
	for _, removed := range []bool{true, false} {
		var ids []string
		var until time.Time // of the first to go
		for _, p := range c.Parked {
			if p.Removed != removed {
				continue
			}
			ids = append(ids, p.ID)
			if until.IsZero() || p.Until.Before(until) {
				until = p.Until
			}
		}
		msg := "SLOs have another definition, the counts of the one before are parked"
		if removed {
			msg = "SLOs were removed, their counts are parked"
		}
		if len(ids) > 0 {
			a.log.Warn(msg, "slos", nameList(ids), "retained_until", until.Format(time.RFC3339))
		}
	}
}

// DescribeChange is a change of the generations in all, which are those after it or, of one
// that is only planned, those before it.
func DescribeChange(c fold.Change, all []fold.Generation, at time.Time) *web.SpecChange {
	out := &web.SpecChange{At: at, Started: sloIDs(c.Started), Resumed: generationIDs(c.Resumed), Parked: []web.ParkedSLO{}}
	goesOn := slices.Concat(c.Started, idsOf(c.Resumed))
	ids := generationIDs(c.Parked)
	for _, p := range c.Parked {
		if i, ok := slices.BinarySearch(ids, p.ID); ok {
			ids = slices.Delete(ids, i, i+1) // once
			slo := web.ParkedSLO{ID: p.ID, Removed: !slices.Contains(goesOn, p.ID), Until: p.Until}
			for _, g := range all { // the newest is the last
				if g.ID == p.ID && g.Definition == p.Definition {
					slo.Until = g.Until
				}
			}
			out.Parked = append(out.Parked, slo)
		}
	}
	return out
}

func idsOf(list []fold.Generation) []string {
	out := make([]string, len(list))
	for i, g := range list {
		out[i] = g.ID
	}
	return out
}

// webGenerations lists what is counted and what is parked.
func (a *App) webGenerations(ctx context.Context) ([]web.Generation, error) {
	all, err := a.generations(ctx)
	if err != nil {
		return nil, err
	}
	return generationsJSON(all), nil
}

// webParked lists what was parked at the last look.
func (a *App) webParked() []web.Generation {
	if list := a.parking.list.Load(); list != nil {
		return generationsJSON(*list)
	}
	return nil
}

func generationsJSON(list []fold.Generation) []web.Generation {
	out := make([]web.Generation, len(list))
	for i, g := range list {
		out[i] = web.Generation{
			ID: g.ID, Former: g.Former, Service: g.Service, Definition: g.Definition, Generation: g.Generation, Groups: g.Groups,
			Number: g.Number, Parked: g.Parked, Until: g.Until, Bytes: g.Bytes,
		}
	}
	return out
}

// parkedStatus is the room that parked generations take.
func (a *App) parkedStatus() web.ParkedStatus {
	s := web.ParkedStatus{LimitBytes: a.parking.budget}
	if list := a.parking.list.Load(); list != nil {
		s.Generations = len(*list)
		for _, g := range *list {
			s.Bytes += g.Bytes
		}
	}
	return s
}
