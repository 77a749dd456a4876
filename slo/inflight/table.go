package inflight

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/zeebo/xxh3"
)

// This file holds the Table: its entries, where they are stored, and the counters by group and stage.

const (
	// Grace is how long after its deadline, in record time, work that has not ended is counted as bad.
	Grace = 2 * time.Minute
	// Punctual is how late a start event may arrive without moving the time at which its deadline passes. It is also by
	// how much the end of some work may seem to come before its start, when two hosts have different clocks.
	Punctual = time.Minute
	// Memory is how long overdue work is remembered for an end that was in time and arrives late. An end without a start
	// is held for the time that work may take and as long as this.
	Memory = 24 * time.Hour

	// EndMemory is how long ended work is remembered for an end that came before the one that decided it, and arrives
	// later.
	EndMemory = time.Hour

	// KeyBytes is how many bytes of a key are kept for people to read.
	KeyBytes = 31

	minute = int64(time.Minute)
)

// Options are what a Table is made for.
type Options struct {
	Within time.Duration // how long work may take; above 0
	Max    int           // most entries; above 0 and at most MaxEntries

	// Ambiguous means that work may have ends of both kinds. The earlier one decides, and a failure of two at the same
	// time. Without it the end that arrives first decides, and nothing is remembered of ended work.
	Ambiguous bool
}

// MaxEntries is the greatest Options.Max: ten million take about 1 GB.
const MaxEntries = 10_000_000

// Moment is the place in the log at which a call is made.
type Moment struct {
	Version uint64 // number of the call, rising; parts that it changes get it as their version
	Record  int64  // receive time of the record, Unix nanoseconds; never goes back
	Lag     int64  // by how many nanoseconds deadlines pass later, such as after a restart
}

// state says what an entry is.
type state uint8

const (
	vacant  state = iota
	open          // started and not ended; its deadline has not passed
	overdue       // counted as bad, remembered for an end that was in time
	held          // an end whose start has not come
	closed        // ended, remembered for an earlier end
)

// Flags of an entry.
const (
	flagOld    uint8 = 1 << iota // its start, or the held end, is no new traffic
	flagFailed                   // of a held end, and of the end that closed work
)

// entry is what is known of one key. It has no pointers.
type entry struct {
	lo, hi uint64 // hash of the key
	start  int64  // time of the start event, Unix nanoseconds; 0 if held
	at     int64  // time of the event that set the stage; if held or closed, time of the end
	group  uint32
	stage  uint16
	state  state
	flags  uint8
}

// active reports whether it is work that has not ended.
func (e *entry) active() bool { return e.state == open || e.state == overdue }

// keyText is the beginning of a key.
type keyText struct {
	n    uint8 // length of the key, 255 at most; 0 if it was erased
	text [KeyBytes]byte
}

const pageSize = 1024

// page is memory for some entries. due is apart from them, so that one pass over a million deadlines reads 4 MB.
type page struct {
	entries [pageSize]entry
	due     [pageSize]uint32 // the last minute (since 1970) in which the entry stays what it is
	keys    [pageSize]keyText
	used    [pageSize / 64]uint64 // bits of entries in use
	n       int

	// oldest is the earliest start of the page's work, if known; a cache, not part of the state.
	oldest int64
	known  bool
}

// Table tracks the work of one indicator.
//
// Entries lie in slots. A new one takes the lowest vacant slot, so where entries lie follows from the calls alone,
// whatever was restored in between.
type Table struct {
	within    int64
	max       int
	ambiguous bool

	pages    []*page
	room     []uint64 // a bit for each page that has a vacant slot
	index    index
	versions []uint64 // by part

	minute uint32 // deadlines of minutes before this one have passed
	groups []groupCounts
	figures
}

// figures are counters. Those that are cumulative are part of the state.
type figures struct {
	open, overdue, held, closed int

	ended, expired                                       uint64
	corrected, repeated, unmatched, untracked, displaced uint64
}

// groupCounts are how many entries a group has, by stage.
type groupCounts struct {
	total  uint32
	stages []StageCount
}

// StageCount is how much work is at a stage.
type StageCount struct {
	Open    uint32 // started and not ended, its deadline has not passed
	Overdue uint32 // counted as bad and still not ended
}

// New makes an empty Table.
func New(o Options) (*Table, error) {
	t := &Table{}
	if err := t.Configure(o); err != nil {
		return nil, err
	}
	t.index.reset(0)
	return t, nil
}

// Configure changes the options. Entries beyond a lower bound stay. Within may change only before the first call, or
// between RestorePart and FinishRestore: what has passed follows from it.
func (t *Table) Configure(o Options) error {
	if o.Within <= 0 {
		return errors.New("in flight: work must be allowed to take some time")
	}
	if o.Max <= 0 || o.Max > MaxEntries {
		return fmt.Errorf("in flight: at most %d entries is not between 1 and %d", o.Max, MaxEntries)
	}
	t.within, t.max, t.ambiguous = int64(o.Within), o.Max, o.Ambiguous
	return nil
}

// size is how many slots are in use.
func (t *Table) size() int { return t.open + t.overdue + t.held + t.closed }

// entry gives the entry of a slot and its page.
func (t *Table) entry(slot uint32) (*page, *entry) {
	p := t.pages[slot/pageSize]
	return p, &p.entries[slot%pageSize]
}

