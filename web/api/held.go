package api

import (
	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/slo"
)

type HeldJSON struct {
	Name      string            `json:"name"`
	Severity  string            `json:"severity"`
	Tier      string            `json:"tier,omitempty"`
	Service   string            `json:"service"`
	SLO       *slo.ID           `json:"slo_id"`
	Agreement *string           `json:"agreement"`
	Group     map[string]string `json:"group"`
	Value     *float64          `json:"value"`
	Why       []holdJSON        `json:"why"`
}

type holdJSON struct {
	Reason   alerts.HoldReason `json:"reason"`
	Window   string            `json:"window"`
	Have     *float64          `json:"have"`
	Want     *float64          `json:"want"`
	Observed *float64          `json:"observed"`
	Events   *float64          `json:"events"`
	Text     string            `json:"text"`
}

func newHeld(h *state.Held) HeldJSON {
	out := HeldJSON{Name: h.Name, Severity: h.Severity, Tier: h.Tier, Service: h.Service, Group: groupJSON(h.GroupBy, h.Group), Value: number(h.Value, true), Why: []holdJSON{}}
	if h.SLO != "" {
		out.SLO = &h.SLO
	}
	if h.Agreement != "" {
		out.Agreement = &h.Agreement
	}
	for _, x := range h.Why {
		out.Why = append(out.Why, holdJSON{
			x.Reason, slo.FormatDuration(x.Window), number(x.Have, true), number(x.Want, true), number(x.Observed, true), number(x.Events, true), x.String(),
		})
	}
	return out
}
