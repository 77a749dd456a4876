package site

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// find finds the row of one group. of returns the labels and the group of a row, and whether the row belongs to what is
// asked for. Labels that want lacks match "". A missing or wrong group is told from a thing that does not exist.
func find[T any](rows []T, want map[string]string, of func(*T) (names []string, g slo.Group, ok bool)) (r *T, exists bool) {
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
	i, ok := slices.BinarySearchFunc(rep.SLOs, id, func(r sla.SLOReport, id slo.ID) int { return cmp.Compare(r.SLO.ID, id) })
	for ; ok && i < len(rep.SLOs) && rep.SLOs[i].SLO.ID == id; i++ {
		if slices.Equal(rep.SLOs[i].Group, g) {
			return &rep.SLOs[i]
		}
	}
	return nil
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
