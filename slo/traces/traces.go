// Package traces remembers, in memory, which traces the last bad events of each SLO belong to. It does not decide which
// events are bad, and a restart empties it.
package traces

import (
	"bytes"
	"cmp"
	"container/list"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/slo"
)

// ID is a trace id of W3C Trace Context. Zero is none.
type ID [16]byte

// String is the id as 32 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Trace is a trace with an event that counted as bad for an SLO.
type Trace struct {
	ID       ID
	Time     time.Time     // of the event
	Duration time.Duration // of the event; below 0: it had none
	Group    slo.Group

	// The labels of the service's counters that counted the event.
	Service, Type, Outcome, Severity string
	Dimensions                       []string
}

// The bounds of a Store.
const (
	// Retention is how long after the time of its event a trace is remembered.
	Retention = 6 * time.Hour
	// MaxPerSLO is how many traces of an SLO are remembered: the last ones.
	MaxPerSLO = 32
	// maxBytes bounds the memory of all: beyond it the trace that was added first goes, of whatever SLO.
	maxBytes = 8 << 20
	// traceBytes is about the memory of a trace without its texts, which groups and counters may share.
	traceBytes = 320
)

// Store is safe for concurrent use. A nil one is empty.
type Store struct {
	mu    sync.Mutex
	order list.List // of *entry, in the order in which they were added
	slos  map[slo.ID]*ring
	bytes int
}

// ring is the traces of an SLO, in the order in which they were added.
type ring struct {
	list  []*list.Element
	batch int64 // when the last of them were received
	added int   // at that time
}

type entry struct {
	slo   slo.ID
	bytes int
	Trace
}

// NewStore makes an empty store.
func NewStore() *Store { return &Store{slos: map[slo.ID]*ring{}} }

// Full reports whether Add looks at no more traces of an SLO that are received at that time, so that the caller need
// not make them.
func (s *Store) Full(id slo.ID, received int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.slos[id]
	return r != nil && r.full(received)
}

func (r *ring) full(received int64) bool { return r.batch == received && r.added >= MaxPerSLO }

// Add remembers a trace that was received at a time in Unix nanoseconds. A trace that is there already stays as it is.
// Of those of an SLO that are received together only the first MaxPerSLO are looked at, so that a flood costs little.
func (s *Store) Add(id slo.ID, received int64, t *Trace) {
	if t.Time.UnixNano() < received-int64(Retention) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.slos[id]
	if r == nil {
		r = &ring{}
		s.slos[id] = r
	}
	if r.full(received) {
		return
	}
	if r.batch != received {
		r.batch, r.added = received, 0
	}
	r.added++
	for _, e := range r.list {
		if e.Value.(*entry).ID == t.ID {
			return
		}
	}
	n := &entry{id, traceBytes, *t}
	for _, text := range slices.Concat(n.Group, n.Dimensions) {
		n.bytes += len(text)
	}
	if len(r.list) == MaxPerSLO {
		s.removeFirst(r)
	}
	r.list = append(r.list, s.order.PushBack(n))
	for s.bytes += n.bytes; s.bytes > maxBytes; {
		oldest := s.order.Front().Value.(*entry)
		first := s.slos[oldest.slo]
		if s.removeFirst(first); len(first.list) == 0 && first != r {
			delete(s.slos, oldest.slo)
		}
	}
}

// removeFirst forgets the trace of an SLO that was added first.
func (s *Store) removeFirst(r *ring) {
	e := s.order.Remove(r.list[0]).(*entry)
	r.list = slices.Delete(r.list, 0, 1)
	s.bytes -= e.bytes
}

// Forget forgets the traces of a service.
func (s *Store) Forget(service string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.slos {
		if id.Service() == service {
			for len(r.list) > 0 {
				s.removeFirst(r)
			}
			delete(s.slos, id)
		}
	}
}

// Of returns the traces of an SLO, or of one of its groups, that are not too old: the newest first, and at the same
// time by id. A nil group asks for all of them.
func (s *Store) Of(id slo.ID, group slo.Group, now time.Time) []Trace {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.slos[id]
	if r == nil {
		return nil
	}
	var out []Trace
	for _, e := range r.list {
		t := &e.Value.(*entry).Trace
		if now.Sub(t.Time) <= Retention && (group == nil || slices.Equal(group, t.Group)) {
			out = append(out, *t)
		}
	}
	Sort(out)
	return out
}

// Sort puts the newest first, and those of the same time by id.
func Sort(list []Trace) {
	order.By(list, func(a, b *Trace) int {
		return cmp.Or(b.Time.Compare(a.Time), bytes.Compare(a.ID[:], b.ID[:]))
	})
}

// All returns the traces of all SLOs that are not too old, in the order in which they were added.
func (s *Store) All(now time.Time) (out []Of) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.order.Front(); e != nil; e = e.Next() {
		if n := e.Value.(*entry); now.Sub(n.Time) <= Retention {
			out = append(out, Of{n.slo, n.Trace})
		}
	}
	return out
}

// Of is a trace with its SLO.
type Of struct {
	SLO slo.ID
	Trace
}
