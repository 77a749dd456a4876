package incident

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Book holds all incidents. One goroutine applies batches. Any goroutine may ask for the view, which never changes.
type Book struct {
	months  []*month // oldest first
	cursor  time.Time
	refused uint64 // alerts that opened no incident because MaxOpen were open

	// The rest follows from the months.
	expires time.Time // no retention ends before; zero: none is resolved
	bytes   int
	count   int
	owned   map[*Incident]bool // clones made by the batch under way, not published yet

	view atomic.Pointer[View]
}

// month holds the incidents that were opened in one month of UTC, by number. It is saved as one part of the checkpoint.
type month struct {
	name    string // such as 2026-11
	next    int    // number of the next incident
	version uint64 // grows with each change
	list    []*Incident
	encoded map[*Incident][]byte // as of the last encoding
}

// NewBook makes an empty book.
func NewBook() *Book {
	b := &Book{}
	b.publish()
	return b
}

// View returns the book as of the last batch.
func (b *Book) View() *View { return b.view.Load() }

// Apply applies the payload of a record that was written at a time. Operations that are not allowed are skipped, so the
// only error is a payload that cannot be read.
func (b *Book) Apply(at time.Time, payload []byte) error {
	batch, err := ParseBatch(payload)
	if err != nil {
		return err
	}
	at = at.UTC()
	b.owned = map[*Incident]bool{}
	for k := range batch.Operations {
		if o := &batch.Operations[k]; o.Validate() == nil {
			b.operate(o, at)
		}
	}
	for inc := range b.owned {
		b.bytes += inc.bytes()
		b.expire(inc)
	}
	b.owned = nil
	if !batch.Cursor.IsZero() && !batch.Cursor.Equal(b.cursor) {
		b.cursor = batch.Cursor.UTC()
	}
	b.prune(at)
	b.publish()
	return nil
}

// Advance removes incidents whose retention ended by the given time. It is cheap when there are none.
func (b *Book) Advance(at time.Time) {
	if b.prune(at.UTC()) {
		b.publish()
	}
}

func (b *Book) operate(o *Operation, at time.Time) {
	switch o.Kind {
	case Fire:
		b.fire(o, at)
	case Clear:
		b.clear(o)
	case OpenByHand:
		b.openByHand(o, at)
	case Erase:
		if o.ID == "" {
			for _, m := range b.months {
				for k := range m.list {
					if m.list[k].mentions(o.By, o.Whole) {
						o.change(b.edit(m, k), at)
					}
				}
			}
			return
		}
		fallthrough
	default:
		if m, k := findIn(b.months, o.ID); m != nil {
			o.change(b.edit(m, k), at)
		}
	}
}

func findIn(months []*month, id string) (*month, int) {
	rest, ok := strings.CutPrefix(id, "INC-")
	if !ok || len(rest) < len("2006-01-") {
		return nil, 0
	}
	i, ok := slices.BinarySearchFunc(months, rest[:len("2006-01")], func(m *month, name string) int {
		return strings.Compare(m.name, name)
	})
	if !ok {
		return nil, 0
	}
	list := months[i].list // in the order of their ids, which insert gives
	k, ok := slices.BinarySearchFunc(list, id, func(inc *Incident, id string) int { return CompareIDs(inc.ID, id) })
	if !ok || list[k].ID != id { // other digits may say the same number
		return nil, 0
	}
	return months[i], k
}

// edit returns an incident that may be changed. It is a copy of the published one, which readers may have.
func (b *Book) edit(m *month, k int) *Incident {
	m.version++
	inc := m.list[k]
	if b.owned[inc] {
		return inc
	}
	b.bytes -= inc.bytes()
	fresh := *inc
	m.list = slices.Clone(m.list) // the view has the old list
	m.list[k] = &fresh
	b.owned[&fresh] = true
	return &fresh
}

// unresolved calls f with every incident that is not resolved or was resolved after since, newest first, until f
// returns false.
func (b *Book) unresolved(since time.Time, f func(m *month, k int) bool) {
	for i := len(b.months) - 1; i >= 0; i-- {
		m := b.months[i]
		for k := len(m.list) - 1; k >= 0; k-- {
			if inc := m.list[k]; (inc.State != Resolved || inc.Resolved.Time.After(since)) && !f(m, k) {
				return
			}
		}
	}
}

