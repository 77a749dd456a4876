package otlpwire

import (
	"encoding/binary"
	"encoding/hex"
)

// transcoder writes OTLP/JSON as the protobuf request that says the same, so that a request is understood in one place.
// It takes what the official decoder of JSON takes (numbers as texts, names of enumerations, names of fields with
// underscores), with the ids in hexadecimal form as OTLP wants them.
type transcoder struct {
	in, out []byte
	scratch []byte // a text that is no field's value
	items   int
	limits  Limits
}

// keptJSON is how much memory of a large request a Decoder keeps for the next one.
const keptJSON = 4 << 20

// fromJSON returns the request in protobuf, which is valid until the next call.
func (d *Decoder) fromJSON(body []byte, request *message) ([]byte, error) {
	t := &d.json
	if cap(t.out) > keptJSON {
		t.out, t.scratch = nil, nil
	}
	t.in, t.out, t.limits, t.items = body, t.out[:0], d.limits, 0
	i, err := t.message(request, t.space(0), 0)
	if err == nil {
		if i = t.space(i); i < len(body) {
			err = errorAt(i, "the request has ended")
		}
	}
	t.in = nil
	if err != nil {
		return nil, err
	}
	return t.out, nil
}

// message writes the object at byte i without a length, and returns where it ends. Its values are in levels arrays and
// maps.
func (t *transcoder) message(m *message, i, levels int) (int, *Error) {
	if t.at(i) != '{' {
		return 0, t.expected(i, "an object")
	}
	if m.item {
		if t.items++; t.items > t.limits.MaxItems {
			return 0, errorAt(i, "more than %d in a request", t.limits.MaxItems)
		}
	}
	var seen uint32 // by number
	chosen := ""    // of the oneof
	i = t.space(i + 1)
	if t.at(i) == '}' {
		return i + 1, nil
	}
	for {
		at := i
		key, next, err := t.key(i)
		if err != nil {
			return 0, err
		}
		f := m.byName(key)
		if f == nil {
			next, err = t.skip(next)
		} else if seen&(1<<f.number) != 0 {
			return 0, errorAt(at, "the field occurs twice").in(f.name, -1)
		} else if seen |= 1 << f.number; t.at(next) == 'n' {
			next, err = t.literal(next, "null")
		} else if f.oneof && chosen != "" {
			return 0, errorAt(at, "%s excludes it", chosen).in(f.name, -1)
		} else {
			if f.oneof {
				chosen = f.name
			}
			next, err = t.field(f, next, levels)
		}
		if err != nil {
			return 0, err
		}
		var more bool
		if i, more, err = t.more(next, '}'); err != nil || !more {
			return i, err
		}
	}
}

// field writes the value at byte i as a field.
func (t *transcoder) field(f *fieldSpec, i, levels int) (int, *Error) {
	if !f.repeated {
		next, err := t.value(f, i, levels)
		return next, err.in(f.name, -1)
	}
	if t.at(i) != '[' {
		return 0, t.expected(i, "an array").in(f.name, -1)
	}
	i = t.space(i + 1)
	if t.at(i) == ']' {
		return i + 1, nil
	}
	for n := 0; ; n++ {
		next, err := t.value(f, i, levels)
		if err != nil {
			return 0, err.in(f.name, n)
		}
		var more bool
		if i, more, err = t.more(next, ']'); err != nil || !more {
			return i, err.in(f.name, -1)
		}
	}
}

func (t *transcoder) value(f *fieldSpec, i, levels int) (int, *Error) {
	switch f.kind {
	case kindMessage:
		start := t.begin(f.number)
		var next int
		var err *Error
		if f.of.nests {
			levels++
		}
		if levels > t.limits.MaxDepth && f.of.nests {
			next, err = t.skip(i) // an empty message of this depth is too deep already
		} else {
			next, err = t.message(f.of, i, levels)
		}
		t.end(start)
		return next, err
	case kindString:
		start := t.begin(f.number)
		var next int
		var err *Error
		t.out, next, err = t.text(t.out, i)
		t.end(start)
		return next, err
	case kindID, kindBytes:
		var next int
		var err *Error
		if t.scratch, next, err = t.text(t.scratch[:0], i); err != nil {
			return 0, err
		}
		start, ok := t.begin(f.number), true
		if f.kind == kindBytes {
			t.out, ok = appendBase64(t.out, t.scratch)
		} else {
			t.out = appendHex(t.out, t.scratch)
		}
		if !ok {
			return 0, errorAt(i, "the text is not base64")
		}
		t.end(start)
		return next, nil
	}
	return t.number(f, i)
}

// appendHex appends an id. One that is not hexadecimal becomes a byte, which is an id of the wrong length: it costs the
// item and not the request.
func appendHex(out, id []byte) []byte {
	from := len(out)
	out, err := hex.AppendDecode(out, id)
	if err != nil {
		return append(out[:from], 0)
	}
	return out
}

// begin writes the tag of a field of bytes, and leaves a byte for its length.
func (t *transcoder) begin(number uint32) int {
	t.out = append(binary.AppendUvarint(t.out, uint64(number<<3|wireBytes)), 0)
	return len(t.out)
}

// end writes the length of the field that begins at byte start.
func (t *transcoder) end(start int) {
	length := len(t.out) - start
	if length < 0x80 {
		t.out[start-1] = byte(length)
		return
	}
	var varint [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(varint[:], uint64(length))
	t.out = append(t.out, varint[1:n]...) // room for the shift
	copy(t.out[start-1+n:], t.out[start:start+length])
	copy(t.out[start-1:], varint[:n])
}

func (t *transcoder) tag(number uint32, wire byte) {
	t.out = binary.AppendUvarint(t.out, uint64(number<<3|uint32(wire)))
}

// byName finds a field by its name in JSON, or by the one of the protocol's definition, with underscores.
func (m *message) byName(key []byte) *fieldSpec {
	for i := range m.fields {
		if string(key) == m.fields[i].name {
			return &m.fields[i]
		}
	}
	var buf [32]byte
	camel, upper, changed := buf[:0], false, false
	for _, c := range key {
		switch {
		case len(camel) == len(buf) || c >= 'A' && c <= 'Z' || upper && (c < 'a' || c > 'z'):
			return nil
		case c == '_':
			upper, changed = true, true
			continue
		case upper:
			c, upper = c-'a'+'A', false
		}
		camel = append(camel, c)
	}
	if !changed || upper {
		return nil
	}
	return m.byName(camel)
}
