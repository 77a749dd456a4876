package yamldoc

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Decoder reads a document into structs by their yaml tags, strictly, and goes on after an error. Fields without the
// tag are not settings. It knows these tags besides yaml:
//
//	min, max, above  bounds of a number, duration or size; above is exclusive
//	one              the words that a text may be, with spaces between them
//	is               required: the key must be there; file: a name, relative to Dir; size: bytes such as 64KiB
//
// Afterwards it knows where each value stands, so that a check of the whole can report problems by path. A Decoder
// reads one document and is not safe for concurrent use.
type Decoder struct {
	// Dir is what relative file names begin at.
	Dir string
	// StrictText refuses numbers and truth values as text: whoever wrote one meant something else.
	StrictText bool
	// Duration reads a time.Duration.
	Duration func(text string) (time.Duration, error)
	// Prefill is called with a pointer to each value before it is read, so that it can set defaults, also from what
	// stands before it in the struct. It may be nil.
	Prefill func(into any)
	// Choose picks the value that holds here where a mapping stands for alternatives. It is called for each value, and
	// returns it unchanged if there are none, or nil if none holds, which it reports. valid reads an alternative and
	// reports whether it is good. It may be nil.
	Choose func(v *Value, into reflect.Value, valid func(*Value) bool) *Value

	root   *Value
	values map[string]*Value // by path
}

// Unmarshaler are types that read their value themselves. The tag is that of their field.
type Unmarshaler interface {
	DecodeYAML(d *Decoder, v *Value, tag reflect.StructTag)
}

// Decode reads a document into what the pointer points to. What is not written keeps its value, the default.
func (d *Decoder) Decode(v *Value, into any) {
	d.root, d.values = v, map[string]*Value{}
	d.DecodeTagged(v, into, "")
}

// DecodeTagged reads a part of the document into what the pointer points to and reports whether it is good. It is for
// the methods of an Unmarshaler.
func (d *Decoder) DecodeTagged(v *Value, into any, tag reflect.StructTag) bool {
	before := v.Errors()
	d.decode(v, reflect.ValueOf(into).Elem(), tag)
	return v.Errors() == before
}

// Has reports whether a value is written.
func (d *Decoder) Has(path string) bool { return d.values[path] != nil }

