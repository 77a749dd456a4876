package otlpwire

import (
	"encoding/base64"

	"github.com/sloengine/sloengine/ingest/jsonescape"
)

// maxSkipped is how deep arrays and objects of a value may nest that is not understood.
const maxSkipped = 10_000

// at returns the byte at i, and 0 behind the end.
func (t *transcoder) at(i int) byte {
	if i < len(t.in) {
		return t.in[i]
	}
	return 0
}

// space returns where the white space at byte i ends.
func (t *transcoder) space(i int) int {
	for i < len(t.in) && (t.in[i] == ' ' || t.in[i] == '\n' || t.in[i] == '\t' || t.in[i] == '\r') {
		i++
	}
	return i
}

func (t *transcoder) expected(i int, what string) *Error {
	if i >= len(t.in) {
		return errorAt(len(t.in), "%s is expected, and the request ends", what)
	}
	return errorAt(i, "%s is expected, not %q", what, t.in[i])
}

// key returns the name of a field, and where its value begins.
func (t *transcoder) key(i int) ([]byte, int, *Error) {
	end, plain, err := t.textEnd(i)
	if err != nil {
		return nil, 0, err
	}
	key := t.in[i+1 : end-1]
	if !plain {
		if t.scratch, _, err = t.text(t.scratch[:0], i); err != nil {
			return nil, 0, err
		}
		key = t.scratch
	}
	i = t.space(end)
	if t.at(i) != ':' {
		return nil, 0, t.expected(i, "a colon")
	}
	return key, t.space(i + 1), nil
}

// more reports whether a list that close ends has another entry behind the one that ended at byte i, and returns where
// it begins.
func (t *transcoder) more(i int, close byte) (int, bool, *Error) {
	i = t.space(i)
	switch t.at(i) {
	case close:
		return i + 1, false, nil
	case ',':
		return t.space(i + 1), true, nil
	}
	return 0, false, t.expected(i, "a comma or "+string(close))
}

func (t *transcoder) literal(i int, word string) (int, *Error) {
	if len(t.in)-i < len(word) || string(t.in[i:i+len(word)]) != word {
		return 0, t.expected(i, word)
	}
	return i + len(word), nil
}

// textEnd returns where the text at byte i ends, behind its quote, and whether it has no escapes.
func (t *transcoder) textEnd(i int) (end int, plain bool, err *Error) {
	if t.at(i) != '"' {
		return 0, false, t.expected(i, "a text")
	}
	plain = true
	for j := i + 1; j < len(t.in); j++ {
		switch c := t.in[j]; {
		case c == '"':
			return j + 1, plain, nil
		case c < ' ':
			return 0, false, errorAt(j, "a control character in a text")
		case c == '\\':
			n := jsonescape.Length(t.in[j:])
			if n == 0 {
				return 0, false, errorAt(j, "an invalid escape in a text")
			}
			j += n - 1
			plain = false
		}
	}
	return 0, false, errorAt(i, "a text does not end")
}

// text appends the text at byte i to out. An unpaired surrogate becomes a byte that is not UTF-8, so that the text
// is repaired, and counted, as any other.
func (t *transcoder) text(out []byte, i int) ([]byte, int, *Error) {
	end, plain, err := t.textEnd(i)
	if err != nil {
		return out, 0, err
	}
	if plain {
		return append(out, t.in[i+1:end-1]...), end, nil
	}
	out, _ = jsonescape.Append(out, t.in[i+1:end-1], "\xff")
	return out, end, nil
}

// skip returns where the value at byte i ends, which may be of any type.
func (t *transcoder) skip(i int) (int, *Error) {
	t.scratch = t.scratch[:0] // the brackets that are open
	var err *Error
	for {
		switch c := t.at(i); c {
		case '{', '[':
			if len(t.scratch) == maxSkipped {
				return 0, errorAt(i, "arrays and objects nest deeper than %d", maxSkipped)
			}
			close := c + 2 // in ASCII
			t.scratch = append(t.scratch, close)
			if i = t.space(i + 1); t.at(i) != close {
				if c == '{' {
					if i, err = t.skipKey(i); err != nil {
						return 0, err
					}
				}
				continue
			}
			t.scratch = t.scratch[:len(t.scratch)-1]
			i++
		case '"':
			i, _, err = t.textEnd(i)
		case 't':
			i, err = t.literal(i, "true")
		case 'f':
			i, err = t.literal(i, "false")
		case 'n':
			i, err = t.literal(i, "null")
		default:
			var n int
			if n = numberEnd(t.in, i); n < 0 {
				return 0, t.expected(i, "a value")
			}
			i = n
		}
		for more := false; err == nil && !more; {
			if len(t.scratch) == 0 {
				return i, nil
			}
			close := t.scratch[len(t.scratch)-1]
			if i, more, err = t.more(i, close); err != nil {
				break
			}
			if !more {
				t.scratch = t.scratch[:len(t.scratch)-1]
			} else if close == '}' {
				i, err = t.skipKey(i)
			}
		}
		if err != nil {
			return 0, err
		}
	}
}

// skipKey returns where the value of the name at byte i begins.
func (t *transcoder) skipKey(i int) (int, *Error) {
	i, _, err := t.textEnd(i)
	if err != nil {
		return 0, err
	}
	if i = t.space(i); t.at(i) != ':' {
		return 0, t.expected(i, "a colon")
	}
	return t.space(i + 1), nil
}

// appendBase64 appends what the text s stands for, in either alphabet, padded or not.
func appendBase64(out, s []byte) ([]byte, bool) {
	enc := base64.StdEncoding
	for _, c := range s {
		if c == '-' || c == '_' {
			enc = base64.URLEncoding
			break
		}
	}
	if len(s)%4 != 0 {
		enc = enc.WithPadding(base64.NoPadding)
	}
	out, err := enc.AppendDecode(out, s)
	return out, err == nil
}
