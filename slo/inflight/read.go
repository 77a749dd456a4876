package inflight

import (
	"cmp"
	"slices"
)

// This file gives what is in flight to people.

// Stats are the figures of a Table.
type Stats struct {
	Open, Overdue int // work that has not ended, now
	Held          int // ends whose start has not come, now
	Bytes         int // memory, now

	Ended     uint64 // work that ended before it was overdue
	Expired   uint64 // work whose deadline passed
	Corrected uint64 // of that, work that had ended before its deadline, by an event that came late
	Repeated  uint64 // start or end events of work that has had one
	Unmatched uint64 // end events that were ignored: older than the start, or no room to hold them
	Untracked uint64 // start events that there was no room for
	Displaced uint64 // overdue work and held ends that were forgotten to make room
}

// Stats gives the figures.
func (t *Table) Stats() Stats {
	return Stats{
		Open: t.open, Overdue: t.overdue, Held: t.held, Bytes: t.Bytes(),
		Ended: t.ended, Expired: t.expired, Corrected: t.corrected, Repeated: t.repeated,
		Unmatched: t.unmatched, Untracked: t.untracked, Displaced: t.displaced,
	}
}

// pageBytes is what a page takes.
const pageBytes = pageSize*(40+4+KeyBytes+1) + pageSize/8 + 24

// Bytes is the memory of the table.
func (t *Table) Bytes() int { return len(t.pages)*pageBytes + 8*len(t.index.slots) }

// Has reports whether a group has work that has not ended or is remembered.
func (t *Table) Has(group uint32) bool {
	return int(group) < len(t.groups) && t.groups[group].total > 0
}

// ByStage gives how much work of a group is at each stage, by number. It must not be changed, and is valid until the
// next call.
func (t *Table) ByStage(group uint32) []StageCount {
	if int(group) >= len(t.groups) {
		return nil
	}
	return t.groups[group].stages
}

// Oldest is the earliest start of work that has not ended, in Unix nanoseconds. ok is false if there is none.
func (t *Table) Oldest() (at int64, ok bool) {
	for _, p := range t.pages {
		if !p.known {
			p.know()
		}
		if p.oldest != 0 && (!ok || p.oldest < at) {
			at, ok = p.oldest, true
		}
	}
	return at, ok
}

// know finds the oldest start of a page, 0 for none.
func (p *page) know() {
	p.oldest, p.known = 0, true
	for i := range p.entries {
		p.note(&p.entries[i])
	}
}

// Item is work that has not ended.
type Item struct {
	Key       string // its first KeyBytes bytes; "" if it was erased
	Cut       bool   // the key has more
	Group     uint32
	Stage     uint16
	Start     int64 // Unix nanoseconds
	StageFrom int64 // time of the event that brought it to its stage
	Deadline  int64
	Overdue   bool // it has counted as bad
}

// List gives the n items that started first, the oldest first. want chooses by group and stage. It may be nil.
func (t *Table) List(n int, want func(group uint32, stage uint16) bool) []Item {
	type place struct {
		start int64
		slot  uint32
	}
	older := func(a, b place) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.slot, b.slot)) }
	var best []place // ordered
	for number, p := range t.pages {
		if p.known && (p.oldest == 0 || len(best) == n && (n == 0 || p.oldest >= best[n-1].start)) {
			continue
		}
		for i := range p.entries {
			e := &p.entries[i]
			if !e.active() || len(best) == n && (n == 0 || e.start >= best[n-1].start) ||
				want != nil && !want(e.group, e.stage) {
				continue
			}
			x := place{e.start, uint32(number*pageSize + i)}
			at, _ := slices.BinarySearchFunc(best, x, older)
			best = slices.Insert(best, at, x)
			best = best[:min(len(best), n)]
		}
	}
	out := make([]Item, len(best))
	for i, x := range best {
		p, e := t.entry(x.slot)
		k := &p.keys[x.slot%pageSize]
		out[i] = Item{
			Key: string(k.text[:min(int(k.n), KeyBytes)]), Cut: k.n > KeyBytes, Group: e.group, Stage: e.stage,
			Start: e.start, StageFrom: e.at, Deadline: t.deadline(e), Overdue: e.state == overdue,
		}
	}
	return out
}
