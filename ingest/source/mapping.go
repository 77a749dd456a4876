package source

import (
	"bytes"
	"time"

	"github.com/valyala/fastjson"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/mapping"
)

// decodeMapped makes events of foreign JSON: one of an object, one of each element of an array, or of each line.
func (b *Batch) decodeMapped(m *Message, at time.Time, extra []event.Extra) error {
	r := &b.reader
	text := append(r.text[:0], '[')
	if b.in.reading.format == FormatNDJSON {
		number := 0
		for line := range bytes.Lines(m.Value) {
			if number++; len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			v, err := mapping.Parse(&r.parser, line)
			if err != nil {
				return &event.BodyError{Code: event.CodeInvalidJSON, Reason: err.Error(), Line: number, Column: 1}
			}
			text = b.mapOne(text, v, m)
		}
	} else {
		v, err := mapping.Parse(&r.parser, m.Value)
		if err != nil {
			return &event.BodyError{Code: event.CodeInvalidJSON, Reason: err.Error(), Line: 1, Column: 1}
		}
		elements := []*fastjson.Value{v}
		if v.Type() == fastjson.TypeArray {
			elements, _ = v.Array() // which it is
		}
		for _, e := range elements {
			text = b.mapOne(text, e, m)
		}
	}
	text = append(text, ']')
	r.text = text
	if cap(text) > keptBytes {
		r.text = nil
	}
	if len(r.raw) == 0 {
		return &event.BodyError{Code: event.CodeEmptyBody, Reason: "the message holds no event", Line: 1, Column: 1}
	}
	return b.decoder.Append(event.JSON, text, at, extra)
}

// mapOne appends the event that the mapping makes of a value of a message, as JSON.
func (b *Batch) mapOne(text []byte, v *fastjson.Value, m *Message) []byte {
	r := &b.reader
	if len(r.raw) > 0 {
		text = append(text, ',')
	}
	r.raw = append(r.raw, v.MarshalTo(nil))
	return b.in.reading.mapping.AppendEvent(text, v, m.Service, m.Type)
}
