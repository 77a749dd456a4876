package shared

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// A call of the script may block Redis for a few milliseconds. It takes, in units of about
// 0.7 us, the cost of reading and writing its counters, and, when limits are exceeded, of its runs.
const (
	costKey    = 8
	costRun    = 1
	costCharge = 1
	costMost   = 6000
)

// group holds the calls of the script for the tickets of one Take. It has memory of its own, since
// a call may continue after Take has returned.
type group struct {
	chunks []*chunk // the first n are in use
	n      int
	index  map[ratelimit.Key]uint32 // counters of the current chunk, from 0
	refs   []uint32                 // of the current ticket
}

// chunk is one call of the script.
type chunk struct {
	keys   []ratelimit.Key
	uses   []use
	limits []*ratelimit.Limit
	plans  []plan
	runs   []run
	refs   []uint32 // counters of the runs
	cost   int

	names []string
	text  []byte
	args  [3][]byte

	room  []uint64 // of the answer: of each counter, then those that refused an event
	waits []time.Duration
}

type use struct {
	limit  int // in chunk.limits
	wanted uint64
}

// run is a number of tickets in a row that are charged to the same counters.
type run struct {
	tickets    int
	first, end int // in chunk.refs
}

func newGroup() *group { return &group{index: map[ratelimit.Key]uint32{}} }

func (g *group) reset() {
	for _, c := range g.chunks[:g.n] {
		clear(c.limits) // a policy that is gone must not be kept
	}
	g.n = 0
}

// charged reports whether a ticket takes part.
func charged(t *ratelimit.Tickets, i int) bool {
	k := &t.List[i]
	return !k.Skip && !k.Exempt && len(t.Charges(i)) > 0
}

