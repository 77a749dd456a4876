package rules

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Spec is what rules are made from.
type Spec struct {
	SLOs       []*slo.SLO
	Thresholds []*slo.Threshold
	Agreements []*sla.Agreement
}

// ReadsEvents reports whether anything in the spec is judged by events that the engine counts. Otherwise everything
// comes from series that Prometheus has anyway, and no engine is needed.
func (in Spec) ReadsEvents() bool {
	return len(in.Thresholds) > 0 || slices.ContainsFunc(in.SLOs, func(s *slo.SLO) bool {
		return s.Indicator.Kind != slo.KindPrometheus
	})
}

// Group is a rule group of Prometheus. Its rules are evaluated in order, so a
// later one sees what an earlier one recorded at the same instant.
type Group struct {
	Name        string
	Comment     string        // lines above the group
	Interval    time.Duration // 0 = Prometheus' own default
	QueryOffset time.Duration // newer than Prometheus 2.42; 0 = none
	Limit       int
	Labels      map[string]string // newer than Prometheus 2.42; nil = none
	Rules       []Rule
}

// Rule is a recording rule (Record is set) or an alert (Alert is set). Maps may
// be shared between rules and must not be changed.
type Rule struct {
	Record, Alert      string
	Expr               string
	For, KeepFiringFor time.Duration // KeepFiringFor is newer than Prometheus 2.41
	Labels             map[string]string
	Annotations        map[string]string
}

// records reports whether a group has a rule that records a series of that name.
func (g *Group) records(name string) bool {
	return slices.ContainsFunc(g.Rules, func(r Rule) bool { return r.Record == name })
}
