package event

import (
	"bytes"
	"slices"
)

// maxShape bounds the keys that a shape remembers of one object.
const maxShape = 64

// staleShape is after how many objects in a row with other keys a shape is learned again.
const staleShape = 4

// shape remembers the keys of an object, in their order. The events of one sender
// mostly have the same ones: comparing a key with the one that was there last time
// spares scanning it, looking it up and checking it.
type shape struct {
	keys     []shapeKey
	text     []byte // backing of the keys, each as it stands in JSON: `"type":`
	order    []int  // the keys' places by name; empty if two are equal
	learning bool   // the next keys are appended
	misses   int    // objects in a row with a key that was not predicted
}

type shapeKey struct {
	from, to int   // in shape.text, quotes and colon included
	field    field // of a top-level field; 0 is none that exists
	valid    bool  // of an attribute: its name may be used
}

func (s *shape) forget() {
	*s = shape{keys: s.keys[:0], text: s.text[:0], order: s.order[:0], learning: true}
}

// name is the key at a place without its quotes and colon.
func (s *shape) name(at int) []byte { return s.text[s.keys[at].from+1 : s.keys[at].to-2] }

// begin is called before the first key of an object.
func (s *shape) begin() {
	if s.misses >= staleShape || len(s.keys) == 0 {
		s.forget()
	}
}

// end is called after the last key of an object.
func (s *shape) end(missed bool) {
	switch {
	case s.learning:
		s.learning = false
		s.sort()
	case missed:
		s.misses++
	default:
		s.misses = 0
	}
}

// sort finds the order of the keys by name.
func (s *shape) sort() {
	s.order = s.order[:0]
	for at := range s.keys {
		s.order = append(s.order, at)
	}
	byName := func(a, b int) int { return bytes.Compare(s.name(a), s.name(b)) }
	slices.SortFunc(s.order, byName)
	for i := 1; i < len(s.order); i++ {
		if byName(s.order[i-1], s.order[i]) == 0 {
			s.order = s.order[:0]
			return
		}
	}
}

// next finds the key that stands at the beginning of b among those from the n-th on.
// Fields that are left out now and then are passed over.
func (s *shape) next(b []byte, n int) (at int, ok bool) {
	for at = n; at < len(s.keys) && at < n+4; at++ {
		if k := &s.keys[at]; bytes.HasPrefix(b, s.text[k.from:k.to]) {
			return at, true
		}
	}
	return n, false
}

// learn remembers a key as it stands in JSON, if it is plain.
func (s *shape) learn(raw, name []byte, k shapeKey) {
	if !s.learning || len(s.keys) == maxShape || len(raw) != len(name)+len(`"":`) || len(name) > maxIDBytes {
		return
	}
	k.from = len(s.text)
	s.text = append(s.text, raw...)
	k.to = len(s.text)
	s.keys = append(s.keys, k)
}

// members reads the object whose brace is next as scanner.object does, with s to predict its keys.
// classify identifies a key that was not predicted. foreseen reports whether all were predicted.
func (d *Decoder) members(depth int, s *shape, classify func(name []byte) shapeKey,
	member func(name []byte, k shapeKey) bool) (foreseen, ok bool) {
	if !d.enter(depth) {
		return false, false
	}
	s.begin()
	foreseen = true
	if d.peek() == '}' {
		d.i++
		s.end(false)
		return foreseen, true
	}
	for n := 0; ; {
		var name []byte
		var k shapeKey
		if at, known := s.next(d.b[d.i:], n); known {
			n = at + 1
			k = s.keys[at]
			end := d.i + k.to - k.from
			name = d.b[d.i+1 : end-2 : end-2]
			d.i = end
		} else {
			foreseen = false
			from := d.i
			if name, ok = d.key(); !ok {
				return false, false
			}
			k = classify(name)
			s.learn(d.b[from:d.i], name, k)
		}
		d.space()
		if !member(name, k) {
			return false, false
		}
		d.space()
		switch d.peek() {
		case ',':
			d.i++
			d.space()
		case '}':
			d.i++
			s.end(!foreseen)
			return foreseen, true
		default:
			return false, d.syntax(d.i, "expected a comma or a closing brace")
		}
	}
}

// vouched are the names of the last valid event. Within one body, an event with the same names
// needs no further check of them.
type vouched struct {
	ok                     bool
	service, typ, severity []byte
}

func (v *vouched) forget() { v.ok = false }

func (v *vouched) keep(f *fields) {
	v.ok = true
	v.service = append(v.service[:0], f.service...)
	v.typ = append(v.typ[:0], f.typ...)
	v.severity = append(v.severity[:0], f.severity...)
}
