package event

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends e as one line of JSON, without the line break. Attributes
// are written as strings. Bytes that are not UTF-8 become U+FFFD.
func (e *Event) AppendJSON(dst []byte) []byte {
	h := e.head()
	dst = h.appendJSON(dst)
	for i := range e.Attributes {
		dst = appendJSONAttr(dst, i, e.Attributes[i].Name, e.Attributes[i].Value)
	}
	if len(e.Attributes) > 0 {
		dst = append(dst, '}')
	}
	for i, d := range e.Durations {
		dst = appendJSONPair(dst, i, int64(d.Duration), d.Count)
	}
	if len(e.Durations) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// AppendJSON appends the event as one line of JSON, without the line break. An
// id that the server assigned is written like any other.
func (v *View) AppendJSON(dst []byte) []byte {
	h := head[[]byte]{
		id: v.ID, service: v.Service, typ: v.Type, severity: v.Severity,
		outcome: v.Outcome, hasTime: true, time: v.Time, duration: v.Duration, count: v.Count, weight: v.Weight,
	}
	dst = h.appendJSON(dst)
	i := 0
	for name, value := range v.Attrs {
		dst = appendJSONAttr(dst, i, name, value)
		i++
	}
	if i > 0 {
		dst = append(dst, '}')
	}
	i = 0
	for d, n := range v.Durations {
		dst = appendJSONPair(dst, i, d, n)
		i++
	}
	if i > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// MarshalJSON returns the text that AppendJSON appends.
func (e *Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// UnmarshalJSON reads one event object as strictly as a Decoder, except that its
// time may be any that int64 nanoseconds hold, and that it may have a weight, as
// AppendJSON writes it. Without a time, Time stays zero. The error is an *EventError.
func (e *Event) UnmarshalJSON(data []byte) error {
	var d Decoder
	return d.decodeEvent(data, true, e)
}

// EventError is the problem of a single event.
type EventError struct {
	Code   Code
	Detail string
}

func (e *EventError) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Detail) }

func appendJSONAttr[T string | []byte](dst []byte, i int, name, value T) []byte {
	if i == 0 {
		dst = append(dst, `,"attributes":{`...)
	} else {
		dst = append(dst, ',')
	}
	dst = AppendJSONText(dst, name)
	dst = append(dst, ':')
	return AppendJSONText(dst, value)
}

func appendJSONPair(dst []byte, i int, ns int64, n uint32) []byte {
	if i == 0 {
		dst = append(dst, `,"durations":[`...)
	} else {
		dst = append(dst, ',')
	}
	dst = append(dst, '[')
	dst = appendMillis(dst, ns)
	dst = append(dst, ',')
	dst = strconv.AppendUint(dst, uint64(n), 10)
	return append(dst, ']')
}

// AppendJSONText appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendJSONText[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	plain := 0 // s[plain:i] needs no escape and is not yet written
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, s[plain:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			if c < ' ' {
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			} else {
				dst = append(dst, `\ufffd`...)
			}
		}
		i += size
		plain = i
	}
	dst = append(dst, s[plain:]...)
	return append(dst, '"')
}
