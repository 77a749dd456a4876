package client

import (
	"bytes"
	"encoding/json"
	"time"
)

// batch is the body of one request, NDJSON, and where its events came from.
type batch struct {
	body  []byte
	items []item

	// Of a batch of the queue.
	seq  uint64
	born time.Time
	cost size // what it takes up in the queue, until it is done with
	// pinned means that a request which was given up may still read the body.
	pinned bool
}

type size struct{ events, bytes int }

type item struct {
	end    int // in the body, line break included
	index  int // among the events of the call, of Send
	origin Origin
}

// append adds one event, JSON with its line break.
func (b *batch) append(line []byte, index int, from Origin) {
	b.body = append(b.body, line...)
	b.items = append(b.items, item{len(b.body), index, from})
}

// pick adds the i-th event of another batch.
func (b *batch) pick(other *batch, i int) {
	b.append(other.line(i), other.items[i].index, other.items[i].origin)
}

func (b *batch) len() int { return len(b.items) }

// line is the i-th event with its line break.
func (b *batch) line(i int) []byte {
	start := 0
	if i > 0 {
		start = b.items[i-1].end
	}
	return b.body[start:b.items[i].end]
}

// span copies the events from i up to j into a batch of their own.
func (b *batch) span(i, j int) *batch {
	s := &batch{items: make([]item, 0, j-i)}
	for ; i < j; i++ {
		s.pick(b, i)
	}
	return s
}

// joined is the events of both; either may be nil.
func joined(a, b *batch) *batch {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	j := a.span(0, a.len())
	for i := range b.items {
		j.pick(b, i)
	}
	return j
}

// addLines adds the events of a body that was written by another batch.
func (b *batch) addLines(body []byte, from Origin) {
	for len(body) > 0 {
		end := bytes.IndexByte(body, '\n') + 1
		if end == 0 {
			end = len(body)
		}
		b.append(body[:end], 0, from)
		body = body[end:]
	}
}

// idOf finds the id in an event's JSON; for errors only.
func idOf(line []byte) string {
	var e struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(line, &e) // our own JSON
	return e.ID
}
