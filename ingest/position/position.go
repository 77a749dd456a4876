// Package position records the progress of sources: which messages of a stream are in the log. A source writes its
// position into the record of the events that it submits (Append), the log's reader adds it to a Book, the Book is a
// part of every checkpoint, and a source begins where the Book ends. So a message counts once, even if the engine is
// killed.
//
// The package knows no broker and reads no log.
package position

import (
	"encoding/binary"
	"fmt"

	"github.com/sloengine/sloengine/internal/binread"
)

// Stream is a numbered sequence of messages: a partition of a topic, or a table.
type Stream struct {
	Name      string   // of the topic
	ID        [16]byte // of the topic, which a topic of the same name that was created later does not share; zero: none
	Partition int32
}

// Range is the messages From to To-1.
type Range struct{ From, To int64 }

// Partial is a message of several events of which some are in the log. Done are their indexes in the message,
// ascending.
type Partial struct {
	Offset int64
	Done   []int32
}

// Progress is the part of one stream that is in the log: every message in Ranges, and a part of the messages in
// Partial. Ranges and Partial are ascending, and do not overlap.
type Progress struct {
	Stream Stream
	// Generation is how often the stream lost messages at its end and gave their offsets to others. A progress of a later
	// generation replaces that of an earlier one, so the first one of it lists all that is left.
	Generation uint32
	Epoch      int32 // of the stream's leader at the last message; NoEpoch: not known
	// Backlog is where the messages end that were there before the source took the stream up for the first time. A
	// later progress without it (0) leaves it unchanged.
	Backlog int64
	Ranges  []Range
	Partial []Partial
}

// NoEpoch is the epoch of a leader that is not known.
const NoEpoch = -1

// Append appends the form that a record holds. Generations follow where there are any, or backlogs, which follow them.
func Append(dst []byte, source string, progress []Progress) []byte {
	dst = binread.AppendText(dst, source)
	dst = binary.AppendUvarint(dst, uint64(len(progress)))
	generations, backlogs := false, false
	for i := range progress {
		dst = progress[i].append(dst)
		generations = generations || progress[i].Generation > 0
		backlogs = backlogs || progress[i].Backlog > 0
	}
	if generations || backlogs {
		for i := range progress {
			dst = binary.AppendUvarint(dst, uint64(progress[i].Generation))
		}
	}
	if backlogs {
		for i := range progress {
			dst = binary.AppendUvarint(dst, uint64(progress[i].Backlog))
		}
	}
	return dst
}

// append writes all but the generation and the backlog, and offsets as distances from the offset before, so that a
// range takes a few bytes.
func (p *Progress) append(dst []byte) []byte {
	dst = binread.AppendText(dst, p.Stream.Name)
	dst = append(dst, p.Stream.ID[:]...)
	dst = binary.AppendVarint(dst, int64(p.Stream.Partition))
	dst = binary.AppendVarint(dst, int64(p.Epoch))
	dst = binary.AppendUvarint(dst, uint64(len(p.Ranges)))
	at := int64(0)
	for _, r := range p.Ranges {
		dst = binary.AppendVarint(dst, r.From-at)
		dst = binary.AppendUvarint(dst, uint64(r.To-r.From))
		at = r.To
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Partial)))
	at = 0
	for _, m := range p.Partial {
		dst = binary.AppendVarint(dst, m.Offset-at)
		dst = binary.AppendUvarint(dst, uint64(len(m.Done)))
		for _, i := range m.Done {
			dst = binary.AppendUvarint(dst, uint64(i))
		}
		at = m.Offset
	}
	return dst
}

// minBytes is the least that a Progress takes: an empty name, an ID, and four varints.
const minBytes = 1 + 16 + 4

// Parse reads a position in the form of Append. An error means that a newer version wrote it, or that
// it is damaged.
func Parse(b []byte) (source string, progress []Progress, err error) {
	r := binread.New(b)
	source = r.Text()
	for range r.Count(minBytes) {
		progress = append(progress, read(&r))
	}
	if len(r.Rest) > 0 {
		for i := range progress {
			progress[i].Generation = uint32(r.Uint())
		}
	}
	if len(r.Rest) > 0 {
		for i := range progress {
			progress[i].Backlog = int64(r.Uint())
		}
	}
	if !r.Done() {
		return "", nil, fmt.Errorf("invalid position of %d bytes", len(b))
	}
	return source, progress, nil
}

func read(r *binread.Reader) (p Progress) {
	p.Stream.Name = r.Text()
	copy(p.Stream.ID[:], r.Take(len(p.Stream.ID)))
	p.Stream.Partition = int32(r.Varint())
	p.Epoch = int32(r.Varint())
	at := int64(0)
	for range r.Count(2) {
		from := at + r.Varint()
		at = from + int64(r.Uint())
		p.Ranges = append(p.Ranges, Range{from, at})
	}
	at = 0
	for range r.Count(2) {
		m := Partial{Offset: at + r.Varint()}
		for range r.Count(1) {
			m.Done = append(m.Done, int32(r.Uint()))
		}
		p.Partial = append(p.Partial, m)
		at = m.Offset
	}
	return p
}
