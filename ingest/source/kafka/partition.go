package kafka

import (
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/sloengine/sloengine/ingest/position"
)

// part is a partition that this engine reads. Its session's goroutine owns it.
type part struct {
	stream position.Stream
	gen    string // the beginning of the topic's ID, and the generation

	generation uint32 // see position.Progress

	done    []position.Range // durable when the session began: to be skipped
	partial []position.Partial
	next    int64 // the first offset that was not seen
	claimed int64 // up to where claims reach
	start   int64 // the beginning of the log when it was last looked at
	end     int64 // its committed offset

	backlog int64 // see position.Progress
	failed  bool  // the client reads it no more
}

func newPart(stream position.Stream) *part {
	p := &part{stream: stream}
	p.begin(0)
	return p
}

// begin says which generation of the stream the messages are from. Two that had the same offset get different ids.
func (p *part) begin(generation uint32) {
	p.generation, p.gen = generation, ""
	if p.stream.ID != ([16]byte{}) {
		p.gen = hex.EncodeToString(p.stream.ID[:8])
	}
	if generation > 0 {
		p.gen += "g" + strconv.FormatUint(uint64(generation), 10)
	}
}

// resume continues behind the durable position.
func (p *part) resume(have position.Progress) {
	p.begin(have.Generation)
	p.done, p.partial, p.backlog = have.Ranges, have.Partial, have.Backlog
}

// take reports whether a message is new, and which of its events are not.
func (p *part) take(offset int64) (fresh bool, done []int32) {
	if offset < p.next {
		return false, nil
	}
	p.next = offset + 1
	if len(p.done) == 0 {
		return true, nil
	}
	for len(p.done) > 0 && p.done[0].To <= offset {
		p.done = p.done[1:]
	}
	if len(p.done) > 0 && p.done[0].From <= offset {
		return false, nil
	}
	if i, found := slices.BinarySearchFunc(p.partial, offset, func(m position.Partial, at int64) int {
		return int(m.Offset - at)
	}); found {
		done = p.partial[i].Done
	}
	return true, done
}

// jump is how far a range of messages that are durable must reach for the session to pass over it.
const jump = 10_000

// jumps reports whether the messages from offset on are durable for so long that reading them is a waste.
func (p *part) jumps(offset int64) (to int64, ok bool) {
	if len(p.done) > 0 && p.done[0].From <= offset && p.done[0].To-offset > jump {
		return p.done[0].To, true
	}
	return 0, false
}
