package backtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
)

// NewestSpec finds the spec in the last config record of a log; "" if it has no whole spec. It is not found if the log
// has no config record.
func NewestSpec(ctx context.Context, source *retained.Source) (text string, found bool, err error) {
	rule, next, err := source.LastRule()
	if err != nil {
		return "", false, err
	}
	text, found, err = lastSpec(ctx, source, retained.Query{From: next})
	if err != nil || found || rule == 0 {
		return text, found, err
	}
	return lastSpec(ctx, source, retained.Query{From: rule, To: rule + 1})
}

func lastSpec(ctx context.Context, source *retained.Source, q retained.Query) (text string, found bool, err error) {
	for rec, err := range source.Records(ctx, q) {
		if err != nil {
			return "", false, err
		}
		if rec.Type != record.TypeConfig {
			continue
		}
		if text, err = counting.SpecOf(rec.Payload); err != nil {
			return "", false, fmt.Errorf("record %d: %w", rec.Seq, err)
		}
		found = true
	}
	return text, found, nil
}

// only is a spec without what the candidate does not have.
func only(sp, candidate *spec.Spec) *spec.Spec {
	out := *sp
	wanted := map[slo.ID]bool{}
	for _, s := range candidate.SLOs {
		wanted[s.ID] = true
		if s.Was != "" {
			wanted[s.Was] = true
		}
	}
	services := map[string]bool{}
	for _, s := range candidate.Services {
		services[s.Name] = true
	}
	out.Agreements = slices.DeleteFunc(slices.Clone(sp.Agreements), func(a *sla.Agreement) bool {
		return !slices.ContainsFunc(candidate.Agreements, func(b *sla.Agreement) bool {
			return a.Service == b.Service && a.Name == b.Name
		})
	})
	for _, a := range out.Agreements {
		for _, c := range a.Components {
			wanted[c.SLO] = true
		}
	}
	out.SLOs = slices.DeleteFunc(slices.Clone(sp.SLOs), func(s *slo.SLO) bool { return !wanted[s.ID] })
	out.Thresholds = slices.DeleteFunc(slices.Clone(sp.Thresholds), func(t *slo.Threshold) bool {
		return !slices.ContainsFunc(candidate.Thresholds, func(b *slo.Threshold) bool {
			return t.Service == b.Service && t.Name == b.Name
		})
	})
	out.Services = slices.DeleteFunc(slices.Clone(sp.Services), func(s spec.Service) bool { return !services[s.Name] })
	return &out
}

// within is a spec without what is about services that the candidate does not have.
func within(sp, candidate *spec.Spec) *spec.Spec {
	out := *sp
	services := map[string]bool{}
	for _, s := range candidate.Services {
		services[s.Name] = true
	}
	foreign := func(id slo.ID) bool { return !services[id.Service()] }
	out.SLOs = slices.DeleteFunc(slices.Clone(sp.SLOs), func(s *slo.SLO) bool { return foreign(s.ID) })
	out.Agreements = slices.DeleteFunc(slices.Clone(sp.Agreements), func(a *sla.Agreement) bool {
		return !services[a.Service] ||
			slices.ContainsFunc(a.Components, func(c sla.Component) bool { return foreign(c.SLO) })
	})
	out.Thresholds = slices.DeleteFunc(slices.Clone(sp.Thresholds), func(t *slo.Threshold) bool {
		return !services[t.Service]
	})
	return &out
}
