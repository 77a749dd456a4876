package receivers

import (
	"slices"
	"time"

	amnotify "github.com/prometheus/alertmanager/notify"
)

const (
	// keepResolved is how long a resolved alert waits for a receiver that does not accept it.
	keepResolved = 24 * time.Hour
	// watchdogFresh is how long the watchdog fires on after the last evaluation.
	watchdogFresh = 4 * time.Minute
)

// telling is what a group comes to at a time, without the alerts that are kept quiet.
type telling struct {
	items            []*item
	firing, resolved []string // fingerprints, sorted
	acknowledged     bool     // everything that fires is, so nothing is repeated
}

func (t *telling) reason(g *group, to *target, now time.Time) amnotify.NotifyReason {
	if len(t.items) == 0 {
		return amnotify.ReasonDoNotNotify
	}
	quiet := t.acknowledged || to.format != "" && !slices.Contains(t.firing, watchdogID)
	return g.sent[to.name].reason(t.firing, t.resolved, to.resolved, quiet, g.repeat, now)
}

func (d *Dispatcher) tell(g *group, now time.Time) (t telling) {
	if d.plan.mutes(g.mutes, now) {
		return t
	}
	t.acknowledged = true
	for _, id := range g.list() {
		it := d.items[id]
		if it == nil || id == watchdogID && now.Sub(d.read.at) > watchdogFresh || d.quiet(it, now) {
			continue
		}
		t.items = append(t.items, it)
		if it.firing() {
			t.firing = append(t.firing, id)
			t.acknowledged = t.acknowledged && d.acknowledged(id)
		} else {
			t.resolved = append(t.resolved, id)
		}
	}
	return t
}

// prune takes alerts out of a group that have resolved, once every target of the receiver was notified.
func (d *Dispatcher) prune(g *group) {
	if g.waiting > 0 {
		return
	}
	now := d.opt.Now()
	told := d.tell(g, now)
	var open []*target
	for _, t := range d.plan.targets[g.receiver] {
		if r := told.reason(g, t, now); r != amnotify.ReasonDoNotNotify && r != amnotify.ReasonRepeatIntervalElapsed {
			open = append(open, t)
		}
	}
	for _, id := range g.list() {
		it := d.items[id]
		var untold []*target
		for _, t := range open {
			if !g.sent[t.name].resolvedOf(id) { // the group has more to tell, but perhaps not of this alert
				untold = append(untold, t)
			}
		}
		switch {
		case it == nil:
		case it.firing(), len(untold) > 0 && now.Sub(it.alert.ResolvedAt) < keepResolved:
			continue
		}
		for _, t := range untold {
			d.lanes[t.name].health.Expired(1)
		}
		g.leave(id)
		d.changes.group(g.key)
	}
	if len(g.members) == 0 {
		delete(d.groups, g.key)
		d.changes.group(g.key)
	}
}
