package position

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/sloengine/sloengine/internal/binread"
	"github.com/sloengine/sloengine/internal/order"
)

// The bounds of a Book. A stream has one range, plus one for each time that another engine read it in between.
const (
	// MaxStreams is the most streams of one source. Beyond it the one that did not move for longest is forgotten.
	MaxStreams = 1 << 16
	// MaxRanges is the most ranges of a stream. Beyond it the two oldest become one, and messages between them are not
	// read again.
	MaxRanges = 1 << 10
)

// The formats of a Book in a checkpoint. That of version 0.2.0 has no backlogs, and no release wrote format 1.
const bookVersion, oldestBook = 3, 2

// Book holds the progress of all streams of all sources, as recorded in the log. Its content follows from the calls
// of Apply alone. It is not safe for concurrent use: the goroutine that applies the records of the log owns it.
type Book struct {
	sources map[string]map[place]*entry
	version uint64
	moves   uint64 // calls of Apply, the time of Book
}

// place is the identity that a recreated topic shares with the old one.
type place struct {
	name      string
	partition int32
}

type entry struct {
	Progress
	moved uint64
}

func (e *entry) begin(p *Progress) {
	*e = entry{Progress: Progress{Stream: p.Stream, Generation: p.Generation, Epoch: NoEpoch}}
}

// NewBook returns an empty Book.
func NewBook() *Book { return &Book{sources: map[string]map[place]*entry{}} }

// Version changes with every change of the Book.
func (b *Book) Version() uint64 { return b.version }

// Apply adds the position of a record.
func (b *Book) Apply(position []byte) error {
	source, progress, err := Parse(position)
	if err != nil {
		return err
	}
	b.version++
	b.moves++
	streams := b.sources[source]
	if streams == nil {
		streams = map[place]*entry{}
		b.sources[source] = streams
	}
	for i := range progress {
		b.apply(streams, &progress[i])
	}
	return nil
}

func (b *Book) apply(streams map[place]*entry, p *Progress) {
	at := place{p.Stream.Name, p.Stream.Partition}
	e := streams[at]
	switch {
	case e == nil:
		if len(streams) >= MaxStreams {
			delete(streams, oldest(streams))
		}
		e = &entry{}
		streams[at] = e
		e.begin(p)
	case e.Stream.ID != p.Stream.ID || e.Generation < p.Generation:
		// A topic that was created again begins from 0. Positions of the old one in the log are meaningless.
		e.begin(p)
	case e.Generation > p.Generation:
		return // an unknown part of its offsets belongs to other messages now
	}
	e.moved = b.moves
	e.Epoch, e.Backlog = max(e.Epoch, p.Epoch), max(e.Backlog, p.Backlog)
	for _, m := range p.Partial {
		e.addPartial(m)
	}
	for _, r := range p.Ranges {
		e.addRange(r)
	}
}

// oldest is the stream that has not moved for the longest time. Ties are broken by name, so that every replay of
// the log makes the same choice.
func oldest(streams map[place]*entry) place {
	var least *entry
	for _, e := range streams {
		if least == nil || e.moved < least.moved || e.moved == least.moved && compare(e.Stream, least.Stream) < 0 {
			least = e
		}
	}
	return place{least.Stream.Name, least.Stream.Partition}
}

func compare(a, b Stream) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Partition, b.Partition), slices.Compare(a.ID[:], b.ID[:]))
}

// addRange unites the ranges with one more. Messages in it are complete, so nothing partial is left of them.
func (p *Progress) addRange(r Range) {
	if r.To <= r.From {
		return
	}
	// The first range that touches r, and the first one behind it.
	from, _ := slices.BinarySearchFunc(p.Ranges, r.From, func(x Range, at int64) int { return cmp.Compare(x.To, at) })
	to := from
	for to < len(p.Ranges) && p.Ranges[to].From <= r.To {
		r.From, r.To = min(r.From, p.Ranges[to].From), max(r.To, p.Ranges[to].To)
		to++
	}
	p.Ranges = slices.Replace(p.Ranges, from, to, r)
	if len(p.Ranges) > MaxRanges {
		p.Ranges[1].From = p.Ranges[0].From
		p.Ranges = slices.Delete(p.Ranges, 0, 1)
	}
	p.Partial = slices.DeleteFunc(p.Partial, func(m Partial) bool { return p.Has(m.Offset) })
}

