package event

import (
	"bytes"
	"math"
	"slices"
	"time"
)

// field numbers the top-level fields, for finding duplicates.
type field uint

const (
	fieldID field = 1 << iota
	fieldTime
	fieldService
	fieldType
	fieldOutcome
	fieldSeverity
	fieldDurationMillis
	fieldDuration
	fieldCount
	fieldAttributes
	fieldDurations
	fieldWeight
)

var fieldsByName = map[string]field{
	"id": fieldID, "time": fieldTime, "service": fieldService, "type": fieldType, "outcome": fieldOutcome,
	"severity":    fieldSeverity,
	"duration_ms": fieldDurationMillis, "duration": fieldDuration, "count": fieldCount, "attributes": fieldAttributes,
	"durations": fieldDurations, "weight": fieldWeight,
}

const (
	maxIDBytes = 256
	maxPairs   = 1000 // of durations
)

// fields are those of the event being read. Texts point into the JSON or into
// the scanner's scratch.
type fields struct {
	head[[]byte]
	seen      field // keys that were there
	given     field // those with a value other than null
	attrs     []Attribute
	order     []int // of the attributes by name, where attrs is not in it; else nil
	durations []DurationCount
	farTime   []byte // the time as sent, if int64 cannot hold it
	source    []byte // of a CloudEvent that has the id; nil if the service says it

	sameService, sameType bool // as the event before, which was good
}

// Attribute is an attribute whose texts belong to somebody else.
type Attribute struct {
	Name, Value []byte
	null        bool
}

func (f *fields) reset() {
	*f = fields{attrs: f.attrs[:0], durations: f.durations[:0]}
	f.duration = NoDuration
	f.count, f.weight = 1, 1
}

// event reads the event object whose brace is next.
func (d *Decoder) event(depth int) bool {
	_, ok := d.members(depth, &d.fieldShape, classifyField, func(key []byte, k shapeKey) bool {
		if k.field&refrainFields == 0 {
			d.refrain.open = false
			return d.field(k.field, key, depth+1)
		}
		if d.repeat(k.field) {
			return true
		}
		from := d.i
		ok := d.field(k.field, key, depth+1)
		d.extend(k.field, from)
		return ok
	})
	if ok && d.problem == "" {
		d.learnRefrain()
	}
	return ok
}

func classifyField(key []byte) shapeKey { return shapeKey{field: fieldsByName[string(key)]} }

// field reads the value of a top-level field.
func (d *Decoder) field(f field, key []byte, depth int) bool {
	switch f {
	case fieldID:
		text, given, ok := d.text(fieldID, key, depth)
		if given {
			d.setID(text)
		}
		return ok
	case fieldTime:
		return d.time(key, depth)
	case fieldService:
		text, given, ok := d.text(fieldService, key, depth)
		if given {
			d.f.sameService = d.vouched.ok && string(text) == string(d.vouched.service)
			if d.f.sameService || d.checkName(CodeBadService, key, text) {
				d.f.service = text
			}
		}
		return ok
	case fieldType:
		text, given, ok := d.text(fieldType, key, depth)
		if given {
			d.f.sameType = d.vouched.ok && string(text) == string(d.vouched.typ)
			if d.f.sameType || d.checkName(CodeBadType, key, text) {
				d.f.typ = text
			}
		}
		return ok
	case fieldOutcome:
		text, given, ok := d.text(fieldOutcome, key, depth)
		if given {
			d.setOutcome(text)
		}
		return ok
	case fieldSeverity:
		text, given, ok := d.text(fieldSeverity, key, depth)
		if given {
			same := d.vouched.ok && len(text) > 0 && string(text) == string(d.vouched.severity)
			if !same && (len(text) > 64 || !isName(text)) {
				d.fail(CodeBadSeverity, "Severity %s must be 1 to 64 letters, digits, dots, dashes or underscores.", quote(text))
			}
			d.f.severity = text
		}
		return ok
	case fieldDurationMillis:
		return d.span(fieldDurationMillis, key, 6, depth)
	case fieldDuration:
		return d.span(fieldDuration, key, 9, depth)
	case fieldCount:
		return d.count(fieldCount, key, &d.f.count, depth)
	case fieldWeight:
		if !d.weighted {
			d.unknownField(key)
			return d.skip(depth)
		}
		return d.count(fieldWeight, key, &d.f.weight, depth)
	case fieldAttributes:
		return d.attributes(key, depth)
	case fieldDurations:
		return d.pairs(key, depth)
	default:
		d.unknownField(key)
		return d.skip(depth)
	}
}

