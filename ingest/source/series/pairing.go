package series

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/internal/binread"
)

// pairing is how long events of two counters wait for those of the other one, which may come in another request.
const pairing = 15 * time.Second

// pending are events of one of two counters, which wait for those of the other one.
type pending struct {
	sum
	since time.Time
}

// loadPending replaces what waits by what the log has.
func (r *Receiver) loadPending(now time.Time) {
	before := r.pending
	r.pending = map[cell]*pending{}
	for _, u := range r.units {
		if u.plan.inside {
			continue
		}
		r.o.Counters.Notes(u.plan.class, func(_ counter.Key, text string) {
			if c, x, ok := readPending(u.plan, text); ok {
				x.since = now
				if was := before[c]; was != nil {
					x.since = was.since
				}
				r.pending[c] = x
			}
		})
	}
}

// pair takes the events of units with two counters out of the sums, until they have waited for those of the other
// counter, and returns those that have. Those that were added in gaps wait for a batch of such.
func (r *Receiver) pair(now time.Time) (due []cell) {
	changed := map[cell]bool{}
	for c, x := range r.sums {
		if c.plan.inside {
			continue
		}
		to := r.pending[c]
		if to == nil {
			to = &pending{sum: sum{values: x.values}, since: now}
			r.pending[c] = to
		}
		to.total, to.part, changed[c] = to.total+x.total, to.part+x.part, true
		delete(r.sums, c)
	}
	for c, x := range r.pending {
		switch {
		case c.inGap == r.inGaps && now.Sub(x.since) >= pairing:
			r.matchGap(&c, x)
			due = append(due, c)
			r.sums[c] = &x.sum
			r.batch.Note(c.plan.class, c.noteKey(&r.hash), "")
		case changed[c]:
			r.batch.Note(c.plan.class, c.noteKey(&r.hash), c.note(x))
		}
	}
	return due
}

// matchGap gives an SLO's events of one counter to those of the other one if a gap stands between only one of them: a
// start forgets when a counter had its last sample that added nothing.
func (r *Receiver) matchGap(c *cell, x *pending) {
	for o, y := range r.pending {
		if o.inGap == c.inGap || o.plan != c.plan || o.slo != c.slo || o.group != c.group || !x.lend(y) && !y.lend(x) {
			continue
		}
		note := ""
		if y.total == 0 && y.part == 0 {
			delete(r.pending, o)
		} else {
			note = o.note(y)
		}
		r.batch.Note(o.plan.class, o.noteKey(&r.hash), note)
	}
}

// lend gives what the part has beyond the total to another one that has room for it.
func (p *pending) lend(to *pending) bool {
	if p.part <= p.total || to.total <= to.part {
		return false
	}
	n := min(p.part-p.total, to.total-to.part)
	p.part, to.part = p.part-n, to.part+n
	return true
}

// gapsDue reports whether events that were added in gaps have waited long enough.
func (r *Receiver) gapsDue(now time.Time) bool {
	for c, x := range r.pending {
		if c.inGap && now.Sub(x.since) >= pairing {
			return true
		}
	}
	return false
}

func (c *cell) noteKey(h *xxh3.Hasher) counter.Key {
	h.Reset()
	of := c.plan.SLOs[c.slo]
	_, _ = fmt.Fprintf(h, "%d %v %q %q %q", c.at, c.inGap, of.Service, of.Type, c.group)
	return h.Sum128()
}

func (c *cell) note(x *pending) string {
	of := c.plan.SLOs[c.slo]
	at := uint64(c.at/int64(time.Second)) << 1
	if c.inGap {
		at++
	}
	b := binary.AppendUvarint(nil, at)
	b = binary.AppendUvarint(binary.AppendUvarint(b, x.total), x.part)
	return string(binread.AppendTexts(b, append([]string{of.Service, of.Type}, x.values...)))
}

func readPending(p *plan, note string) (c cell, x *pending, ok bool) {
	in := binread.New([]byte(note))
	at := in.Uint()
	c.plan, c.at, c.inGap = p, int64(at>>1)*int64(time.Second), at&1 != 0
	x = &pending{sum: sum{total: in.Uint(), part: in.Uint()}}
	texts := in.Texts()
	if !in.Done() || len(texts) < 2 {
		return c, nil, false
	}
	x.values = texts[2:]
	c.group = strings.Join(x.values, "\xff")
	c.slo = slices.IndexFunc(p.SLOs, func(s SLO) bool {
		return s.Service == texts[0] && s.Type == texts[1] && len(s.GroupBy) == len(x.values)
	})
	return c, x, c.slo >= 0
}
