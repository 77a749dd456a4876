package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Event is what a service tells others about.
type Event struct {
	// ID is the idempotency key: the event is stored once, however often it is saved with this key. Required, up to 1024
	// bytes. Derive it from the data, such as order-created-42, so that a retry of the caller has the same.
	ID string
	// Type is the type of the event, such as OrderCreated. Required, up to 255 bytes.
	Type string
	// AggregateType and AggregateID name what the event is about. Up to 255 bytes each.
	AggregateType, AggregateID string
	// Topic is the Kafka topic, RabbitMQ exchange or HTTP path. Required if the table has a column for it, up to 255
	// bytes.
	Topic string
	// Key is the Kafka key or RabbitMQ routing key. Events with equal keys are published in the order of their rows, if
	// their transactions do not overlap. Default: AggregateID. Up to 1024 bytes.
	Key string
	// Payload is JSON, or any bytes in a table with a payload of the type text (UTF-8) or bytea.
	Payload []byte
	// Headers go with the message. Up to 64 KiB in all.
	Headers map[string]string
}

// Bounds of an event in bytes. PostgreSQL refuses keys above 2704 bytes in an index.
const (
	maxName    = 255
	maxKey     = 1024
	maxHeaders = 64 << 10
)

// ErrInvalid is wrapped by the error of an event that was refused before it reached the database. The transaction is
// not affected.
var ErrInvalid = errors.New("invalid event")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// check refuses what the database would refuse, which would spoil the caller's transaction.
func (e *Event) check(o *Options, topic bool) error {
	for _, f := range []struct {
		name, value string
		max         int
		required    bool
	}{
		{"ID", e.ID, maxKey, true},
		{"Type", e.Type, maxName, true},
		{"AggregateType", e.AggregateType, maxName, false},
		{"AggregateID", e.AggregateID, maxName, false},
		{"Topic", e.Topic, maxName, topic},
		{"Key", e.Key, maxKey, false},
	} {
		switch {
		case f.required && f.value == "":
			return invalid("%s is empty", f.name)
		case len(f.value) > f.max:
			return invalid("%s has %d bytes (at most %d)", f.name, len(f.value), f.max)
		}
		if err := checkText(f.value); err != nil {
			return invalid("%s %w", f.name, err)
		}
	}
	if len(e.Payload) > o.MaxPayload {
		return invalid("Payload has %d bytes (at most %d, see MaxPayload)", len(e.Payload), o.MaxPayload)
	}
	size := 0
	for name, value := range e.Headers {
		size += len(name) + len(value)
		if err := errors.Join(checkText(name), checkText(value)); err != nil {
			return invalid("header %q %w", name, err)
		}
	}
	if size > maxHeaders {
		return invalid("Headers have %d bytes (at most %d)", size, maxHeaders)
	}
	switch o.PayloadType {
	case "bytea":
		return nil
	case "text":
		if err := checkText(string(e.Payload)); err != nil {
			return invalid("Payload %w", err)
		}
		return nil
	case "jsonb":
		return checkJSON(e.Payload, true)
	}
	return checkJSON(e.Payload, false)
}

var (
	errUTF8 = errors.New("is not valid UTF-8")
	errNUL  = errors.New("contains a NUL character, which PostgreSQL does not store in texts")
)

func checkText(s string) error {
	switch {
	case !utf8.ValidString(s):
		return errUTF8
	case strings.IndexByte(s, 0) >= 0:
		return errNUL
	}
	return nil
}

// maxDepth is how deep a payload may be nested, well below what PostgreSQL's stack takes.
const maxDepth = 1000

// checkJSON refuses a payload that the column would not take. The type jsonb also looks into texts and numbers.
func checkJSON(data []byte, binary bool) error {
	if !utf8.Valid(data) {
		return invalid("Payload %w", errUTF8)
	}
	if !json.Valid(data) {
		var v any
		return invalid("Payload is not JSON: %w", json.Unmarshal(data, &v))
	}
	depth, text := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '\\' && text:
			if binary && data[i+1] == 'u' {
				if err := checkEscape(data[i:]); err != nil {
					return err
				}
				if isSurrogate(data[i:]) { // with the second half
					i += 6
				}
			}
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return invalid("Payload is nested deeper than %d levels", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		case binary && (c == 'e' || c == 'E') && i > 0 && data[i-1] >= '0' && data[i-1] <= '9':
			digits := bytes.TrimLeft(data[i+1:], "+-0")
			if n := len(digits) - len(bytes.TrimLeft(digits, "0123456789")); n > 4 {
				return invalid("Payload contains a number with an exponent of %d digits (the type jsonb takes at most 4)", n)
			}
		}
	}
	return nil
}

// unit is the code unit of an escape such as \u00e9.
func unit(escape []byte) (n int, ok bool) {
	if len(escape) < 6 || escape[0] != '\\' || escape[1] != 'u' {
		return 0, false
	}
	_, err := fmt.Sscanf(string(escape[2:6]), "%04x", &n)
	return n, err == nil
}

func isSurrogate(escape []byte) bool {
	n, _ := unit(escape)
	return n >= 0xd800 && n < 0xe000
}

// checkEscape refuses escapes that are no characters of PostgreSQL.
func checkEscape(escape []byte) error {
	n, _ := unit(escape)
	switch {
	case n == 0:
		return invalid(`Payload contains \u0000, which the type jsonb does not store`)
	case n >= 0xdc00 && n < 0xe000:
	case n >= 0xd800 && n < 0xdc00:
		if low, ok := unit(escape[6:]); ok && low >= 0xdc00 && low < 0xe000 {
			return nil
		}
	default:
		return nil
	}
	return invalid("Payload contains %s without the other half of the surrogate pair", escape[:6])
}
