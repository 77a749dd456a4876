package counting

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
)

// This file keeps the earlier definition of an SLO in force, with its objective, groups and alerts, until the counts of
// the changed one are rebuilt. The spec in force then is a spec of its own, which the log has as any other.

// Holding is the spec to put in force where the files say next: with the SLOs of before whose definition changed, as
// long as their counts can be rebuilt. held are the generations of the fold.
func (r *Rebuilder) Holding(next *Spec, before *spec.Spec, held []fold.Generation) *Spec {
	if r.o.Off || before == nil || r.counts.engine.History().Bounds().Age == 0 {
		return next
	}
	out, err := next.holding(before, held)
	if err != nil {
		r.counts.log.Warn("earlier definitions cannot stay in force until the changed ones are rebuilt", "err", err)
		return next
	}
	if len(out.Held) > 0 {
		r.counts.log.Info("earlier definitions stay in force until the changed ones are rebuilt from the retained log",
			"slos", nameList(texts(out.Held)))
	}
	return out
}

func texts(ids []slo.ID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// holding is the spec with the SLOs of an earlier one that would start from zero otherwise.
func (s *Spec) holding(before *spec.Spec, held []fold.Generation) (*Spec, error) {
	change, err := fold.Compare(held, s.config)
	if err != nil {
		return nil, err
	}
	var ids []slo.ID
	for _, was := range before.SLOs {
		now := findSLO(s.Spec, was.ID)
		if now == nil || polled(was) || polled(now) {
			continue
		}
		inUse := slices.ContainsFunc(held, func(g fold.Generation) bool { return g.Number == 0 && g.ID == string(was.ID) })
		if inUse && slices.Contains(change.Started, string(was.ID)) {
			ids = append(ids, was.ID)
		}
	}
	return s.with(before, ids)
}

// polled reports whether the events of an SLO are asked for by its definition: the log has none for another one.
func polled(s *slo.SLO) bool { return s.Indicator.Kind == slo.KindPrometheus }

func findSLO(in *spec.Spec, id slo.ID) *slo.SLO {
	if i := slices.IndexFunc(in.SLOs, func(x *slo.SLO) bool { return x.ID == id }); i >= 0 {
		return in.SLOs[i]
	}
	return nil
}

// with is the spec with some SLOs as an earlier one has them. It fails where that is no valid spec.
func (s *Spec) with(before *spec.Spec, ids []slo.ID) (*Spec, error) {
	if len(ids) == 0 {
		return s, nil
	}
	sp := *s.Spec
	sp.SLOs, sp.Services = slices.Clone(sp.SLOs), slices.Clone(sp.Services)
	for _, id := range ids {
		was := findSLO(before, id)
		i := slices.IndexFunc(sp.SLOs, func(x *slo.SLO) bool { return x.ID == id })
		if was == nil || i < 0 {
			return nil, fmt.Errorf("SLO %s is not in both specs", id)
		}
		held := *was
		held.Earlier, sp.SLOs[i] = true, &held
		admitTypes(&sp, before, id.Service())
	}
	// A start reads it from the log. What cannot be read there must not be in force.
	_, problems := spec.Load([]spec.File{{Name: "spec in force", Data: spec.Encode(&sp)}})
	if err := problems.Err(); err != nil {
		return nil, err
	}
	out, err := compileSpec(&sp)
	if err != nil {
		return nil, err
	}
	out.Loaded, out.Wanted, out.Held = s.Loaded, s, ids
	both := *out.config
	both.Indicators = slices.Concat(both.Indicators, s.config.Indicators)
	if out.whole, err = both.Whole(); err != nil {
		return nil, err
	}
	out.admitted, out.merge, out.Longest = &both, merging(&both), max(out.Longest, s.Longest)
	return out, nil
}

// admitTypes adds the types of events that a service had, so that an earlier definition counts what it did.
func admitTypes(sp, before *spec.Spec, service string) {
	of := func(in *spec.Spec) int {
		return slices.IndexFunc(in.Services, func(x spec.Service) bool { return x.Name == service })
	}
	i, j := of(sp), of(before)
	if i < 0 || j < 0 || len(sp.Services[i].Types) == 0 {
		return
	}
	if len(before.Services[j].Types) == 0 {
		sp.Services[i].Types = nil
		return
	}
	types := slices.Concat(sp.Services[i].Types, before.Services[j].Types)
	slices.Sort(types)
	sp.Services[i].Types = slices.Compact(types)
}

// Released is the spec in force with the definitions that the files have of some of the held SLOs.
func (s *Spec) Released(ids []slo.ID) (*Spec, error) {
	if s.Wanted == nil {
		return nil, errors.New("no earlier definition is in force")
	}
	return s.Wanted.with(s.Spec, slices.DeleteFunc(slices.Clone(s.Held), func(id slo.ID) bool {
		return slices.Contains(ids, id)
	}))
}

// AtStart is the spec to begin with where the files say first: earlier definitions that were in force, or that were
// changed while the engine was down, stay. The fold must hold the log.
func (r *Rebuilder) AtStart(first *Spec, f *fold.Fold, log *slog.Logger) *Spec {
	r.Rebuilds.mu.Lock()
	text := r.state.Spec
	r.Rebuilds.mu.Unlock()
	if text == "" {
		return first
	}
	before, problems := spec.Load([]spec.File{{Name: "spec of the log", Data: []byte(text)}})
	if err := problems.Err(); err != nil {
		log.Warn("spec of the log cannot be read, its definitions do not stay in force", "err", err)
		return first
	}
	return r.Holding(first, before, f.Generations(0))
}
