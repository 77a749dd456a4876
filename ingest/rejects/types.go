package rejects

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/order"
)

// maxTypes bounds the types of all services. With the longest names they have 200 KiB.
const maxTypes = 500

// Uncounted is the code of events that are stored, because their service admits unknown types. They are not rejected.
const Uncounted event.Code = "uncounted"

// Type counts the events of a type that no spec counts. A sender that repeats a rejected event counts it again.
type Type struct {
	Code    event.Code `json:"code"` // unknown_service, unknown_type or uncounted
	Service string     `json:"service"`
	Type    string     `json:"type"` // __other__, like the service: those of the types beyond 500
	Events  uint64     `json:"events"`
	// of the events: those that are dead letters of a source, until they are replayed or discarded
	DeadLetters uint64    `json:"dead_letters,omitempty"`
	First       time.Time `json:"first"`
	Last        time.Time `json:"last"`
}

// Outcome says what became of the events, for people.
func (x *Type) Outcome() string {
	switch {
	case x.Code == Uncounted:
		return "stored, not counted"
	case x.DeadLetters == x.Events:
		return "dead letters"
	case x.DeadLetters > 0:
		return fmt.Sprintf("rejected, %d as dead letters", x.DeadLetters)
	case x.Code == event.CodeUnknownService:
		return "rejected: unknown service"
	}
	return "rejected: unknown type"
}

// unknown notes events that only the catalogue refused.
func (t *Table) unknown(list []event.Unknown, dead bool, now time.Time) {
	for i := range list {
		u := &list[i]
		x := t.typeOf(u.Code, u.Service, u.Type, now)
		x.Events += u.N
		if dead {
			x.DeadLetters += u.N
		}
	}
}

// DeadLetters notes events of sources that only the catalogue refused, and that are dead letters now.
func (t *Table) DeadLetters(list []event.Unknown) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unknown(list, true, t.now())
}

// Stored notes the uncounted events of a record of the log. A record that the file has is ignored: a start reads the
// log after the last checkpoint again.
func (t *Table) Stored(seq uint64, received time.Time, list []event.Unknown) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq > t.seq {
		t.seq = seq
		t.unknown(list, false, received)
		for i := range list {
			t.uncounted.Of(list[i].Service).AddInt64(int64(list[i].N))
		}
	}
}

// typeOf finds or makes the row of a type that events are added to. t.mu is held.
func (t *Table) typeOf(code event.Code, service, typ string, now time.Time) *Type {
	t.changes++
	i := slices.IndexFunc(t.types, func(x Type) bool { return x.Code == code && x.Type == typ && x.Service == service })
	if i < 0 {
		if len(t.types) >= maxTypes && typ != event.OtherTypes {
			t.evictType(now)
		}
		t.types = append(t.types, Type{Code: code, Service: clean(service, maxName), Type: clean(typ, maxName), First: now})
		i = len(t.types) - 1
	}
	x := &t.types[i]
	if now.After(x.Last) {
		x.Last = now
	}
	return x
}

// evictType adds the type that was quiet for longest to the others.
func (t *Table) evictType(now time.Time) {
	at := -1
	for i := range t.types {
		if x := &t.types[i]; x.Type != event.OtherTypes && (at < 0 || x.Last.Before(t.types[at].Last)) {
			at = i
		}
	}
	x := t.types[at]
	t.types = slices.Delete(t.types, at, at+1)
	to := t.typeOf(x.Code, event.OtherTypes, event.OtherTypes, now)
	to.Events, to.DeadLetters = to.Events+x.Events, to.DeadLetters+x.DeadLetters
	if x.First.Before(to.First) {
		to.First = x.First
	}
}

// Types lists the types that no spec counts, by code, service and type. Times are in whole milliseconds.
func (t *Table) Types() []Type {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.types)
	for i := range out {
		out[i].First, out[i].Last = shownTime(out[i].First), shownTime(out[i].Last)
	}
	order.By(out, func(a, b *Type) int {
		return cmp.Or(strings.Compare(string(a.Code), string(b.Code)), strings.Compare(a.Service, b.Service),
			strings.Compare(a.Type, b.Type))
	})
	return out
}
