package receivers

import (
	"maps"
	"slices"
	"time"

	"github.com/sloengine/sloengine/alerts/state"
)

// observe takes over a view: alerts join groups, and those that ended are found.
func (d *Dispatcher) observe(n *news, now time.Time) {
	first := d.read == nil
	d.read = n
	d.round++
	d.sources = map[sourceKey]inhibitors{}
	if w := d.items[watchdogID]; w != nil {
		d.fires(w, now)
	} else if w := d.plan.watchdog(d.started); w != nil {
		d.items[watchdogID] = w
		d.fires(w, now)
	}
	for i := range n.view.Active {
		a := &n.view.Active[i]
		if a.State != state.Firing {
			continue
		}
		it := d.items[a.Fingerprint]
		if it == nil {
			it = d.plan.newItem(a)
			d.items[a.Fingerprint] = it
		}
		it.alert = *a
		d.fires(it, now)
	}
	d.inhibit()
	d.ended(n.view)
	if first {
		d.adopt()
	}
	for id, it := range d.items {
		if it.seen != d.round && !d.grouped(id, it) {
			delete(d.items, id)
		}
	}
}

// fires notes that an alert goes on, which may join its group.
func (d *Dispatcher) fires(it *item, now time.Time) {
	it.seen, it.onset = d.round, d.onset(it)
	d.inhibits(it)
	d.join(it, it.group, it.route, now)
	d.escalate(it, now)
}

// onset is when the failure behind an alert began, as the page has it. Only declared causes need it.
func (d *Dispatcher) onset(it *item) time.Time {
	if !slices.ContainsFunc(it.roles, func(r role) bool { return r.cause }) {
		return time.Time{}
	}
	if in, ok := d.opt.Incident(it.alert.Fingerprint); ok && !in.Onset.IsZero() {
		return in.Onset
	}
	return it.alert.FirstBad
}

// join puts an alert into a group, which it may begin.
func (d *Dispatcher) join(it *item, key string, r route, now time.Time) {
	g := d.groups[key]
	if g == nil {
		g = newGroup(key, now.Add(r.wait))
		if it.alert.FiredAt.Add(r.wait).Before(now) {
			g.due = now // it has waited long enough
		}
		d.groups[key] = g
		d.changes.group(key)
	}
	g.route, g.labels = r, it.by
	if at, ok := g.members[it.alert.Fingerprint]; !ok || !at.Equal(it.alert.FiredAt) {
		g.members[it.alert.Fingerprint] = it.alert.FiredAt
		d.changes.group(key)
		if !g.flushed && it.alert.FiredAt.Add(r.wait).Before(now) {
			g.due = now
		}
	}
}

// ended looks up the alerts that are in a group and do not fire any more.
func (d *Dispatcher) ended(v *state.View) {
	missing := map[string]bool{}
	for _, g := range d.groups {
		for id := range g.members {
			if it := d.items[id]; it == nil || it.seen != d.round && it.firing() {
				missing[id] = true
			}
		}
	}
	for i := len(v.Resolved) - 1; i >= 0 && len(missing) > 0; i-- {
		a := &v.Resolved[i]
		if !missing[a.Fingerprint] {
			continue
		}
		delete(missing, a.Fingerprint)
		it := d.items[a.Fingerprint]
		if it == nil {
			it = d.plan.newItem(a)
			d.items[a.Fingerprint] = it
		}
		it.alert = *a
	}
	for id := range missing { // how it ended is unknown
		if it := d.items[id]; it != nil {
			it.alert.State, it.alert.ResolvedAt = state.Resolved, v.Time
		}
	}
}

// adopt gives the groups that were restored, or that other settings made, what only their alerts know. Alerts that have
// another place now leave, and so do those of which nothing is known.
func (d *Dispatcher) adopt() {
	d.changes.whole = true // any group may change
	maps.DeleteFunc(d.told, func(name string, _ map[string]knownIncident) bool { return d.lanes[name] == nil })
	for key, g := range d.groups {
		for _, id := range g.list() {
			it := d.items[id]
			if it == nil {
				g.leave(id)
				continue
			}
			r, ok := d.routeOf(it, key)
			if !ok {
				g.leave(id)
				continue
			}
			g.route, g.labels = r, it.by
		}
		for name := range g.sent {
			if d.lanes[name] == nil {
				delete(g.sent, name)
			}
		}
		if len(g.members) == 0 {
			delete(d.groups, key)
			d.changes.group(key)
		} else if g.flushed {
			g.due = d.opt.Now() // other receivers may have to be notified
		}
	}
}

// routeOf finds where an alert goes with a group.
func (d *Dispatcher) routeOf(it *item, key string) (route, bool) {
	if key == it.group {
		return it.route, true
	}
	for i, s := range d.steps(it) {
		if key == escalated(it.group, i) {
			return it.route.escalated(s), true
		}
	}
	return route{}, false
}

// grouped reports whether an alert is in a group.
func (d *Dispatcher) grouped(id string, it *item) bool {
	in := func(key string) bool {
		g := d.groups[key]
		if g == nil {
			return false
		}
		_, ok := g.members[id]
		return ok
	}
	for i := range d.steps(it) {
		if in(escalated(it.group, i)) {
			return true
		}
	}
	return in(it.group)
}
