package shape

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Patterns of texts that several formats share. Bounds of durations and sizes cannot be expressed in a schema.
const (
	durationPattern = `^(0|([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$`
	sizePattern     = `^[0-9]+ ?(KiB|MiB|GiB|kB|MB|GB)?$`
	numberPattern   = `^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$`
	wholePattern    = `^-?[0-9]+$`
	// EnvironmentPattern is what an environment may be called, default included.
	EnvironmentPattern = `^[a-z0-9][a-z0-9_-]{0,31}$`
)

// Schema is the JSON Schema (draft 7, which all editors understand) of a format. It accepts all that the reader
// accepts, and refuses unknown keys, wrong types and unknown words.
func (s *Shape) Schema(id, title, about string) ([]byte, error) {
	m := s.schema()
	m["$schema"], m["$id"], m["title"], m["description"] = "http://json-schema.org/draft-07/schema#", id, title, about
	out, err := json.MarshalIndent(m, "", "  ")
	return append(out, '\n'), err
}

type object = map[string]any

func (s *Shape) schema() object {
	m := s.plain()
	if s.ByEnvironment {
		return object{"anyOf": []object{m, {
			"type": "object", "minProperties": 1, "propertyNames": object{"pattern": EnvironmentPattern},
			"additionalProperties": m,
		}}}
	}
	return m
}

func (s *Shape) plain() object {
	switch s.Kind {
	case Mapping:
		return s.mapping()
	case Map:
		m := object{"type": s.typed("object"), "additionalProperties": s.Of.schema()}
		if s.Pattern != "" {
			m["propertyNames"] = object{"pattern": s.Pattern}
		}
		return m
	case List:
		return object{"type": "array", "items": s.Of.schema()}
	case Either:
		var all []object
		for i := range s.Or {
			all = append(all, s.Or[i].schema())
		}
		return object{"anyOf": all}
	case Text:
		if len(s.Words) > 0 {
			return object{"enum": s.Words}
		}
		m := object{"type": []string{"string", "number", "boolean"}}
		if s.Strict {
			m["type"] = "string"
		}
		if s.Pattern != "" {
			m["pattern"] = s.Pattern
		}
		return m
	case Bool:
		if s.Quoted {
			return object{"enum": []any{true, false, "true", "false"}}
		}
		return object{"type": "boolean"}
	case Whole:
		return s.number("integer", wholePattern)
	case Number:
		return s.number("number", numberPattern)
	case Duration:
		// A number has no unit, except for 0.
		return object{"type": []string{"string", "integer"}, "pattern": durationPattern, "minLength": 1,
			"minimum": 0, "maximum": 0}
	case Size:
		return object{"type": []string{"string", "integer"}, "pattern": sizePattern, "minimum": 0}
	}
	return object{}
}

func (s *Shape) typed(name string) any {
	if s.Empty {
		return []string{name, "null"}
	}
	return name
}

func (s *Shape) number(name, pattern string) object {
	m := object{"type": name}
	if s.Quoted {
		m["type"], m["pattern"] = []string{name, "string"}, pattern
	}
	for _, b := range []struct {
		text, name, exclusive string
		open                  bool
	}{{s.Min, "minimum", "exclusiveMinimum", s.Above}, {s.Max, "maximum", "exclusiveMaximum", s.Below}} {
		if x, err := strconv.ParseFloat(b.text, 64); err == nil {
			if b.open {
				b.name = b.exclusive
			}
			m[b.name] = x
		}
	}
	return m
}

func (s *Shape) mapping() object {
	m := object{"type": s.typed("object"), "additionalProperties": false}
	properties, patterns := object{}, object{}
	var required []string
	var not []object
	needs := object{}
	for i := range s.Keys {
		k := &s.Keys[i]
		one := k.schema()
		one["description"] = k.describe()
		if k.Pattern != "" {
			patterns[k.Pattern] = one
			continue
		}
		properties[k.Name] = one
		if k.Required {
			required = append(required, k.Name)
		}
		for _, other := range k.Not {
			not = append(not, object{"required": []string{k.Name, other}})
		}
		if len(k.Needs) > 0 {
			needs[k.Name] = k.Needs
		}
	}
	m["properties"] = properties
	if len(patterns) > 0 {
		m["patternProperties"] = patterns
	}
	if required != nil {
		m["required"] = required
	}
	if len(needs) > 0 {
		m["dependencies"] = needs
	}
	if not != nil {
		m["not"] = object{"anyOf": not}
	}
	if s.One {
		m["minProperties"], m["maxProperties"] = 1, 1
	}
	return m
}

// describe is what an editor shows of a key.
func (k *Key) describe() string {
	var b strings.Builder
	b.WriteString(k.Text)
	b.WriteString("\n\n" + strings.ReplaceAll(k.String(), "`", ""))
	switch {
	case k.Required:
		b.WriteString(", required")
	case k.Inherits != "":
		b.WriteString(", default: " + k.Inherits)
	case k.Default != "":
		b.WriteString(", default " + k.Default)
	}
	return b.String()
}
