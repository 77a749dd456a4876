package otlpwire

import "unicode/utf8"

// Limits are the bounds of a request. A zero field has its default.
type Limits struct {
	MaxAttrs      int // attributes of a resource or item, 1024: further ones are left out
	MaxItems      int // spans, log records or points of a request, 1,000,000: a request with more is refused
	MaxDepth      int // levels of arrays and maps in a value, 32: a deeper value is made Empty
	MaxValueBytes int // bytes of a text, 65536: the rest is cut; longer bytes, arrays and maps are made Empty
}

func (l Limits) withDefaults() Limits {
	set := func(n *int, otherwise int) {
		if *n <= 0 {
			*n = otherwise
		}
	}
	set(&l.MaxAttrs, 1024)
	set(&l.MaxItems, 1_000_000)
	set(&l.MaxDepth, 32)
	set(&l.MaxValueBytes, 64<<10)
	return l
}

// Losses says what the last request lost.
type Losses struct {
	Cut      int // attributes left out, and values cut or made Empty
	Repaired int // texts with invalid UTF-8, which has become U+FFFD
}

// Decoder decodes one request after another. It is for one goroutine. What it hands out is valid until the caller's
// function returns, and must not be changed.
type Decoder struct {
	limits Limits
	losses Losses
	stop   error  // of the caller's function
	text   []byte // what could not refer to the request: repaired texts, merged values
	json   transcoder
	origin Origin
	items  int
	span   Span
	log    LogRecord
	metric Metric
	point  Point

	wires [][]byte // the bytes of the plain attributes in the memory of items, by place; empty: another one is there
}

// New returns a Decoder.
func New(limits Limits) *Decoder { return &Decoder{limits: limits.withDefaults()} }

// Losses says what the last request lost.
func (d *Decoder) Losses() Losses { return d.losses }

// names are the fields on the way to an item.
type names struct{ resource, scope, item string }

// request hands every item of a request to item, as the bytes of body between from and the end of its argument.
// Requests of all signals have the same numbers down to the item.
func (d *Decoder) request(body []byte, at names, item func(b []byte, from int) *Error) error {
	d.losses, d.stop, d.items, d.wires = Losses{}, nil, 0, d.wires[:0]
	d.origin.ResourceIndex, d.origin.Index = -1, -1
	scopeGroup := func(b []byte, from int) *Error {
		d.origin.ScopeName, d.origin.Scope = nil, d.origin.Scope[:0]
		return d.group(b, from, "scope", d.scope, at.item, item)
	}
	f := fields{next: 0}
	for f.more(body) {
		if f.tag == 1<<3|wireBytes {
			d.origin.ResourceIndex++
			d.text, d.origin.Resource = d.text[:0], d.origin.Resource[:0]
			f.err = d.group(body[:f.to], f.from, "resource", d.resource, at.scope, scopeGroup).
				in(at.resource, d.origin.ResourceIndex)
		}
	}
	switch f.err {
	case nil:
		return nil
	case stopped:
		return d.stop
	}
	return f.err
}

// group reads a message of a head and members, the head first: it may be written behind its members, and in several
// pieces.
func (d *Decoder) group(b []byte, from int, headName string, head func([]byte, int) *Error, memberName string,
	member func([]byte, int) *Error) *Error {
	f := fields{next: from}
	for f.more(b) {
		if f.tag == 1<<3|wireBytes {
			f.err = head(b[:f.to], f.from).in(headName, -1)
		}
	}
	mark, members := len(d.text), -1
	f.next = from
	for f.more(b) {
		if f.tag == 2<<3|wireBytes {
			members++
			d.text = d.text[:mark]
			f.err = member(b[:f.to], f.from).in(memberName, members)
		}
	}
	return f.err
}

func (d *Decoder) resource(b []byte, from int) *Error {
	attrs, entities := -1, -1
	f := fields{next: from}
	for f.more(b) {
		switch f.tag {
		case 1<<3 | wireBytes:
			attrs++
			d.origin.Resource, f.err = d.addAttr(d.origin.Resource, b[:f.to], f.from)
			f.err = f.err.in("attributes", attrs)
		case 3<<3 | wireBytes:
			entities++
			_, f.err = entityRef.check(b[:f.to], f.from, 0)
			f.err = f.err.in("entityRefs", entities)
		}
	}
	return f.err
}

func (d *Decoder) scope(b []byte, from int) *Error {
	if _, err := scope.check(b, from, d.limits.MaxDepth); err != nil {
		return err
	}
	f := fields{next: from}
	for f.more(b) {
		switch f.tag {
		case 1<<3 | wireBytes:
			d.origin.ScopeName = d.string(b[f.from:f.to])
		case 3<<3 | wireBytes:
			d.origin.Scope, f.err = d.addAttr(d.origin.Scope, b[:f.to], f.from)
		}
	}
	return f.err
}

// each returns a function that counts an item, reads it and hands it to yield.
func each[T any](d *Decoder, item *T, read func(b []byte, from int) *Error,
	yield func(*T) error) func(b []byte, from int) *Error {
	return func(b []byte, from int) *Error {
		if d.items++; d.items > d.limits.MaxItems {
			return errorAt(from, "more than %d in a request", d.limits.MaxItems)
		}
		d.origin.Index++
		if err := read(b, from); err != nil {
			return err
		}
		if d.stop = yield(item); d.stop != nil {
			return stopped
		}
		return nil
	}
}

// setID copies an id, and reports whether it has the right length or is absent.
func setID(id, from []byte) bool {
	if len(from) == len(id) {
		copy(id, from)
		return true
	}
	return len(from) == 0
}

// string returns a text that is valid UTF-8 and not too long.
func (d *Decoder) string(s []byte) []byte {
	if len(s) <= d.limits.MaxValueBytes && ascii(s) { // almost always
		return s[:len(s):len(s)]
	}
	if len(s) > d.limits.MaxValueBytes {
		d.losses.Cut++
		n := d.limits.MaxValueBytes
		for back := 0; back < utf8.UTFMax-1 && n > 0 && !utf8.RuneStart(s[n]); back++ {
			n--
		}
		s = s[:n]
	}
	if utf8.Valid(s) {
		return s[:len(s):len(s)]
	}
	d.losses.Repaired++
	from, invalid := len(d.text), false
	for len(s) > 0 { // as bytes.ToValidUTF8, which allocates
		r, n := utf8.DecodeRune(s)
		was := invalid
		if invalid = r == utf8.RuneError && n == 1; !invalid {
			d.text = append(d.text, s[:n]...)
		} else if !was {
			d.text = append(d.text, "\uFFFD"...)
		}
		s = s[n:]
	}
	return d.text[from:len(d.text):len(d.text)]
}
