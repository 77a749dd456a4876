package state

import (
	"slices"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// catalogue evaluates the conditions that compare a group with its past, with another SLO, or with another alert.
func (st *step) catalogue(c *condition, r *sla.SLOReport, row *row) (holds bool, value float64) {
	short := recent(r)
	switch c.Kind {
	case alerts.LiveTrend:
		e := alerts.NewReading(r.SLO, short)
		trend := r.Trend
		if r.Received != nil {
			trend = r.Received[0].Trend
		}
		holds = len(trend) == 2 && c.Rises(e, alerts.NewReading(r.SLO, &trend[0]), alerts.NewReading(r.SLO, &trend[1]))
		return holds, e.Ratio
	case alerts.LiveDecline:
		var judged uint64
		if b := raw(r, c.Window); b != nil {
			judged = b.Counts.Valid()
		}
		value = r.Arrivals * r.SLO.Indicator.Per.Seconds()
		return c.Declines(value, judged), value
	case alerts.LiveCascade:
		bad := badEvents(r)
		return alerts.FailsBelow(alerts.NewReading(r.SLO, short), r.SLO, bad) && st.failing[c.Effect], float64(bad)
	}
	e := alerts.NewReading(r.SLO, burn(r, c.long, c.Window, c.Window))
	return c.Recovered(e) && st.isOver(c, row, c.After), e.Ratio
}

// recent is the burn over the last five minutes.
func recent(r *sla.SLOReport) *slo.Burn { return burn(r, 0, slo.BurnWindows[0], slo.BurnWindows[0]) }

// badEvents are those of the last five minutes, in planned maintenance as well.
func badEvents(r *sla.SLOReport) uint64 {
	if b := raw(r, slo.BurnWindows[0]); b != nil {
		return b.Counts.Bad
	}
	return 0
}

// effects finds which SLOs fail that the failure of another may have taken down.
func (st *step) effects() {
	if len(st.plan.effects) == 0 {
		return
	}
	st.failing = map[*slo.SLO]bool{}
	for i := range st.r.SLOs {
		r := &st.r.SLOs[i]
		if st.plan.effects[r.SLO] && !r.Informative && !st.failing[r.SLO] {
			st.failing[r.SLO] = alerts.FailsAbove(alerts.NewReading(r.SLO, recent(r)), r.SLO, badEvents(r))
		}
	}
}

// overKey names an alert of an agreement in one group.
type overKey struct {
	name, service, agreement string
	slo                      slo.ID
	group                    string
}

// over finds the alerts of agreements that ended a short time ago. Those that ended because the spec changed are no
// recovery.
func (st *step) over() {
	for i := len(st.resolved) - 1; i >= 0; i-- {
		a := &st.resolved[i]
		if st.now.Sub(a.ResolvedAt) >= st.plan.recent {
			break
		}
		if a.Agreement != "" && !a.Removed {
			if st.ended == nil {
				st.ended = map[overKey]bool{}
			}
			st.ended[overKey{a.Name, a.Service, a.Agreement, a.SLO, a.Group.Key()}] = true
		}
	}
}

// isOver reports whether one of some alerts of a row ended a short time ago, and none fires.
func (st *step) isOver(c *condition, row *row, names ...string) bool {
	if len(st.ended) == 0 {
		return false
	}
	key := overKey{service: c.service, agreement: c.agreement, group: row.group.Key()}
	if c.SLO != nil {
		key.slo = c.SLO.ID
	}
	was := false
	for _, name := range names {
		key.name = name
		was = was || st.ended[key]
	}
	return was && !slices.ContainsFunc(row.active, func(a *alert) bool {
		return a != nil && a.State == Firing && a.Agreement == c.agreement && slices.Contains(names, a.Name)
	})
}
