package ingest

import (
	"encoding/binary"
	"fmt"
)

// The types of log record.
const (
	// RecordEvents holds the new events of one request: ParseEvents.
	RecordEvents byte = 1
	// RecordConfig holds a configuration, opaque to this package.
	RecordConfig byte = 2
	// RecordHeartbeat holds one Beat byte. It says that the engine was up.
	RecordHeartbeat byte = 3
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

const eventsBackfill = 1 << 0 // flag of an events record

// Events is the payload of an events record.
type Events struct {
	Count    int
	Backfill bool
	Body     []byte // Count events in their binary form, one after the other
}

// ParseEvents reads the head of an events record. The events are not looked at.
func ParseEvents(payload []byte) (Events, error) {
	count, n := binary.Uvarint(payload)
	if n <= 0 || n == len(payload) || count > uint64(len(payload)) {
		return Events{}, fmt.Errorf("events record: broken head in %d bytes", len(payload))
	}
	flags := payload[n]
	if flags&^byte(eventsBackfill) != 0 {
		return Events{}, fmt.Errorf("events record: flags %#x of a newer version", flags)
	}
	return Events{int(count), flags&eventsBackfill != 0, payload[n+1:]}, nil
}

// maxEventsHead is the most that appendEventsHead appends.
const maxEventsHead = binary.MaxVarintLen64 + 1

func appendEventsHead(dst []byte, count int, backfill bool) []byte {
	dst = binary.AppendUvarint(dst, uint64(count))
	if backfill {
		return append(dst, eventsBackfill)
	}
	return append(dst, 0)
}
