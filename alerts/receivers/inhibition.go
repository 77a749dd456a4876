package receivers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/reliability/remote"
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

// inhibitions are those of one view, by the fingerprint of the inhibited alert. They do not change.
type inhibitions map[string]inhibition

// inhibit finds what is inhibited as of the view. A change is logged in one line.
func (d *Dispatcher) inhibit() {
	now, started := inhibitions{}, []string{}
	for id, it := range d.items {
		if it.seen != d.round {
			continue
		}
		if by := d.inhibitedBy(it); by.id != "" {
			if now[id] = by; d.inhibited[id].id == "" {
				started = append(started, id)
			}
		}
	}
	ended := len(d.inhibited) + len(started) - len(now)
	if len(started) > 0 || ended > 0 {
		attrs := []any{"alerts", len(now), "started", len(started), "ended", ended}
		if len(started) > 0 {
			first := slices.Min(started)
			attrs = append(attrs, "first", d.items[first].alert.Name, "fingerprint", first, "by", now[first].id)
		}
		d.opt.Logger.Info("notifications of alerts are inhibited", attrs...)
	}
	d.inhibited = now
	d.opt.Metrics.Inhibited.Set(float64(len(now)))
}

// Inhibiting returns a function that finds the alert, by its fingerprint, that inhibits the notification of a firing
// one now; "" is none. It is nil if no alert is inhibited.
func (d *Dispatcher) Inhibiting() func(a *state.Alert) (fingerprint string) {
	d.mu.Lock()
	now, on := d.inhibited, d.plan.root != nil
	d.mu.Unlock()
	if !on || len(now) == 0 {
		return nil
	}
	return func(a *state.Alert) string {
		if a.State != state.Firing {
			return ""
		}
		return now[a.Fingerprint].id
	}
}

// maxAffected is how many SLOs a message lists that are affected as well.
const maxAffected = 5

// affected lists the SLOs whose alerts are inhibited because the given alert fires on their declared cause. It names
// those of its own service only: receivers and readers of previews may not know of others. The dispatcher's mutex is
// held.
func (d *Dispatcher) affected(it *item, show escape) string {
	var names []string
	others := map[string]bool{}
	for id, by := range d.inhibited {
		x := d.items[id]
		if !by.cause || by.id != it.alert.Fingerprint || x == nil {
			continue
		}
		name := string(x.alert.SLO)
		for i, value := range x.alert.Group {
			if show != nil {
				value = show(value)
			}
			name += map[bool]string{true: " (", false: ", "}[i == 0] + x.alert.GroupBy[i] + "=" + value
		}
		if len(x.alert.Group) > 0 {
			name += ")"
		}
		if x.alert.Service != it.alert.Service {
			others[name] = true
		} else {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	more := max(0, len(names)-maxAffected) + len(others)
	names = names[:min(len(names), maxAffected)]
	switch {
	case len(names) == 0 && more > 0:
		return fmt.Sprintf("%d of other services", more)
	case more > 0:
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return remote.Shorten(strings.Join(names, ", "), maxTexts["description"])
}
