package series

import (
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/internal/order"
)

// Progress is how far a unit is read, and what was found on the way since the Source or Receiver began.
type Progress struct {
	Unit
	Server  string    // its URL, of several servers
	Began   time.Time // where this Source began to read; zero: it has not yet
	Until   time.Time // everything before was read
	Samples uint64
	Left    string // why some is not counted; "": all is
	Found

	pastFrom, pastUntil time.Time // of what is read before that; zero: nothing is missing
}

// Found is what samples were that increase() takes otherwise, or that count nothing.
type Found struct {
	Beginnings uint64 // series with which counting began: their first values count nothing
	NewSeries  uint64 // that began beside others of their targets
	First      uint64 // their first values, which increase() leaves out
	Resets     uint64 // counters that fell
	AfterReset uint64 // what they said then
	Gaps       uint64 // longer than three scrapes
	InGaps     uint64 // what was added in them, which counts in their middles
	Cut        uint64 // of part beyond total, which does not count
	CutAt      time.Time
	CutGroup   string // of the last one, by the labels of GroupBy
}

// note remembers what a point of a series meant.
func (f *Found) note(x *counter.Point, verdict counter.Verdict, gap bool) {
	switch {
	case verdict == counter.Baseline:
		f.Beginnings++
	case verdict != counter.Adds:
	case x.Before == 0:
		f.NewSeries++
		f.First += x.Count
	case x.Reset:
		f.Resets++
		f.AfterReset += x.Count
	}
	if gap && x.Count > 0 {
		f.Gaps++
		f.InGaps += x.Count
	}
}

// cut remembers that a group has more of its part than of its total.
func (f *Found) cut(at int64, labels, values []string, n uint64) {
	if n == 0 {
		return
	}
	text := make([]string, len(labels))
	for i, name := range labels {
		text[i] = name + "=" + values[i]
	}
	f.Cut += n
	f.CutAt, f.CutGroup = time.Unix(0, at).UTC(), strings.Join(text, ", ")
}

func (f *Found) add(n *Found) {
	f.Beginnings += n.Beginnings
	f.NewSeries, f.First = f.NewSeries+n.NewSeries, f.First+n.First
	f.Resets, f.AfterReset = f.Resets+n.Resets, f.AfterReset+n.AfterReset
	f.Gaps, f.InGaps = f.Gaps+n.Gaps, f.InGaps+n.InGaps
	if n.Cut > 0 {
		f.Cut, f.CutAt, f.CutGroup = f.Cut+n.Cut, n.CutAt, n.CutGroup
	}
}

// book has the Progress of all units, for others than the goroutine of the Source.
type book struct {
	mu       sync.Mutex
	progress map[string]*Progress // by stream
}

// Progress lists what was read, by stream.
func (l *book) Progress() []Progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Progress, 0, len(l.progress))
	for _, p := range l.progress {
		one := *p
		if !one.pastUntil.IsZero() { // the rest does not follow yet
			one.Began, one.Until = one.pastFrom, one.pastUntil
		}
		out = append(out, one)
	}
	order.By(out, func(a, b *Progress) int { return strings.Compare(a.Stream, b.Stream) })
	return out
}

// began remembers where a unit is read from.
func (l *book) began(u *Unit, from time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.progress[u.Stream]; p.Began.IsZero() {
		p.Began, p.Until = from, from
	}
}

// reached remembers that everything before a time was read.
func (l *book) reached(stream string, to time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress[stream].Until = to
}

// pastReached remembers how far the time before is read.
func (l *book) pastReached(stream string, m *meeting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.progress[stream]
	p.pastFrom, p.pastUntil = time.Unix(0, m.From), time.Unix(0, min(m.Reached, m.End))
	if m.Reached == 0 {
		p.Began, p.pastUntil = p.pastFrom, time.Time{}
	}
}

// list takes the units of which something is to be read.
func (l *book) list(units []Unit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.progress == nil {
		l.progress = map[string]*Progress{}
	}
	for i := range units {
		p := l.progress[units[i].Stream]
		if p == nil {
			p = &Progress{}
			l.progress[units[i].Stream] = p
		}
		p.Unit = units[i]
	}
}

// read adds what was found, once it is stored.
func (l *book) read(stream string, samples int, found *Found, left string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.progress[stream]
	p.Left = left
	p.Samples += uint64(samples)
	p.add(found)
}

// forget drops a unit that the spec has no more.
func (l *book) forget(stream string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.progress, stream)
}