// fire lets an alert join an incident of its service, or open one.
//
// It joins the newest incident that is not resolved, or was resolved by itself no more than JoinWithin before, and of
// which an alert of the same SLO still fires or the last alert fired no more than JoinWithin before. A page that joins
// an incident of severity warning makes it critical. A known alert changes nothing, so the operation is idempotent.
func (b *Book) fire(o *Operation, at time.Time) {
	a := *o.Alert
	a.Fired, a.Resolved, a.Onset = a.Fired.UTC(), time.Time{}, o.Onset.UTC()
	if o.Onset.IsZero() || a.Onset.After(a.Fired) {
		a.Onset = a.Fired
	}
	var into *month
	var place, open int
	known := false
	b.unresolved(a.Fired.Add(-JoinWithin-time.Nanosecond), func(m *month, k int) bool {
		inc := m.list[k]
		if inc.State != Resolved {
			open++
		}
		if old := inc.alert(a.Fingerprint); old != nil && (old.Resolved.IsZero() || !old.Fired.Before(a.Fired)) {
			known = true
			return false
		}
		if into == nil && inc.takes(&a) {
			into, place = m, k
		}
		return true
	})
	switch {
	case known:
	case into != nil:
		inc := b.edit(into, place)
		if inc.State == Resolved {
			inc.State, inc.Resolved, inc.SpentDone = Open, nil, false
			if inc.Ack != nil {
				inc.State = Acknowledged
			}
		}
		if a.Severity == Critical && inc.Severity == Warning {
			inc.raise(a.Fired, o.Title)
		}
		if len(inc.Alerts) < MaxAlerts {
			inc.Alerts = append(slices.Clip(inc.Alerts), a)
		} else {
			inc.More++
		}
		if onset := o.Onset.UTC(); inc.Automated && !o.Onset.IsZero() && onset.Before(inc.Onset) &&
			a.Severity == inc.Severity && inc.Alerts[0].Fired.Equal(a.Fired) {
			// of the alerts that fire together, the one that looks back furthest knows best
			inc.Onset, inc.OnsetBy = onset, o.OnsetBy
		}
	case open >= MaxOpen:
		b.refused++
	default:
		inc := &Incident{
			Service: a.Service, Severity: a.Severity, Title: cut(o.Title, MaxTitle), State: Open,
			Onset: o.Onset.UTC(), OnsetBy: o.OnsetBy,
			Detected: a.Fired, Automated: true, Opened: at, Team: o.Team, Alerts: []Alert{a},
		}
		if o.Onset.IsZero() || inc.Onset.After(inc.Detected) {
			inc.Onset, inc.OnsetBy = inc.Detected, OnsetByAlert
		}
		b.insert(inc, at)
	}
}

// takes reports whether an alert joins the incident.
func (i *Incident) takes(a *Alert) bool {
	if i.Service != a.Service || i.Severity == Warning && a.Severity == Critical && len(i.Alerts) >= MaxAlerts ||
		i.State == Resolved && !i.Resolved.Automated {
		return false
	}
	if i.State == Resolved {
		return a.Fired.Sub(i.Resolved.Time).Abs() <= JoinWithin
	}
	if a.Fired.Sub(i.lastFired()).Abs() <= JoinWithin {
		return true
	}
	return a.SLO != "" && slices.ContainsFunc(i.Alerts, func(x Alert) bool {
		return x.SLO == a.SLO && x.Resolved.IsZero()
	})
}

// raise makes an incident critical. Who acknowledged tickets has not answered a page.
func (i *Incident) raise(at time.Time, title string) {
	i.Severity, i.Raised = Critical, at
	if i.State == Acknowledged {
		i.State = Open
	}
	i.Ack = nil
	if !i.titled() {
		i.Title = cut(title, MaxTitle)
	}
}

