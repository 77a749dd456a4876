package site

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Filter picks SLO reports; page and API share it. Empty fields pick all.
type Filter struct {
	Service string
	SLO     slo.ID
	State   slo.State
	Search  string            // lower case; a part of the ID, a label or a group value
	Labels  map[string]string // of the spec
	Group   map[string]string // of the group
}

// Prefixes of the query parameters that name labels.
const (
	LabelParam = "label."
	GroupParam = "group."
)

// GroupQuery names a group by one parameter for each label.
func GroupQuery(names []string, g slo.Group) url.Values {
	q := url.Values{}
	for i, n := range names {
		if i < len(g) {
			q.Set(GroupParam+n, g[i])
		}
	}
	return q
}

func NewFilter(q url.Values) Filter {
	return Filter{
		Service: q.Get("service"),
		SLO:     slo.ID(q.Get("slo")),
		State:   slo.State(q.Get("state")),
		Search:  strings.ToLower(strings.TrimSpace(q.Get("q"))),
		Labels:  Prefixed(q, LabelParam),
		Group:   Prefixed(q, GroupParam),
	}
}

func Prefixed(q url.Values, prefix string) map[string]string {
	m := map[string]string{}
	for k, v := range q {
		if name, ok := strings.CutPrefix(k, prefix); ok && len(v) > 0 {
			m[name] = v[0]
		}
	}
	return m
}

func KnownState(s slo.State) bool { return slices.Contains(States, s) }

// States are the states of an SLO, worst first.
var States = []slo.State{slo.StateExhausted, slo.StateAtRisk, slo.StateNoData, slo.StateOK}

func (f Filter) match(r *sla.SLOReport) bool {
	if f.Service != "" && r.SLO.ID.Service() != f.Service ||
		f.SLO != "" && r.SLO.ID != f.SLO ||
		f.State != "" && r.State != f.State {
		return false
	}
	for k, v := range f.Labels {
		if got, ok := r.SLO.Labels[k]; !ok || got != v {
			return false
		}
	}
	return GroupHas(r.SLO.GroupBy, r.Group, f.Group) && (f.Search == "" || f.found(r))
}

// GroupHas reports whether a group has all the labels that are wanted.
func GroupHas(names []string, g slo.Group, want map[string]string) bool {
	for k, v := range want {
		i := slices.Index(names, k)
		if i < 0 || i >= len(g) || g[i] != v {
			return false
		}
	}
	return true
}

func (f Filter) found(r *sla.SLOReport) bool {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), f.Search) }
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

// Pick returns the reports that match, in the report's order.
func (f Filter) Pick(rep *sla.Report) []*sla.SLOReport {
	if rep == nil {
		return nil
	}
	out := make([]*sla.SLOReport, 0, len(rep.SLOs))
	for i := range rep.SLOs {
		if f.match(&rep.SLOs[i]) {
			out = append(out, &rep.SLOs[i])
		}
	}
	return out
}

// CompareReports is the order of a report: by ID, the "other" group last, then by group.
func CompareReports(a, b *sla.SLOReport) int {
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
