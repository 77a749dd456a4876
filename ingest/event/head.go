package event

import (
	"encoding/binary"
	"strconv"
	"time"
)

// head holds the fields of an event besides attributes and durations. Both forms are written from
// it, so that an Event, a View and a decoded body cannot differ.
type head[T string | []byte] struct {
	id, service, typ, severity T

	outcome  Outcome
	assigned bool
	hasTime  bool
	time     int64 // Unix nanoseconds
	duration int64 // NoDuration if absent
	count    uint32
	weight   uint32
	pairs    bool // durations follow
}

// appendBinary appends the length prefix, still to be set by closeBinary, and
// the fields up to the attributes.
func (h *head[T]) appendBinary(dst []byte) []byte {
	flags := byte(h.outcome & flagFailure)
	if h.duration >= 0 {
		flags |= flagDuration
	}
	if h.count > 1 {
		flags |= flagCount
	}
	if len(h.severity) > 0 {
		flags |= flagSeverity
	}
	if h.pairs {
		flags |= flagDurations
	}
	if h.assigned {
		flags |= flagAssigned
	}
	if h.weight > 1 {
		flags |= flagWeight
	}
	dst = append(dst, 0, 0, 0, 0, flags)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.time))
	if h.duration >= 0 {
		dst = binary.AppendUvarint(dst, uint64(h.duration))
	}
	if h.count > 1 {
		dst = binary.AppendUvarint(dst, uint64(h.count))
	}
	if h.weight > 1 {
		dst = binary.AppendUvarint(dst, uint64(h.weight))
	}
	dst = appendText(dst, h.id)
	dst = appendText(dst, h.service)
	dst = appendText(dst, h.typ)
	if len(h.severity) > 0 {
		dst = appendText(dst, h.severity)
	}
	return dst
}

// closeBinary sets the length prefix of the event that begins at start.
func closeBinary(dst []byte, start int) []byte {
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-lengthBytes))
	return dst
}

func appendText[T string | []byte](dst []byte, s T) []byte {
	if len(s) < 0x80 { // almost always; spares the loop
		dst = append(dst, byte(len(s)))
	} else {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
	}
	return append(dst, s...)
}

// appendJSON appends the opening brace and the fields up to the attributes.
func (h *head[T]) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	if len(h.id) > 0 {
		dst = append(dst, `"id":`...)
		dst = append(AppendJSONText(dst, h.id), ',')
	}
	if h.hasTime {
		dst = append(dst, `"time":"`...)
		dst = time.Unix(0, h.time).UTC().AppendFormat(dst, time.RFC3339Nano)
		dst = append(dst, `",`...)
	}
	dst = append(dst, `"service":`...)
	dst = AppendJSONText(dst, h.service)
	dst = append(dst, `,"type":`...)
	dst = AppendJSONText(dst, h.typ)
	if h.outcome == Failure {
		dst = append(dst, `,"outcome":"failure"`...)
	}
	if len(h.severity) > 0 {
		dst = append(dst, `,"severity":`...)
		dst = AppendJSONText(dst, h.severity)
	}
	if h.duration >= 0 {
		dst = append(dst, `,"duration_ms":`...)
		dst = appendMillis(dst, h.duration)
	}
	if h.count > 1 {
		dst = append(dst, `,"count":`...)
		dst = strconv.AppendUint(dst, uint64(h.count), 10)
	}
	if h.weight > 1 {
		dst = append(dst, `,"weight":`...)
		dst = strconv.AppendUint(dst, uint64(h.weight), 10)
	}
	return dst
}

// appendMillis appends nanoseconds as exact decimal milliseconds.
func appendMillis(dst []byte, ns int64) []byte {
	dst = strconv.AppendInt(dst, ns/1_000_000, 10)
	fraction := ns % 1_000_000
	if fraction == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit := int64(100_000); fraction > 0; unit /= 10 {
		dst = append(dst, byte('0'+fraction/unit))
		fraction %= unit
	}
	return dst
}
