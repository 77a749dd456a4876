package inflight

import "github.com/zeebo/xxh3"

// This file holds what events do to entries, and what passes with time.

// Outcome is what a call adds to the counts. The zero value adds nothing.
type Outcome struct {
	Counted bool
	Bad     bool
	Old     bool   // no new traffic: its start or its end was backfilled or replayed late
	Group   uint32 // of the start event
	At      int64  // Unix nanoseconds: where it counts

	// Undo means that the work has counted at UndoAt, as bad if UndoBad, where the count must be lowered again.
	Undo, UndoBad bool
	UndoAt        int64

	// Untracked means that there was no room for a start event.
	Untracked bool
}

// Start is a start event of the time at. A second one is ignored while the first is open, or overdue, unless it comes
// after the deadline of the first: then it begins new work with the same key.
//
// key must not be empty, and is not kept. group and stage are numbers of the caller's. They are bounded by the caller.
func (t *Table) Start(m Moment, key []byte, at int64, group uint32, stage uint16, old bool) (out Outcome) {
	h := Hash(key)
	slot, ok := t.find(h)
	if ok {
		p, e := t.entry(slot)
		switch {
		case e.state == held:
			if e.at >= at-int64(Punctual) {
				e.start, e.group = at, group
				failed, old := e.flags&flagFailed != 0, old || e.flags&flagOld != 0
				out = t.judge(e, e.at, failed, old)
				t.finish(m, slot, e.at, failed, old)
				return out
			}
		case e.state == closed: // new work
		case at <= t.deadline(e):
			t.repeated++
			return Outcome{}
		case e.state == open:
			t.expired++
			out = t.bad(e)
		}
		p.forget(e)
		t.tally(e, -1)
		begin(e, at, group, stage, old)
		p.due[slot%pageSize] = t.due(m, at, old)
		p.note(e)
		t.tally(e, 1)
		t.touch(m, slot)
		return out
	}
	if !t.makeRoom(m) {
		t.untracked++
		return Outcome{Untracked: true}
	}
	e := entry{lo: h.Lo, hi: h.Hi}
	begin(&e, at, group, stage, old)
	t.add(m, key, e, t.due(m, at, old))
	return Outcome{}
}

// begin makes e open work.
func begin(e *entry, at int64, group uint32, stage uint16, old bool) {
	e.start, e.at, e.group, e.stage, e.state, e.flags = at, at, group, stage, open, 0
	if old {
		e.flags = flagOld
	}
}

// End is an end event of the time at, or one that says that the work failed.
//
// An end that comes more than Punctual before the start belongs to earlier work and is ignored.
func (t *Table) End(m Moment, key []byte, at int64, failed, old bool) Outcome {
	h := Hash(key)
	slot, ok := t.find(h)
	if !ok {
		t.hold(m, h, key, at, failed, old)
		return Outcome{}
	}
	p, e := t.entry(slot)
	if e.state == closed && (at < e.start-int64(Punctual) || !e.after(at, failed)) {
		t.remove(m, slot) // the end may be of other work with the same key
		t.hold(m, h, key, at, failed, old)
		return Outcome{}
	}
	if e.state == held {
		// Of two ends one counts, unless they cannot be of the same work. Then the later one is of work yet to start.
		t.repeated++
		switch {
		case at-e.at > t.within:
			setEnd(e, at, failed, old)
			p.due[slot%pageSize] = t.holdUntil(m)
		case t.ambiguous && e.at-at <= t.within && e.after(at, failed):
			setEnd(e, at, failed, old || e.flags&flagOld != 0)
		default:
			return Outcome{}
		}
		t.touch(m, slot)
		return Outcome{}
	}
	if at < e.start-int64(Punctual) {
		t.unmatched++
		return Outcome{}
	}
	old = old || e.flags&flagOld != 0
	out := t.judge(e, at, failed, old)
	t.finish(m, slot, at, failed, old)
	return out
}

// after reports whether the end of e, which is held or closed, gives way to another one. It does not depend on which of
// the two arrived first.
func (e *entry) after(at int64, failed bool) bool {
	return at < e.at || at == e.at && failed && e.flags&flagFailed == 0
}

// finish remembers or forgets work that ended at a time.
func (t *Table) finish(m Moment, slot uint32, at int64, failed, old bool) {
	if !t.ambiguous {
		t.remove(m, slot)
		return
	}
	p, e := t.entry(slot)
	p.forget(e)
	t.tally(e, -1)
	setEnd(e, at, failed, old)
	e.state, e.stage = closed, 0
	t.tally(e, 1)
	p.due[slot%pageSize] = minuteOf(m.Record + int64(EndMemory))
	t.touch(m, slot)
}

// verdict is where work counts that ended at a time.
func (t *Table) verdict(e *entry, at int64, failed bool) Outcome {
	out := Outcome{Counted: true, Bad: failed, Group: e.group, At: at}
	if d := t.deadline(e); at > d {
		out.Bad, out.At = true, d
	}
	return out
}

// judge is the outcome of work that ends, or that has ended by another event.
func (t *Table) judge(e *entry, at int64, failed, old bool) Outcome {
	out := t.verdict(e, at, failed)
	out.Old = old
	var was Outcome
	switch e.state {
	case overdue:
		was = t.bad(e)
	case closed:
		t.repeated++
		was = t.verdict(e, e.at, e.flags&flagFailed != 0)
	default:
		t.ended++
		return out
	}
	if out.At == was.At && out.Bad == was.Bad {
		return Outcome{} // it has counted so
	}
	if e.state == overdue {
		t.corrected++
	}
	out.Undo, out.UndoBad, out.UndoAt = true, was.Bad, was.At
	return out
}

