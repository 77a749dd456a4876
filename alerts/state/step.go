package state

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// step is the work on one report.
type step struct {
	*Machine
	r   *sla.Report
	now time.Time
	gap bool // the last report is too old for a condition to have held since
	out []Transition

	held    []Held
	failing map[*slo.SLO]bool  // effects of a cascade that fail in some group
	ended   map[overKey]bool   // alerts of agreements that are over since a short time
	recent  map[slo.ID]float64 // share of the last 5m, in [0,1], that was observed of an SLO
}

func (st *step) slos() {
	byGroup, byWhole := &st.rows[scopeSLO], &st.rows[scopeWhole]
	all := st.r.SLOs
	for len(all) > 0 {
		s := all[0].SLO
		n := 1
		for n < len(all) && all[n].SLO == s {
			n++
		}
		p := st.plan.slos[s]
		st.recent[s.ID] = observed(recent(&all[0]))
		for i := range all[:n] {
			r := &all[i]
			if r.Informative {
				continue // it never alerts
			}
			row := st.row(scopeSLO, byGroup, string(s.ID), r.Group, p.group)
			st.begin(row, r)
			for k := range p.group {
				f := st.group(k, r, row)
				if f.verdict != no || row.active != nil {
					st.advance(row, k, f, st.firstBad(row, k))
				}
				st.hold(row, k, f)
			}
		}
		if len(p.whole) > 0 {
			st.whole(byWhole, s, p, all[:n])
		}
		all = all[n:]
	}
	byGroup.finish(st.gone)
	byWhole.finish(st.gone)
}

// whole evaluates what is about an SLO in all its groups.
func (st *step) whole(rs *rows, s *slo.SLO, p *sloPlan, all []sla.SLOReport) {
	var w whole
	for k := range p.whole {
		if c := &p.whole[k]; c.Kind == alerts.LiveNoData {
			w.quietTime = c.Window
		}
	}
	for i := range all {
		w.quiet.add(raw(&all[i], w.quietTime), i == 0)
		if all[i].Volume != nil && st.now.Sub(all[i].LastEvent) < w.quietTime {
			w.quiet.valid++ // its days, weeks or months are judged later than that
		}
		w.rate.add(recent(&all[i]), i == 0)
		if all[i].LastEvent.After(w.last) {
			w.last = all[i].LastEvent
		}
	}
	row := st.row(scopeWhole, rs, string(s.ID), nil, p.whole)
	for k := range p.whole {
		f := st.all(&p.whole[k], &w, row.firing(k))
		if f.verdict != no || row.active != nil {
			first := time.Time{}
			if p.whole[k].Kind == alerts.LiveNoData {
				first = w.last
			}
			st.advance(row, k, f, first)
		}
		st.hold(row, k, f)
	}
}

func (st *step) slas() {
	rs := &st.rows[scopeSLA]
	for i := range st.r.SLAs {
		r := &st.r.SLAs[i]
		conditions := st.plan.slas[r.SLA]
		if len(conditions) == 0 || r.Group.IsOther() {
			continue
		}
		row := st.row(scopeSLA, rs, string(slo.NewID(r.SLA.Service, r.SLA.Name)), r.Group, conditions)
		for k := range conditions {
			f := st.score(&conditions[k], r, row, row.firing(k))
			if f.verdict != no || row.active != nil {
				st.advance(row, k, f, time.Time{})
			}
			st.hold(row, k, f)
		}
	}
	rs.finish(st.gone)
}

func (st *step) services() {
	rs := &st.rows[scopeService]
	for _, q := range st.quiet.list {
		conditions := st.plan.services[q.service]
		if len(conditions) == 0 {
			continue
		}
		row := st.row(scopeService, rs, q.service, slo.Group{q.typ}, conditions)
		for k := range conditions {
			v, value := st.quiet.silent(q, &conditions[k], st.now)
			if v != no || row.active != nil {
				st.advance(row, k, finding{verdict: v, value: value}, q.changed)
			}
		}
	}
	rs.finish(st.gone)
}

// row finds the row of an entry and fits it to the present conditions.
func (st *step) row(s scope, rs *rows, id string, group slo.Group, conditions []condition) *row {
	row, fresh := rs.find(id, group)
	if fresh || len(row.plan) != len(conditions) || len(conditions) > 0 && &row.plan[0] != &conditions[0] {
		st.fit(s, row, conditions)
	}
	return row
}

// fit moves the alerts of a row to the conditions of a changed spec, and takes
// over those that a snapshot had. What has no condition any more is over.
func (st *step) fit(s scope, row *row, conditions []condition) {
	old, oldPlan, oldBegun, oldMet := row.active, row.plan, row.begun, row.met
	row.plan, row.active, row.begun, row.met = conditions, nil, nil, nil
	at := make(map[string]int, len(conditions))
	for k := range conditions {
		at[conditions[k].key] = k
	}
	put := func(k int, a *alert) {
		if row.active == nil {
			row.active = make([]*alert, len(conditions))
		}
		row.active[k] = a
	}
	for k, a := range old {
		if a == nil {
			continue
		}
		if to, ok := at[oldPlan[k].key]; ok {
			st.relabel(a, &conditions[to], row)
			put(to, a)
		} else {
			st.remove(a)
		}
	}
	for k, b := range oldBegun {
		if to, ok := at[oldPlan[k].key]; ok && b != 0 {
			if row.begun == nil {
				row.begun = make([]int64, len(conditions))
			}
			row.begun[to] = b
		}
	}
	for k, m := range oldMet {
		if to, ok := at[oldPlan[k].key]; ok {
			row.meet(to, m)
		}
	}
	if s == scopeSLO && len(st.marks) > 0 {
		st.recall(row)
	}
	if len(st.kept) == 0 {
		return
	}
	for k := range conditions {
		key := keptKey{s, row.id, row.group.Key(), conditions[k].key}
		if a, ok := st.kept[key]; ok {
			delete(st.kept, key)
			st.relabel(a, &conditions[k], row)
			put(k, a)
			st.active++
		}
	}
}

