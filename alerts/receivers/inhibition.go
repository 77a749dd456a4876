package receivers

import (
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
)

type sourceKey struct {
	rule  int
	equal string
}

// inhibitors are the firing alerts that match the source of a rule. Those that match the target as well inhibit no such
// alert, so only is without them.
type inhibitors struct{ all, only earliest }

// earliest is the alert with the earliest onset; without an id, there is none.
type earliest struct {
	id    string
	onset time.Time
}

func (e *earliest) add(it *item) {
	if e.id == "" || it.onset.Before(e.onset) || it.onset.Equal(e.onset) && it.alert.Fingerprint < e.id {
		e.id, e.onset = it.alert.Fingerprint, it.onset
	}
}

// inhibits notes a firing alert as a source of the rules that it matches.
func (d *Dispatcher) inhibits(it *item) {
	for _, r := range it.roles {
		if r.source {
			k := sourceKey{r.rule, r.equal}
			s := d.sources[k]
			s.all.add(it)
			if !r.target {
				s.only.add(it)
			}
			d.sources[k] = s
		}
	}
}

// quiet reports whether an alert is muted now.
func (d *Dispatcher) quiet(it *item, now time.Time) bool {
	return d.inhibitedBy(it).id != "" || d.silences.match(it.labels, now)
}

// inhibition is why an alert is inhibited: the alert that inhibits it, and whether that is a declared cause.
type inhibition struct {
	id    string // of the other alert; "" if the alert is not inhibited
	cause bool
}

// inhibitedBy finds an alert that inhibits another. A declared cause inhibits only what began no more than
// incident.SameOnset before it, as on the page: earlier failures have another cause. A silenced alert inhibits as well.
func (d *Dispatcher) inhibitedBy(it *item) inhibition {
	for _, r := range it.roles {
		if !r.target {
			continue
		}
		s := d.sources[sourceKey{r.rule, r.equal}]
		by := s.all
		if r.source {
			by = s.only
		}
		if by.id != "" && !(r.cause && it.onset.Before(by.onset.Add(-incident.SameOnset))) {
			return inhibition{by.id, r.cause}
		}
	}
	return inhibition{}
}