// begin notes that the field is there and reports whether its value is still to
// be read: false after null.
func (d *Decoder) begin(bit field, key []byte) (more, ok bool) {
	if d.f.seen&bit != 0 {
		d.fail(CodeDuplicateKey, "Duplicate field %s. Remove one.", quote(key))
	}
	d.f.seen |= bit
	if d.peek() == 'n' {
		return false, d.literal("null")
	}
	d.f.given |= bit
	return true, true
}

// text reads a field that must be a string. given is false if it is not.
func (d *Decoder) text(bit field, key []byte, depth int) (text []byte, given, ok bool) {
	more, ok := d.begin(bit, key)
	if !more {
		return nil, false, ok
	}
	if d.peek() != '"' {
		d.fail(CodeWrongType, "Field %s must be a string.", quote(key))
		return nil, false, d.skip(depth)
	}
	text, ok = d.str()
	return text, ok, ok
}

// num reads a field that must be a number. text is nil if it is not.
func (d *Decoder) num(bit field, key []byte, depth int) (text []byte, ok bool) {
	more, ok := d.begin(bit, key)
	if !more {
		return nil, ok
	}
	if c := d.peek(); c == '"' || c == '{' || c == '[' || c == 't' || c == 'f' {
		d.fail(CodeWrongType, "Field %s must be a number without quotes.", quote(key))
		return nil, d.skip(depth)
	}
	return d.number()
}

func (d *Decoder) setID(text []byte) {
	if !ValidID(text) {
		d.fail(CodeBadID, "The id %s must be 1 to 256 bytes without control characters. Leave it out to have one assigned.",
			quote(text))
		return
	}
	d.f.id = text
}

// ValidID reports whether a text may be an id: 1 to 256 bytes without control characters.
func ValidID(text []byte) bool { return len(text) > 0 && len(text) <= maxIDBytes && !hasControl(text) }

// hasControl reports whether text has a control character, U+0080 to U+009F
// included.
func hasControl(text []byte) bool {
	for i, c := range text {
		if c < ' ' || c == 0x7f || c == 0xc2 && i+1 < len(text) && text[i+1] < 0xa0 {
			return true
		}
	}
	return false
}

// checkName reports whether text may name a service or type.
func (d *Decoder) checkName(code Code, key, text []byte) bool {
	if len(text) <= d.limits.MaxNameBytes && isName(text) {
		return true
	}
	d.fail(code, "The %s %s must be 1 to %d letters, digits, dots, dashes or underscores.", key,
		quote(text), d.limits.MaxNameBytes)
	return false
}

func (d *Decoder) setOutcome(text []byte) {
	switch string(text) {
	case "success":
		d.f.outcome = Success
	case "failure":
		d.f.outcome = Failure
	default:
		d.fail(CodeBadOutcome, "Outcome %s must be %s.", quote(text), outcomeHint(text))
	}
}

func (d *Decoder) time(key []byte, depth int) bool {
	more, ok := d.begin(fieldTime, key)
	if !more {
		return ok
	}
	switch c := d.peek(); {
	case c == '"':
		text, ok := d.str()
		if !ok {
			return false
		}
		if d.f.time, d.f.hasTime = ParseTime(text); !d.f.hasTime {
			d.fail(CodeBadTime,
				"Time %s must be RFC 3339, as in 2026-11-20T09:00:00.123Z, or a number of Unix seconds or milliseconds.",
				quote(text))
		}
		d.noteFar(text)
		return true
	case c == '-' || isDigit(c):
		text, ok := d.number()
		if !ok {
			return false
		}
		if d.f.time, d.f.hasTime = parseUnix(text); !d.f.hasTime {
			d.fail(CodeBadTime, "Time %s is too large. Send Unix seconds or milliseconds.", text[:min(len(text), quoteBytes)])
		}
		d.noteFar(text)
		return true
	case c == '{' || c == '[' || c == 't' || c == 'f':
		d.fail(CodeWrongType, "Field %s must be a string or a number.", quote(key))
	}
	return d.skip(depth)
}

