package record

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/binread"
)

// The flags of an events record.
const (
	flagBackfill  = 1 << iota
	flagKeys      // keys follow the flags
	FlagDelivered // the sinks have these events
	FlagReplayed  // the IDs of dead letters follow, one for each event
	flagPosition  // the position of a source follows
	flagCovers    // the covered periods of a backfill follow
	flagTimed     // the events have the same times whenever they are sent
	flagEnd
)

// keyBytes is the size of a key in a record.
const keyBytes = 16

// Events is the payload of an events record or of a replay record. Its slices refer to the payload.
type Events struct {
	Count    int
	Backfill bool
	// Whole means that a backfill covers everything between its first and its last event, including gaps. Version 0.2.0
	// and older wrote such records.
	Whole bool
	// Timed means that the sender gives each event the same time whenever it sends it: its id belongs to that time in the
	// deduplication table, else to the receive time.
	Timed bool
	// Covers are the times that a backfill covers beside its events, as its sender says.
	Covers []event.Span
	// Delivered means that the sinks have these events and do not get them again.
	Delivered bool
	// Keys are those of events that the record stands for and does not hold: merged into another event, or left out
	// by sampling. In a replay record they are the keys by which its events count once. Each has 16 bytes.
	Keys []byte
	// DeadLetters are, in a replay record, the IDs of the dead letters that its events were.
	DeadLetters []string
	// Position says how far the source of the events got: position.Parse. nil if they have no source.
	Position []byte
	Body     []byte // Count events in their binary form, one after the other
}

// EachKey calls f with every key.
func (e *Events) EachKey(f func(xxh3.Uint128)) {
	for b := e.Keys; len(b) >= keyBytes; b = b[keyBytes:] {
		f(xxh3.Uint128{Hi: binary.LittleEndian.Uint64(b), Lo: binary.LittleEndian.Uint64(b[8:])})
	}
}

// ParseEvents reads the head of an events record or of a replay record. It does not look at the events.
func ParseEvents(payload []byte) (Events, error) {
	r := binread.New(payload)
	count := r.Uint()
	flags := r.Take(1)
	switch {
	case r.Bad() || count > uint64(len(payload)):
		return Events{}, fmt.Errorf("invalid events record: head does not fit into %d bytes", len(payload))
	case flags[0] >= flagEnd:
		return Events{}, fmt.Errorf("invalid events record: flags %#x (written by a newer version)", flags[0])
	}
	has := func(flag byte) bool { return flags[0]&flag != 0 }
	e := Events{Count: int(count), Backfill: has(flagBackfill), Timed: has(flagTimed), Delivered: has(FlagDelivered)}
	if has(flagKeys) {
		e.Keys = r.Take(r.Count(keyBytes) * keyBytes)
	}
	if has(FlagReplayed) {
		for i := 0; i < e.Count && !r.Bad(); i++ {
			e.DeadLetters = append(e.DeadLetters, r.Text())
		}
	}
	if has(flagPosition) {
		e.Position = r.Bytes()
	}
	if has(flagCovers) {
		for n := r.Count(2); n > 0; n-- {
			from := r.Varint()
			e.Covers = append(e.Covers, event.Span{From: from, To: from + int64(r.Uint())})
		}
	}
	e.Whole = e.Backfill && !has(flagCovers)
	if r.Bad() {
		return Events{}, fmt.Errorf(
			"invalid events record: keys, dead-letter IDs, position or covered times do not fit into %d bytes", len(payload))
	}
	e.Body = r.Rest
	return e, nil
}

// AppendHead begins a record of count events of a batch. An empty position is none.
func AppendHead(dst []byte, count int, of *event.Batch, position []byte) []byte {
	flags, backfill, covers := byte(0), of.Backfill, of.Covers
	if of.Timed {
		flags |= flagTimed
	}
	if backfill {
		flags |= flagBackfill | flagCovers
	}
	if len(position) > 0 {
		flags |= flagPosition
	}
	dst = binary.AppendUvarint(dst, uint64(count))
	dst = append(dst, flags)
	if len(position) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(position)))
		dst = append(dst, position...)
	}
	if backfill {
		dst = binary.AppendUvarint(dst, uint64(len(covers)))
		for _, sp := range covers {
			dst = binary.AppendVarint(dst, sp.From)
			dst = binary.AppendUvarint(dst, uint64(sp.To-sp.From))
		}
	}
	return dst
}

// AppendKeyedHead begins a record with keys.
func AppendKeyedHead(dst []byte, count int, flags byte, keys []xxh3.Uint128) []byte {
	dst = binary.AppendUvarint(dst, uint64(count))
	dst = append(dst, flags|flagKeys)
	dst = binary.AppendUvarint(dst, uint64(len(keys)))
	for _, k := range keys {
		dst = binary.LittleEndian.AppendUint64(dst, k.Hi)
		dst = binary.LittleEndian.AppendUint64(dst, k.Lo)
	}
	return dst
}
