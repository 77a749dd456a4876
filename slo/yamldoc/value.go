package yamldoc

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// Value is a YAML value. Aliases are followed. A nil Value is one that is not there: it reads as nothing, without a
// problem, so that a reader need not ask before each step down.
type Value struct {
	What string // the name by which problems call it; "" for a document
	Path string // from the document, if a Decoder reads it: sinks[0].http.url
	file *file
	n    *yaml.Node
}

func newValue(f *file, n *yaml.Node, what string) *Value {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return &Value{What: what, file: f, n: n}
}

// At is where the value begins.
func (v *Value) At() Position { return v.file.at(v.n) }

// Errorf notes an error with the value.
func (v *Value) Errorf(suggestion, format string, args ...any) {
	v.add(v.At(), SeverityError, suggestion, format, args...)
}

// ErrorfAt notes an error at a place within the value, such as Inside or KeyAt.
func (v *Value) ErrorfAt(at Position, suggestion, format string, args ...any) {
	v.add(at, SeverityError, suggestion, format, args...)
}

// Warnf notes a warning about the value.
func (v *Value) Warnf(suggestion, format string, args ...any) {
	v.add(v.At(), SeverityWarning, suggestion, format, args...)
}

// WarnfAt notes a warning at a place within the value.
func (v *Value) WarnfAt(at Position, suggestion, format string, args ...any) {
	v.add(at, SeverityWarning, suggestion, format, args...)
}

func (v *Value) add(at Position, s Severity, suggestion, format string, args ...any) {
	v.file.add(Problem{Position: at, Severity: s, Suggestion: suggestion, Path: v.Path}, format, args...)
}

// failf is Errorf after the name of the value.
func (v *Value) failf(suggestion, format string, args ...any) {
	v.Errorf(suggestion, "%s", v.called(": ")+fmt.Sprintf(format, args...))
}

// called is the name of the value and what follows it, or nothing.
func (v *Value) called(then string) string {
	if v.What == "" {
		return ""
	}
	return v.What + then
}

// Errors is the number of errors so far, in all files of the Reader.
func (v *Value) Errors() int { return v.file.errors }

// Lenient reports whether text that others may understand is to be taken with a warning.
func (v *Value) Lenient() bool { return v.file.Lenient }

// IsNull reports whether nothing is written.
func (v *Value) IsNull() bool { return isNull(v.n) }

// IsMapping reports whether the value is a mapping.
func (v *Value) IsMapping() bool { return v != nil && v.n.Kind == yaml.MappingNode }

// IsList reports whether the value is a list.
func (v *Value) IsList() bool { return v != nil && v.n.Kind == yaml.SequenceNode }

// IsScalar reports whether the value is a single one, or nothing.
func (v *Value) IsScalar() bool { return v.n.Kind == yaml.ScalarNode }

// Raw is the text of a single value, unchecked; "" for others.
func (v *Value) Raw() string {
	if v == nil {
		return ""
	}
	return v.n.Value
}

// Tag is the type of a single value in YAML, such as !!str or !!int.
func (v *Value) Tag() string { return v.n.ShortTag() }

// Len is the number of items of a list or of keys of a mapping.
func (v *Value) Len() int {
	if v.IsMapping() {
		return len(v.n.Content) / 2
	}
	return len(v.n.Content)
}

// Item is one item of a list.
func (v *Value) Item(i int) *Value { return newValue(v.file, v.n.Content[i], v.What) }

// Shape names what is written, for messages.
func (v *Value) Shape() string {
	switch {
	case v.IsNull():
		return "nothing"
	case v.IsMapping():
		return "a mapping"
	case v.IsList():
		return "a list"
	case v.file.Secret:
		return "a single value"
	}
	return fmt.Sprintf("%q", Clip(v.n.Value))
}

// List gives the items of a list.
func (v *Value) List() ([]*Value, bool) {
	if v == nil {
		return nil, false
	}
	if !v.IsList() {
		v.failf("start each item with a dash", "want a list, got %s", v.Shape())
		return nil, false
	}
	out := make([]*Value, v.Len())
	for i := range out {
		out[i] = v.Item(i)
	}
	return out, true
}

// Peek gives the value of a key before anything else of a mapping is read; nil if it is not there.
func (v *Value) Peek(key string) *Value {
	for i := 0; v.IsMapping() && i+1 < len(v.n.Content); i += 2 {
		if k := v.n.Content[i]; k.Kind == yaml.ScalarNode && k.Value == key {
			return newValue(v.file, v.n.Content[i+1], key)
		}
	}
	return nil
}
