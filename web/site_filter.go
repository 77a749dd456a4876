package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// filter picks SLO reports; page and API share it. Empty fields pick all.
type filter struct {
	service string
	slo     slo.ID
	state   slo.State
	search  string            // lower case; a part of the ID, a label or a group value
	labels  map[string]string // of the spec
	group   map[string]string // of the group
}

// Prefixes of the query parameters that name labels.
const (
	labelParam = "label."
	groupParam = "group."
)

// groupQuery names a group by one parameter for each label.
func groupQuery(names []string, g slo.Group) url.Values {
	q := url.Values{}
	for i, n := range names {
		if i < len(g) {
			q.Set(groupParam+n, g[i])
		}
	}
	return q
}

func newFilter(q url.Values) filter {
	return filter{
		service: q.Get("service"),
		slo:     slo.ID(q.Get("slo")),
		state:   slo.State(q.Get("state")),
		search:  strings.ToLower(strings.TrimSpace(q.Get("q"))),
		labels:  prefixed(q, labelParam),
		group:   prefixed(q, groupParam),
	}
}

func prefixed(q url.Values, prefix string) map[string]string {
	m := map[string]string{}
	for k, v := range q {
		if name, ok := strings.CutPrefix(k, prefix); ok && len(v) > 0 {
			m[name] = v[0]
		}
	}
	return m
}

func knownState(s slo.State) bool { return slices.Contains(states, s) }

// states are the states of an SLO, worst first.
var states = []slo.State{slo.StateExhausted, slo.StateAtRisk, slo.StateNoData, slo.StateOK}

func (f filter) match(r *sla.SLOReport) bool {
	if f.service != "" && r.SLO.ID.Service() != f.service ||
		f.slo != "" && r.SLO.ID != f.slo ||
		f.state != "" && r.State != f.state {
		return false
	}
	for k, v := range f.labels {
		if got, ok := r.SLO.Labels[k]; !ok || got != v {
			return false
		}
	}
	for k, v := range f.group {
		i := slices.Index(r.SLO.GroupBy, k)
		if i < 0 || i >= len(r.Group) || r.Group[i] != v {
			return false
		}
	}
	return f.search == "" || f.found(r)
}

func (f filter) found(r *sla.SLOReport) bool {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), f.search) }
	if has(string(r.SLO.ID)) || has(r.SLO.Description) || slices.ContainsFunc(r.Group, has) {
		return true
	}
	for k, v := range r.SLO.Labels {
		if has(k + "=" + v) {
			return true
		}
	}
	return false
}

// pick returns the reports that match, in the report's order.
func (f filter) pick(rep *sla.Report) []*sla.SLOReport {
	if rep == nil {
		return nil
	}
	var out []*sla.SLOReport
	for i := range rep.SLOs {
		if f.match(&rep.SLOs[i]) {
			out = append(out, &rep.SLOs[i])
		}
	}
	return out
}

// compareReports is the order of a report: by ID, the "other" group last, then by group.
func compareReports(a, b *sla.SLOReport) int {
	return cmp.Or(cmp.Compare(a.SLO.ID, b.SLO.ID), otherLast(a.Group, b.Group), slices.Compare(a.Group, b.Group))
}

func otherLast(a, b slo.Group) int {
	switch {
	case a.IsOther() == b.IsOther():
		return 0
	case b.IsOther():
		return -1
	}
	return 1
}
