package record

import (
	"encoding/binary"
	"strconv"

	"github.com/sloengine/sloengine/internal/binread"
)

// This file takes texts apart that differ from event to event: ids, and values of attributes. A shape has what many of
// them have in common, and the lengths of what differs.

// The parts of a shape.
const (
	partText   = iota // the same in all
	partHex           // lower-case hexadecimal digits: two are a byte
	partDigits        // a decimal number of at most maxDigits digits, as the difference from that of the text before
	partChars         // anything else
)

const (
	maxDigits    = 18
	maxNumbers   = 8 // in a text
	maxShapes    = 1024
	maxShapeSize = 1 << 10
)

type shapePart struct {
	kind byte
	n    int
	text []byte
}

type shape struct {
	size    int // of its texts
	parts   []shapePart
	numbers int
	last    [maxNumbers]uint64
}

// parseShape reads the parts of a shape. ok is false for what no packer writes.
func parseShape(key []byte) (s *shape, ok bool) {
	s = &shape{}
	r := binread.New(key)
	for len(r.Rest) > 0 {
		p := shapePart{kind: r.Byte()}
		n := r.Uint()
		if n == 0 || n > maxShapeSize {
			return nil, false
		}
		p.n = int(n)
		switch p.kind {
		case partText:
			p.text = r.Take(p.n)
		case partDigits:
			if s.numbers++; p.n > maxDigits || s.numbers > maxNumbers {
				return nil, false
			}
		case partHex, partChars:
		default:
			return nil, false
		}
		s.size += p.n
		s.parts = append(s.parts, p)
	}
	return s, !r.Bad() && s.size <= maxShapeSize
}

// textPacker knows the shapes of a block.
type textPacker struct {
	shapes []*shape
	byKey  map[string]int
	last   [256]int32 // number plus one of the shape of the last text, by its length and first byte
	key    []byte
}

func (t *textPacker) reset() {
	if len(t.shapes) > 0 || t.byKey == nil {
		t.byKey = map[string]int{}
		clear(t.shapes)
		t.shapes, t.last = t.shapes[:0], [256]int32{}
	}
}

// put appends a text: the code of its shape, and what differs.
func (t *textPacker) put(c *[numColumns][]byte, text []byte) {
	slot := len(text)
	if slot > 0 {
		slot += 37 * int(text[0])
	}
	last := &t.last[slot&255]
	if i := int(*last) - 1; i >= 0 && t.shapes[i].put(c, text) {
		putCode(c[colShape:], i+2)
		return
	}
	if len(text) <= maxShapeSize && len(t.shapes) < maxShapes && t.shapeOf(text) {
		i, known := t.byKey[string(t.key)]
		if !known {
			key := string(t.key)
			i = len(t.shapes)
			s, _ := parseShape([]byte(key))
			t.byKey[key], t.shapes = i, append(t.shapes, s)
			putCode(c[colShape:], 0)
			c[colTexts] = appendBytes(c[colTexts], t.key)
			s.put(c, text)
			*last = int32(i) + 1
			return
		}
		if t.shapes[i].put(c, text) {
			putCode(c[colShape:], i+2)
			*last = int32(i) + 1
			return
		}
	}
	putCode(c[colShape:], 1)
	c[colTexts] = appendBytes(c[colTexts], text)
}

// put appends what differs in a text, and reports whether it has the shape.
func (s *shape) put(c *[numColumns][]byte, text []byte) bool {
	if len(text) != s.size {
		return false
	}
	hex, chars := len(c[colHex]), len(c[colChars])
	var numbers [maxNumbers]uint64
	n := 0
	for i := range s.parts {
		p := &s.parts[i]
		part := text[:p.n]
		text = text[p.n:]
		ok := true
		switch p.kind {
		case partText:
			ok = string(part) == string(p.text)
		case partHex:
			c[colHex], ok = appendHex(c[colHex], part)
		case partDigits:
			numbers[n], ok = decimal(part)
			n++
		case partChars:
			c[colChars] = append(c[colChars], part...)
		}
		if !ok {
			c[colHex], c[colChars] = c[colHex][:hex], c[colChars][:chars]
			return false
		}
	}
	for i := range n {
		putPlanes(c[colDigits:colDigits+numPlanes], zigzag(int64(numbers[i]-s.last[i])))
		s.last[i] = numbers[i]
	}
	return true
}