func (g *group) fill(batches []*ratelimit.Tickets) error {
	for _, t := range batches {
		for i := range t.List {
			t.List[i].Over, t.List[i].Wait = 0, 0
			if !charged(t, i) {
				continue
			}
			if err := g.add(t.Charges(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *group) open() *chunk {
	if g.n == len(g.chunks) {
		g.chunks = append(g.chunks, &chunk{})
	}
	c := g.chunks[g.n]
	g.n++
	clear(g.index)
	c.keys, c.uses, c.limits, c.plans = c.keys[:0], c.uses[:0], c.limits[:0], c.plans[:0]
	c.runs, c.refs, c.cost = c.runs[:0], c.refs[:0], 0
	return c
}

// add adds one ticket to the current chunk, or to a new one if that is full or knows a
// counter of the ticket under another limit, as after a reload.
func (g *group) add(charges []ratelimit.Charge) error {
	if len(charges) > 16 {
		return fmt.Errorf("%d rate limits for one event exceed the maximum of 16", len(charges))
	}
	var c *chunk
	if g.n > 0 {
		c = g.chunks[g.n-1]
	}
	if c == nil || c.cost >= costMost || !g.fits(c, charges) {
		c = g.open()
	}
	g.refs = g.refs[:0]
	for j := range charges {
		i, err := g.counter(c, &charges[j])
		if err != nil {
			return err
		}
		c.uses[i].wanted++
		g.refs = append(g.refs, i)
	}
	if n := len(c.runs); n > 0 {
		if r := &c.runs[n-1]; slices.Equal(c.refs[r.first:r.end], g.refs) {
			r.tickets++
			return nil
		}
	}
	first := len(c.refs)
	c.refs = append(c.refs, g.refs...)
	c.runs = append(c.runs, run{tickets: 1, first: first, end: len(c.refs)})
	c.cost += costRun + costCharge*len(charges)
	return nil
}

func (g *group) fits(c *chunk, charges []ratelimit.Charge) bool {
	for j := range charges {
		if i, ok := g.index[charges[j].Key]; ok && c.limits[c.uses[i].limit] != charges[j].Limit {
			return false
		}
	}
	return true
}

func (g *group) counter(c *chunk, charge *ratelimit.Charge) (uint32, error) {
	if i, ok := g.index[charge.Key]; ok {
		return i, nil
	}
	limit := slices.Index(c.limits, charge.Limit)
	if limit < 0 {
		p, err := planOf(charge.Limit)
		if err != nil {
			return 0, err
		}
		limit = len(c.limits)
		c.limits = append(c.limits, charge.Limit)
		c.plans = append(c.plans, p)
	}
	i := uint32(len(c.keys))
	c.keys = append(c.keys, charge.Key)
	c.uses = append(c.uses, use{limit: limit})
	c.cost += costKey
	g.index[charge.Key] = i
	return i, nil
}

// seal makes keys and arguments of the chunk.
func (c *chunk) seal(prefix string) {
	c.text = c.text[:0]
	for i, k := range c.keys {
		salt := c.plans[c.uses[i].limit].salt
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], k.Hi^salt)
		binary.BigEndian.PutUint64(b[8:], k.Lo^salt)
		c.text = append(append(c.text, prefix...), ":l:"...)
		c.text = hex.AppendEncode(c.text, b[:])
	}
	all := string(c.text)
	each := len(prefix) + 3 + 32
	c.names = c.names[:0]
	for i := range c.keys {
		c.names = append(c.names, all[i*each:(i+1)*each])
	}

	b := appendArray(c.args[0][:0], 5*len(c.plans))
	for i := range c.plans {
		b = c.plans[i].append(b)
	}
	c.args[0] = b

	b = appendArray(c.args[1][:0], 2*len(c.uses))
	for i := range c.uses {
		b = appendUint(appendUint(b, uint64(c.uses[i].limit)), c.uses[i].wanted)
	}
	c.args[1] = b

	b = appendArray(c.args[2][:0], 2*len(c.runs)+len(c.refs))
	for i := range c.runs {
		r := &c.runs[i]
		b = appendUint(appendUint(b, uint64(r.tickets)), uint64(r.end-r.first))
		for _, k := range c.refs[r.first:r.end] {
			b = appendUint(b, uint64(k)+1)
		}
	}
	c.args[2] = b
}

// answer applies the result of the script.
func (c *chunk) answer(s string) (err error) {
	if c.room, err = parseUints(c.room[:0], s); err != nil {
		return err
	}
	n := len(c.keys)
	if len(c.room) < n || (len(c.room)-n)%2 != 0 {
		return fmt.Errorf("%w: %d numbers for %d counters", errAnswer, len(c.room), n)
	}
	c.waits = slices.Grow(c.waits[:0], n)[:n]
	clear(c.waits)
	refused := c.room[n:]
	for i := 0; i < len(refused); i += 2 {
		if refused[i] < 1 || refused[i] > uint64(n) {
			return fmt.Errorf("%w: counter %d of %d", errAnswer, refused[i], n)
		}
		c.waits[refused[i]-1] = time.Duration(min(refused[i+1], 1<<50)) * time.Microsecond
	}
	c.room = c.room[:n]
	return nil
}

// decide finds out which tickets passed, as the script did, and writes it into the tickets.
func (g *group) decide(batches []*ratelimit.Tickets) {
	at, n, used := 0, 0, 0 // chunk, run, tickets of the run
	for _, t := range batches {
		for i := range t.List {
			if !charged(t, i) {
				continue
			}
			c := g.chunks[at]
			r := &c.runs[n]
			c.decide(&t.List[i], t.Charges(i), c.refs[r.first:r.end])
			if used++; used == r.tickets {
				used = 0
				if n++; n == len(c.runs) {
					n, at = 0, at+1
				}
			}
		}
	}
}

func (c *chunk) decide(k *ratelimit.Ticket, charges []ratelimit.Charge, refs []uint32) {
	k.Over, k.Wait = 0, 0
	for j, ref := range refs {
		if c.room[ref] == 0 {
			k.Over |= 1 << j
			k.Wait = max(k.Wait, c.waits[ref])
		}
	}
	for j, ref := range refs {
		if k.Over == 0 && c.room[ref] > 0 {
			c.room[ref]--
		}
		charges[j].Cap = uint32(min(c.plans[c.uses[ref].limit].units, math.MaxUint32))
		charges[j].Left = uint32(min(c.room[ref], math.MaxUint32))
	}
}
