package ui

import (
	"net/url"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/site"
)

// choices are what the filter offers: services, labels of the spec, states.
func (ui *Handler) choices(rep *sla.Report, q url.Values, f site.Filter) []site.Choice {
	services, labels := map[string]bool{}, map[string]bool{}
	var last *slo.SLO
	for i := range rep.SLOs {
		s := rep.SLOs[i].SLO
		if s == last {
			continue
		}
		last = s
		services[s.ID.Service()] = true
		for k, v := range s.Labels {
			labels[k+"="+v] = true
		}
	}
	out := []site.Choice{{Name: "service", Label: "Service", Any: "All services", Options: site.SelectOptions(services, f.Service)}}
	if len(labels) > 0 {
		out = append(out, site.Choice{Name: labelChoice, Label: "Label", Any: "All labels", Options: site.SelectOptions(labels, q.Get(labelChoice))})
	}
	byState := site.Choice{Name: "state", Label: "State", Any: "All states"}
	for _, s := range site.States {
		byState.Options = append(byState.Options, site.Option{Value: string(s), Word: chart.StateMark(s).Word, On: s == f.State})
	}
	return append(out, byState)
}
