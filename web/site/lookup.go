package site

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// find finds the row of one group. of returns the labels and the group of a row, and whether the row belongs to what is
// asked for. Labels that want lacks match "". A missing or wrong group is told from a thing that does not exist.
func find[T any](
	rows []T, want map[string]string, of func(*T) (names []string, g slo.Group, ok bool)) (r *T, exists bool) {
	for i := range rows {
		names, g, ok := of(&rows[i])
		if !ok {
			continue
		}
		exists = true
		match := len(g) == len(names) && GroupHas(names, g, want)
		for j, name := range names {
			match = match && g[j] == want[name]
		}
		if match {
			return &rows[i], true
		}
	}
	return nil, exists
}

// FindGroup finds the report of one group of an SLO by the parameters group.<label>.
func FindGroup(rep *sla.Report, id slo.ID, q url.Values) (r *sla.SLOReport, exists bool) {
	if rep == nil {
		return nil, false
	}
	return find(rep.SLOs, Prefixed(q, GroupParam), func(r *sla.SLOReport) ([]string, slo.Group, bool) {
		return r.SLO.GroupBy, r.Group, r.SLO.ID == id
	})
}

// FindSLA finds the report of one group of an agreement by the parameters service, sla and group.<label>.
func FindSLA(rep *sla.Report, q url.Values) (r *sla.SLAReport, exists bool) {
	if rep == nil {
		return nil, false
	}
	return find(rep.SLAs, Prefixed(q, GroupParam), func(r *sla.SLAReport) ([]string, slo.Group, bool) {
		return r.SLA.GroupBy, r.Group, r.SLA.Service == q.Get("service") && r.SLA.Name == q.Get("sla")
	})
}

func FindSLO(rep *sla.Report, id slo.ID, g slo.Group) *sla.SLOReport {
	i, ok := slices.BinarySearchFunc(rep.SLOs, id, func(r sla.SLOReport, id slo.ID) int {
		return cmp.Compare(r.SLO.ID, id)
	})
	for ; ok && i < len(rep.SLOs) && rep.SLOs[i].SLO.ID == id; i++ {
		if slices.Equal(rep.SLOs[i].Group, g) {
			return &rep.SLOs[i]
		}
	}
	return nil
}

// Title names a group of an SLO or an agreement, such as "shop/checkout, region eu".
func Title(name string, groupBy []string, g slo.Group) string {
	title := format.Safe(name, format.MaxTitle)
	for _, l := range format.Labels(groupBy, g) {
		title += ", " + l.Name + " " + l.Value
	}
	return title
}

// Crumb is the way to one thing of a list.
func (site *Site) Crumb(list, path, what string) []Link {
	return []Link{{Text: list, Href: site.Href(path, nil)}, {Text: what}}
}

// GroupCrumbs is the way to a group of an SLO or an agreement: the list, its service, itself, and the group.
func (site *Site) GroupCrumbs(list Link, service, name string, all url.Values, groupBy []string, g slo.Group) []Link {
	path := list.Href
	out := []Link{
		{Text: list.Text, Href: site.Href(path, nil)},
		{Text: format.Safe(service, format.MaxName), Href: site.Href(path, url.Values{"service": {service}})},
		{Text: format.Safe(name, format.MaxName)},
	}
	if labels := format.Labels(groupBy, g); len(labels) > 0 {
		out[2].Href = site.Href(path, all)
		var values []string
		for _, l := range labels {
			values = append(values, l.Value)
		}
		out = append(out, Link{Text: strings.Join(values, ", ")})
	}
	return out
}

// SLOOf finds an SLO of a report.
func SLOOf(rep *sla.Report, id slo.ID) *slo.SLO {
	for i := range rep.SLOs {
		if rep.SLOs[i].SLO.ID == id {
			return rep.SLOs[i].SLO
		}
	}
	return nil
}

// RowsOf are all groups of an SLO.
func RowsOf(rep *sla.Report, id slo.ID) (out []*sla.SLOReport) {
	for i := range rep.SLOs {
		if rep.SLOs[i].SLO.ID == id {
			out = append(out, &rep.SLOs[i])
		}
	}
	return out
}
