package post

import "encoding/json"

// Batch is the body of one request, NDJSON. Each event carries a value of the caller's that says where it came from.
// Batches are made by appending; the parts that a Sender makes of one are copies.
type Batch[T any] struct {
	Body  []byte
	items []item[T]
}

type item[T any] struct {
	end  int // in the body, line break included
	from T
}

// Append adds one event, JSON with its line break.
func (b *Batch[T]) Append(line []byte, from T) {
	b.Body = append(b.Body, line...)
	b.items = append(b.items, item[T]{len(b.Body), from})
}

// Reset empties the batch and retains its memory.
func (b *Batch[T]) Reset() { b.Body, b.items = b.Body[:0], b.items[:0] }

// Len is the number of events.
func (b *Batch[T]) Len() int { return len(b.items) }

// Line is the i-th event with its line break. It shares memory with the batch.
func (b *Batch[T]) Line(i int) []byte {
	start := 0
	if i > 0 {
		start = b.items[i-1].end
	}
	return b.Body[start:b.items[i].end]
}

// From is what the i-th event was appended with.
func (b *Batch[T]) From(i int) T { return b.items[i].from }

// pick adds the i-th event of another batch.
func (b *Batch[T]) pick(other *Batch[T], i int) { b.Append(other.Line(i), other.From(i)) }

// span copies the events from i up to j into a batch of their own.
func (b *Batch[T]) span(i, j int) *Batch[T] {
	s := &Batch[T]{items: make([]item[T], 0, j-i)}
	for ; i < j; i++ {
		s.pick(b, i)
	}
	return s
}

// joined is the events of both. Either may be nil.
func joined[T any](a, b *Batch[T]) *Batch[T] {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	j := a.span(0, a.Len())
	for i := range b.items {
		j.pick(b, i)
	}
	return j
}

// ID finds the id in an event's JSON, for reports.
func ID(line []byte) string {
	var e struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(line, &e) // our own JSON
	return e.ID
}
