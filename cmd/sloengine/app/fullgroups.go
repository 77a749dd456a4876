package app

import (
	"slices"
	"strings"

	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web"
)

// fullGroups lists the SLOs without room for another group. An SLO that is counted in
// several ways, such as for the bands of an agreement, is listed once.
func fullGroups(st *fold.Stats) (out []web.FullStatus) {
	if st == nil {
		return nil
	}
	for _, f := range st.Full {
		id, _, _ := strings.Cut(f.Indicator, "#")
		x := web.FullStatus{SLO: id, MaxGroups: f.MaxGroups, Other: f.Other}
		if n := len(out) - 1; n >= 0 && out[n].SLO == id {
			out[n].Other = max(out[n].Other, x.Other)
		} else {
			out = append(out, x)
		}
	}
	return out
}

// tellFullGroups logs which SLOs ran out of groups, and which have room again.
func (a *App) tellFullGroups(before, now *fold.Stats) {
	was, is := fullGroups(before), fullGroups(now)
	lacks := func(list []web.FullStatus, id string) bool {
		return !slices.ContainsFunc(list, func(f web.FullStatus) bool { return f.SLO == id })
	}
	for _, f := range is {
		if lacks(was, f.SLO) {
			a.log.Warn("all groups of the SLO are taken, new values share __other__, which never alerts", "slo", f.SLO, "max_groups", f.MaxGroups)
		}
	}
	for _, f := range was {
		if lacks(is, f.SLO) {
			a.log.Info("the SLO has room for new groups again", "slo", f.SLO, "max_groups", f.MaxGroups)
		}
	}
}
