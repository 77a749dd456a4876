package api

import (
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
)

func newHeld(h *state.Held) v1.HeldAlert {
	out := v1.HeldAlert{Name: h.Name, Severity: h.Severity, Tier: h.Tier, Service: h.Service,
		Group: groupJSON(h.GroupBy, h.Group), Value: number(h.Value, true), Why: []v1.Hold{}}
	if h.SLO != "" {
		out.SLO = &h.SLO
	}
	if h.Agreement != "" {
		out.Agreement = &h.Agreement
	}
	for _, x := range h.Why {
		out.Why = append(out.Why, v1.Hold{
			Reason: string(x.Reason), Window: slo.FormatDuration(x.Window), Have: number(x.Have, true),
			Want:     number(x.Want, true),
			Observed: number(x.Observed, true), Events: number(x.Events, true), Text: x.String(),
		})
	}
	return out
}
