package site

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// FindGroup finds one SLO's report by path and group.<label> parameters. Labels
// that are not given match "". A missing or wrong one is told from a missing SLO.
func FindGroup(rep *sla.Report, id slo.ID, q url.Values) (r *sla.SLOReport, sloExists bool) {
	if rep == nil {
		return nil, false
	}
	want := Prefixed(q, GroupParam)
	for i := range rep.SLOs {
		r := &rep.SLOs[i]
		if r.SLO.ID != id {
			continue
		}
		sloExists = true
		if len(r.Group) != len(r.SLO.GroupBy) {
			continue
		}
		match := true
		for j, name := range r.SLO.GroupBy {
			match = match && r.Group[j] == want[name]
		}
		for name := range want {
			match = match && slices.Contains(r.SLO.GroupBy, name)
		}
		if match {
			return r, true
		}
	}
	return nil, sloExists
}

// FindSLA finds one agreement's report by the parameters service, sla and
// group.<label>. Labels that are not given match "".
func FindSLA(rep *sla.Report, q url.Values) (r *sla.SLAReport, exists bool) {
	if rep == nil {
		return nil, false
	}
	want := Prefixed(q, GroupParam)
	for i := range rep.SLAs {
		r := &rep.SLAs[i]
		if r.SLA.Service != q.Get("service") || r.SLA.Name != q.Get("sla") {
			continue
		}
		exists = true
		match := len(r.Group) == len(r.SLA.GroupBy)
		for j, name := range r.SLA.GroupBy {
			match = match && r.Group[j] == want[name]
		}
		for name := range want {
			match = match && slices.Contains(r.SLA.GroupBy, name)
		}
		if match {
			return r, true
		}
	}
	return nil, exists
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
