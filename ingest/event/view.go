package event

import (
	"encoding/binary"
	"math/bits"
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

// Parts are the fields of a binary event, so that whoever stores many can store each field apart. Texts refer to what
// was split.
type Parts struct {
	Flags                   byte
	Time                    int64  // Unix nanoseconds
	Duration, Count, Weight uint64 // 0 if the flags say that there is none
	ID                      []byte
	Rest                    []byte // service, type, severity, attributes and durations
}

// Split reads the event at the start of b and returns how many bytes it takes up. It does not look at Rest. ok is false
// for what Append would not make of the parts again.
func (p *Parts) Split(b []byte) (n int, ok bool) {
	if len(b) < lengthBytes+fixedBytes {
		return 0, false
	}
	size := uint64(binary.LittleEndian.Uint32(b))
	if size > uint64(len(b)-lengthBytes) || size < fixedBytes {
		return 0, false
	}
	n = lengthBytes + int(size)
	body := b[lengthBytes:n:n]
	p.Flags, p.Time = body[0], int64(binary.LittleEndian.Uint64(body[1:]))
	p.Duration, p.Count, p.Weight = 0, 0, 0
	i, want := fixedBytes, fixedBytes
	if p.Flags&flagDuration != 0 {
		p.Duration, i = uvarintAt(body, i)
		want += uvarintBytes(p.Duration)
	}
	if p.Flags&flagCount != 0 {
		p.Count, i = uvarintAt(body, i)
		want += uvarintBytes(p.Count)
	}
	if p.Flags&flagWeight != 0 {
		p.Weight, i = uvarintAt(body, i)
		want += uvarintBytes(p.Weight)
	}
	p.ID, i = textAt(body, i)
	want += uvarintBytes(uint64(len(p.ID))) + len(p.ID)
	if i != want || i > len(body) {
		return 0, false
	}
	p.Rest = body[i:]
	return n, true
}

// Append appends the event in its binary form.
func (p *Parts) Append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, p.Flags)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(p.Time))
	if p.Flags&flagDuration != 0 {
		dst = binary.AppendUvarint(dst, p.Duration)
	}
	if p.Flags&flagCount != 0 {
		dst = binary.AppendUvarint(dst, p.Count)
	}
	if p.Flags&flagWeight != 0 {
		dst = binary.AppendUvarint(dst, p.Weight)
	}
	dst = append(appendText(dst, p.ID), p.Rest...)
	return closeBinary(dst, start)
}

// HasDuration, HasCount, HasWeight and HasDurations report what follows by the flags.
func (p *Parts) HasDuration() bool  { return p.Flags&flagDuration != 0 }
func (p *Parts) HasCount() bool     { return p.Flags&flagCount != 0 }
func (p *Parts) HasWeight() bool    { return p.Flags&flagWeight != 0 }
func (p *Parts) HasDurations() bool { return p.Flags&flagDurations != 0 }

// Fields returns the end of service, type, severity and the number of attributes in Rest, and that number. ok is false
// if they do not fit.
func (p *Parts) Fields() (end, attributes int, ok bool) {
	_, end = textAt(p.Rest, 0)
	_, end = textAt(p.Rest, end)
	if p.Flags&flagSeverity != 0 {
		_, end = textAt(p.Rest, end)
	}
	x, end := uvarintAt(p.Rest, end)
	return end, int(x), end <= len(p.Rest) && x <= maxAttributes
}

// Kind returns service and type.
func (p *Parts) Kind() (service, typ []byte, ok bool) {
	service, i := textAt(p.Rest, 0)
	typ, i = textAt(p.Rest, i)
	return service, typ, i <= len(p.Rest)
}

// TextAt returns the text at b[i:] and the place behind it, which lies beyond the end of b if there is none.
func TextAt(b []byte, i int) (text []byte, next int) { return textAt(b, i) }

// maxAttributes is more than an event can have.
const maxAttributes = 1 << 24

func uvarintBytes(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }
