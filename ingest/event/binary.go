package event

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The first byte of an event's body says which optional fields follow.
// FORMAT.md describes the whole form and how it may grow.
const (
	flagFailure   = 1 << 0
	flagDuration  = 1 << 1
	flagCount     = 1 << 2
	flagSeverity  = 1 << 3
	flagDurations = 1 << 4
	flagAssigned  = 1 << 5 // the server gave the id
	flagWeight    = 1 << 6
	flagMore      = 1 << 7 // reserved: a second flags byte follows

	knownFlags = flagFailure | flagDuration | flagCount | flagSeverity | flagDurations | flagAssigned | flagWeight
)

const (
	lengthBytes = 4 // of the prefix
	fixedBytes  = 9 // flags and time
)

// Errors of View.Parse; test with errors.Is.
var (
	// ErrShort means that the bytes end before the event does.
	ErrShort = errors.New("event is truncated")
	// ErrNewer means that the event has fields this version does not know.
	ErrNewer = errors.New("event was written by a newer version")
	// ErrMalformed means that the bytes are not an event.
	ErrMalformed = errors.New("malformed event")
)

// AppendBinary appends the binary form of e to dst. It does not validate: e must keep to the rules
// of Event, and Time must be set.
func AppendBinary(dst []byte, e *Event) []byte {
	start := len(dst)
	h := e.head()
	dst = h.appendBinary(dst)
	attrs := e.sortedAttributes()
	dst = binary.AppendUvarint(dst, uint64(len(attrs)))
	for i := range attrs {
		dst = appendText(dst, attrs[i].Name)
		dst = appendText(dst, attrs[i].Value)
	}
	if len(e.Durations) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(e.Durations)))
		for _, d := range e.Durations {
			dst = binary.AppendUvarint(dst, uint64(d.Duration))
			dst = binary.AppendUvarint(dst, uint64(d.Count))
		}
	}
	return closeBinary(dst, start)
}

func (e *Event) head() head[string] {
	h := head[string]{
		id: e.ID, service: e.Service, typ: e.Type, severity: e.Severity,
		outcome: e.Outcome, hasTime: !e.Time.IsZero(), duration: NoDuration, count: max(e.Count, 1), weight: max(e.Weight, 1),
		pairs: len(e.Durations) > 0,
	}
	if h.hasTime {
		h.time = e.Time.UnixNano()
	}
	if e.HasDuration {
		h.duration = int64(e.Duration)
	}
	return h
}

// ParseAll reads b, which must hold one event and nothing else, into v. The errors are those of Parse, and one for
// bytes behind the event.
func (v *View) ParseAll(b []byte) error {
	n, err := v.Parse(b)
	if err == nil && n != len(b) {
		err = fmt.Errorf("%d trailing bytes", len(b)-n)
	}
	return err
}

// AppendBinaryAsJSON appends the JSON of one event in binary form, without line breaks.
func AppendBinaryAsJSON(dst, b []byte) ([]byte, error) {
	var v View
	if err := v.ParseAll(b); err != nil {
		return dst, fmt.Errorf("read event: %w", err)
	}
	return v.AppendJSON(dst), nil
}

// Parse reads the event at the start of b into v and returns how many bytes it
// takes up. v's slices point into b. The structure is checked to the last byte,
// so that Attrs and Durations cannot fail. The contents of texts are not checked. An error wraps
// ErrShort, ErrNewer or ErrMalformed, and v is then unusable.
func (v *View) Parse(b []byte) (n int, err error) {
	if len(b) < lengthBytes {
		return 0, ErrShort
	}
	size := uint64(binary.LittleEndian.Uint32(b))
	if size > uint64(len(b)-lengthBytes) {
		return 0, fmt.Errorf("%w: %d bytes of %d", ErrShort, len(b)-lengthBytes, size)
	}
	n = lengthBytes + int(size)
	body := b[lengthBytes:n:n]
	if len(body) < fixedBytes {
		return 0, fmt.Errorf("%w: a body of %d bytes", ErrMalformed, len(body))
	}
	flags := body[0]
	if flags&^byte(knownFlags) != 0 {
		return 0, fmt.Errorf("%w: flags %#x", ErrNewer, flags)
	}
	v.Outcome = Outcome(flags & flagFailure)
	v.Assigned = flags&flagAssigned != 0
	v.Time = int64(binary.LittleEndian.Uint64(body[1:]))
	if !v.parseFields(body, flags) {
		return 0, fmt.Errorf("%w: fields do not fit its %d bytes", ErrMalformed, len(body))
	}
	return n, nil
}

