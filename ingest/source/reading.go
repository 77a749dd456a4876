package source

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/mapping"
)

// Format is how the values of messages are read.
type Format string

// The formats.
const (
	FormatAuto             Format = "auto" // by the headers of the message, then by its content
	FormatJSON             Format = "json"
	FormatNDJSON           Format = "ndjson"
	FormatCloudEvents      Format = "cloudevents"
	FormatCloudEventsBatch Format = "cloudevents_batch"
)

// reading says how values are read. It does not change.
type reading struct {
	format  Format
	mapping *mapping.Mapping
	headers []headerAttribute
}

type headerAttribute struct{ attribute, header string }

// Validate returns the problems of the settings, for an Intake with Options.Typed or without.
func (s *Settings) Validate(typed bool) error {
	_, err := newReading(s, typed)
	return err
}

func newReading(s *Settings, typed bool) (r reading, err error) {
	r.format = s.Format
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		h := s.Headers[name]
		if !event.ValidAttribute(name) {
			errs = append(
				errs, &SettingError{Key: "headers." + name, Text: fmt.Sprintf("%q cannot be the name of an attribute", name)})
		}
		if h == "" || len(h) > 200 {
			errs = append(errs, &SettingError{Key: "headers." + name, Text: "the name of a header has 1 to 200 bytes"})
		}
		r.headers = append(r.headers, headerAttribute{name, h})
	}
	if len(r.headers) > maxHeaders {
		errs = append(
			errs, &SettingError{Key: "headers", Text: fmt.Sprintf("at most %d headers can become attributes", maxHeaders)})
	}
	if s.Map != nil {
		if r.mapping, err = mapping.New(s.Map, typed || r.cloudEvents()); err != nil {
			errs = append(errs, err)
		}
	}
	return r, errors.Join(errs...)
}

// cloudEvents reports whether all messages are CloudEvents, of whose data a mapping makes events.
func (r *reading) cloudEvents() bool {
	return r.format == FormatCloudEvents || r.format == FormatCloudEventsBatch
}

// SettingError says which setting of a source is invalid. Its key is below the source.
type SettingError = mapping.SettingError

// maxHeaders is how many headers can become attributes.
const maxHeaders = 32

// reader is the working memory of decoding.
type reader struct {
	text    []byte // an envelope or mapped events
	parser  fastjson.Parser
	mapData func(dst, data []byte) ([]byte, error) // nil: there is no mapping
	raw     [][]byte                               // the messages they were made from
}

// decode reads a message into the batch. The error is about the message as a whole.
func (b *Batch) decode(m *Message, at time.Time) error {
	r := &b.in.reading
	extra := b.headerAttributes(m)
	m.Value = bytes.TrimPrefix(m.Value, []byte(event.BOM))
	b.reader.raw = b.reader.raw[:0]
	if r.format == FormatAuto || r.format == FormatCloudEvents {
		if _, ok := cloudHeader(m.Headers, "specversion"); ok {
			return b.decodeBinary(m, at, extra)
		}
	}
	if r.mapping != nil && !r.cloudEvents() {
		return b.decodeMapped(m, at, extra)
	}
	switch r.format {
	case FormatJSON:
		return b.decoder.Append(event.JSON, b.filled(m), at, extra)
	case FormatNDJSON:
		return b.decoder.Append(event.NDJSON, m.Value, at, extra)
	case FormatCloudEventsBatch:
		return b.decoder.Append(b.cloudBatch(), m.Value, at, extra)
	case FormatCloudEvents:
		return b.decoder.Append(event.CloudEvent, m.Value, at, extra)
	}
	if m.Headers != nil || m.ContentType != "" {
		if format, ok := formatOf(contentType(m)); ok {
			if format == event.CloudEventBatch {
				format = b.cloudBatch()
			}
			return b.decoder.Append(format, m.Value, at, extra)
		}
	}
	return b.decodeGuessed(m, at, extra)
}

