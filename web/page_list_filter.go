package web

import (
	"net/url"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
)

// choices are what the filter offers: services, labels of the spec, states.
func (w *Web) choices(rep *sla.Report, q url.Values, f filter) []choice {
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
	out := []choice{{Name: "service", Label: "Service", Any: "All services", Options: options(services, f.service)}}
	if len(labels) > 0 {
		out = append(out, choice{Name: labelChoice, Label: "Label", Any: "All labels", Options: options(labels, q.Get(labelChoice))})
	}
	byState := choice{Name: "state", Label: "State", Any: "All states"}
	for _, s := range states {
		byState.Options = append(byState.Options, option{string(s), chart.StateMark(s).Word, s == f.state})
	}
	return append(out, byState)
}