// noteFar keeps the text of a time that was cut to the range of int64.
func (d *Decoder) noteFar(text []byte) {
	if t := d.f.time; t == math.MaxInt64 || t <= -math.MaxInt64 {
		d.f.farTime = text
	}
}

// span reads a duration whose unit is 10^scale nanoseconds.
func (d *Decoder) span(bit field, key []byte, scale, depth int) bool {
	text, ok := d.num(bit, key, depth)
	if text == nil || !ok {
		return ok
	}
	if d.f.duration, ok = parseSpan(text, scale); !ok {
		d.f.duration = NoDuration
		d.fail(CodeBadDuration, "Field %s is %s but must be between 0 and 366 days.", quote(key),
			text[:min(len(text), quoteBytes)])
	}
	return true
}

// count reads a field that must be a count or a weight.
func (d *Decoder) count(bit field, key []byte, n *uint32, depth int) bool {
	text, ok := d.num(bit, key, depth)
	if text == nil || !ok {
		return ok
	}
	if *n, ok = parseCount(text); !ok {
		d.fail(CodeBadCount, "Field %s is %s but must be an integer from 1 to 4294967295.", quote(key),
			text[:min(len(text), quoteBytes)])
	}
	return true
}

func parseCount(text []byte) (n uint32, ok bool) {
	v := parseDecimal(text, 0)
	if !v.ok || v.negative || !v.exact || v.whole < 1 || v.whole > 1<<32-1 {
		return 1, false
	}
	return uint32(v.whole), true
}

// attributes reads the attributes, and leaves them sorted, without the nulls.
func (d *Decoder) attributes(key []byte, depth int) bool {
	more, ok := d.begin(fieldAttributes, key)
	if !more {
		return ok
	}
	if d.peek() != '{' {
		d.fail(CodeWrongType, "Field %s must be an object.", quote(key))
		return d.skip(depth)
	}
	d.f.attrs, d.f.order, d.nullAttr = d.f.attrs[:0], nil, false
	foreseen, ok := d.members(depth, &d.attrShape, d.classifyAttribute, func(name []byte, k shapeKey) bool {
		return d.attribute(name, k.valid, depth+1)
	})
	if !ok {
		return false
	}
	if s := &d.attrShape; foreseen && len(d.f.attrs) == len(s.order) && !d.nullAttr {
		d.f.order = s.order
	} else {
		d.sortAttributes()
	}
	return true
}

func (d *Decoder) classifyAttribute(name []byte) shapeKey {
	return shapeKey{valid: isAttrName(name) && len(name) <= d.limits.MaxNameBytes && !isReserved(name)}
}

// attribute reads the value of an attribute. valid is whether it may have that name.
func (d *Decoder) attribute(name []byte, valid bool, depth int) bool {
	var value []byte
	var ok, null bool
	switch c := d.peek(); c {
	case '"':
		value, ok = d.str()
	case 't', 'f', 'n':
		from := d.i
		ok = d.skip(depth)
		value, null = d.b[from:d.i:d.i], c == 'n'
		d.nullAttr = d.nullAttr || null
	case '{', '[':
		d.fail(CodeBadAttribute, "Attribute %s must be a string, number or boolean. Flatten it.", quote(name))
		return d.skip(depth)
	default:
		value, ok = d.number()
	}
	if !ok {
		return false
	}
	switch {
	case valid && len(value) <= d.limits.MaxValueBytes:
	case !isAttrName(name) || len(name) > d.limits.MaxNameBytes:
		d.fail(CodeBadAttribute,
			"Attribute name %s must be 1 to %d letters, digits, dots, dashes or underscores and begin with a letter or "+
				"underscore.", quote(name), d.limits.MaxNameBytes)
	case isReserved(name):
		d.fail(CodeReservedLabel, "Attribute name %s is reserved. Rename the attribute.", quote(name))
	case len(value) > d.limits.MaxValueBytes:
		d.fail(CodeBadAttribute, "Attribute %s has %d bytes, but the maximum is %d. Shorten it.", quote(name), len(value),
			d.limits.MaxValueBytes)
	}
	if len(d.f.attrs) >= d.limits.MaxAttributes {
		d.fail(CodeTooManyAttributes, "An event can have at most %d attributes. Send fewer.", d.limits.MaxAttributes)
		return true
	}
	d.f.attrs = append(d.f.attrs, Attribute{name, value, null})
	return true
}

