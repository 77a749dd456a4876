package receivers

import (
	"fmt"
	"time"
)

// steps are those of an alert's class.
func (d *Dispatcher) steps(it *item) []Step {
	s := &d.plan.settings
	return s.Escalation[s.Routing.Classes[it.alert.Severity]]
}

// escalated is the key of the group that a step makes of another.
func escalated(key string, step int) string { return fmt.Sprintf("%s/escalation/%d", key, step+1) }

// escalated is the way to the receiver of a step. An alert has waited long enough by then.
func (r route) escalated(s Step) route {
	r.receiver, r.wait = s.Receiver, 0
	return r
}

// escalate puts an alert that is still unacknowledged into the group of the next receiver. It stays there until
// it resolves, so that receiver hears of that, too.
func (d *Dispatcher) escalate(it *item, now time.Time) {
	for i, s := range d.steps(it) {
		if now.Before(it.alert.FiredAt.Add(s.After)) {
			return
		}
		key := escalated(it.group, i)
		if g := d.groups[key]; g != nil && g.members[it.alert.Fingerprint].Equal(it.alert.FiredAt) {
			d.join(it, key, it.route.escalated(s), now)
		} else if !d.acknowledged(it.alert.Fingerprint) {
			d.join(it, key, it.route.escalated(s), now)
		}
	}
}

// acknowledged reports whether a person looks after the incident of an alert.
func (d *Dispatcher) acknowledged(fingerprint string) bool {
	incident, ok := d.opt.Incident(fingerprint)
	return ok && incident.Acknowledged
}
