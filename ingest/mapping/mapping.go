// Package mapping makes events of foreign JSON: the messages of brokers and the data of CloudEvents. It does not know
// where these come from, and leaves validation of the events to the decoder.
package mapping

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/expression"
)

// Settings say how the fields of events are found in foreign JSON. A value that begins with a dot is a path
// (.payload.items.0."a.b"), every other one is a constant. A field whose path finds nothing is left out of the
// event.
type Settings struct {
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
	failure    *expression.Program[env, bool]
}

// mapField is a field of the event and where it comes from.
type mapField struct {
	name     string
	constant []byte // as JSON; nil: path
	path     []string
	text     bool // a number or a boolean becomes a text
}

// SettingError says which setting is invalid.
type SettingError struct {
	Key  string // below the settings of its owner
	Text string
}

func (e *SettingError) Error() string { return e.Key + ": " + e.Text }

// env are the names in failure_if.
type env struct {
	Text func(path string) string `expr:"text"`
	Has  func(path string) bool   `expr:"has"`
}

// mapSees lists the names that failure_if can use, for errors.
const mapSees = `text(".path"), which is "" where there is nothing, has(".path") and number(text(".path"), otherwise)`

// New checks the settings. typed says that values come with a service and a type.
func New(s *Settings, typed bool) (*Mapping, error) {
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
				errs = append(errs, &SettingError{
					"map." + key, fmt.Sprintf("%q is neither a number nor a path, which begins with a dot", value)})
				return
			}
			f.constant = []byte(value)
		} else {
			f.constant = event.AppendJSONText(nil, value)
		}
		*to = append(*to, f)
	}
	for _, f := range []struct {
		name, value   string
		text, numeric bool
	}{
		{"service", s.Service, true, false}, {"type", s.Type, true, false}, {"id", s.ID, true, false},
		{"time", s.Time, false, false},
		{"outcome", s.Outcome, true, false}, {"severity", s.Severity, true, false},
		{"duration_ms", s.DurationMS, false, true},
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
			errs = append(
				errs, &SettingError{"map.attributes." + name, fmt.Sprintf("%q cannot be the name of an attribute", name)})
			continue
		}
		add(&m.attributes, "attributes."+name, name, s.Attributes[name], false, false)
	}
	if s.FailureIf != "" {
		program, err := expression.Compile[env, bool](s.FailureIf)
		if err != nil {
			text := strings.ReplaceAll(err.Error(), "type mapping.env", "the expression")
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

// AppendEvent appends the event that the mapping makes of a value, as a JSON object. It has the service and the type
// given here, unless they are "", where the mapping finds none.
func (m *Mapping) AppendEvent(text []byte, v *fastjson.Value, defaultService, defaultType string) []byte {
	text = append(text, '{')
	n := 0
	service, typ := false, false
	comma := func(name string) {
		if n++; n > 1 {
			text = append(text, ',')
		}
		service, typ = service || name == "service", typ || name == "type"
		text = append(event.AppendJSONText(text, name), ':')
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
	if defaultService != "" && !service {
		comma("service")
		text = event.AppendJSONText(text, defaultService)
	}
	if defaultType != "" && !typ {
		comma("type")
		text = event.AppendJSONText(text, defaultType)
	}
	if m.failure != nil {
		failed, err := m.failure.Run(env{
			Text: func(path string) string { return textAt(v, path) },
			Has:  func(path string) bool { return valueAt(v, path) != nil },
		})
		comma("outcome")
		switch {
		case err != nil: // the event becomes a dead letter that says so
			text = event.AppendJSONText(text, "failure_if cannot be computed")
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

// Mapper makes the JSON of events of the JSON of objects. It is not safe for concurrent use.
type Mapper struct {
	mapping *Mapping
	parser  fastjson.Parser
}

// Mapper returns a mapper.
func (m *Mapping) Mapper() *Mapper { return &Mapper{mapping: m} }

// NewMapper checks the settings of values that come alone. nil settings take values that are events already.
func NewMapper(s *Settings) (*Mapper, error) {
	if s == nil {
		return &Mapper{}, nil
	}
	m, err := New(s, false)
	return m.Mapper(), err
}

// Append appends the JSON of the event in a value, which is one JSON object.
func (m *Mapper) Append(dst, value []byte) ([]byte, error) {
	v, err := Parse(&m.parser, value)
	if err != nil {
		return nil, errors.New("invalid JSON: " + err.Error())
	}
	if v.Type() != fastjson.TypeObject {
		return nil, errors.New("the message is not a JSON object")
	}
	if m.mapping == nil {
		return v.MarshalTo(dst), nil
	}
	return m.mapping.AppendEvent(dst, v, "", ""), nil
}

// Parse parses a value. The error is without the text that the parser quotes at length.
func Parse(p *fastjson.Parser, value []byte) (*fastjson.Value, error) {
	v, err := p.ParseBytes(bytes.TrimPrefix(value, []byte(event.BOM)))
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		return nil, errors.New(text[:min(len(text), 200)])
	}
	return v, nil
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
