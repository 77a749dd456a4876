// Package shape describes what a YAML format accepts: every key with its type, bounds, default, text and example. One
// description makes the reference for people and the JSON Schema for editors.
//
// It reads nothing. Whoever reads a format holds its description to the reader by tests.
package shape

import (
	"strings"
)

// Kind is the kind of a value.
type Kind int

// The kinds. The zero value accepts anything, for parts that somebody else reads.
const (
	Any      Kind = iota
	Mapping       // of known keys
	Map           // of the user's own keys
	List          // of values of one shape
	Either        // one of several shapes
	Text          // a single value that is taken as text
	Bool          // true or false
	Whole         // a whole number
	Number        // a number
	Duration      // such as 1h30m
	Size          // a number of bytes, such as 64KiB
)

// Shape is what one place of a document may hold.
type Shape struct {
	Kind Kind
	Keys []Key   // of a Mapping
	Of   *Shape  // items of a List, values of a Map
	Or   []Shape // the shapes of Either
	// Words are the only values of a Text. Pattern is what a Text, or the keys of a Map, must match.
	Words   []string
	Pattern string
	// Min and Max are bounds, as a user writes them; "" is none. With Above and Below, the bound itself is not allowed.
	Min, Max     string
	Above, Below bool
	// Note names what the text means, such as "label matchers".
	Note string
	// Quoted allows quotes around numbers and truth values, Strict refuses these as text, Empty allows a key without a
	// value, and ByEnvironment a mapping of environments to values.
	Quoted, Strict, Empty, ByEnvironment bool
	// One says that exactly one key of a Mapping is given.
	One bool
}

// Key is one key of a mapping.
type Key struct {
	Name     string
	Pattern  string // of keys that are several, such as p95; Name is one of them
	Required bool
	Default  string   // as a user writes it; "" is none
	Inherits string   // instead of a default: where the value is taken from
	Text     string   // what it does, for people
	Example  string   // a value in YAML
	Not      []string // keys beside it that it excludes, in one of both
	Needs    []string // keys beside it that it requires
	Shape
}

// Inner are the mappings inside a shape with the path to each, from path: [] is an item of a list, and .NAME a key of
// the user.
func (s *Shape) Inner(path string, found func(path string, m *Shape)) {
	switch s.Kind {
	case Mapping:
		found(path, s)
	case List:
		s.Of.Inner(path+"[]", found)
	case Map:
		s.Of.Inner(Child(path, "NAME"), found)
	case Either:
		for i := range s.Or {
			s.Or[i].Inner(path, found)
		}
	}
}

// Walk calls found for each mapping of a description, outer ones first.
func (s *Shape) Walk(path string, found func(path string, m *Shape)) {
	s.Inner(path, func(path string, m *Shape) {
		found(path, m)
		for i := range m.Keys {
			m.Keys[i].Walk(Child(path, m.Keys[i].Name), found)
		}
	})
}

// Child is the path of a key below path.
func Child(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// String names the shape for people, with its bounds.
func (s *Shape) String() string {
	var name string
	switch s.Kind {
	case Mapping:
		return "mapping"
	case Map:
		name = "mapping of names to " + s.Of.String()
	case List:
		name = "list of " + s.Of.String()
	case Either:
		var names []string
		for i := range s.Or {
			names = append(names, s.Or[i].String())
		}
		name = strings.Join(names, ", or ")
	case Text:
		name = "text"
		if len(s.Words) > 0 {
			return oneOf(s.Words)
		}
	case Bool:
		name = "`true` or `false`"
	case Whole:
		name = "whole number"
	case Number:
		name = "number"
	case Duration:
		name = "duration"
	case Size:
		name = "size"
	default:
		name = "anything"
	}
	if s.Note != "" {
		name = s.Note
	}
	return name + s.bounds()
}

func (s *Shape) bounds() string {
	low, high := " from ", " to "
	if s.Above {
		low = " above "
	}
	switch {
	case s.Below:
		high = " below "
	case s.Above || s.Min == "":
		high = " at most "
	}
	if s.Max == "" && !s.Above {
		low = " of at least "
	}
	var out string
	if s.Min != "" {
		out = low + "`" + s.Min + "`"
	}
	if s.Max != "" {
		if out != "" && (s.Above || s.Below) {
			out += " and"
		}
		out += high + "`" + s.Max + "`"
	}
	return out
}

func oneOf(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "`" + w + "`"
	}
	if n := len(quoted) - 1; n > 0 {
		return strings.Join(quoted[:n], ", ") + " or " + quoted[n]
	}
	return quoted[0]
}
