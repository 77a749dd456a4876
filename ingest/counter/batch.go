package counter

import (
	"cmp"
	"time"

	"github.com/sloengine/sloengine/internal/binread"
)

// Batch is the points of one request. From Begin until its position is applied to the Table, or dropped, no other Batch
// of the Table may be in use. It is for one goroutine.
type Batch struct {
	table    *Table
	classes  map[Key]*class // what is to be recorded
	added    int            // bytes
	last     Point
	record   bool // last is to be recorded
	count    uint64
	form     []byte // with count, what is recorded of last
	basis    uint64 // of the class of the last point; 0: the table does not have it
	was, now decoded
	body     []byte
	changed  []change
	sums     []byte
	observed []Observation
	notes    map[noteKey]string
	forget   []Key
}

// Observation is a time in which a source read everything that its counters said, in Unix nanoseconds.
type Observation struct {
	Source   string // "": there is none
	From, To int64
}

// Observed adds what the request observed. It is recorded with the points.
func (b *Batch) Observed(o Observation) { b.observed = append(b.observed, o) }

// Note records a text under a key of a class; "" removes it. It is for what a caller must know after a kill.
func (b *Batch) Note(class, key Key, text string) { b.notes[noteKey{class, key}] = text }

// Forget removes the counters of a class that has no Batch besides, and that needs them no more.
func (b *Batch) Forget(class Key) { b.forget = append(b.forget, class) }

// NewBatch returns an empty Batch.
func NewBatch(t *Table) *Batch {
	return &Batch{table: t, classes: map[Key]*class{}, notes: map[noteKey]string{}}
}

// Begin starts another request.
func (b *Batch) Begin() {
	clear(b.classes)
	clear(b.notes)
	b.added, b.record, b.observed = 0, false, b.observed[:0]
	b.forget = b.forget[:0]
}

// Observe replaces the counts of a point by what they add. Keep must follow if that is stored, or refused for good.
func (b *Batch) Observe(p *Point) Verdict {
	b.record, p.Reset = false, false
	if p.Start >= p.Time {
		p.Start = 0
	}
	if p.Began > p.Time {
		p.Began = 0
	}
	b.say(p, false)
	before, had, why := b.before(p)
	if !had || why != Adds {
		return why
	}
	began, _ := b.was.readTail()
	again := p.Began != 0 && (p.Began > before.time || began != 0 && p.Began-began > int64(time.Second))
	switch {
	case !again && p.less(&b.was.Counts):
	case p.Start != 0 || p.Began != 0 && !again && began != 0:
		return Decreased
	case !again && p.Time-before.time <= p.Lenient:
		return Stale
	default:
		p.Counts = Counts{Count: b.count, Buckets: p.Buckets[:0]}
		if r := binread.New(b.form); len(b.form) > 0 {
			p.readForm(&r)
		}
		p.Reset = true // it began again
	}
	b.last = *p
	return why
}

// say takes what is recorded of a point.
func (b *Batch) say(p *Point, held bool) {
	b.count, b.form = p.Count, b.form[:0]
	if p.Layout != 0 || p.Scale != 0 || p.Offset != 0 || len(p.Buckets) > 0 || p.Began != 0 || held {
		b.form = appendTail(p.appendForm(b.form), p.Began, held)
	}
}

// less replaces the counts by what was added since earlier ones. ok is false if they are no continuation.
func (p *Point) less(earlier *Counts) (ok bool) {
	if p.Since == nil {
		return p.subtract(earlier)
	}
	n, ok := p.Since(*earlier)
	if ok {
		p.Counts = Counts{Count: n}
	}
	return ok
}

// Knows reports whether there is a point of the counter.
func (b *Batch) Knows(p *Point) bool {
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	at := p.target()
	_, had := find(b.table.classes, p.Class, at).state(p.Series)
	if !had {
		_, had = find(b.classes, p.Class, at).state(p.Series)
	}
	return had
}

// before is the state of the point before, if it had one to compare with, and what that means for p. b.was has it, too.
func (b *Batch) before(p *Point) (s state, had bool, why Verdict) {
	t := b.table
	t.mu.Lock()
	defer t.mu.Unlock()
	at := p.target()
	known, recorded := find(t.classes, p.Class, at), find(b.classes, p.Class, at)
	b.basis = 0
	if c := t.classes[p.Class]; c != nil {
		b.basis = c.basis
	}
	if s, had = recorded.state(p.Series); !had {
		s, had = known.state(p.Series)
	}
	b.record = true
	switch {
	case had && p.Time <= s.time:
		return s, true, Stale
	case had:
		p.Before = max(s.time, s.alive, known.lastBefore(p.Time), recorded.lastBefore(p.Time))
		b.record = p.Always || b.count != s.count || string(b.form) != s.form || p.Time-known.lastSeen() > int64(touch)
		if p.Scraped && !b.record {
			known.note(p)
		}
		b.was.read(&s)
		if began, held := b.was.readTail(); held {
			b.record = true
			if !b.vanished(known, recorded, s.time, began, s.count) {
				p.Before, b.last = 0, *p
				return s, false, Adds // it was not there under another name, so all of it was added
			}
		}
		return s, true, Adds
	case t.bytes+b.added+overhead+len(b.form) > MaxBytes:
		return s, false, Full
	}
	b.last = *p
	if p.Scraped {
		return s, false, b.firstOfSeries(p, known, recorded)
	}
	if known != nil && known.first < p.Time || recorded != nil && recorded.first < p.Time {
		return s, false, Adds
	}
	c, now := t.classes[p.Class], b.classes[p.Class]
	renamed := known == nil && recorded == nil && (c != nil && c.runs[at.run] > 0 || now != nil && now.runs[at.run] > 0)
	if c != nil && p.Start != 0 && p.Start >= c.since && !renamed {
		return s, false, Adds
	}
	return s, false, Baseline
}

func (p *Point) target() targetKey { return targetKey{run{p.Metric, p.Start}, p.Source} }

func find(in map[Key]*class, key Key, at targetKey) *target {
	if c := in[key]; c != nil {
		return c.targets[at]
	}
	return nil
}

func (of *target) state(key uint64) (s state, ok bool) {
	if of == nil {
		return s, false
	}
	i, ok := of.places[key]
	if ok {
		s = of.states[i]
	}
	return s, ok
}

// lastSeen is the time of the last point.
func (of *target) lastSeen() int64 {
	if of == nil {
		return 0
	}
	return of.last
}

// Keep records the point that was observed last.
func (b *Batch) Keep() {
	if !b.record {
		return
	}
	p := &b.last
	c := b.classes[p.Class]
	if c == nil {
		c = newClass()
		c.basis = b.basis
		b.classes[p.Class] = c
	}
	of := c.target(p.target(), p.Time, p.Time)
	if p.Reset {
		of.fell = max(of.fell, p.Time)
	}
	if had := of.put(state{series: p.Series, time: p.Time, count: b.count, form: string(b.form)}); !had {
		b.added += overhead + len(b.form)
	}
}

// Empty reports whether there is nothing to record.
func (b *Batch) Empty() bool {
	return len(b.classes) == 0 && len(b.observed) == 0 && len(b.notes) == 0 && len(b.forget) == 0
}

func compareKeys(a, b Key) int { return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo)) }

func cmpBy(a, b int64, keyA, keyB Key) int { return cmp.Or(cmp.Compare(a, b), compareKeys(keyA, keyB)) }