// sortAttributes puts the attributes in order, which brings equal names
// together, and drops the nulls.
func (d *Decoder) sortAttributes() {
	attrs := d.f.attrs
	if len(attrs) <= 16 {
		for i := 1; i < len(attrs); i++ {
			for j := i; j > 0 && string(attrs[j].Name) < string(attrs[j-1].Name); j-- {
				attrs[j], attrs[j-1] = attrs[j-1], attrs[j]
			}
		}
	} else {
		slices.SortFunc(attrs, func(a, b Attribute) int { return bytes.Compare(a.Name, b.Name) })
	}
	n := 0
	for i := range attrs {
		if i > 0 && string(attrs[i].Name) == string(attrs[i-1].Name) {
			d.fail(CodeDuplicateKey, "Duplicate attribute %s. Remove one.", quote(attrs[i].Name))
		}
		if attrs[i].null {
			continue
		}
		if n != i {
			attrs[n] = attrs[i]
		}
		n++
	}
	d.f.attrs = attrs[:n]
}

// attribute returns the i-th attribute by name.
func (f *fields) attribute(i int) *Attribute {
	if f.order != nil {
		i = f.order[i]
	}
	return &f.attrs[i]
}

// pairs reads the durations of an aggregated event.
func (d *Decoder) pairs(key []byte, depth int) bool {
	more, ok := d.begin(fieldDurations, key)
	if !more {
		return ok
	}
	if d.peek() != '[' {
		d.fail(CodeWrongType, "Field %s must be an array of [milliseconds, count] pairs.", quote(key))
		return d.skip(depth)
	}
	d.f.durations = d.f.durations[:0]
	return d.array(depth, func() bool {
		if d.peek() != '[' {
			d.fail(CodeBadDurations, "Durations must be [milliseconds, count] pairs.")
			return d.skip(depth + 1)
		}
		return d.pair(depth + 1)
	})
}

func (d *Decoder) pair(depth int) bool {
	n := 0
	var p DurationCount
	ok := d.array(depth, func() bool {
		n++
		c := d.peek()
		if n > 2 || c != '-' && !isDigit(c) {
			if c != 'N' && c != 'I' { // leave NaN to the syntax error
				d.fail(CodeBadDurations, "Durations must be [milliseconds, count] pairs.")
			}
			return d.skip(depth + 1)
		}
		text, ok := d.number()
		if !ok {
			return false
		}
		if n == 1 {
			ns, ok := parseSpan(text, 6)
			if !ok {
				d.fail(CodeBadDurations, "Duration %s must be between 0 and 366 days, in milliseconds.",
					text[:min(len(text), quoteBytes)])
			}
			p.Duration = time.Duration(ns)
		} else if p.Count, ok = parseCount(text); !ok {
			d.fail(CodeBadDurations, "The count %s of a duration must be an integer from 1 to 4294967295.",
				text[:min(len(text), quoteBytes)])
		}
		return true
	})
	switch {
	case !ok:
		return false
	case n != 2:
		d.fail(CodeBadDurations, "Durations must be [milliseconds, count] pairs.")
	case len(d.f.durations) >= maxPairs:
		d.fail(CodeBadDurations, "An event can have at most %d durations. Merge some.", maxPairs)
	default:
		d.f.durations = append(d.f.durations, p)
	}
	return true
}