// bad is the outcome of open work whose deadline has passed.
func (t *Table) bad(e *entry) Outcome {
	d := t.deadline(e)
	return Outcome{Counted: true, Bad: true, Old: e.flags&flagOld != 0, Group: e.group, At: d}
}

// hold keeps an end until its start comes.
func (t *Table) hold(m Moment, h xxh3.Uint128, key []byte, at int64, failed, old bool) {
	if !t.makeRoom(m) {
		t.unmatched++
		return
	}
	e := entry{lo: h.Lo, hi: h.Hi, state: held}
	setEnd(&e, at, failed, old)
	t.add(m, key, e, t.holdUntil(m))
}

// setEnd notes an end that is held.
func setEnd(e *entry, at int64, failed, old bool) {
	e.at, e.flags = at, 0
	if failed {
		e.flags |= flagFailed
	}
	if old {
		e.flags |= flagOld
	}
}

// Stage says that the work is at a stage since the time at. A later time wins, whatever arrives first.
func (t *Table) Stage(m Moment, key []byte, at int64, stage uint16) {
	slot, ok := t.find(Hash(key))
	if !ok {
		return
	}
	_, e := t.entry(slot)
	if !e.active() || at < e.at || stage == e.stage && at == e.at {
		return
	}
	t.tally(e, -1)
	e.at, e.stage = at, stage
	t.tally(e, 1)
	t.touch(m, slot)
}

// due is the minute after which work that begins now, at the time at, is overdue.
//
// A start that arrives late moves it: the end can be as late as its start. That of a backfill does not. Its end is in
// the same backfill, or there is none.
func (t *Table) due(m Moment, at int64, old bool) uint32 {
	if old {
		return minuteOf(max(at+t.within, m.Record) + int64(Grace))
	}
	return minuteOf(max(at, m.Record-int64(Punctual)) + t.within + int64(Grace))
}

// holdUntil is the last minute for which an end that comes now is held.
func (t *Table) holdUntil(m Moment) uint32 { return minuteOf(m.Record + t.within + int64(Memory)) }

// minuteOf is the minute since 1970 of a time. Times before that, and after the year 10000, are kept inside.
func minuteOf(ns int64) uint32 { return uint32(max(0, ns) / minute) }

// Advance lets time pass. Work whose deadline passes is given to each, in the order of slots. It looks at all deadlines
// once in a minute of record time, and costs a comparison otherwise.
func (t *Table) Advance(m Moment, each func(Outcome)) {
	now := minuteOf(m.Record - m.Lag)
	if now <= t.minute {
		return
	}
	t.minute = now
	for n, p := range t.pages {
		if p.n == 0 {
			continue
		}
		for i := range p.due {
			if p.due[i] >= now || p.entries[i].state == vacant {
				continue
			}
			slot, e := uint32(n*pageSize+i), &p.entries[i]
			if e.state != open {
				t.remove(m, slot)
				continue
			}
			t.expired++
			out := t.bad(e)
			t.tally(e, -1)
			e.state = overdue
			t.tally(e, 1)
			p.due[i] = now + uint32(int64(Memory)/minute)
			t.touch(m, slot)
			each(out)
		}
	}
	t.trim()
}

// trim releases memory after a peak. One empty page stays, so that a table at the edge of a page does not come and go.
func (t *Table) trim() {
	n := len(t.pages)
	for n > 1 && t.pages[n-1].n == 0 && t.pages[n-2].n == 0 {
		n--
		t.room[n/64] &^= 1 << (n % 64)
	}
	clear(t.pages[n:])
	t.pages = t.pages[:n]
	if size := t.size(); len(t.index.slots) > max(minIndex, 16*size) {
		t.index.resize(size)
	}
}

// makeRoom makes room for one more entry, if there is none, by forgetting what is only remembered, the oldest first:
// overdue or closed work, and ends that are held. It fails if all entries are open.
//
// It forgets the oldest sixteenth of the time that is remembered, or everything if that frees too little, so that a
// flood of keys costs no more than a look at each entry in some hundred calls.
func (t *Table) makeRoom(m Moment) bool {
	if t.size() < t.max {
		return true
	}
	if t.overdue+t.held+t.closed == 0 {
		return false
	}
	lo, hi := ^uint32(0), uint32(0)
	t.remembered(func(_, due uint32) { lo, hi = min(lo, due), max(hi, due) })
	before := t.size()
	t.displace(m, lo+(hi-lo)/16)
	if before-t.size() < t.max/256 {
		t.displace(m, hi)
	}
	return t.size() < t.max
}

// displace forgets what is remembered up to a minute.
func (t *Table) displace(m Moment, upTo uint32) {
	t.remembered(func(slot, due uint32) {
		if due <= upTo {
			if _, e := t.entry(slot); e.state != closed {
				t.displaced++
			}
			t.remove(m, slot)
		}
	})
}

// remembered visits what is not open.
func (t *Table) remembered(visit func(slot, due uint32)) {
	for n, p := range t.pages {
		for i := range p.due {
			if s := p.entries[i].state; s >= overdue {
				visit(uint32(n*pageSize+i), p.due[i])
			}
		}
	}
}
