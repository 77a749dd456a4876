package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"
)

// The types of log record.
const (
	// RecordEvents holds the new events of one request: ParseEvents.
	RecordEvents byte = 1
	// RecordConfig holds a configuration, opaque to this package.
	RecordConfig byte = 2
	// RecordHeartbeat holds one Beat byte. It says that the engine was up.
	RecordHeartbeat byte = 3
	// RecordReplay holds events that come back from the dead letters: ParseEvents. Its
	// own keys say whether they count; the ids of its events play no part.
	RecordReplay byte = 4
	// RecordDropped says what the limits kept out: ParseDropped.
	RecordDropped byte = 5
	// RecordForget says what is dropped of what was counted: ParseForget.
	RecordForget byte = 6
)

// Beat is the payload of a heartbeat record.
type Beat byte

// The kinds of heartbeat.
const (
	BeatTick  Beat = 0 // the engine is up, with nothing else to write
	BeatStop  Beat = 1 // the last record before a clean stop
	BeatStart Beat = 2 // the first record after a start
)

// ParseBeat reads the payload of a heartbeat record.
func ParseBeat(payload []byte) (Beat, error) {
	if len(payload) != 1 || payload[0] > byte(BeatStart) {
		return 0, fmt.Errorf("heartbeat record: payload %x", payload)
	}
	return Beat(payload[0]), nil
}

// The flags of an events record.
const (
	eventsBackfill = 1 << iota
	eventsKeys     // keys follow the flags
	eventsSunk     // the sinks have had these events
	eventsLetters  // the IDs of dead letters follow, one for each event
)

// keyBytes is the size of a key in a record.
const keyBytes = 16

// Events is the payload of an events record, or of a replay record.
type Events struct {
	Count    int
	Backfill bool
	// Sunk means that the sinks were given these events before.
	Sunk bool
	// Keys, of 16 bytes each, are those of events that the record stands for and does
	// not hold: merged into another, or left out by sampling. Of a replay record they
	// are those by which its events count once.
	Keys []byte
	// Letters are, in a replay record, the IDs of the dead letters that its events were.
	Letters []string
	Body    []byte // Count events in their binary form, one after the other
}

// EachKey calls f with every key.
func (e *Events) EachKey(f func(xxh3.Uint128)) {
	for b := e.Keys; len(b) >= keyBytes; b = b[keyBytes:] {
		f(xxh3.Uint128{Hi: binary.LittleEndian.Uint64(b), Lo: binary.LittleEndian.Uint64(b[8:])})
	}
}

// ParseEvents reads the head of an events record. The events are not looked at.
func ParseEvents(payload []byte) (Events, error) {
	count, n := binary.Uvarint(payload)
	if n <= 0 || n == len(payload) || count > uint64(len(payload)) {
		return Events{}, fmt.Errorf("events record: broken head in %d bytes", len(payload))
	}
	flags := payload[n]
	if flags&^byte(eventsBackfill|eventsKeys|eventsSunk|eventsLetters) != 0 {
		return Events{}, fmt.Errorf("events record: flags %#x of a newer version", flags)
	}
	e := Events{Count: int(count), Backfill: flags&eventsBackfill != 0, Sunk: flags&eventsSunk != 0, Body: payload[n+1:]}
	if flags&eventsKeys != 0 {
		keys, n := binary.Uvarint(e.Body)
		if n <= 0 || keys > uint64(len(e.Body)-n)/keyBytes {
			return Events{}, fmt.Errorf("events record: broken keys in %d bytes", len(payload))
		}
		end := n + int(keys)*keyBytes
		e.Keys, e.Body = e.Body[n:end:end], e.Body[end:]
	}
	if flags&eventsLetters != 0 {
		for range e.Count {
			size, n := binary.Uvarint(e.Body)
			if n <= 0 || size > uint64(len(e.Body)-n) {
				return Events{}, fmt.Errorf("events record: broken names of dead letters in %d bytes", len(payload))
			}
			e.Letters = append(e.Letters, string(e.Body[n:n+int(size)]))
			e.Body = e.Body[n+int(size):]
		}
	}
	return e, nil
}

// maxEventsHead is the most that appendEventsHead appends without keys.
const maxEventsHead = 2*binary.MaxVarintLen64 + 1

func appendEventsHead(dst []byte, count int, backfill bool) []byte {
	dst = binary.AppendUvarint(dst, uint64(count))
	if backfill {
		return append(dst, eventsBackfill)
	}
	return append(dst, 0)
}

// appendKeyedHead begins a record with keys.
func appendKeyedHead(dst []byte, count int, flags byte, keys []xxh3.Uint128) []byte {
	dst = binary.AppendUvarint(dst, uint64(count))
	dst = append(dst, flags|eventsKeys)
	dst = binary.AppendUvarint(dst, uint64(len(keys)))
	for _, k := range keys {
		dst = binary.LittleEndian.AppendUint64(dst, k.Hi)
		dst = binary.LittleEndian.AppendUint64(dst, k.Lo)
	}
	return dst
}

// Dropped says that the limits kept out N events of a service and type, around a time.
type Dropped struct {
	Service, Type, Reason []byte // valid as long as the record
	Time                  int64  // Unix nanoseconds
	N                     uint64
}

func appendDropped(dst []byte, d *Dropped) []byte {
	for _, text := range [][]byte{d.Service, d.Type, d.Reason} {
		dst = binary.AppendUvarint(dst, uint64(len(text)))
		dst = append(dst, text...)
	}
	dst = binary.AppendVarint(dst, d.Time)
	return binary.AppendUvarint(dst, d.N)
}

// ParseDropped calls f with every entry of a record of dropped events.
func ParseDropped(payload []byte, f func(d *Dropped)) error {
	var d Dropped
	for b := payload; len(b) > 0; {
		for _, field := range []*[]byte{&d.Service, &d.Type, &d.Reason} {
			n, k := binary.Uvarint(b)
			if k <= 0 || n > uint64(len(b)-k) {
				return fmt.Errorf("record of dropped events: broken text %d bytes before its end", len(b))
			}
			*field, b = b[k:k+int(n)], b[k+int(n):]
		}
		at, k := binary.Varint(b)
		if k <= 0 {
			return fmt.Errorf("record of dropped events: broken time %d bytes before its end", len(b))
		}
		n, m := binary.Uvarint(b[k:])
		if m <= 0 {
			return fmt.Errorf("record of dropped events: broken count %d bytes before its end", len(b))
		}
		d.Time, d.N, b = at, n, b[k+m:]
		f(&d)
	}
	return nil
}
