package kafka

import (
	"slices"

	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/source"
)

// claim is the position of a batch: of each partition in it, one range from where the batch before ended to behind its
// last message. Offsets that hold no message, such as markers of transactions, belong to the range in which they lie.
type claim struct {
	source  string
	batch   *source.Batch // nil: of no messages
	parts   []claimed     // source.Message.Stream is the index here
	scratch []position.Progress
}

type claimed struct {
	part     *part
	epoch    int32
	from, to int64
}

// backlog is that of the partition while it is read, which is when a restart needs it.
func (p *claimed) backlog() int64 {
	if p.from >= p.part.backlog {
		return 0
	}
	return p.part.backlog
}

// of is the index of a partition in the claim.
func (c *claim) of(p *part) int {
	for i := len(c.parts) - 1; i >= 0; i-- {
		if c.parts[i].part == p {
			return i
		}
	}
	c.parts = append(c.parts, claimed{part: p, epoch: position.NoEpoch, from: p.claimed, to: p.claimed})
	return len(c.parts) - 1
}

// AppendPosition implements engine.Position.
func (c *claim) AppendPosition(dst []byte, undecided []int32) []byte {
	progress := c.scratch[:0]
	for i := range c.parts {
		p := &c.parts[i]
		progress = append(progress, position.Progress{
			Stream: p.part.stream, Generation: p.part.generation, Epoch: p.epoch, Backlog: p.backlog(),
			Ranges: []position.Range{{From: p.from, To: p.to}},
		})
	}
	if len(undecided) > 0 {
		c.batch.Undecided(undecided, func(stream int, offset int64, done []int32) {
			p := &progress[stream]
			last := &p.Ranges[len(p.Ranges)-1]
			p.Ranges = append(p.Ranges, position.Range{From: offset + 1, To: last.To})
			p.Ranges[len(p.Ranges)-2].To = offset
			if len(done) > 0 {
				p.Partial = append(p.Partial, position.Partial{Offset: offset, Done: done})
			}
		})
		for i := range progress {
			progress[i].Ranges = slices.DeleteFunc(progress[i].Ranges, func(r position.Range) bool { return r.To <= r.From })
		}
	}
	c.scratch = progress
	return position.Append(dst, c.source, progress)
}

// note records in the book that the claim is durable.
func (c *claim) note(b *book) {
	for i := range c.parts {
		p := &c.parts[i]
		b.add(p.part.stream, p.epoch, p.backlog(), position.Range{From: p.from, To: p.to})
	}
}
