package incident

import "time"

// Status is how far a team is with an incident, in the words of Statuspage.
type Status string

// The statuses.
const (
	StatusInvestigating Status = "investigating" // the default
	StatusIdentified    Status = "identified"    // the cause is known
	StatusMonitoring    Status = "monitoring"    // a fix is in place and is being watched
	StatusResolved      Status = "resolved"
)

// Statuses are all of them, in the order in which an incident usually reaches them.
var Statuses = []Status{StatusInvestigating, StatusIdentified, StatusMonitoring, StatusResolved}

// StatusChange is when an incident reached a status.
type StatusChange struct {
	Status Status    `json:"status"`
	Time   time.Time `json:"time"`
}

// StatusChanges lists the statuses that the incident has had, oldest first and never empty: investigating from the
// detection on, what updates set, and resolved. With publicly, only public updates count. An alert that opens the
// incident again makes it investigating.
func (i *Incident) StatusChanges(publicly bool) []StatusChange {
	out := []StatusChange{{StatusInvestigating, i.Detected}}
	add := func(s Status, at time.Time) {
		if s != out[len(out)-1].Status {
			out = append(out, StatusChange{s, at})
		}
	}
	again := i.Reopened()
	for k := range i.Updates {
		u := &i.Updates[k]
		if !again.IsZero() && u.Time.After(again) {
			add(StatusInvestigating, again)
			again = time.Time{}
		}
		// Until the incident was resolved, a status is one of work in progress.
		if u.Status != "" && u.Status != StatusResolved && (u.Public || !publicly) {
			add(u.Status, u.Time)
		}
	}
	if !again.IsZero() {
		add(StatusInvestigating, again)
	}
	if i.Resolved != nil {
		add(StatusResolved, i.Resolved.Time)
	}
	return out
}

// CurrentStatus is the last of the statuses.
func (i *Incident) CurrentStatus(publicly bool) StatusChange {
	all := i.StatusChanges(publicly)
	return all[len(all)-1]
}

// StatusAt is the status of an incident at a time after its detection.
func (i *Incident) StatusAt(t time.Time, publicly bool) Status {
	s := StatusInvestigating
	for _, c := range i.StatusChanges(publicly) {
		if !c.Time.After(t) {
			s = c.Status
		}
	}
	return s
}

// Reopened is when an alert opened the incident again that had been resolved with its alerts; zero if none did.
func (i *Incident) Reopened() (at time.Time) {
	if !i.Automated {
		return at
	}
	var end time.Time // of all alerts so far
	firing, urgent := false, i.urgent()
	for k := range i.Alerts {
		a := &i.Alerts[k]
		if !urgent(a) {
			continue
		}
		if !firing && !end.IsZero() && a.Fired.After(end) {
			at = a.Fired
		}
		if firing = firing || a.Resolved.IsZero(); a.Resolved.After(end) {
			end = a.Resolved
		}
	}
	return at
}
