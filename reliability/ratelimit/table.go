package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// TableOptions are those of a Table.
type TableOptions struct {
	// MaxCounters bounds the memory: each takes about 85 bytes once it is needed.
	// 16 to 100,000,000; default 1,000,000.
	MaxCounters int
	// Scale multiplies all limits and bursts, which stay at least 1: a table that stands
	// in for a store shared by six instances may have 1.0/6. Above 0, at most 1;
	// default 1.
	Scale   float64
	Metrics *Metrics // nil: not exported
}

func (o *TableOptions) applyDefaults() {
	if o.MaxCounters == 0 {
		o.MaxCounters = 1_000_000
	}
	if o.Scale == 0 {
		o.Scale = 1
	}
}

func (o *TableOptions) validate() error {
	var errs []error
	if o.MaxCounters < 16 || o.MaxCounters > 100_000_000 {
		errs = append(errs, fmt.Errorf("rate limits: invalid number of counters %d (want 16 to 100,000,000)", o.MaxCounters))
	}
	if !(o.Scale > 0 && o.Scale <= 1) {
		errs = append(errs, fmt.Errorf("rate limits: invalid scale %v (want more than 0, at most 1)", o.Scale))
	}
	return errors.Join(errs...)
}

// Table is a Store in this process. Memory is bounded: when all counters are in use,
// one that remembers few events is evicted. It is safe for concurrent use.
type Table struct {
	o TableOptions

	mu     sync.Mutex
	index  index
	meters []meter // by Charge.Rule
	takes  uint64

	// The table's time moves forward with the time that Take is given. When that goes back, the
	// table's time stops until it is reached again.
	at   int64 // Unix nanoseconds, if it never did
	prev time.Time

	told uint64 // evictions that the metrics know of
}

var _ Store = (*Table)(nil)

// NewTable checks the options and makes an empty table.
func NewTable(o TableOptions) (*Table, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Table{o: o, index: newIndex(o.MaxCounters)}, nil
}

// clockSlack is how far callers on several goroutines may be apart.
const clockSlack = time.Second

func (t *Table) clock(now time.Time) {
	if t.takes == 1 {
		t.at, t.prev = now.UnixNano(), now
		return
	}
	switch d := now.Sub(t.prev); {
	case d > 0:
		t.at += int64(d)
		t.prev = now
	case d < -clockSlack:
		t.prev = now
	}
}

// Take implements Store. It never fails.
func (t *Table) Take(_ context.Context, now time.Time, batches []*Tickets) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takes++
	t.clock(now)
	before := t.index.inserted
	for _, b := range batches {
		for i := range b.List {
			if k := &b.List[i]; !k.Skip && !k.Exempt {
				t.take(k, b.charges[k.first:k.end])
			}
		}
	}
	t.index.sweep(t.at, 8+2*int(t.index.inserted-before))
	if m := t.o.Metrics; m != nil {
		m.contexts.Set(float64(t.index.count))
		if n := t.index.evicted - t.told; n > 0 {
			m.evictions.Add(int(n))
			t.told = t.index.evicted
		}
	}
	return nil
}

// Peek implements Store. It takes from a table that has copies of the counters.
func (t *Table) Peek(ctx context.Context, now time.Time, tickets *Tickets) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	copied := Table{
		o: TableOptions{Scale: t.o.Scale}, index: newIndex(len(tickets.charges) + 16), takes: t.takes, at: t.at, prev: t.prev,
	}
	for i := range tickets.charges {
		key := tickets.charges[i].Key
		if n := t.index.find(key); n >= 0 && copied.index.find(key) < 0 {
			*copied.index.at(copied.index.insert(key, t.at)) = *t.index.at(n)
		}
	}
	return copied.Take(ctx, now, []*Tickets{tickets})
}

func (t *Table) take(k *Ticket, charges []Charge) {
	var at [16]int32
	var over uint16
	var wait time.Duration
	for i := range charges {
		c := &charges[i]
		m := t.meter(c)
		n := m.hint
		if n < 0 || t.index.at(n).key != c.Key || t.index.at(n).shape == unused {
			n = t.index.find(c.Key)
		}
		at[i] = n
		var used uint64
		if n >= 0 {
			s := t.index.at(n)
			if used = m.used(s); used >= uint64(m.cap) {
				over |= 1 << i
				wait = max(wait, m.wait(s))
			}
			m.hint = n
		}
		c.Cap, c.Left = m.cap, uint32(uint64(m.cap)-min(used, uint64(m.cap)))
	}
	k.Over, k.Wait = over, wait
	if over != 0 {
		return
	}
	for i := range charges {
		c := &charges[i]
		m := t.meter(c)
		n := at[i]
		if n < 0 || t.index.at(n).key != c.Key || t.index.at(n).shape == unused { // one of its own may have made way
			n = t.index.insert(c.Key, t.at)
			m.begin(t.index.at(n), c.Key)
			m.hint = n
		}
		m.charge(t.index.at(n))
		c.Left--
	}
}

func (t *Table) meter(c *Charge) *meter {
	if int(c.Rule) >= len(t.meters) {
		t.meters = append(t.meters, make([]meter, int(c.Rule)+1-len(t.meters))...)
	}
	m := &t.meters[c.Rule]
	if m.limit != c.Limit {
		m.set(c.Limit, t.o.Scale)
	}
	if m.take != t.takes {
		m.tick(t.takes, t.at)
	}
	return m
}