// clear notes that an alert is over, and resolves the incident if it was the last one that was as urgent as the
// incident. A person resolves what a person opened.
func (b *Book) clear(o *Operation) {
	b.unresolved(time.Time{}, func(m *month, k int) bool {
		old := m.list[k].alert(o.Alert.Fingerprint)
		if old == nil || !old.Resolved.IsZero() {
			return true
		}
		inc := b.edit(m, k)
		inc.Alerts = slices.Clone(inc.Alerts)
		over := inc.alert(o.Alert.Fingerprint)
		over.Resolved = o.Alert.Resolved.UTC()
		if over.Resolved.Before(over.Fired) {
			over.Resolved = over.Fired
		}
		if inc.Automated && inc.State != Resolved && !inc.firing() {
			inc.State, inc.Resolved = Resolved, &Resolution{Time: over.Resolved, Automated: true}
		}
		return false
	})
}

func (b *Book) openByHand(o *Operation, at time.Time) {
	open := 0
	twice := false
	b.unresolved(at.Add(-Retention), func(m *month, k int) bool {
		twice = twice || m.list[k].Key == o.Key
		if m.list[k].State != Resolved {
			open++
		}
		return !twice
	})
	if twice || open >= MaxOpen {
		return
	}
	inc := &Incident{
		Key: o.Key, Service: o.Service, Severity: o.Severity, Title: o.Title, State: Open, Onset: o.Onset.UTC(),
		OnsetBy:  OnsetByHand,
		Detected: at, OpenedBy: o.By, Opened: at, Team: o.Team, Public: o.Public,
	}
	if o.Onset.IsZero() || inc.Onset.After(at) {
		inc.Onset = at
	}
	b.insert(inc, at)
}

// insert gives an incident its id.
func (b *Book) insert(inc *Incident, at time.Time) {
	name := at.Format("2006-01")
	if n := len(b.months); n > 0 && b.months[n-1].name > name {
		name = b.months[n-1].name // the clock went back over midnight; ids stay in order
	}
	if n := len(b.months); n == 0 || b.months[n-1].name != name {
		b.months = append(slices.Clip(b.months), &month{name: name, next: 1})
	}
	m := b.months[len(b.months)-1]
	inc.ID = fmt.Sprintf("INC-%s-%04d", name, m.next)
	m.next++
	m.version++
	m.list = append(slices.Clip(m.list), inc)
	b.count++
	b.owned[inc] = true
}

// prune removes what is too old or too much, and reports whether it did. It removes only incidents that are resolved,
// the oldest resolution first.
func (b *Book) prune(at time.Time) bool {
	if b.count <= MaxIncidents && b.bytes <= MaxBytes && (b.expires.IsZero() || at.Before(b.expires)) {
		return false
	}
	b.total()
	var done []*Incident
	for _, m := range b.months {
		for _, inc := range m.list {
			if inc.State == Resolved {
				done = append(done, inc)
			}
		}
	}
	slices.SortFunc(done, func(x, y *Incident) int {
		return cmp.Or(x.Resolved.Time.Compare(y.Resolved.Time), strings.Compare(x.ID, y.ID))
	})
	gone := map[*Incident]bool{}
	for _, inc := range done {
		if b.count-len(gone) <= MaxIncidents && b.bytes <= MaxBytes && at.Sub(inc.Resolved.Time) < Retention {
			break
		}
		gone[inc] = true
		b.bytes -= inc.bytes()
	}
	if len(gone) == 0 {
		return false
	}
	for _, m := range b.months {
		rest := slices.DeleteFunc(slices.Clone(m.list), func(inc *Incident) bool { return gone[inc] })
		if len(rest) < len(m.list) {
			m.list = rest
			m.version++
		}
	}
	newest := b.months[len(b.months)-1] // it knows the next number
	b.months = slices.DeleteFunc(b.months, func(m *month) bool { return len(m.list) == 0 && m != newest })
	b.total()
	return true
}

// total computes what follows from the months.
func (b *Book) total() {
	b.bytes, b.count, b.expires = 0, 0, time.Time{}
	for _, m := range b.months {
		for _, inc := range m.list {
			b.count++
			b.bytes += inc.bytes()
			b.expire(inc)
		}
	}
}

// expire notes when the retention of an incident ends.
func (b *Book) expire(inc *Incident) {
	if inc.State != Resolved {
		return
	}
	if end := inc.Resolved.Time.Add(Retention); b.expires.IsZero() || end.Before(b.expires) {
		b.expires = end
	}
}

// cut shortens a text to a number of characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-3]) + "..."
}
