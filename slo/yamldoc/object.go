package yamldoc

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/slo/suggest"
)

// Object is a mapping. A nil Object has no keys, and misses none.
type Object struct {
	*Value
	Keys   []string        // in the order of the file, unknown ones too
	fields []field         // of the keys
	index  map[string]int  // into both, for mappings that are too long to look through
	meant  map[string]bool // known keys that some unknown key was probably meant to be
}

// field is one key of a mapping with its value.
type field struct {
	value   Value
	key     *yaml.Node
	unknown bool
}

// lookThrough is how many keys are compared one by one.
const lookThrough = 16

func (o *Object) find(key string) *field {
	if o == nil {
		return nil
	}
	if o.index != nil {
		if i, ok := o.index[key]; ok {
			return &o.fields[i]
		}
		return nil
	}
	if i := slices.Index(o.Keys, key); i >= 0 {
		return &o.fields[i]
	}
	return nil
}

// add adds a field whose key is not there yet.
func (o *Object) add(key string, f field) {
	o.Keys, o.fields = append(o.Keys, key), append(o.fields, f)
	if n := len(o.Keys); o.index != nil {
		o.index[key] = n - 1
	} else if n > lookThrough {
		o.index = make(map[string]int, 2*n)
		for i, k := range o.Keys {
			o.index[k] = i
		}
	}
}

// Field gives the value of a key, nil if it is not there.
func (o *Object) Field(key string) *Value {
	if f := o.find(key); f != nil && !f.unknown {
		return &f.value
	}
	return nil
}

// Has reports whether a known key is there.
func (o *Object) Has(key string) bool { return o.Field(key) != nil }

// KeyAt is the place of a key that is there.
func (o *Object) KeyAt(key string) Position {
	if f := o.find(key); f != nil {
		return o.file.at(f.key)
	}
	return o.At()
}

// KeyErrorf notes an error with a key.
func (o *Object) KeyErrorf(key, suggestion, format string, args ...any) {
	o.ErrorfAt(o.KeyAt(key), suggestion, format, args...)
}

// KeyWarnf notes a warning about a key.
func (o *Object) KeyWarnf(key, suggestion, format string, args ...any) {
	o.WarnfAt(o.KeyAt(key), suggestion, format, args...)
}

// Known counts the keys that are known.
func (o *Object) Known() int {
	n := 0
	for i := 0; o != nil && i < len(o.fields); i++ {
		if !o.fields[i].unknown {
			n++
		}
	}
	return n
}

// Meant reports whether some unknown key was probably meant to be this one.
func (o *Object) Meant(key string) bool { return o != nil && o.meant[key] }

// Misspelt reports whether some unknown key was probably meant to be a known one.
func (o *Object) Misspelt() bool { return len(o.meant) > 0 }

// Object reads a mapping that may only have the given keys. It is nil if the value is something else.
func (v *Value) Object(known ...string) *Object { return v.ObjectOr(nil, known...) }

// ObjectOr is Object for formats whose keys were once spelt in other ways: old gives the spelling of today, which is
// taken with a warning.
func (v *Value) ObjectOr(old map[string]string, known ...string) *Object {
	o := v.Open()
	if o == nil {
		return nil
	}
	for i, k := range o.Keys {
		now, ok := old[k]
		if !ok || !slices.Contains(known, now) || o.find(now) != nil {
			continue
		}
		o.KeyWarnf(k, fmt.Sprintf("write %q", now), "%sunexpected spelling %q", v.called(": "), k)
		o.Keys[i], o.fields[i].value.What = now, now
		if o.index != nil {
			delete(o.index, k)
			o.index[now] = i
		}
	}
	o.Restrict(known)
	return o
}

// Restrict reports the keys that are not known.
func (o *Object) Restrict(known []string) {
	for i, k := range o.Keys {
		if slices.Contains(known, k) {
			continue
		}
		hint := "known keys: " + strings.Join(known, ", ")
		meant := o.file.Synonyms[suggest.Fold(k)]
		if !slices.Contains(known, meant) {
			meant = suggest.Closest(k, known)
		}
		if meant != "" {
			hint = fmt.Sprintf("did you mean %q?", meant)
			if o.meant == nil {
				o.meant = map[string]bool{}
			}
			o.meant[meant] = true
		}
		if place := o.file.Misplaced[o.What+"."+k]; place != "" {
			hint = place
		}
		f := &o.fields[i]
		f.unknown = true
		o.file.add(Problem{Position: o.file.at(f.key), Severity: SeverityError, Suggestion: hint, Path: o.child(k)},
			"%sunknown key %q", o.called(": "), Clip(k))
	}
}

func (v *Value) child(key string) string {
	if v.Path == "" {
		return key
	}
	return v.Path + "." + key
}

// Open reads a mapping whose keys are the user's own.
func (v *Value) Open() *Object {
	if v == nil {
		return nil
	}
	if v.IsNull() {
		v.Errorf("fill it in or remove the key", "%sis empty", v.called(" "))
		return nil
	}
	if !v.IsMapping() {
		v.failf("", "want a mapping (key: value), got %s", v.Shape())
		return nil
	}
	n := len(v.n.Content) / 2
	o := &Object{Value: v, Keys: make([]string, 0, n), fields: make([]field, 0, n)}
	var merged []*yaml.Node
	for i := 0; i+1 < len(v.n.Content); i += 2 {
		k, n := v.n.Content[i], v.n.Content[i+1]
		for k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			v.ErrorfAt(v.file.at(k), "", "%sa key must be plain text", v.called(": "))
			continue
		}
		if k.ShortTag() == "!!merge" {
			merged = append(merged, n)
			continue
		}
		if first := o.find(k.Value); first != nil {
			v.ErrorfAt(v.file.at(k), fmt.Sprintf("first defined on line %d, keep one", first.key.Line), "%sduplicate key %q",
				v.called(": "), Clip(k.Value))
			continue
		}
		o.set(k, n)
	}
	for _, n := range merged {
		o.merge(n)
	}
	return o
}

func (o *Object) set(k, n *yaml.Node) {
	what := k.Value
	if strings.ContainsFunc(what, func(c rune) bool { return c < ' ' || c > '~' || c == '\\' }) {
		what = Printable(what)
	}
	o.add(k.Value, field{value: *newValue(o.file, n, what), key: k})
}

// merge brings in the mapping or list of mappings after a "<<" key, whose keys give way to those that are there.
func (o *Object) merge(n *yaml.Node) {
	v := newValue(o.file, n, "<<")
	from := []*Value{v}
	if v.IsList() {
		from, _ = v.List()
	}
	for _, v := range from {
		in := v.Open()
		if in == nil {
			continue
		}
		for i, k := range in.Keys {
			if o.find(k) == nil {
				o.add(k, in.fields[i])
			}
		}
	}
}

// Get gives the value of a key, nil if it is not there. A key without a value is reported: it is more often forgotten
// than meant.
func (o *Object) Get(key string) *Value {
	v := o.Field(key)
	if v == nil {
		return nil
	}
	if v.IsNull() {
		o.KeyErrorf(key, "fill it in or remove the key", "%s%s is empty", o.called(": "), key)
		return nil
	}
	return v
}

// Need is Get for a key that must be there. One that is only misspelt is not reported a second time.
func (o *Object) Need(key, suggestion string) *Value {
	if !o.Has(key) {
		if o == nil || o.meant[key] {
			return nil
		}
		o.Errorf(suggestion, "%s%s is missing", o.called(": "), key)
		return nil
	}
	return o.Get(key)
}
