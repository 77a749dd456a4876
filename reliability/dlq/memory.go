package dlq

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// MemoryOptions say how much is kept in memory.
type MemoryOptions struct {
	MaxEntries int              // 10,000
	Now        func() time.Time // time.Now
	Metrics    *Metrics
}

// Memory is a Store that ends with the process.
type Memory struct {
	o MemoryOptions

	mu      sync.Mutex
	closed  bool
	next    uint64
	byID    map[string]*memoryItem
	order   []*memoryItem // by ascending number
	gone    *window
	bytes   int64
	tallies tallies
}

type memoryItem struct {
	n     uint64
	entry Entry
	size  int64
	key   tallyKey
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory(o MemoryOptions) (*Memory, error) {
	if o.MaxEntries < 0 {
		return nil, fmt.Errorf("dead letters in memory: invalid maximum of %d entries (must not be negative)", o.MaxEntries)
	}
	o.MaxEntries = cmp.Or(o.MaxEntries, 10_000)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Metrics = o.Metrics.orNew()
	return &Memory{o: o, byID: map[string]*memoryItem{}, gone: newWindow(goneIDs), tallies: tallies{}}, nil
}

func (m *Memory) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	return nil
}

// Save implements Store.
func (m *Memory) Save(ctx context.Context, entries []Entry) error {
	kept, invalid := prepare(entries, m.o.Now())
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	defer m.observe()
	for _, p := range kept {
		e := *p.Entry
		if m.byID[e.ID] != nil || m.gone.has(hashID(e.ID)) {
			continue
		}
		if len(m.byID) >= m.o.MaxEntries {
			return fmt.Errorf("%w: %d entries", ErrFull, m.o.MaxEntries)
		}
		e.Event, e.Raw = slices.Clone(e.Event), slices.Clone(e.Raw)
		m.next++
		item := &memoryItem{m.next, e, int64(len(p.body)), m.tallies.admit(keyOf(&e))}
		m.byID[e.ID] = item
		m.order = append(m.order, item)
		m.bytes += item.size
		m.tallies.add(item.key, 1)
		m.o.Metrics.saved(e.Origin, e.Reason, 1)
	}
	return m.o.Metrics.refused(len(entries)-len(kept), invalid)
}

// List implements Store.
func (m *Memory) List(ctx context.Context, q Query) (Page, error) {
	q, at, err := q.normal()
	if err != nil {
		return Page{}, err
	}
	if err := m.lock(ctx); err != nil {
		return Page{}, err
	}
	defer m.mu.Unlock()
	page := Page{Entries: []Entry{}}
	last := uint64(0)
	for i := range m.order {
		item := m.order[i]
		if q.Newest {
			item = m.order[len(m.order)-1-i]
		}
		if at.passed(item.n, q.Newest) || !q.Match(&item.entry) {
			continue
		}
		if len(page.Entries) == q.Limit {
			page.Next = cursor(last, q.Newest)
			break
		}
		page.Entries = append(page.Entries, item.copy())
		last = item.n
	}
	return page, nil
}

func (i *memoryItem) copy() Entry {
	e := i.entry
	e.Event, e.Raw = slices.Clone(e.Event), slices.Clone(e.Raw)
	return e
}

// Get implements Store.
func (m *Memory) Get(ctx context.Context, id string) (Entry, error) {
	if err := m.lock(ctx); err != nil {
		return Entry{}, err
	}
	defer m.mu.Unlock()
	item := m.byID[id]
	if item == nil {
		return Entry{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return item.copy(), nil
}

// Discard implements Store.
func (m *Memory) Discard(ctx context.Context, ids []string) (int, error) { return m.remove(ctx, ids) }

// Replayed implements Store.
func (m *Memory) Replayed(ctx context.Context, ids []string) (int, error) { return m.remove(ctx, ids) }

func (m *Memory) remove(ctx context.Context, ids []string) (n int, err error) {
	if err := m.lock(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	for _, id := range ids {
		if item := m.byID[id]; item != nil {
			m.drop(item)
			n++
		}
	}
	m.sweep()
	return n, nil
}

// drop forgets an item; sweep takes it out of the order.
func (m *Memory) drop(item *memoryItem) {
	delete(m.byID, item.entry.ID)
	m.gone.add(hashID(item.entry.ID))
	m.bytes -= item.size
	m.tallies.add(item.key, -1)
	item.n = 0
}

func (m *Memory) sweep() {
	m.order = slices.DeleteFunc(m.order, func(item *memoryItem) bool { return item.n == 0 })
	m.observe()
}

// Failed implements Store.
func (m *Memory) Failed(ctx context.Context, failures []Failure) (n int, err error) {
	if err := m.lock(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	for _, failure := range failures {
		item := m.byID[failure.ID]
		if item == nil {
			continue
		}
		moved := *item
		m.next++
		moved.n, moved.entry = m.next, item.entry.failed(failure)
		item.n = 0
		m.byID[failure.ID] = &moved
		m.order = append(m.order, &moved)
		n++
	}
	m.sweep()
	return n, nil
}

// Stats implements Store.
func (m *Memory) Stats(ctx context.Context) (Stats, error) {
	if err := m.lock(ctx); err != nil {
		return Stats{}, err
	}
	defer m.mu.Unlock()
	s := m.tallies.stats()
	s.Backend, s.Bytes = "memory", m.bytes
	s.Oldest, s.Newest = m.span()
	return s, nil
}

// span is when the oldest and the newest entry were saved.
func (m *Memory) span() (oldest, newest time.Time) {
	for _, item := range m.order {
		if item.n == 0 {
			continue
		}
		if saved := item.entry.Saved; oldest.IsZero() || saved.Before(oldest) {
			oldest = saved
		}
		if item.entry.Saved.After(newest) {
			newest = item.entry.Saved
		}
	}
	return oldest, newest
}

func (m *Memory) observe() {
	oldest, _ := m.span()
	m.o.Metrics.holds(m.tallies.stats().ByOrigin, m.bytes, oldest)
}

// Purge implements Store.
func (m *Memory) Purge(ctx context.Context, before time.Time) (n int, err error) {
	if err := m.lock(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	for _, item := range m.order {
		if item.entry.Saved.Before(before) {
			m.drop(item)
			n++
		}
	}
	m.sweep()
	return n, nil
}

// Close implements Store.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
