// Package jsonescape reads the escapes of JSON strings. It does not look for the ends of strings, and does not verify
// UTF-8.
package jsonescape

import (
	"unicode/utf16"
	"unicode/utf8"
)

// Length returns the length of the escape at the start of b, 0 if it is none.
func Length(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// Append appends text, all of whose escapes are well-formed, with its escapes resolved. An unpaired surrogate becomes
// unpaired, and ok is false.
func Append(out, text []byte, unpaired string) (_ []byte, ok bool) {
	ok = true
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			out = append(out, text[i])
			i++
			continue
		}
		switch c := text[i+1]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, _ := hex4(text[i+2:])
			i += 6
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if i < len(text) && text[i] == '\\' && Length(text[i:]) == 6 {
					low, _ = hex4(text[i+2:])
				}
				if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
					out, ok = append(out, unpaired...), false
					continue
				}
				i += 6
			}
			out = utf8.AppendRune(out, r)
			continue
		default:
			out = append(out, c)
		}
		i += 2
	}
	return out, ok
}