func decimal(b []byte) (x uint64, ok bool) {
	for _, c := range b {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		x = 10*x + uint64(d)
	}
	return x, true
}

// nibbles are the values of lower-case hexadecimal digits, 0xff for other bytes.
var nibbles = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i, c := range []byte(hexDigits) {
		t[c] = byte(i)
	}
	return t
}()

const hexDigits = "0123456789abcdef"

func appendHex(dst, digits []byte) ([]byte, bool) {
	bad := byte(0)
	for ; len(digits) >= 2; digits = digits[2:] {
		hi, lo := nibbles[digits[0]], nibbles[digits[1]]
		bad |= hi | lo
		dst = append(dst, hi<<4|lo)
	}
	if len(digits) > 0 {
		bad |= nibbles[digits[0]]
		dst = append(dst, nibbles[digits[0]])
	}
	return dst, bad < 16
}

// shapeOf makes the key of the shape of a text. It reports false if the text has too many parts.
func (t *textPacker) shapeOf(text []byte) bool {
	t.key = t.key[:0]
	plain := 0 // bytes at the end that are the same in all
	numbers := 0
	hexes := false
	flush := func(end int) {
		if plain > 0 {
			t.key = append(binary.AppendUvarint(append(t.key, partText), uint64(plain)), text[end-plain:end]...)
			plain = 0
		}
	}
	for i := 0; i < len(text); {
		run := runOf(text[i:])
		if run.size == 0 {
			i, plain = i+1, plain+1
			continue
		}
		kind, plainly, n := run.part(hexes)
		plain += plainly
		i += plainly
		if n > 0 {
			flush(i)
			t.key = binary.AppendUvarint(append(t.key, kind), uint64(n))
			i += n
		}
		hexes = hexes || kind == partHex && n > 0
		if kind == partDigits && n > 0 {
			if numbers++; numbers > maxNumbers {
				return false
			}
		}
	}
	flush(len(text))
	return len(t.key) > 0
}

// run says what the letters and digits at the start of a text are.
type run struct {
	size, digits, hex, other int
	front                    int // before the first digit
	behind                   int // behind it, without digits
}

func runOf(b []byte) (r run) {
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			r.digits++
		case c >= 'a' && c <= 'f':
			r.hex++
		case c >= 'g' && c <= 'z', c >= 'A' && c <= 'Z':
			r.other++
		default:
			return r
		}
		if r.digits == 0 {
			r.front++
		} else if c > '9' {
			r.behind++
		}
		r.size++
	}
	return r
}

// part is how the run is stored: so many bytes are plain, and then n are of the kind. hexes says that the text has
// hexadecimal digits in front of it.
func (r *run) part(hexes bool) (kind byte, plain, n int) {
	switch {
	case r.other == 0 && (hexes || r.hex > 0 && r.digits > 0 && r.size >= 4 || r.hex == 0 && r.digits > maxDigits):
		return partHex, 0, r.size
	case r.digits == 0:
		return partText, r.size, 0
	case r.behind == 0 && r.digits <= maxDigits:
		return partDigits, r.front, r.digits
	}
	return partChars, 0, r.size
}

// append appends a text of the shape.
func (s *shape) append(dst []byte, c *columnReader) []byte {
	n := 0
	for i := range s.parts {
		p := &s.parts[i]
		switch p.kind {
		case partText:
			dst = append(dst, p.text...)
		case partHex:
			for _, b := range c.take(colHex, p.n/2) {
				dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
			}
			if p.n&1 > 0 {
				dst = append(dst, hexDigits[c.byte(colHex)&15])
			}
		case partDigits:
			s.last[n] += uint64(unzigzag(c.planes(colDigits)))
			dst = appendDigits(dst, s.last[n], p.n)
			n++
		case partChars:
			dst = append(dst, c.take(colChars, p.n)...)
		}
	}
	return dst
}

// appendDigits appends a number with leading zeros.
func appendDigits(dst []byte, x uint64, digits int) []byte {
	from := len(dst)
	dst = strconv.AppendUint(dst, x, 10)
	if short := digits - (len(dst) - from); short > 0 {
		dst = append(dst, make([]byte, short)...)
		copy(dst[from+short:], dst[from:])
		for i := range short {
			dst[from+i] = '0'
		}
	}
	return dst
}
