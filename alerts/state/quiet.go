package state

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Bounds of what is remembered about senders.
const (
	quietSlot  = 30 * time.Minute // also how long a sender must be silent
	quietSlots = 7*48 + 2         // a week, and the slots at both its ends
	maxSenders = 2000             // types of all services together; more are not watched
)

// quiet remembers how many events of each type came in every half hour of the
// last week, so that a silence can be told from a quiet night.
type quiet struct {
	list  []*sender // by service, then type
	index map[senderKey]*sender
	since time.Time // reports have come without a gap since then
	seen  map[senderKey]uint64
}

type senderKey struct{ service, typ string }

type sender struct {
	service, typ string
	total        uint64    // as of the last report
	changed      time.Time // when the total last grew, or since when it is known
	slot         int64     // number of the newest slot since the epoch
	slots        [quietSlots]uint32
	known        int // slots that were watched from end to end, the newest not counted
}

// observe takes the counts of a report.
func (q *quiet) observe(st *step) {
	if q.index == nil {
		q.index, q.seen = map[senderKey]*sender{}, map[senderKey]uint64{}
	}
	if st.gap {
		q.since = st.now
	}
	clear(q.seen)
	for i := range st.r.Traffic {
		t := &st.r.Traffic[i]
		q.seen[senderKey{t.Service, t.Type}] += t.Count
	}
	changed := false
	for key, n := range q.seen {
		s := q.index[key]
		if s == nil {
			if len(q.index) >= maxSenders {
				continue
			}
			s = &sender{service: key.service, typ: key.typ, total: n, changed: st.now, slot: slotOf(st.now)}
			if slotOf(q.since) < s.slot {
				// The slot before was watched, and empty. Earlier ones stay unknown, or
				// last week's emptiness would hide yesterday's traffic.
				s.known = 1
			}
			q.index[key] = s
			changed = true
		}
		s.count(n, st.now)
	}
	for key := range q.index {
		if _, ok := q.seen[key]; !ok { // the service is gone from the spec
			delete(q.index, key)
			changed = true
		}
	}
	if changed {
		q.sort()
	}
}

func (q *quiet) sort() {
	q.list = q.list[:0]
	for _, s := range q.index {
		q.list = append(q.list, s)
	}
	slices.SortFunc(q.list, func(a, b *sender) int {
		return cmp.Or(strings.Compare(a.service, b.service), strings.Compare(a.typ, b.typ))
	})
}

func slotOf(t time.Time) int64 { return t.Unix() / int64(quietSlot/time.Second) }

// count moves on to the present slot and adds what came since the last report.
func (s *sender) count(total uint64, now time.Time) {
	slot := slotOf(now)
	if slot-s.slot >= quietSlots {
		s.slots, s.known, s.slot = [quietSlots]uint32{}, 0, slot
	}
	for s.slot < slot {
		s.slot++
		s.slots[s.slot%quietSlots] = 0
		s.known = min(s.known+1, quietSlots-1)
	}
	if total > s.total {
		n := &s.slots[slot%quietSlots]
		*n = uint32(min(uint64(*n)+total-s.total, 1<<32-1))
		s.changed = now
	}
	s.total = total
}

// before estimates how many events came in the half hour that ended ago before
// now, from the two slots that it touches; ok is false if it was not watched.
func (s *sender) before(now time.Time, ago time.Duration) (n float64, ok bool) {
	end := now.Add(-ago)
	last := slotOf(end)
	back := s.slot - last
	if back < 1 || back+1 > int64(s.known) || back+1 >= quietSlots {
		return 0, false
	}
	share := float64(end.Unix()%int64(quietSlot/time.Second)) / quietSlot.Seconds()
	at := func(slot int64) float64 { return float64(s.slots[slot%quietSlots]) }
	return share*at(last) + (1-share)*at(last-1), true
}

// silent evaluates whether a sender has stopped: nothing in half an hour that was
// busy a week ago, or yesterday where there is no last week.
func (q *quiet) silent(s *sender, c *condition, now time.Time) (verdict, float64) {
	if now.Sub(s.changed) < quietSlot {
		return no, 0
	}
	const day = 24 * time.Hour
	usual, ok := s.before(now, 7*day)
	if !ok {
		usual, ok = s.before(now, day)
	}
	if !ok {
		return no, 0 // nothing is known to be missed
	}
	if usual < float64(c.MinEvents) {
		return no, usual
	}
	if now.Sub(q.since) < quietSlot {
		return unknown, usual
	}
	return yes, usual
}
