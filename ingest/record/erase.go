package record

import (
	"bytes"
	"strconv"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
)

// Eraser rewrites the events of a record for an erasure from the retained log. redact applies the rules in force to
// one event.
//
// In an event that has the value, a token takes its place. Its id and trace id go, too, because they lead to the same
// person elsewhere. What the event counts as, and that it is another event than all others, stays.
func Eraser(
	redact func(dst, raw []byte) ([]byte, error),
) func([]byte, *wal.Record, *retained.Erasure) ([]byte, int, error) {
	return func(dst []byte, rec *wal.Record, e *retained.Erasure) ([]byte, int, error) {
		if rec.Type != TypeEvents && rec.Type != TypeReplay {
			return dst, 0, nil
		}
		events, err := ParseEvents(rec.Payload)
		if err != nil {
			return dst, 0, err
		}
		start, changed := len(dst), 0
		dst = append(dst, rec.Payload[:len(rec.Payload)-len(events.Body)]...)
		var v event.View
		for i, body := 0, events.Body; len(body) > 0; i++ {
			n, err := v.Parse(body)
			if err != nil {
				return dst[:start], 0, err
			}
			raw, from := body[:n], len(dst)
			body = body[n:]
			if e.Attribute != "" {
				dst = appendErased(dst, raw, &v, e, rec.Seq, i)
			} else if dst, err = redact(dst, raw); err != nil {
				return dst[:start], 0, err
			}
			if !bytes.Equal(dst[from:], raw) {
				changed++
			}
		}
		if changed == 0 {
			return dst[:start], 0, nil
		}
		return dst, changed, nil
	}
}

// appendErased appends an event, with the token if it has the value.
func appendErased(dst, raw []byte, v *event.View, e *retained.Erasure, seq uint64, i int) []byte {
	value, ok := v.Attr(e.Attribute)
	if !ok || !e.Is(value) {
		return append(dst, raw...)
	}
	id := append([]byte(e.Token), '-')
	id = strconv.AppendUint(id, seq, 10)
	id = strconv.AppendInt(append(id, '-'), int64(i), 10)
	token := []byte(e.Token)
	return v.AppendErased(dst, id, func(name, value []byte) []byte {
		if string(name) == e.Attribute || string(name) == event.TraceID {
			return token
		}
		return value
	})
}
