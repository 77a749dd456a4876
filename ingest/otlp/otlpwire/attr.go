package otlpwire

import (
	"encoding/binary"
	"math"
)

// addAttr appends the KeyValue at byte from, which ends with b.
func (d *Decoder) addAttr(attrs []Attr, b []byte, from int) ([]Attr, *Error) {
	if len(attrs) >= d.limits.MaxAttrs {
		d.losses.Cut++
		_, err := keyValue.check(b, from, d.limits.MaxDepth)
		return attrs, err
	}
	attrs = append(attrs, Attr{})
	return attrs, d.attr(&attrs[len(attrs)-1], b, from)
}

// addItemAttr is addAttr for the attributes of items, which share the memory of one slice. Most stay the same from item
// to item, so that comparing the bytes spares reading them: what the item before has left at the place is right.
func (d *Decoder) addItemAttr(attrs []Attr, b []byte, from int) (_ []Attr, err *Error) {
	at := len(attrs)
	if at < len(d.wires) && len(d.wires[at]) > 0 && string(d.wires[at]) == string(b[from:]) {
		return attrs[:at+1], nil
	}
	if at >= maxWires || at >= d.limits.MaxAttrs {
		return d.addAttr(attrs, b, from)
	}
	attrs = append(attrs, Attr{})
	wire := b[from:]
	if a := &attrs[at]; !d.plainAttr(a, b, from) {
		wire, err = nil, d.anyAttr(a, b, from)
	}
	if at < len(d.wires) {
		d.wires[at] = wire
	} else {
		d.wires = append(d.wires, wire)
	}
	return attrs, err
}

const maxWires = 64

// plainAttr reads a KeyValue as senders write it: a short ASCII key, then a short ASCII text or a whole number, and
// nothing else. It reports whether it is one, within the limits.
func (d *Decoder) plainAttr(a *Attr, b []byte, from int) bool {
	return plainAttr(a, b, from) && len(a.Key) <= d.limits.MaxValueBytes && len(a.Value.Bytes) <= d.limits.MaxValueBytes
}

func plainAttr(a *Attr, b []byte, from int) bool {
	rest := b[from:]
	if len(rest) < 6 || rest[0] != 1<<3|wireBytes || rest[1] >= 0x80 {
		return false
	}
	key := int(rest[1])
	value := rest[2:]
	if len(value) < key+4 || value[key] != 2<<3|wireBytes || int(value[key+1]) != len(value)-key-2 {
		return false
	}
	a.Key, value = value[:key:key], value[key+2:]
	switch {
	case value[0] == 1<<3|wireBytes && value[1] < 0x80 && int(value[1]) == len(value)-2:
		a.Value = Value{Kind: String, Bytes: value[2:len(value):len(value)]}
		return ascii(a.Key) && ascii(a.Value.Bytes)
	case value[0] == 3<<3|wireVarint && value[1] < 0x80 && len(value) == 2:
		a.Value = Value{Kind: Int, Int: int64(value[1])}
		return ascii(a.Key)
	case value[0] == 3<<3|wireVarint && len(value) == 3 && value[1] >= 0x80 && value[2] < 0x80:
		a.Value = Value{Kind: Int, Int: int64(value[1]&0x7f) | int64(value[2])<<7}
		return ascii(a.Key)
	}
	return false
}

func ascii(text []byte) bool {
	for len(text) >= 8 {
		if binary.LittleEndian.Uint64(text)&0x8080808080808080 != 0 {
			return false
		}
		text = text[8:]
	}
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// attr reads a KeyValue into a, which is empty.
func (d *Decoder) attr(a *Attr, b []byte, from int) *Error {
	if d.plainAttr(a, b, from) {
		return nil
	}
	return d.anyAttr(a, b, from)
}

func (d *Decoder) anyAttr(a *Attr, b []byte, from int) *Error {
	*a = Attr{}
	f := fields{next: from}
	for f.more(b) {
		switch f.tag {
		case 1<<3 | wireBytes:
			a.Key = b[f.from:f.to]
		case 2<<3 | wireBytes:
			f.err = d.value(&a.Value, b[:f.to], f.from).in("value", -1)
		}
	}
	if f.err != nil {
		return f.err
	}
	a.Key = d.string(a.Key)
	d.bound(&a.Value)
	return nil
}

// value merges an AnyValue into v, as protobuf does with the pieces of one message.
func (d *Decoder) value(v *Value, b []byte, from int) *Error {
	f := fields{next: from}
	for f.more(b) {
		switch f.tag {
		case 1<<3 | wireBytes:
			*v = Value{Kind: String, Bytes: b[f.from:f.to]}
		case 2<<3 | wireVarint:
			*v = Value{Kind: Bool}
			if f.val != 0 {
				v.Int = 1
			}
		case 3<<3 | wireVarint:
			*v = Value{Kind: Int, Int: int64(f.val)}
		case 4<<3 | wireFixed64:
			*v = Value{Kind: Float, Float: math.Float64frombits(f.val)}
		case 5<<3 | wireBytes:
			f.err = d.nested(v, Array, b[:f.to], f.from).in("arrayValue", -1)
		case 6<<3 | wireBytes:
			f.err = d.nested(v, Map, b[:f.to], f.from).in("kvlistValue", -1)
		case 7<<3 | wireBytes:
			*v = Value{Kind: Bytes, Bytes: b[f.from:f.to]}
		case 8<<3 | wireVarint: // an index into a table of texts, which only profiles have
			*v = Value{}
		}
	}
	return f.err
}

// tooDeep takes the place of the Int of an Array or Map until bound makes it Empty.
const tooDeep = 1

func (d *Decoder) nested(v *Value, kind Kind, b []byte, from int) *Error {
	m := arrayValue
	if kind == Map {
		m = keyValueList
	}
	deep, err := m.check(b, from, d.limits.MaxDepth-1)
	if err != nil {
		return err
	}
	if v.Kind != kind {
		*v = Value{Kind: kind}
	}
	v.Bytes = d.join(v.Bytes, b[from:])
	if deep {
		v.Int = tooDeep
	}
	return nil
}

// join returns a followed by b. What it has joined before is at the end of text and is not copied again.
func (d *Decoder) join(a, b []byte) []byte {
	if len(a) == 0 {
		return b
	}
	if at := len(d.text) - len(a); at < 0 || &d.text[at] != &a[0] {
		d.text = append(d.text, a...)
	}
	from := len(d.text) - len(a)
	d.text = append(d.text, b...)
	return d.text[from:]
}

// bound applies the limits to a value that is complete.
func (d *Decoder) bound(v *Value) {
	switch v.Kind {
	case String:
		v.Bytes = d.string(v.Bytes)
	case Bytes, Array, Map:
		if v.Int == tooDeep || len(v.Bytes) > d.limits.MaxValueBytes {
			d.losses.Cut++
			*v = Value{}
		}
	}
}
