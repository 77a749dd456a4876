package yamldoc

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo/yamldoc/shape"
)

// Describer says what a Decoder accepts, from the same types, tags and defaults.
type Describer struct {
	// Prefill and StrictText are the Decoder's.
	Prefill    func(into any)
	StrictText bool
	// Duration writes a duration as the Decoder reads it.
	Duration func(time.Duration) string
	// Each is called for each key with its path, such as sinks.http.url, and the value with its default. It adds what no
	// type says: the text.
	Each func(path string, value reflect.Value, k *shape.Key)
}

// Shaper are types that read their value themselves, and say what they accept, and how their value is written.
type Shaper interface {
	Shape(d *Describer, path string, tag reflect.StructTag) (s shape.Shape, value string)
}

// Describe is the shape of what the pointer points to, and its value as a user would write it, "" if there is none.
// Values there are the defaults.
func (d *Describer) Describe(path string, into any, tag reflect.StructTag) (s shape.Shape, value string) {
	return d.describe(path, reflect.ValueOf(into).Elem(), tag)
}

func (d *Describer) describe(path string, v reflect.Value, tag reflect.StructTag) (s shape.Shape, value string) {
	if d.Prefill != nil {
		d.Prefill(v.Addr().Interface())
	}
	if s, ok := v.Addr().Interface().(Shaper); ok {
		return s.Shape(d, path, tag)
	}
	if _, ok := v.Addr().Interface().(Unmarshaler); ok {
		panic(fmt.Sprintf("%s: %s reads itself and has no Shape", path, v.Type())) // a mistake in this program
	}
	if isScalar(v) {
		return d.scalarShape(v, tag), d.format(v, tag)
	}
	fresh := func() *shape.Shape {
		s, _ := d.describe(path, reflect.New(v.Type().Elem()).Elem(), tag)
		return &s
	}
	switch v.Kind() {
	case reflect.Pointer:
		s = *fresh()
		s.Empty = false
		return s, ""
	case reflect.Slice:
		return shape.Shape{Kind: shape.List, Of: fresh()}, d.format(v, tag)
	case reflect.Map:
		return shape.Shape{Kind: shape.Map, Of: fresh(), Empty: true}, ""
	}
	s = shape.Shape{Kind: shape.Mapping, Empty: true}
	for _, f := range settings(v) {
		at := shape.Child(path, f.key)
		k := shape.Key{Name: f.key, Required: is(f.tag, "required")}
		k.Shape, k.Default = d.describe(at, f.value, f.tag)
		if d.Each != nil {
			d.Each(at, f.value, &k)
		}
		s.Keys = append(s.Keys, k)
	}
	return s, ""
}

func (d *Describer) scalarShape(v reflect.Value, tag reflect.StructTag) shape.Shape {
	s := shape.Shape{Kind: shape.Text, Strict: d.StrictText, Words: strings.Fields(tag.Get("one")),
		Min: tag.Get("min"), Max: tag.Get("max")}
	if above := tag.Get("above"); above != "" {
		s.Min, s.Above = above, true
	}
	switch {
	case v.Type() == durationType:
		s.Kind = shape.Duration
	case is(tag, "size"):
		s.Kind = shape.Size
	case v.Addr().Type().Implements(textType):
	case v.Kind() == reflect.Bool:
		s.Kind = shape.Bool
	case v.CanInt() || v.CanUint():
		s.Kind = shape.Whole
	case v.CanFloat():
		s.Kind = shape.Number
	case is(tag, "file"):
		s.Note = "file name"
	}
	if tag.Get("off") != "" { // the word off stands for a number
		return shape.Shape{Kind: shape.Either, Or: []shape.Shape{s, {Kind: shape.Text, Words: []string{"off"}}}}
	}
	return s
}

// format writes a value as a user would, "" if there is none.
func (d *Describer) format(v reflect.Value, tag reflect.StructTag) string {
	switch {
	case v.Type() == durationType:
		return d.Duration(time.Duration(v.Int()))
	case v.Kind() == reflect.String:
		return v.String()
	case v.CanInt() && is(tag, "size"):
		return FormatSize(v.Int())
	case v.CanUint() && is(tag, "size"):
		return FormatSize(int64(v.Uint()))
	case v.Kind() == reflect.Bool, v.CanFloat(), v.CanInt(), v.CanUint():
		return fmt.Sprint(v.Interface())
	case v.Kind() == reflect.Slice && v.Len() > 0 && isScalar(v.Index(0)):
		var items []string
		for i := range v.Len() {
			items = append(items, d.format(v.Index(i), tag))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return ""
}

// FormatSize writes a number of bytes in the largest unit that divides it.
func FormatSize(bytes int64) string {
	best, text := int64(1), fmt.Sprint(bytes)
	for _, u := range sizeUnits {
		if bytes != 0 && bytes%u.bytes == 0 && u.bytes > best {
			best, text = u.bytes, fmt.Sprintf("%d%s", bytes/u.bytes, u.suffix)
		}
	}
	return text
}

// Shape implements Shaper.
func (l *OneOrList[T]) Shape(d *Describer, path string, tag reflect.StructTag) (shape.Shape, string) {
	of, _ := d.describe(path, reflect.New(reflect.TypeFor[T]()).Elem(), tag)
	return shape.Shape{Kind: shape.Either, Or: []shape.Shape{of, {Kind: shape.List, Of: &of}}}, ""
}
