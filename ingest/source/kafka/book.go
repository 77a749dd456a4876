package kafka

import (
	"cmp"
	"slices"
	"strconv"
	"sync"

	"github.com/sloengine/sloengine/ingest/position"
)

// book records the durable offsets of each partition. It is safe for concurrent use: batches become durable in
// any order.
type book struct {
	mu      sync.Mutex
	streams map[place]*position.Progress
}

// place is a partition of a topic of any ID.
type place struct {
	topic     string
	partition int32
}

func (p place) String() string { return p.topic + "/" + strconv.Itoa(int(p.partition)) }

func (b *book) init(known []position.Progress) {
	b.streams = map[place]*position.Progress{}
	for i := range known {
		p := known[i]
		b.streams[place{p.Stream.Name, p.Stream.Partition}] = &p
	}
}

// known returns a copy of the durable offsets of a partition.
func (b *book) known(at place) (p position.Progress, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.streams[at]
	if e == nil {
		return p, false
	}
	p = *e
	p.Ranges, p.Partial = slices.Clone(p.Ranges), slices.Clone(p.Partial)
	return p, true
}

// topicKnown reports whether any partition of the topic is known, and whether only under another ID.
func (b *book) topicKnown(topic string, id [16]byte) (known, recreated bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, p := range b.streams {
		if at.topic != topic {
			continue
		}
		if p.Stream.ID == id {
			return true, false
		}
		recreated = true
	}
	return false, recreated
}

// add records offsets that became durable.
func (b *book) add(stream position.Stream, epoch int32, backlog int64, r position.Range) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := place{stream.Name, stream.Partition}
	e := b.streams[at]
	if e == nil || e.Stream.ID != stream.ID {
		e = &position.Progress{Stream: stream, Epoch: position.NoEpoch}
		b.streams[at] = e
	}
	e.Epoch, e.Backlog = max(e.Epoch, epoch), max(e.Backlog, backlog)
	e.Ranges = unite(e.Ranges, r)
	e.Partial = slices.DeleteFunc(e.Partial, func(m position.Partial) bool {
		return m.Offset >= r.From && m.Offset < r.To
	})
}

// set replaces the record of a partition.
func (b *book) set(p position.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streams[place{p.Stream.Name, p.Stream.Partition}] = &p
}

// done is up to where every message of a partition is durable.
func (b *book) done(at place) (offset int64, epoch int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.streams[at]
	if e == nil {
		return 0, position.NoEpoch
	}
	return next(e.Ranges, 0), e.Epoch
}

// unite adds a range to ascending ranges that do not touch.
func unite(ranges []position.Range, r position.Range) []position.Range {
	if r.To <= r.From {
		return ranges
	}
	from, _ := slices.BinarySearchFunc(ranges, r.From, func(x position.Range, at int64) int {
		return cmp.Compare(x.To, at)
	})
	to := from
	for to < len(ranges) && ranges[to].From <= r.To {
		r.From, r.To = min(r.From, ranges[to].From), max(r.To, ranges[to].To)
		to++
	}
	return slices.Replace(ranges, from, to, r)
}

// next is the first offset from at on that is in no range.
func next(ranges []position.Range, at int64) int64 {
	for _, r := range ranges {
		if at < r.From {
			return at
		}
		at = max(at, r.To)
	}
	return at
}

// missing counts the offsets in a range that are outside all of the ranges.
func missing(ranges []position.Range, r position.Range) int64 {
	n := max(0, r.To-r.From)
	for _, x := range ranges {
		n -= max(0, min(r.To, x.To)-max(r.From, x.From))
	}
	return n
}
