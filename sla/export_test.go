package sla

import "github.com/sloengine/sloengine/slo"

// Score scores an agreement once.
func Score(a *Agreement, period slo.Span, in []ComponentInput) SLAReport {
	return NewScorer(a).Score(period, in, make([]ComponentReport, len(in)))
}
