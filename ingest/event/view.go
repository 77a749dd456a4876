package event

import (
	"encoding/binary"
	"time"
)

// TraceID is the attribute that has the trace id of an event.
const TraceID = "trace_id"

// NoDuration is View.Duration of an event without one.
const NoDuration int64 = -1

// View reads a binary event in place. It is filled by Parse and valid as long
// as the bytes that were parsed; it can be reused for the next event.
type View struct {
	ID, Service, Type []byte
	Severity          []byte // nil is none
	Outcome           Outcome
	Assigned          bool   // the server gave the id, not the sender
	Time              int64  // Unix nanoseconds
	Duration          int64  // nanoseconds, NoDuration if absent
	Count             uint32 // 1 or more
	Weight            uint32 // 1 or more; the event counts as Count times Weight

	attrs, durations         []byte
	attrCount, durationCount int
}

// AttrCount returns the number of attributes.
func (v *View) AttrCount() int { return v.attrCount }

// Attrs yields the attributes sorted by name, as in
//
//	for name, value := range v.Attrs { ... }
func (v *View) Attrs(yield func(name, value []byte) bool) {
	var name, value []byte
	for i := 0; i < len(v.attrs); {
		name, i = textAt(v.attrs, i)
		value, i = textAt(v.attrs, i)
		if !yield(name, value) {
			return
		}
	}
}

// AttributeMap returns a copy of the attributes.
func (v *View) AttributeMap() map[string]string {
	out := make(map[string]string, v.attrCount)
	for name, value := range v.Attrs {
		out[string(name)] = string(value)
	}
	return out
}

// Attr returns the attribute's value, and whether the event has it.
func (v *View) Attr(name string) (value []byte, ok bool) {
	var n []byte
	for i := 0; i < len(v.attrs); {
		n, i = textAt(v.attrs, i)
		value, i = textAt(v.attrs, i)
		if string(n) == name {
			return value, true
		}
	}
	return nil, false
}

// DurationCount returns how many pairs Durations yields, 0 for an event that is
// not aggregated.
func (v *View) DurationCount() int { return v.durationCount }

// Durations yields the durations of an aggregated event, in nanoseconds, each
// with the number of merged events that took so long, as in
//
//	for d, n := range v.Durations { ... }
func (v *View) Durations(yield func(d int64, n uint32) bool) {
	var d, n uint64
	for i := 0; i < len(v.durations); {
		d, i = uvarintAt(v.durations, i)
		n, i = uvarintAt(v.durations, i)
		if !yield(int64(d), uint32(n)) {
			return
		}
	}
}

// Event copies v into e, reusing e's slices.
func (v *View) Event(e *Event) {
	e.Reset()
	e.ID = string(v.ID)
	e.Time = time.Unix(0, v.Time).UTC()
	e.Service = string(v.Service)
	e.Type = string(v.Type)
	e.Outcome = v.Outcome
	e.Severity = string(v.Severity)
	if v.Duration >= 0 {
		e.Duration, e.HasDuration = time.Duration(v.Duration), true
	}
	e.Count, e.Weight = v.Count, v.Weight
	for name, value := range v.Attrs {
		e.Attributes = append(e.Attributes, Attr{string(name), string(value)})
	}
	for d, n := range v.Durations {
		e.Durations = append(e.Durations, DurationCount{time.Duration(d), n})
	}
}

// EachHead passes service, type and time of the events in b to yield. It reads no other field, and checks none.
func EachHead(b []byte, yield func(service, typ []byte, at int64)) error {
	for len(b) > 0 {
		if len(b) < lengthBytes+fixedBytes {
			return ErrShort
		}
		end := lengthBytes + int64(binary.LittleEndian.Uint32(b))
		if end > int64(len(b)) || end < lengthBytes+fixedBytes {
			return ErrShort
		}
		body := b[lengthBytes:end:end]
		i := fixedBytes
		for _, flag := range []byte{flagDuration, flagCount, flagWeight} {
			if body[0]&flag != 0 {
				_, i = uvarintAt(body, i)
			}
		}
		var service, typ []byte
		_, i = textAt(body, i)
		service, i = textAt(body, i)
		if typ, i = textAt(body, i); i > len(body) {
			return ErrMalformed
		}
		yield(service, typ, int64(binary.LittleEndian.Uint64(body[1:])))
		b = b[end:]
	}
	return nil
}

// AppendErased appends the event in its binary form with another id, and with what value makes of its attributes. What
// the event counts as does not change.
func (v *View) AppendErased(dst, id []byte, value func(name, value []byte) []byte) []byte {
	start := len(dst)
	h := head[[]byte]{id: id, service: v.Service, typ: v.Type, severity: v.Severity, outcome: v.Outcome,
		assigned: v.Assigned, time: v.Time, duration: v.Duration, count: v.Count, weight: v.Weight,
		pairs: v.durationCount > 0}
	dst = binary.AppendUvarint(h.appendBinary(dst), uint64(v.attrCount))
	for name, text := range v.Attrs {
		dst = appendText(appendText(dst, name), value(name, text))
	}
	if v.durationCount > 0 {
		dst = append(binary.AppendUvarint(dst, uint64(v.durationCount)), v.durations...)
	}
	return closeBinary(dst, start)
}
