package source

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/expression"
)

// MapSettings say how the fields of events are found in foreign JSON. A value that begins with a dot is a path
// (.payload.items.0."a.b"), every other one is a constant. What a path does not find is left out of the event.
type MapSettings struct {
	Service    string            `yaml:"service"` // required, like Type, unless messages come with it
	Type       string            `yaml:"type"`
	ID         string            `yaml:"id"`
	Time       string            `yaml:"time"`
	Outcome    string            `yaml:"outcome"` // success or failure
	FailureIf  string            `yaml:"failure_if"`
	Severity   string            `yaml:"severity"`
	DurationMS string            `yaml:"duration_ms"`
	Duration   string            `yaml:"duration"` // in seconds
	Count      string            `yaml:"count"`
	Attributes map[string]string `yaml:"attributes"`
}

// Mapping makes events of foreign JSON.
type Mapping struct {
	fields     []mapField
	attributes []mapField
	failure    *expression.Program[mapEnv, bool]
}

// mapField is a field of the event and where it comes from.
type mapField struct {
	name     string
	constant []byte // as JSON; nil: path
	path     []string
	text     bool // a number or a boolean becomes a text
}

// mapEnv are the names in failure_if.
type mapEnv struct {
	Text func(path string) string `expr:"text"`
	Has  func(path string) bool   `expr:"has"`
}

// mapSees is what failure_if can use, for errors.
const mapSees = `text(".path"), which is "" where there is nothing, has(".path") and number(text(".path"), otherwise)`

// newMapping checks the settings. typed says that messages come with a service and a type.
func newMapping(s *MapSettings, typed bool) (*Mapping, error) {
	m := &Mapping{}
	var errs []error
	add := func(to *[]mapField, key, name, value string, text, numeric bool) {
		if value == "" {
			return
		}
		f := mapField{name: name, text: text}
		if strings.HasPrefix(value, ".") {
			path, err := parsePath(value)
			if err != nil {
				errs = append(errs, &SettingError{"map." + key, err.Error()})
				return
			}
			f.path = path
		} else if numeric {
			if _, err := strconv.ParseFloat(value, 64); err != nil {
				errs = append(errs, &SettingError{"map." + key, fmt.Sprintf("%q is neither a number nor a path, which begins with a dot", value)})
				return
			}
			f.constant = []byte(value)
		} else {
			f.constant = event.AppendJSONText(nil, []byte(value))
		}
		*to = append(*to, f)
	}
	for _, f := range []struct {
		name, value   string
		text, numeric bool
	}{
		{"service", s.Service, true, false}, {"type", s.Type, true, false}, {"id", s.ID, true, false}, {"time", s.Time, false, false},
		{"outcome", s.Outcome, true, false}, {"severity", s.Severity, true, false}, {"duration_ms", s.DurationMS, false, true},
		{"duration", s.Duration, false, true}, {"count", s.Count, false, true},
	} {
		add(&m.fields, f.name, f.name, f.value, f.text, f.numeric)
	}
	if !typed && (s.Service == "" || s.Type == "") {
		errs = append(errs, &SettingError{"map", "service and type are required"})
	}
	if s.Outcome != "" && s.FailureIf != "" {
		errs = append(errs, &SettingError{"map.failure_if", "outcome and failure_if exclude each other"})
	}
	if s.DurationMS != "" && s.Duration != "" {
		errs = append(errs, &SettingError{"map.duration", "duration and duration_ms exclude each other"})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Attributes)) {
		if !event.ValidAttribute(name) {
			errs = append(errs, &SettingError{"map.attributes." + name, fmt.Sprintf("%q cannot be the name of an attribute", name)})
			continue
		}
		add(&m.attributes, "attributes."+name, name, s.Attributes[name], false, false)
	}
	if s.FailureIf != "" {
		program, err := expression.Compile[mapEnv, bool](s.FailureIf)
		if err != nil {
			text := strings.ReplaceAll(err.Error(), "type source.mapEnv", "the expression")
			errs = append(errs, &SettingError{"map.failure_if", text + " (the expression can use " + mapSees + ")"})
		}
		m.failure = program
	}
	return m, errors.Join(errs...)
}

