package web

import (
	"net/url"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
)

// choice is one <select> of the filter.
type choice struct {
	Name    string // of the parameter
	Label   string // for people
	Any     string // the option that picks all
	Options []option
}

type option struct {
	Value, Word string
	On          bool
}

// shownLabels is how many labels the filter offers; more can be had by address.
const shownLabels = 200

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

func options(values map[string]bool, picked string) []option {
	var out []option
	for v := range values {
		// What can't be shown as it is can't be chosen; specs do not allow any.
		if format.Safe(v, format.MaxTitle) == v && v != "" {
			out = append(out, option{v, v, v == picked})
		}
	}
	slices.SortFunc(out, func(a, b option) int { return strings.Compare(a.Value, b.Value) })
	return out[:min(len(out), shownLabels)]
}