// At is the value of a path, or the nearest around it that is written; nil without a document.
func (d *Decoder) At(path string) *Value {
	for {
		if v := d.values[path]; v != nil {
			return v
		}
		if path == "" {
			return d.root
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// Errorf notes an error with the value of a path, after the path.
func (d *Decoder) Errorf(path, suggestion, format string, args ...any) {
	v := *d.At(path)
	v.Path, v.What = path, path
	v.failf(suggestion, format, args...)
}

// Broken reports whether something is wrong already with a value or a part of it. What else could be said of it would
// be about a value that was not meant.
func (d *Decoder) Broken(path string) bool {
	return slices.ContainsFunc(d.root.file.all, func(p Problem) bool {
		rest, ok := strings.CutPrefix(p.Path, path)
		return p.Severity == SeverityError && ok && (rest == "" || path == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// locate gives a value its path, by which problems call it.
func (d *Decoder) locate(v *Value, path string) *Value {
	v.Path, v.What = path, path
	return v
}

func (d *Decoder) decode(v *Value, into reflect.Value, tag reflect.StructTag) {
	d.values[v.Path] = v
	if d.Choose != nil {
		v = d.Choose(v, into, func(v *Value) bool {
			before := v.Errors()
			d.decode(v, reflect.New(into.Type()).Elem(), tag)
			return v.Errors() == before
		})
		if v == nil {
			return
		}
	}
	if d.Prefill != nil {
		d.Prefill(into.Addr().Interface())
	}
	if u, ok := into.Addr().Interface().(Unmarshaler); ok {
		u.DecodeYAML(d, v, tag)
		return
	}
	if isScalar(into) {
		d.decodeScalar(v, into, tag)
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		d.decodeStruct(v, into)
	case reflect.Pointer:
		if v.IsNull() {
			v.failf("write {} for the defaults, or leave it out", "the value is empty")
			return
		}
		fresh := reflect.New(into.Type().Elem())
		d.decode(v, fresh.Elem(), tag)
		into.Set(fresh)
	case reflect.Slice:
		d.decodeList(v, into, tag)
	case reflect.Map:
		d.decodeMap(v, into, tag)
	default:
		panic(fmt.Sprintf("%s: %s cannot be decoded", v.Path, into.Type())) // a mistake in this program
	}
}

// Open is Value.Open with the paths of the keys. Nothing written is an empty mapping: nil without a problem.
func (d *Decoder) Open(v *Value) *Object {
	if v.IsNull() {
		return nil
	}
	o := v.Open()
	if o != nil {
		for i, k := range o.Keys {
			d.locate(&o.fields[i].value, v.child(k))
		}
	}
	return o
}

// setting is a field of a struct of settings, those of embedded structs included.
type setting struct {
	key   string
	value reflect.Value
	tag   reflect.StructTag
}

func settings(into reflect.Value) (fields []setting) {
	for i := range into.NumField() {
		t := into.Type().Field(i)
		tag, tagged := t.Tag.Lookup("yaml")
		key, _, _ := strings.Cut(tag, ",")
		switch {
		case t.Anonymous && key == "" && t.Type.Kind() == reflect.Struct:
			fields = append(fields, settings(into.Field(i))...)
		case tagged && t.IsExported() && key != "" && key != "-":
			fields = append(fields, setting{key, into.Field(i), t.Tag})
		}
	}
	return fields
}

// decodeStruct reads the fields in the order of the struct, so that a field may take its default from those before it.
func (d *Decoder) decodeStruct(v *Value, into reflect.Value) {
	o := d.Open(v)
	if o == nil && !v.IsNull() {
		return
	}
	var keys []string
	for _, f := range settings(into) {
		keys = append(keys, f.key)
		var at *Value
		if o != nil {
			at = o.Field(f.key)
		}
		switch {
		case at != nil:
			d.decode(at, f.value, f.tag)
		case is(f.tag, "required"):
			d.locate(newValue(v.file, v.n, ""), v.child(f.key)).failf("", "missing")
		}
	}
	if o != nil {
		o.Restrict(keys)
	}
}

// is reports whether the tag "is" holds a word.
func is(tag reflect.StructTag, word string) bool {
	return slices.Contains(strings.Fields(tag.Get("is")), word)
}

func (d *Decoder) decodeList(v *Value, into reflect.Value, tag reflect.StructTag) {
	if !v.IsList() {
		v.failf("write [a, b], or each item with a dash", "want a list, got %s", v.Shape())
		return
	}
	if v.Len() == 0 {
		into.SetZero()
		return
	}
	list := reflect.MakeSlice(into.Type(), v.Len(), v.Len())
	for i := range v.Len() {
		d.decode(d.locate(v.Item(i), item(v.Path, i)), list.Index(i), tag)
	}
	into.Set(list)
}

// item is the path of an element of a list.
func item(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

func (d *Decoder) decodeMap(v *Value, into reflect.Value, tag reflect.StructTag) {
	m := reflect.MakeMap(into.Type())
	if o := d.Open(v); o != nil {
		for _, k := range o.Keys {
			value := reflect.New(into.Type().Elem()).Elem()
			d.decode(o.Field(k), value, tag)
			m.SetMapIndex(reflect.ValueOf(k).Convert(into.Type().Key()), value)
		}
	}
	into.Set(m)
}

// OneOrList is one value or a list of them.
type OneOrList[T any] []T

// DecodeYAML implements Unmarshaler.
func (l *OneOrList[T]) DecodeYAML(d *Decoder, v *Value, tag reflect.StructTag) {
	var list []T
	if v.IsList() {
		d.DecodeTagged(v, &list, tag)
	} else {
		list = make([]T, 1)
		d.decode(d.locate(newValue(v.file, v.n, ""), item(v.Path, 0)), reflect.ValueOf(&list[0]).Elem(), tag)
	}
	*l = list
}

// fileName makes a relative file name one from Dir.
func (d *Decoder) fileName(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(d.Dir, name)
}