// parsePath splits .a."b.c".0 into its keys.
func parsePath(text string) (path []string, err error) {
	rest := text
	for rest != "" {
		if rest[0] != '.' {
			return nil, fmt.Errorf("invalid path %q (want .key.key, with quotes around a key that contains a dot)", text)
		}
		rest = rest[1:]
		var key string
		if strings.HasPrefix(rest, `"`) {
			end := strings.IndexByte(rest[1:], '"')
			if end < 0 {
				return nil, fmt.Errorf("invalid path %q: a quote is not closed", text)
			}
			key, rest = rest[1:1+end], rest[2+end:]
		} else {
			key, _, _ = strings.Cut(rest, ".")
			rest = rest[len(key):]
		}
		if key == "" {
			return nil, fmt.Errorf("invalid path %q: a key is empty", text)
		}
		path = append(path, key)
	}
	if len(path) > 16 {
		return nil, fmt.Errorf("invalid path %q: at most 16 keys", text)
	}
	return path, nil
}

// mapper is the working memory of a mapping.
type mapper struct {
	parser fastjson.Parser
}

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
			v, err := r.mapping.parser.ParseBytes(line)
			if err != nil {
				return &event.BodyError{Code: event.CodeInvalidJSON, Reason: firstLine(err), Line: number, Column: 1}
			}
			text = b.mapOne(text, v, m)
		}
	} else {
		v, err := r.mapping.parser.ParseBytes(m.Value)
		if err != nil {
			return &event.BodyError{Code: event.CodeInvalidJSON, Reason: firstLine(err), Line: 1, Column: 1}
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

// firstLine is an error of the JSON parser without the text that it quotes at length.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text[:min(len(text), 200)]
}

// mapOne appends the event that the mapping makes of a value of a message, as JSON.
func (b *Batch) mapOne(text []byte, v *fastjson.Value, m *Message) []byte {
	r := &b.reader
	if len(r.raw) > 0 {
		text = append(text, ',')
	}
	r.raw = append(r.raw, v.MarshalTo(nil))
	return b.in.reading.mapping.appendEvent(text, v, m)
}

// appendEvent appends the event that the mapping makes of a value, as a JSON object. of fills in what the mapping does not
// find, and may be nil.
func (m *Mapping) appendEvent(text []byte, v *fastjson.Value, of *Message) []byte {
	text = append(text, '{')
	n := 0
	service, typ := false, false
	comma := func(name string) {
		if n++; n > 1 {
			text = append(text, ',')
		}
		service, typ = service || name == "service", typ || name == "type"
		text = append(event.AppendJSONText(text, []byte(name)), ':')
	}
	fields := func(list []mapField) {
		for i := range list {
			f := &list[i]
			if f.constant != nil {
				comma(f.name)
				text = append(text, f.constant...)
				continue
			}
			if found := v.Get(f.path...); found != nil && found.Type() != fastjson.TypeNull {
				comma(f.name)
				text = appendFound(text, found, f.text)
			}
		}
	}
	fields(m.fields)
	if of != nil && of.Service != "" && !service {
		comma("service")
		text = event.AppendJSONText(text, []byte(of.Service))
	}
	if of != nil && of.Type != "" && !typ {
		comma("type")
		text = event.AppendJSONText(text, []byte(of.Type))
	}
	if m.failure != nil {
		failed, err := m.failure.Run(mapEnv{
			Text: func(path string) string { return textAt(v, path) },
			Has:  func(path string) bool { return valueAt(v, path) != nil },
		})
		comma("outcome")
		switch {
		case err != nil: // the event becomes a dead letter that says so
			text = event.AppendJSONText(text, []byte("failure_if cannot be computed"))
		case failed:
			text = append(text, `"failure"`...)
		default:
			text = append(text, `"success"`...)
		}
	}
	if len(m.attributes) > 0 {
		comma("attributes")
		text = append(text, '{')
		n = 0
		fields(m.attributes)
		text = append(text, '}')
	}
	return append(text, '}')
}

// appendFound appends a value as JSON. A field that is a text takes numbers and booleans, too.
func appendFound(text []byte, v *fastjson.Value, asText bool) []byte {
	if asText && (v.Type() == fastjson.TypeNumber || v.Type() == fastjson.TypeTrue || v.Type() == fastjson.TypeFalse) {
		return append(v.MarshalTo(append(text, '"')), '"')
	}
	return v.MarshalTo(text)
}

func valueAt(v *fastjson.Value, path string) *fastjson.Value {
	keys, err := parsePath(path)
	if err != nil {
		return nil
	}
	return v.Get(keys...)
}

func textAt(v *fastjson.Value, path string) string {
	switch found := valueAt(v, path); {
	case found == nil, found.Type() == fastjson.TypeNull:
		return ""
	case found.Type() == fastjson.TypeString:
		return string(found.GetStringBytes())
	default:
		return found.String()
	}
}