// filled is the value of a message whose events get the service and the type of the message if they have none. It is
// the value itself if it is not plain JSON.
func (b *Batch) filled(m *Message) []byte {
	if m.Service == "" && m.Type == "" || bytes.Contains(m.Value, []byte(`"specversion"`)) {
		return m.Value
	}
	r := &b.reader
	v, err := r.parser.ParseBytes(m.Value)
	if err != nil {
		return m.Value // the decoder says where
	}
	missing := [...]struct{ name, value string }{{"service", m.Service}, {"type", m.Type}}
	if v.Type() != fastjson.TypeArray {
		o, err := v.Object()
		if err != nil {
			return m.Value
		}
		text := append(r.text[:0], '{')
		for _, f := range missing {
			if f.value != "" && o.Get(f.name) == nil {
				text = append(append(append(text, '"'), f.name...), `":`...)
				text = append(event.AppendJSONText(text, f.value), ',')
			}
		}
		if r.text = text; len(text) == 1 {
			return m.Value
		}
		if o.Len() == 0 {
			text = text[:len(text)-1]
		}
		r.text = append(text, m.Value[bytes.IndexByte(m.Value, '{')+1:]...)
		r.raw = append(r.raw, m.Value) // content of a dead letter
		return r.text
	}
	elements, _ := v.Array() // which it is
	var arena fastjson.Arena
	for _, e := range elements {
		o, err := e.Object()
		if err != nil {
			r.raw = r.raw[:0]
			return m.Value
		}
		r.raw = append(r.raw, e.MarshalTo(nil))
		for _, f := range missing {
			if f.value != "" && o.Get(f.name) == nil {
				o.Set(f.name, arena.NewString(f.value))
			}
		}
	}
	r.text = v.MarshalTo(r.text[:0])
	return r.text
}

// cloudBatch is the format of a batch of CloudEvents, or of the one in it that is replayed.
func (b *Batch) cloudBatch() event.Format {
	if b.single {
		return event.CloudEvent
	}
	return event.CloudEventBatch
}

// decodeGuessed reads JSON; any other body is read in the format that it looks like.
func (b *Batch) decodeGuessed(m *Message, at time.Time, extra []event.Extra) error {
	before, rejected := b.events.Mark(), b.events.Rejected
	err := b.decoder.Append(event.JSON, b.filled(m), at, extra)
	if err == nil && b.events.Rejected == rejected {
		return nil
	}
	// No event has the field that every CloudEvent has.
	v := bytes.TrimSpace(m.Value)
	if bytes.Contains(v, []byte(`"specversion"`)) {
		b.events.Truncate(before)
		if v[0] == '[' {
			return b.decoder.Append(event.CloudEventBatch, m.Value, at, extra)
		}
		return b.decoder.Append(event.CloudEvent, m.Value, at, extra)
	}
	if err != nil && bytes.IndexByte(v, '\n') > 0 && v[0] == '{' {
		line, _, _ := bytes.Cut(v, []byte("\n"))
		if line = bytes.TrimSpace(line); line[len(line)-1] == '}' {
			return b.decoder.Append(event.NDJSON, m.Value, at, extra)
		}
	}
	return err
}

// contentType is the media type of a message, "" if it has none.
func contentType(m *Message) string {
	if m.ContentType != "" {
		return m.ContentType
	}
	value, _ := header(m.Headers, "content-type")
	return string(value)
}

// formatOf is the format of a media type; false: to be guessed.
func formatOf(mediaType string) (event.Format, bool) {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "application/cloudevents+json":
		return event.CloudEvent, true
	case "application/cloudevents-batch+json":
		return event.CloudEventBatch, true
	case "application/x-ndjson", "application/jsonl", "application/jsonlines":
		return event.NDJSON, true
	}
	return event.JSON, false
}

// headerAttributes are the headers that become attributes.
func (b *Batch) headerAttributes(m *Message) []event.Extra {
	b.extra = b.extra[:0]
	if m.Headers == nil {
		return nil
	}
	for _, h := range b.in.reading.headers {
		if value, ok := header(m.Headers, h.header); ok {
			b.extra = append(b.extra, event.Extra{Name: h.attribute, Value: value})
		}
	}
	return b.extra
}

// The prefixes of the headers of CloudEvents in binary mode: of Kafka, and of AMQP.
var cloudPrefixes = []string{"ce_", "cloudEvents:", "cloudEvents_"}

func cloudHeader(h Headers, attribute string) ([]byte, bool) {
	if h == nil {
		return nil, false
	}
	for _, prefix := range cloudPrefixes {
		if value, ok := header(h, prefix+attribute); ok {
			return value, true
		}
	}
	return nil, false
}

// decodeBinary reads a CloudEvent in binary mode: its attributes are headers, and the value is its data.
func (b *Batch) decodeBinary(m *Message, at time.Time, extra []event.Extra) error {
	var e event.Envelope
	for name, to := range e.Attributes() {
		if value, ok := cloudHeader(m.Headers, name); ok {
			*to = value
		}
	}
	if media := contentType(m); media != "" {
		e.ContentType = []byte(media)
	}
	return b.decoder.AppendBinary(&e, m.Value, at, extra)
}
