package source

import (
	"encoding/hex"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// Batch is a batch of events that messages are added to, one after the other. It is used by one goroutine, and goes
// back to its Intake with Release.
type Batch struct {
	in       *Intake
	decoder  event.Decoder
	events   event.Batch
	now      time.Time
	backfill bool
	open     bool // the decoder is
	single   bool // Add gets one event of a message

	messages []message
	dead     []dlq.Entry // of events that cannot be taken
	bytes    int         // of messages

	reader  reader
	extra   []event.Extra
	current *Message // being added
	place   []byte   // of the message: the beginning of the ids of its events

	caller  ratelimit.Caller
	tickets ratelimit.Tickets
	view    event.View
	drop    []bool // events that were decided before

	duplicates map[int]bool // events that the engine knew, by their index
}

// message holds the facts about a message that are needed after it is decoded.
type message struct {
	offset int64
	time   int64
	first  int // index of its first event in the batch, bad ones included
	count  int // of its events, bad ones included
	stream int32
	part   int32
	topic  string
	gen    string
	done   []int32 // decided before

	refused bool // it is a dead letter as a whole
}

// Batch returns an empty batch.
func (in *Intake) Batch(backfill bool) *Batch {
	b, ok := in.batches.Get().(*Batch)
	if !ok {
		b = &Batch{in: in}
	}
	b.now, b.backfill, b.open = in.o.Now(), backfill, true
	if in.reading.mapping != nil && b.reader.mapData == nil {
		b.reader.mapData = in.reading.mapping.Mapper().Append
	}
	limits := in.o.SizeLimits
	if in.o.MaxBackfill != nil {
		limits.MaxBackfill = in.o.MaxBackfill()
	}
	limits.MaxErrors = 1 << 30 // each becomes a dead letter
	opt := event.DecodeOptions{Now: b.now, Backfill: backfill, SizeLimits: limits, AppendID: b.appendID,
		DefaultID: b.defaultID, MapData: b.reader.mapData}
	if in.o.Catalog != nil {
		opt.Catalog = in.o.Catalog()
	}
	b.decoder.Begin(opt, &b.events)
	return b
}

// The most that a batch retains for its next use.
const (
	keptBytes  = 16 << 20
	keptEvents = 64 << 10
)

// Release gives a batch back, whether or not it was submitted.
func (b *Batch) Release() {
	b.close()
	if cap(b.events.Buf) > keptBytes || cap(b.events.Events) > keptEvents || cap(b.messages) > keptEvents {
		return
	}
	clear(b.messages)
	clear(b.duplicates)
	clear(b.dead)
	b.messages, b.dead, b.bytes, b.drop = b.messages[:0], b.dead[:0], 0, b.drop[:0]
	b.tickets.Reset()
	b.caller = ratelimit.Caller{}
	b.in.batches.Put(b)
}

func (b *Batch) close() {
	if b.open {
		b.open = false
		b.decoder.End()
	}
}

// Backfill reports whether the batch is a backfill.
func (b *Batch) Backfill() bool { return b.backfill }

// Messages is how many were added.
func (b *Batch) Messages() int { return len(b.messages) }

// Full reports whether the batch should be submitted before another message is added.
func (b *Batch) Full() bool {
	return len(b.messages) >= b.in.o.BatchEvents || b.events.Received >= b.in.o.BatchEvents || b.bytes >= b.in.o.BatchBytes
}

// Add decodes a message. If it is invalid, it becomes a dead letter when the batch is submitted.
func (b *Batch) Add(m *Message) {
	at, first := b.begin(m)
	listed := len(b.events.Errors)
	var err error
	switch {
	case len(m.Value) == 0:
		b.in.counts.empty.Inc()
		return
	case int64(len(m.Value)) > b.in.o.Settings.MaxMessage:
		b.oversized()
	default:
		err = b.decode(m, at)
	}
	last := &b.messages[len(b.messages)-1]
	last.count = b.events.Received - first
	switch {
	case err != nil:
		b.unreadable(err)
	case len(b.events.Errors) > listed:
		b.rejected(listed, first)
	}
	if len(m.Done) > 0 {
		b.skip(first, m.Done)
	}
	b.current = nil
}

// begin takes a message up.
func (b *Batch) begin(m *Message) (at time.Time, first int) {
	first = b.events.Received
	b.bytes += len(m.Value)
	b.current, b.place = m, b.place[:0]
	b.in.counts.messages.Inc()
	b.in.counts.bytes.Add(len(m.Value))
	m.Time = inRange(m.Time)
	at = m.Time
	if at.IsZero() {
		at = b.now
	}
	b.messages = append(b.messages, message{
		offset: m.Offset, time: at.UnixNano(), first: first, stream: int32(m.Stream), part: m.Partition, topic: m.Topic,
		gen: m.Generation, done: m.Done,
	})
	return at, first
}

// The first and the last time that an event can have.
var (
	firstTime = time.Unix(0, math.MinInt64)
	lastTime  = time.Unix(0, math.MaxInt64)
)

// inRange is the time of a message, or the nearest one that an event can have. Its sender chooses it freely, and no
// event is taken with one of these.
func inRange(t time.Time) time.Time {
	switch {
	case t.IsZero():
	case t.Before(firstTime):
		return firstTime
	case t.After(lastTime):
		return lastTime
	}
	return t
}

// defaultID is the id of an event without one by that of its message.
func (b *Batch) defaultID(dst []byte, index int) []byte {
	if b.current.MessageID == "" {
		return dst
	}
	dst = append(dst, b.current.MessageID...)
	if n := index - b.messages[len(b.messages)-1].first; n > 0 {
		dst = strconv.AppendInt(append(dst, '/'), int64(n), 10)
	}
	return dst
}

// skip marks the events of the last message that were decided before.
func (b *Batch) skip(first int, done []int32) {
	for len(b.drop) < len(b.events.Events) {
		b.drop = append(b.drop, false)
	}
	for i := len(b.events.Events) - 1; i >= 0 && b.events.Events[i].Index >= first; i-- {
		if _, found := slices.BinarySearch(done, int32(b.events.Events[i].Index-first)); found {
			b.drop[i] = true
		}
	}
	b.dead = slices.DeleteFunc(b.dead, func(e dlq.Entry) bool {
		m := b.current
		if p := e.From; p.Topic != m.Topic || p.Partition != m.Partition || p.Offset != m.Offset || p.Item < 0 {
			return false
		}
		_, found := slices.BinarySearch(done, int32(e.From.Item))
		return found
	})
}

// todo lists the events that were not decided before; nil is all.
func (b *Batch) todo() []int32 {
	if len(b.drop) == 0 {
		return nil
	}
	todo := make([]int32, 0, len(b.events.Events))
	for i := range b.events.Events {
		if i >= len(b.drop) || !b.drop[i] {
			todo = append(todo, int32(i))
		}
	}
	return todo
}

// of is the message of an event of the batch, and the index of the event in it.
func (b *Batch) of(i int32) (m *message, index int) {
	at := b.events.Events[i].Index
	// Messages without events come before the one that has the event.
	n := sort.Search(len(b.messages), func(n int) bool { return b.messages[n].first > at }) - 1
	return &b.messages[n], at - b.messages[n].first
}

// EachKey calls f with the Message.Stream and the key of events that came with an id. The key is a hash of service and
// id, and f gets those without any bit of mask in the lower half.
func (b *Batch) EachKey(mask uint64, f func(stream int, key xxh3.Uint128)) {
	for i := range b.events.Events {
		if e := &b.events.Events[i]; e.Key.Lo&mask == 0 && e.HasKey {
			m, _ := b.of(int32(i))
			f(int(m.stream), e.Key)
		}
	}
}

// Undecided calls f with each message that has events at the given indexes, ascending, and with those of its events
// that are decided, by their index in the message.
func (b *Batch) Undecided(undecided []int32, f func(stream int, offset int64, done []int32)) {
	for len(undecided) > 0 {
		m, _ := b.of(undecided[0])
		open := map[int32]bool{}
		for len(undecided) > 0 {
			other, index := b.of(undecided[0])
			if other != m {
				break
			}
			open[int32(index)] = true
			undecided = undecided[1:]
		}
		var done []int32
		for i := range int32(m.count) {
			if !open[i] {
				done = append(done, i)
			}
		}
		f(int(m.stream), m.offset, done)
	}
}

// appendID makes the id of an event without one from where it is, so that it is the same if it is read again.
func (b *Batch) appendID(dst []byte, index int) []byte {
	m := b.current
	if len(b.place) == 0 {
		b.place = appendPlace(b.place, m.Topic, m.Generation, m.Partition, m.Offset)
	}
	dst = append(dst, b.place...)
	if n := index - b.messages[len(b.messages)-1].first; n > 0 {
		dst = strconv.AppendInt(append(dst, '/'), int64(n), 10)
	}
	return dst
}

// maxPlaceTopic is the length from which on the id of an event holds a hash of the topic's name, as it does for names
// with other characters than topics of Kafka have.
const maxPlaceTopic = 100

func appendPlace(dst []byte, topic, generation string, partition int32, offset int64) []byte {
	if len(topic) > maxPlaceTopic || strings.ContainsFunc(topic, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		sum := xxh3.HashString128(topic).Bytes()
		dst = hex.AppendEncode(dst, sum[:])
	} else {
		dst = append(dst, topic...)
	}
	if generation != "" {
		dst = append(append(dst, '@'), generation...)
	}
	dst = strconv.AppendInt(append(dst, '/'), int64(partition), 10)
	return strconv.AppendInt(append(dst, '/'), offset, 10)
}
