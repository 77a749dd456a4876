package incident

import (
	"slices"
	"time"
)

// Alerts are the live alerts at one moment.
type Alerts struct {
	Time     time.Time // of the report
	Firing   []Firing  // in any order
	Resolved []Firing  // that may have fired after the last batch
}

// Firing is an alert that fires, or that fired and is over.
type Firing struct {
	Alert
	Onset    time.Time // when its trouble began; at first the alert's own estimate
	ByCounts bool      // Onset is by the counts
	Title    string
	Team     string
}

// clockBack is how far the time of alerts may lie behind the cursor before the clock counts as set back.
const clockBack = 2 * time.Minute

// Reconcile derives the operations that the book lacks from the alerts. It looks at states and not at changes of
// states, so that nothing is missed or opened twice after a crash: an alert is new if it fired after the batch that was
// derived last.
//
// describe completes an alert that is new. ok is false if there is nothing to do.
func (v *View) Reconcile(now *Alerts, describe func(*Firing)) (batch Batch, ok bool) {
	first := v.cursor.IsZero()
	behind := v.cursor.Sub(now.Time) > clockBack // the clock was set back
	v.index()
	known := make(map[string]bool, len(v.firing))
	for _, a := range v.firing {
		known[a.Fingerprint] = true
	}
	isNew := func(a *Firing) bool { return (behind || a.Fired.After(v.cursor)) && !known[a.Fingerprint] }

	var fresh []*Firing
	firing := map[string]bool{}
	for k := range now.Firing {
		a := &now.Firing[k]
		firing[a.Fingerprint] = true
		if isNew(a) {
			fresh = append(fresh, a)
		}
	}
	var over []*Firing // new, and over already
	for k := range now.Resolved {
		if a := &now.Resolved[k]; !first && !behind && !firing[a.Fingerprint] && isNew(a) {
			over = append(over, a)
		}
	}
	fresh = append(fresh, over...)
	slices.SortStableFunc(fresh, func(a, b *Firing) int { return a.Fired.Compare(b.Fired) })
	// renamed reports whether an alert still fires under labels that a changed spec or a newer version gave it.
	renamed := func(a *Alert) bool {
		return slices.ContainsFunc(now.Firing, func(b Firing) bool {
			return !known[b.Fingerprint] && b.Name == a.Name && b.Service == a.Service && b.SLO == a.SLO &&
				b.Agreement == a.Agreement &&
				slices.Equal(b.Group, a.Group) && b.Fired.Equal(a.Fired)
		})
	}
	for _, a := range v.firing {
		if !firing[a.Fingerprint] && !renamed(a) {
			batch.clear(a.Fingerprint, now.resolved(a.Fingerprint, a.Fired))
		}
	}
	for _, a := range fresh {
		describe(a)
		by := OnsetByAlert
		if a.ByCounts {
			by = OnsetByCounts
		}
		batch.Operations = append(
			batch.Operations, Operation{Kind: Fire, Alert: &a.Alert, Title: a.Title, Team: a.Team, Onset: a.Onset, OnsetBy: by})
	}
	for _, a := range over {
		batch.clear(a.Fingerprint, a.Resolved)
	}
	if len(batch.Operations) == 0 && !first {
		return batch, false
	}
	batch.Cursor = now.Time
	return batch, true
}

// clear adds that an alert is over.
func (b *Batch) clear(fingerprint string, at time.Time) {
	b.Operations = append(b.Operations, Operation{Kind: Clear, Alert: &Alert{Fingerprint: fingerprint, Resolved: at}})
}

// resolved is when an alert that fired at a time was over, as far as it is known.
func (now *Alerts) resolved(fingerprint string, fired time.Time) time.Time {
	at := now.Time
	for k := range now.Resolved {
		if a := &now.Resolved[k]; a.Fingerprint == fingerprint && !a.Resolved.Before(fired) && a.Resolved.Before(at) {
			at = a.Resolved
		}
	}
	return at
}