// parseFields reads the fields after the time. A field that does not fit moves i beyond the end,
// where nothing fits any more, so one look at the end is enough.
func (v *View) parseFields(body []byte, flags byte) bool {
	i := fixedBytes
	v.Duration, v.Count, v.Weight, v.Severity = NoDuration, 1, 1, nil
	var x uint64
	if flags&flagDuration != 0 {
		if x, i = uvarintAt(body, i); x > uint64(MaxDuration) {
			return false
		}
		v.Duration = int64(x)
	}
	if flags&flagCount != 0 {
		if x, i = uvarintAt(body, i); x < 1 || x > 1<<32-1 {
			return false
		}
		v.Count = uint32(x)
	}
	if flags&flagWeight != 0 {
		if x, i = uvarintAt(body, i); x < 2 || x > 1<<32-1 {
			return false
		}
		v.Weight = uint32(x)
	}
	v.ID, i = textAt(body, i)
	v.Service, i = textAt(body, i)
	v.Type, i = textAt(body, i)
	if flags&flagSeverity != 0 {
		v.Severity, i = textAt(body, i)
	}

	x, i = uvarintAt(body, i)
	if x > uint64(len(body)) {
		return false
	}
	v.attrCount = int(x)
	from := i
	for range 2 * v.attrCount {
		if _, i = textAt(body, i); i > len(body) {
			return false
		}
	}
	if i > len(body) {
		return false
	}
	v.attrs = body[from:i:i]

	v.durationCount, v.durations = 0, nil
	if flags&flagDurations != 0 {
		x, i = uvarintAt(body, i)
		if x > uint64(len(body)) || i > len(body) {
			return false
		}
		v.durationCount = int(x)
		v.durations = body[i:]
		for range v.durationCount {
			var d, n uint64
			d, i = uvarintAt(body, i)
			n, i = uvarintAt(body, i)
			if i > len(body) || d > uint64(MaxDuration) || n < 1 || n > 1<<32-1 {
				return false
			}
		}
	}
	return i == len(body)
}

// uvarintAt reads the number at b[i:] and returns the place behind it, which
// lies beyond the end of b if there is none.
func uvarintAt(b []byte, i int) (x uint64, next int) {
	if uint(i) < uint(len(b)) && b[i] < 0x80 {
		return uint64(b[i]), i + 1
	}
	return longUvarintAt(b, i)
}

func longUvarintAt(b []byte, i int) (x uint64, next int) {
	if i > len(b) {
		return 0, i
	}
	x, n := binary.Uvarint(b[i:])
	if n <= 0 {
		return 0, len(b) + 1
	}
	return x, i + n
}

// textAt reads the length-prefixed text at b[i:], in the manner of uvarintAt.
func textAt(b []byte, i int) (text []byte, next int) {
	if uint(i) < uint(len(b)) {
		if end := i + 1 + int(b[i]); b[i] < 0x80 && end <= len(b) {
			return b[i+1 : end : end], end
		}
	}
	return longTextAt(b, i)
}

func longTextAt(b []byte, i int) (text []byte, next int) {
	x, i := uvarintAt(b, i)
	if i > len(b) || x > uint64(len(b)-i) {
		return nil, len(b) + 1
	}
	end := i + int(x)
	return b[i:end:end], end
}
