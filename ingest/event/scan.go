package event

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/sloengine/sloengine/ingest/jsonescape"
)

// hardDepth bounds nesting regardless of SizeLimits: a body beyond it is rejected.
const hardDepth = 1000

// scanner walks JSON text once, front to back, and accepts RFC 8259 and nothing
// else. It builds no tree: values are handed out as slices of the text, or of
// scratch where a string had escapes.
//
// There are two kinds of failure. A syntax error (a method returns false) ends the walk. A problem,
// recorded by fail, invalidates the event being read but does not end the walk, so that the other
// events of the same text can still be found.
type scanner struct {
	b        []byte
	i        int
	maxDepth int
	scratch  []byte
	quiet    bool // skip details, which are not shown

	syntaxAt  int
	syntaxWhy string
	syntaxBad Code

	problem Code // the first; "" is none
	detail  string
}

func (s *scanner) syntax(at int, why string) bool {
	s.syntaxAt, s.syntaxWhy, s.syntaxBad = at, why, CodeInvalidJSON
	return false
}

// space skips white space.
func (s *scanner) space() {
	for s.i < len(s.b) && s.b[s.i] <= ' ' {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end. A zero byte is not valid JSON, so the two cases need no
// distinction.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// str reads the string whose opening quote is next.
func (s *scanner) str() (text []byte, ok bool) {
	b := s.b
	start := s.i + 1
	i := start
	for i+8 <= len(b) {
		m := special(binary.LittleEndian.Uint64(b[i:]))
		if m == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(m) >> 3
		if b[i] == '"' {
			s.i = i + 1
			return b[start:i:i], true
		}
		return s.longStr(start, i)
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' {
			s.i = i + 1
			return b[start:i:i], true
		} else if c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			return s.longStr(start, i)
		}
	}
	return nil, s.syntax(len(b), "expected a closing quote")
}

// special marks, by its high bit, the first of eight bytes that is a quote, a
// backslash, a control character or not ASCII. Marks above the first may be
// wrong.
func special(x uint64) uint64 {
	const ones = 0x0101010101010101
	quote := x ^ ones*'"'
	slash := x ^ ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*' ')&^x | x) & (ones * 0x80)
}

// longStr continues a string whose bytes from start to i are plain.
func (s *scanner) longStr(start, i int) (text []byte, ok bool) {
	b := s.b
	escaped, wide := false, false
	for {
		if i >= len(b) {
			return nil, s.syntax(len(b), "expected a closing quote")
		}
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			text = b[start:i:i]
			if wide && !utf8.Valid(text) {
				s.fail(CodeInvalidUTF8, "Text %s is not UTF-8. Encode it as UTF-8.", quote(text))
			}
			if escaped {
				text = s.unescape(text)
			}
			return text, true
		case c == '\\':
			escaped = true
			n := jsonescape.Length(b[i:])
			if n == 0 {
				return nil, s.syntax(i, `expected one of the escapes \" \\ \/ \b \f \n \r \t or \u and four hex digits`)
			}
			i += n
		case c < ' ':
			return nil, s.syntax(i, `a control character in a string must be escaped, as in \n or \u0000`)
		default:
			wide = wide || c >= utf8.RuneSelf
			i++
		}
	}
}

// unescape resolves the escapes of text, all of which are well formed.
func (s *scanner) unescape(text []byte) []byte {
	start := len(s.scratch)
	out, ok := jsonescape.Append(s.scratch, text, "\uFFFD")
	if !ok {
		s.fail(CodeInvalidUTF8, "Text %s has an unpaired surrogate. Send both halves of the pair.", quote(text))
	}
	s.scratch = out
	return out[start:len(out):len(out)]
}

// number reads the number that is next and returns its text.
func (s *scanner) number() (text []byte, ok bool) {
	start, i, b := s.i, s.i, s.b
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case i < len(b) && isDigit(b[i]):
		i = digits(b, i)
	default:
		return nil, s.syntax(start, "expected a value")
	}
	if i < len(b) && b[i] == '.' {
		from := i + 1
		if i = digits(b, from); i == from {
			return nil, s.syntax(i, "expected a digit after the decimal point")
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from := i
		if i = digits(b, from); i == from {
			return nil, s.syntax(i, "expected a digit after the exponent sign")
		}
	}
	s.i = i
	return b[start:i:i], true
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func digits(b []byte, i int) int {
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}

// literal reads true, false or null.
func (s *scanner) literal(word string) bool {
	if end := s.i + len(word); end <= len(s.b) && string(s.b[s.i:end]) == word {
		s.i = end
		return true
	}
	return s.syntax(s.i, "expected a value")
}

// skip reads over any value. depth is that of the value, 1 for an outermost one.
func (s *scanner) skip(depth int) bool {
	switch s.peek() {
	case '"':
		_, ok := s.str()
		return ok
	case '{':
		return s.object(depth, func([]byte) bool { return s.skip(depth + 1) })
	case '[':
		return s.array(depth, func() bool { return s.skip(depth + 1) })
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		_, ok := s.number()
		return ok
	}
}

// object reads the object whose brace is next and calls field at each value.
func (s *scanner) object(depth int, field func(key []byte) bool) bool {
	if !s.enter(depth) {
		return false
	}
	if s.peek() == '}' {
		s.i++
		return true
	}
	for {
		key, ok := s.key()
		if !ok {
			return false
		}
		s.space()
		if !field(key) {
			return false
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
			s.space()
		case '}':
			s.i++
			return true
		default:
			return s.syntax(s.i, "expected a comma or a closing brace")
		}
	}
}

// key reads the key of a member that is next, and its colon.
func (s *scanner) key() (key []byte, ok bool) {
	if s.peek() != '"' {
		return nil, s.syntax(s.i, "expected a key in double quotes")
	}
	if key, ok = s.str(); !ok {
		return nil, false
	}
	s.space()
	if s.peek() != ':' {
		return nil, s.syntax(s.i, "expected a colon after the key")
	}
	s.i++
	return key, true
}

// array reads the array whose bracket is next and calls element at each value.
func (s *scanner) array(depth int, element func() bool) bool {
	if !s.enter(depth) {
		return false
	}
	if s.peek() == ']' {
		s.i++
		return true
	}
	for {
		if !element() {
			return false
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
			s.space()
		case ']':
			s.i++
			return true
		default:
			return s.syntax(s.i, "expected a comma or a closing bracket")
		}
	}
}

// enter steps over an opening brace or bracket and the space behind it.
func (s *scanner) enter(depth int) bool {
	if depth > s.maxDepth {
		s.fail(CodeTooDeep, "The event is nested more than %d levels deep. Flatten it.", s.maxDepth)
	}
	if depth > hardDepth {
		s.syntax(s.i, "nesting is too deep (flatten it)")
		s.syntaxBad = CodeTooDeep
		return false
	}
	s.i++
	s.space()
	return true
}
