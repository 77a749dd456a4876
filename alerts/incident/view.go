package incident

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// View is the book at one moment. It and what it holds never change.
type View struct {
	months  []*month // copies of the book's
	cursor  time.Time
	refused uint64

	once   sync.Once // builds what follows, which few views are asked for
	latest map[string]*Incident
	firing []*Alert // that are not resolved, as far as the book knows, each fingerprint once
}

func (v *View) index() {
	v.once.Do(func() {
		v.latest = map[string]*Incident{}
		known := map[string]bool{}
		for inc := range v.All() {
			for k := range inc.Alerts {
				a := &inc.Alerts[k]
				if v.latest[a.Fingerprint] == nil {
					v.latest[a.Fingerprint] = inc
				}
				if a.Resolved.IsZero() && !known[a.Fingerprint] {
					known[a.Fingerprint] = true
					v.firing = append(v.firing, a)
				}
			}
		}
	})
}

// publish makes the view that readers see.
func (b *Book) publish() {
	v := &View{cursor: b.cursor, refused: b.refused, months: make([]*month, len(b.months))}
	for i, m := range b.months {
		v.months[i] = &month{name: m.name, next: m.next, list: m.list}
	}
	b.view.Store(v)
}

// Mentioning is the number of incidents in whose texts a value stands that is no part of a longer one.
func (v *View) Mentioning(value string) (n int) {
	for inc := range v.All() {
		if inc.mentions(value, true) {
			n++
		}
	}
	return n
}

// Only is the view with the incidents that keep wants.
func (v *View) Only(keep func(*Incident) bool) *View {
	out := &View{cursor: v.cursor, refused: v.refused, months: make([]*month, len(v.months))}
	for i, m := range v.months {
		list := slices.DeleteFunc(slices.Clone(m.list), func(inc *Incident) bool { return !keep(inc) })
		out.months[i] = &month{name: m.name, next: m.next, list: list}
	}
	return out
}

// Get returns an incident; nil if there is none with this id.
func (v *View) Get(id string) *Incident {
	m, k := findIn(v.months, id)
	if m == nil {
		return nil
	}
	return m.list[k]
}

// ByKey returns the incident that a request with this key opened by hand; nil if there is none.
func (v *View) ByKey(key string) *Incident {
	for inc := range v.All() {
		if key != "" && inc.Key == key {
			return inc
		}
	}
	return nil
}

// All lists the incidents, the one that was opened last first.
func (v *View) All() func(yield func(*Incident) bool) {
	return func(yield func(*Incident) bool) {
		for _, m := range slices.Backward(v.months) {
			for _, inc := range slices.Backward(m.list) {
				if !yield(inc) {
					return
				}
			}
		}
	}
}

// Open lists the incidents that are not resolved, the one that was opened last first.
func (v *View) Open() (out []*Incident) {
	for inc := range v.All() {
		if inc.State != Resolved {
			out = append(out, inc)
		}
	}
	return out
}

// Room reports whether a note or an update may be added; its error is ErrFull.
func (v *View) Room() error {
	n := 0
	for _, inc := range v.Open() {
		n += inc.texts()
	}
	if n >= MaxOpenTexts {
		return fmt.Errorf(
			"%w: notes and updates of the incidents that are not resolved take %d MiB (resolve some)", ErrFull, n>>20)
	}
	return nil
}

// Between lists the incidents that were going on at any time from from to to, in the order of their onset.
func (v *View) Between(from, to time.Time) (out []*Incident) {
	for inc := range v.All() {
		if inc.Onset.Before(to) && !inc.End(to).Before(from) {
			out = append(out, inc)
		}
	}
	slices.SortStableFunc(out, func(a, b *Incident) int { return a.Onset.Compare(b.Onset) })
	return out
}

// Of finds the incident of an alert, the last one that it opened or joined; nil if there is none.
func (v *View) Of(fingerprint string) *Incident {
	v.index()
	return v.latest[fingerprint]
}

// OnsetOf is the earliest onset of the firing alerts on a group of an SLO; zero if none fires.
func (v *View) OnsetOf(id string, group []string) (at time.Time) {
	for _, inc := range v.Open() {
		for k := range inc.Alerts {
			a := &inc.Alerts[k]
			if a.SLO != id || !a.Resolved.IsZero() || len(a.Group) > 0 && !slices.Equal(a.Group, group) {
				continue
			}
			if onset := cmp.Or(a.Onset, inc.Onset); at.IsZero() || onset.Before(at) {
				at = onset
			}
		}
	}
	return at
}

// Refused is how many alerts opened no incident since the start, because MaxOpen were open.
func (v *View) Refused() uint64 { return v.refused }

// IsID reports whether a text looks like the id of an incident.
func IsID(id string) bool {
	month, n := splitID(id)
	return len(month) == len("2006-01") && n > 0
}

// CompareIDs orders ids by when their incidents were opened.
func CompareIDs(a, b string) int {
	x, m := splitID(a)
	y, n := splitID(b)
	return cmp.Or(strings.Compare(x, y), cmp.Compare(m, n))
}

func splitID(id string) (month string, n int) {
	rest, ok := strings.CutPrefix(id, "INC-")
	if i := strings.LastIndexByte(rest, '-'); ok && i > 0 {
		n, err := strconv.Atoi(rest[i+1:])
		if err == nil {
			return rest[:i], n
		}
	}
	return "", 0
}
