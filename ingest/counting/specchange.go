package counting

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/slo/fold"
)

// Changes reports the effect of spec changes on counts to the log, the page and the answer to a
// reload.
type Changes struct {
	parking *Parking
	specs   *Specs
	rebuild *Rebuilder
	log     *slog.Logger
	last    atomic.Pointer[SpecChange] // nil before the first
}

// NewChanges knows no change before the first Note.
func NewChanges(p *Parking, s *Specs, r *Rebuilder, log *slog.Logger) *Changes {
	return &Changes{parking: p, specs: s, rebuild: r, log: log}
}

// Last is the last change of the spec that changed counts; nil before the first.
func (s *Changes) Last() *SpecChange { return s.last.Load() }

// Note records the last change. It does nothing if the change leaves the counts as they are. Indicators that are
// rebuilt have taken over their counts of the retained log.
func (s *Changes) Note(ctx context.Context, rebuilt []string) error {
	var change fold.Change
	var at time.Time
	p := s.parking
	err := p.engine.Do(ctx, func() { change, at = p.fold.LastChange(), p.fold.Watermark() })
	if err != nil {
		return fmt.Errorf("compare spec: %w", err)
	}
	all, err := p.look(ctx)
	if err != nil {
		return fmt.Errorf("compare spec: %w", err)
	}
	if len(change.Started)+len(change.Resumed)+len(change.Parked) == 0 {
		return nil
	}
	c := DescribeChange(change, all, at)
	c.Rebuilt = sloIDs(rebuilt)
	c.Started = slices.DeleteFunc(c.Started, func(id string) bool { return slices.Contains(rebuilt, id) })
	if p := s.rebuild.Progress(); p != nil {
		for _, id := range c.Started {
			if slices.Contains(p.Waiting, id) {
				c.ToRebuild = append(c.ToRebuild, id)
			}
		}
	}
	s.last.Store(c)
	if len(c.Started) == 0 || len(change.Started) < len(all) {
		s.logChange(c)
	} else {
		s.log.Info("new engine, every SLO starts from zero", "slos", len(s.specs.InForce().Spec.SLOs))
	}
	return nil
}

func (s *Changes) logChange(c *SpecChange) {
	if zero := slices.DeleteFunc(slices.Clone(c.Started), func(id string) bool {
		return slices.Contains(c.ToRebuild, id)
	}); len(zero) > 0 {
		s.log.Warn("SLOs start from zero", "slos", nameList(zero))
	}
	if len(c.ToRebuild) > 0 {
		s.log.Info("SLOs start from zero, until they are rebuilt from the retained log", "slos", nameList(c.ToRebuild))
	}
	if len(c.Resumed) > 0 {
		s.log.Info("SLOs resume their parked counts", "slos", nameList(c.Resumed))
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
		msg := "SLO definitions changed, old counts are parked"
		if removed {
			msg = "SLOs removed, their counts are parked"
		}
		if len(ids) > 0 {
			s.log.Warn(msg, "slos", nameList(ids), "retained_until", until.Format(time.RFC3339))
		}
	}
}

// DescribeChange is a change of the generations in all, which are those after it or, of one
// that is only planned, those before it.
func DescribeChange(c fold.Change, all []fold.Generation, at time.Time) *SpecChange {
	out := &SpecChange{At: at, Started: sloIDs(c.Started), Resumed: generationIDs(c.Resumed), Parked: []ParkedSLO{}}
	goesOn := slices.Concat(c.Started, idsOf(c.Resumed))
	ids := generationIDs(c.Parked)
	for _, p := range c.Parked {
		if i, ok := slices.BinarySearch(ids, p.ID); ok {
			ids = slices.Delete(ids, i, i+1) // once
			slo := ParkedSLO{ID: p.ID, Removed: !slices.Contains(goesOn, p.ID), Until: p.Until}
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