// deadline is the time up to which an end is in time.
func (t *Table) deadline(e *entry) int64 { return e.start + t.within }

// Hash is the hash by which a Table knows a key.
func Hash(key []byte) xxh3.Uint128 { return xxh3.Hash128(key) }

// find is the slot of a key.
func (t *Table) find(h xxh3.Uint128) (slot uint32, ok bool) {
	x := &t.index
	tag := uint32(h.Lo)
	for i := uint64(tag) & x.mask; ; i = (i + 1) & x.mask {
		s := x.slots[i]
		if s == 0 {
			return 0, false
		}
		if uint32(s>>32) != tag {
			continue
		}
		slot := uint32(s) - 1
		if _, e := t.entry(slot); e.lo == h.Lo && e.hi == h.Hi {
			return slot, true
		}
	}
}

// add stores a new entry in the lowest vacant slot. The caller has checked that there may be one more.
func (t *Table) add(m Moment, key []byte, e entry, due uint32) {
	slot := t.vacancy()
	p := t.pages[slot/pageSize]
	i := slot % pageSize
	p.used[i/64] |= 1 << (i % 64)
	if p.n++; p.n == pageSize {
		t.room[slot/pageSize/64] &^= 1 << (slot / pageSize % 64)
	}
	p.entries[i], p.due[i] = e, due
	k := &p.keys[i]
	k.n = uint8(min(len(key), 255))
	clear(k.text[copy(k.text[:], key):])
	t.index.put(uint32(e.lo), slot)
	p.note(&e)
	t.tally(&e, 1)
	t.touch(m, slot)
}

// vacancy is the lowest slot without an entry. It adds a page if all have one.
func (t *Table) vacancy() uint32 {
	for w, word := range t.room {
		if word != 0 {
			n := uint32(w*64 + bits.TrailingZeros64(word))
			for i, used := range t.pages[n].used {
				if used != ^uint64(0) {
					return n*pageSize + uint32(i*64+bits.TrailingZeros64(^used))
				}
			}
		}
	}
	t.addPage()
	return uint32(len(t.pages)-1) * pageSize
}

// addPage adds an empty page.
func (t *Table) addPage() {
	n := len(t.pages)
	t.pages = append(t.pages, new(page))
	if n/64 == len(t.room) {
		t.room = append(t.room, 0)
	}
	t.room[n/64] |= 1 << (n % 64)
	if n/partPages == len(t.versions) {
		t.versions = append(t.versions, 0)
	}
}

// remove makes the slot of an entry vacant.
func (t *Table) remove(m Moment, slot uint32) {
	p, e := t.entry(slot)
	i := slot % pageSize
	p.forget(e)
	t.tally(e, -1)
	t.index.remove(uint32(e.lo), slot)
	*e, p.due[i], p.keys[i] = entry{}, 0, keyText{}
	p.used[i/64] &^= 1 << (i % 64)
	p.n--
	t.room[slot/pageSize/64] |= 1 << (slot / pageSize % 64)
	t.touch(m, slot)
}

// touch notes that the part of a slot changes.
func (t *Table) touch(m Moment, slot uint32) { t.versions[slot/pageSize/partPages] = m.Version }

// Renew gives all parts a version, so that the table can go on in place of another one.
func (t *Table) Renew(version uint64) {
	for i := range t.versions {
		t.versions[i] = version
	}
}

// note keeps the oldest start of a page up to date after a change of an entry to e.
func (p *page) note(e *entry) {
	if p.known && e.active() && (p.oldest == 0 || e.start < p.oldest) {
		p.oldest = e.start
	}
}

// forget is note for an entry that goes away.
func (p *page) forget(e *entry) {
	if e.active() && e.start == p.oldest {
		p.known = false
	}
}

// Readable reports whether there is an entry of the key with a hash, and people can read the beginning of the key.
func (t *Table) Readable(h xxh3.Uint128) bool {
	slot, ok := t.find(h)
	return ok && t.pages[slot/pageSize].keys[slot%pageSize].n > 0
}

// Erase removes what people can read of the key with a hash. Its work goes on: the hash is enough to find its end.
func (t *Table) Erase(m Moment, h xxh3.Uint128) {
	if slot, ok := t.find(h); ok {
		t.pages[slot/pageSize].keys[slot%pageSize] = keyText{}
		t.touch(m, slot)
	}
}

// tally counts an entry in, or out.
func (t *Table) tally(e *entry, by int) {
	switch e.state {
	case open:
		t.open += by
	case overdue:
		t.overdue += by
	case held:
		t.held += by
		return
	}
	for int(e.group) >= len(t.groups) {
		t.groups = append(t.groups, groupCounts{})
	}
	g := &t.groups[e.group]
	if g.total += uint32(by); e.state == closed {
		t.closed += by
		return
	}
	for int(e.stage) >= len(g.stages) {
		g.stages = append(g.stages, StageCount{})
	}
	if s := &g.stages[e.stage]; e.state == open {
		s.Open += uint32(by)
	} else {
		s.Overdue += uint32(by)
	}
}

// Empty is a new table with the same options.
func (t *Table) Empty() *Table {
	out := &Table{within: t.within, max: t.max, ambiguous: t.ambiguous}
	out.index.reset(0)
	return out
}
