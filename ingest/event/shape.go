package event

import (
	"bytes"
	"math/bits"
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
		n += d.refrain.skipped
		d.refrain.skipped = 0
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

// refrainFields are the fields whose values mostly stay the same from event to event.
const refrainFields = fieldService | fieldType | fieldOutcome | fieldSeverity

// staleRefrain is after how many events in a row with another refrain one is learned only now and then.
const staleRefrain = 4

// maxRefrain bounds the text that is remembered, which may have white space.
const maxRefrain = 1024

// refrain is the neighbouring fields of refrainFields of an event before, as they stood in its JSON. Equal text means
// equal fields, so that one comparison takes the place of reading and checking each. Whatever else decides about an
// event, such as who may use the service, is checked as before.
type refrain struct {
	text                   []byte // from the value of the first field to that of the last, both included
	first, fields          field
	service, typ, severity []byte
	outcome                Outcome
	misses                 int // events in a row with another one

	// Of the event at hand:
	skipped  int // keys that were passed over, for members
	repeated bool
	open     bool  // the last field was one of found
	lead     field // the first of found
	found    field
	from, to int // where those stand
}

func (r *refrain) next() { r.skipped, r.repeated, r.open, r.found = 0, false, false, 0 }

// repeat passes over the refrain if it stands at the value of f, and takes its fields.
func (d *Decoder) repeat(f field) bool {
	r, e := &d.refrain, &d.f
	if f != r.first || r.fields&e.seen != 0 || d.fieldShape.learning || !bytes.HasPrefix(d.b[d.i:], r.text) {
		return false
	}
	d.i += len(r.text)
	e.seen |= r.fields
	e.given |= r.fields
	if r.fields&fieldService != 0 {
		e.service, e.sameService = r.service, d.vouched.ok && string(r.service) == string(d.vouched.service)
	}
	if r.fields&fieldType != 0 {
		e.typ, e.sameType = r.typ, d.vouched.ok && string(r.typ) == string(d.vouched.typ)
	}
	if r.fields&fieldOutcome != 0 {
		e.outcome = r.outcome
	}
	if r.fields&fieldSeverity != 0 {
		e.severity = r.severity
	}
	r.skipped = bits.OnesCount(uint(r.fields)) - 1
	r.repeated = true
	return true
}

// extend notes that f was read, whose value begins at from.
func (d *Decoder) extend(f field, from int) {
	r := &d.refrain
	switch {
	case d.f.given&f == 0 || r.found&f != 0:
		r.open = false
	case r.open:
		r.found |= f
		r.to = d.i
	case r.found == 0:
		r.open, r.lead, r.found = true, f, f
		r.from, r.to = from, d.i
	}
}

// learnRefrain remembers the refrain of the event that was just read without a problem.
func (d *Decoder) learnRefrain() {
	r, e := &d.refrain, &d.f
	if r.repeated {
		r.misses = 0
		return
	}
	if bits.OnesCount(uint(r.found)) < 2 || r.to-r.from > maxRefrain {
		return
	}
	if r.misses++; r.misses > staleRefrain && r.misses%64 != 0 {
		return
	}
	r.text = append(r.text[:0], d.b[r.from:r.to]...)
	r.first, r.fields, r.outcome = r.lead, r.found, e.outcome
	r.service = append(r.service[:0], e.service...)
	r.typ = append(r.typ[:0], e.typ...)
	r.severity = append(r.severity[:0], e.severity...)
}