// relabel gives an alert the labels of a changed condition.
func (st *step) relabel(a *alert, c *condition, row *row) {
	fresh := c.newAlert(row)
	fresh.State, fresh.Value = a.State, a.Value
	fresh.ActiveSince, fresh.FirstBad, fresh.FiredAt = a.ActiveSince, a.FirstBad, a.FiredAt
	a.Alert = fresh
}

func (c *condition) newAlert(row *row) Alert {
	labels := newLabels(c.Alert, c.Labels, c.names, row.group)
	a := Alert{
		Fingerprint: fingerprint(labels), Labels: labels, Name: c.Alert, Severity: c.severity, Urgent: c.urgent,
		Service: c.service, Agreement: c.agreement, Engine: c.Kind == alerts.LiveEngine, GroupBy: c.groupBy,
		Group: row.group, live: &c.Live,
	}
	if c.SLO != nil {
		a.SLO = c.SLO.ID
	}
	return a
}

// gone ends the alerts of a row that is no longer in the report.
func (st *step) gone(row *row) {
	for _, a := range row.active {
		if a != nil {
			st.remove(a)
		}
	}
}

// remove ends an alert because the spec or the group that it was about is gone.
func (st *step) remove(a *alert) {
	a.Removed = true
	st.end(a)
}

// dropKept ends what a snapshot had and the report has no more.
func (st *step) dropKept() {
	for key, a := range st.kept {
		if key.scope == scopeEngine {
			continue // a report says nothing about the engine
		}
		st.active++
		st.remove(a)
		delete(st.kept, key)
	}
	st.marks = nil
}

// advance moves one alert by what the report says of its condition.
func (st *step) advance(row *row, k int, f finding, firstBad time.Time) {
	c, v, value := &row.plan[k], f.verdict, f.value
	var a *alert
	if row.active != nil {
		a = row.active[k]
	}
	if a == nil {
		if v == yes {
			st.start(row, k, f, firstBad)
		}
		return
	}
	switch v {
	case yes:
		a.Value, a.Forecast, a.falseSince, a.Kept = value, f.forecast, time.Time{}, false
		if a.State == Pending {
			if st.gap {
				a.ActiveSince = st.now
			}
			st.fireIfDue(a, c)
		}
	case no:
		if a.State == Pending {
			row.drop(k)
			st.end(a)
			return
		}
		a.Kept = false
		if a.falseSince.IsZero() || a.falseSince.After(st.now) {
			a.falseSince = st.now
		}
		if st.now.Sub(a.falseSince) >= c.KeepFiringFor {
			row.drop(k)
			st.end(a)
		}
	case unknown:
		// Firing goes on, and pending waits: neither was proven wrong, and nothing
		// new starts on half the facts.
		a.Kept = a.State == Firing
	}
}

func (st *step) start(row *row, k int, f finding, firstBad time.Time) {
	c := &row.plan[k]
	a := &alert{Alert: c.newAlert(row)}
	a.State, a.Value, a.Forecast, a.ActiveSince, a.FirstBad = Pending, f.value, f.forecast, st.now, st.now
	if !firstBad.IsZero() && firstBad.Before(st.now) {
		a.FirstBad = firstBad
	}
	if row.active == nil {
		row.active = make([]*alert, len(row.plan))
	}
	row.active[k] = a
	st.active++
	st.tell(a, Inactive)
	st.fireIfDue(a, c)
}

func (st *step) fireIfDue(a *alert, c *condition) {
	if st.now.Sub(a.ActiveSince) < c.For {
		return
	}
	a.State, a.FiredAt = Firing, st.now
	st.opt.Metrics.detection.Update(a.Detection().Seconds())
	st.tell(a, Pending)
}

// end resolves a firing alert, and forgets a pending one.
func (st *step) end(a *alert) {
	from := a.State
	st.active--
	if from == Pending {
		a.State = Inactive
		st.tell(a, from)
		return
	}
	a.State, a.ResolvedAt = Resolved, st.now
	n := len(st.resolved)
	for n > 0 && st.resolved[n-1].ResolvedAt.After(st.now) { // reports and engine reports come with times of their own
		n--
	}
	if n < len(st.resolved) {
		st.resolved = slices.Clone(st.resolved) // readers of a view share the old list
	}
	st.resolved = slices.Insert(st.resolved, n, a.Alert)
	st.tell(a, from)
}

func (st *step) tell(a *alert, from State) {
	st.opt.Metrics.transitions[a.State].Inc()
	st.out = append(st.out, Transition{Alert: a.Alert, From: from, To: a.State, Time: st.now})
}

// hold notes what keeps an alert from starting.
func (st *step) hold(row *row, k int, f finding) {
	if f.held == nil {
		return
	}
	c := &row.plan[k]
	h := Held{
		Name: c.Alert, Severity: c.severity, Tier: c.Tier.Name, Service: c.service, Agreement: c.agreement,
		GroupBy: c.groupBy, Group: row.group, Value: f.value, Why: f.held,
	}
	if c.SLO != nil {
		h.SLO = c.SLO.ID
	}
	st.held = append(st.held, h)
}

// firing reports whether the alert of a condition fires.
func (r *row) firing(k int) bool {
	return r.active != nil && r.active[k] != nil && r.active[k].State == Firing
}

func (r *row) drop(k int) {
	r.active[k] = nil
	for _, a := range r.active {
		if a != nil {
			return
		}
	}
	r.active = nil
}