func (p *Progress) addPartial(m Partial) {
	if p.Has(m.Offset) {
		return
	}
	i, found := slices.BinarySearchFunc(p.Partial, m.Offset, func(x Partial, at int64) int {
		return cmp.Compare(x.Offset, at)
	})
	if !found {
		p.Partial = slices.Insert(p.Partial, i, m)
		return
	}
	done := append(p.Partial[i].Done, m.Done...)
	slices.Sort(done)
	p.Partial[i].Done = slices.Compact(done)
}

// Has reports whether the message is in the log as a whole.
func (p *Progress) Has(offset int64) bool {
	_, found := slices.BinarySearchFunc(p.Ranges, offset, func(x Range, at int64) int {
		switch {
		case at < x.From:
			return 1
		case at >= x.To:
			return -1
		}
		return 0
	})
	return found
}

// Next is the offset behind the last message that is in the log. ok is false if no message is.
func (p *Progress) Next() (offset int64, ok bool) {
	if len(p.Ranges) == 0 {
		return 0, false
	}
	return p.Ranges[len(p.Ranges)-1].To, true
}

// Of returns a copy of the progress of a source, ordered by name and partition.
func (b *Book) Of(source string) []Progress {
	out := make([]Progress, 0, len(b.sources[source]))
	for _, e := range b.sources[source] {
		p := e.Progress
		p.Ranges = slices.Clone(p.Ranges)
		p.Partial = slices.Clone(p.Partial)
		for i := range p.Partial {
			p.Partial[i].Done = slices.Clone(p.Partial[i].Done)
		}
		out = append(out, p)
	}
	order.By(out, func(a, b *Progress) int { return compare(a.Stream, b.Stream) })
	return out
}

// Sources returns the names of the sources, ascending.
func (b *Book) Sources() []string { return slices.Sorted(maps.Keys(b.sources)) }

// Encode appends the Book as a part of a checkpoint. Equal Books give equal bytes.
func (b *Book) Encode(dst []byte) []byte {
	dst = append(dst, bookVersion)
	dst = binary.AppendUvarint(dst, b.moves)
	dst = binary.AppendUvarint(dst, uint64(len(b.sources)))
	for _, source := range b.Sources() {
		dst = binread.AppendText(dst, source)
		streams := slices.SortedFunc(maps.Values(b.sources[source]), func(a, b *entry) int {
			return compare(a.Stream, b.Stream)
		})
		dst = binary.AppendUvarint(dst, uint64(len(streams)))
		for _, e := range streams {
			dst = binary.AppendUvarint(dst, e.moved)
			dst = binary.AppendUvarint(dst, uint64(e.Generation))
			dst = binary.AppendUvarint(dst, uint64(e.Backlog))
			dst = e.append(dst)
		}
	}
	return dst
}

// Restore replaces the Book by an encoded one.
func (b *Book) Restore(data []byte) error {
	r := binread.New(data)
	version := r.Take(1)
	if len(version) == 1 && (version[0] < oldestBook || version[0] > bookVersion) {
		return fmt.Errorf("positions have format %d, and this program reads formats %d to %d", version[0],
			oldestBook, bookVersion)
	}
	*b = Book{sources: map[string]map[place]*entry{}, version: b.version + 1, moves: r.Uint()}
	for range r.Count(2) {
		streams := map[place]*entry{}
		b.sources[r.Text()] = streams
		for range r.Count(minBytes + 1) {
			e := &entry{moved: r.Uint()}
			generation, backlog := uint32(r.Uint()), int64(0)
			if version[0] > oldestBook {
				backlog = int64(r.Uint())
			}
			e.Progress = read(&r)
			e.Generation, e.Backlog = generation, backlog
			streams[place{e.Stream.Name, e.Stream.Partition}] = e
		}
	}
	if !r.Done() {
		return fmt.Errorf("invalid positions of %d bytes", len(data))
	}
	return nil
}
