package spec

import (
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// A key is one key of a mapping in the own format, bound to the field that it is about as package flag binds flags. It
// is declared once: readers, Encode, the reference and the JSON Schema all go by it.
type key struct {
	name string
	value
	example, text string // for people: a value, and what it does
	hint          string // what to do where it is missing; "" if it need not be there
	preset        string // what holds without it; a value that is written the same is left out
	shown         bool   // the preset is written too
	not, needs    []string
}

// value is what stands at a key.
type value interface {
	read(v *yamldoc.Value)
	write(e *encoder) *yamlgen.Node // nil if there is nothing to write
	shape() shape.Shape
}

func at(name string, v value, example, text string) key {
	return key{name: name, value: v, example: example, text: text}
}

// need makes a key one that has to be there.
func (k key) need(hint string) key {
	k.hint = hint
	return k
}

// or says what holds without the key. Whoever makes the field sets it.
func (k key) or(preset string) key {
	k.preset = preset
	return k
}

// orShown is or, for a key that is written even so.
func (k key) orShown(preset string) key {
	k.preset, k.shown = preset, true
	return k
}

// excludes names keys beside it that it excludes.
func (k key) excludes(names ...string) key {
	k.not = names
	return k
}

// requires names keys beside it that it requires.
func (k key) requires(names ...string) key {
	k.needs = names
	return k
}

// keys are those of a mapping, in the order in which they are read, written and described.
type keys []key

// read reads a mapping that may have these keys. It is nil if the value is something else.
func (ks keys) read(v *yamldoc.Value) *yamldoc.Object {
	o := ks.open(v)
	if o != nil {
		ks.readFrom(o)
	}
	return o
}

func (ks keys) open(v *yamldoc.Value) *yamldoc.Object {
	names := make([]string, len(ks))
	for i := range ks {
		names[i] = ks[i].name
	}
	return v.Object(names...)
}

func (ks keys) readFrom(o *yamldoc.Object) {
	for i := range ks {
		k := &ks[i]
		var x *yamldoc.Value
		if k.hint != "" {
			x = o.Need(k.name, k.hint)
		} else if c, ok := k.value.(custom); !ok || c.in != nil {
			x = o.Get(k.name)
		}
		if x != nil {
			k.read(x)
		}
	}
}

func (ks keys) write(e *encoder) *yamlgen.Map {
	m := &yamlgen.Map{}
	for _, k := range ks {
		if n := k.write(e); n != nil && (k.preset == "" || k.shown || n.Value != k.preset) {
			m.Set(k.name, n)
		}
	}
	return m
}

func (ks keys) shape() shape.Shape {
	s := shape.Shape{Kind: shape.Mapping}
	for _, k := range ks {
		x := shape.Key{
			Name: k.name, Required: k.hint != "", Default: k.preset, Text: k.text, Example: k.example,
			Not: k.not, Needs: k.needs, Shape: k.value.shape(),
		}
		s.Keys = append(s.Keys, x)
	}
	return s
}

// inside is a mapping of keys as a value.
type inside struct {
	keys  func() keys
	first func(o *yamldoc.Object) bool // looks at which keys there are; false leaves their values unread; may be nil
	then  func(o *yamldoc.Object)      // reads and checks what several keys say together; may be nil
	tall  bool                         // it has a line for each key, however short
	one   bool                         // exactly one of the keys is given
}

func (m inside) read(v *yamldoc.Value) {
	ks := m.keys()
	o := ks.open(v)
	if o == nil || m.first != nil && !m.first(o) {
		return
	}
	if ks.readFrom(o); m.then != nil {
		m.then(o)
	}
}

func (m inside) write(e *encoder) *yamlgen.Node {
	switch w := m.keys().write(e); {
	case w.Len() == 0:
		return nil
	case m.tall:
		return w.Node()
	default:
		return w.Line()
	}
}

func (m inside) shape() shape.Shape {
	s := m.keys().shape()
	s.One = m.one
	return s
}

// custom is a value of a form of its own.
type custom struct {
	in  func(v *yamldoc.Value)         // nil if it is read together with the keys beside it
	out func(e *encoder) *yamlgen.Node // nil if it is never written
	is  func() shape.Shape
}

func (c custom) read(v *yamldoc.Value) {
	if c.in != nil {
		c.in(v)
	}
}

func (c custom) write(e *encoder) *yamlgen.Node {
	if c.out == nil {
		return nil
	}
	return c.out(e)
}

func (c custom) shape() shape.Shape { return c.is() }

// listOf is a list of values of one shape, each read and written by itself.
func listOf[T any](of *[]T, empty string, read func(i *yamldoc.Value) (T, bool), write func(e *encoder, x *T) *yamlgen.Node,
	is func() shape.Shape) value {
	return custom{
		in: func(v *yamldoc.Value) {
			all, _ := v.List()
			if empty != "" && v.IsList() && len(all) == 0 {
				v.Errorf(empty, "%s is empty", v.What)
			}
			for _, i := range all {
				if x, ok := read(i); ok {
					*of = append(*of, x)
				}
			}
		},
		out: func(e *encoder) *yamlgen.Node {
			var all []*yamlgen.Node
			for i := range *of {
				all = append(all, write(e, &(*of)[i]))
			}
			if len(all) == 0 {
				return nil
			}
			return yamlgen.Line(yamlgen.List(all...))
		},
		is: func() shape.Shape { return listShape(is()) },
	}
}

// part is what the lists of a document hold: an SLO, a correction and so on.
type part interface {
	keys() keys
	// read reads its keys, and checks what several of them say together.
	read(ks keys, o *yamldoc.Object)
}

// parts is a list of parts, which problems call by their kind and name.
func parts[T part](of *[]T, kind string, fresh func() T, write func(m *yamlgen.Map) *yamlgen.Node) value {
	return custom{
		in: func(v *yamldoc.Value) {
			eachItem(v, func(i *yamldoc.Value) {
				call(i, kind)
				x := fresh()
				ks := x.keys()
				if o := ks.open(i); o != nil {
					x.read(ks, o)
					*of = append(*of, x)
				}
			})
		},
		out: func(e *encoder) *yamlgen.Node {
			var all []*yamlgen.Node
			for _, x := range *of {
				all = append(all, write(x.keys().write(e)))
			}
			if len(all) == 0 {
				return nil
			}
			return yamlgen.List(all...)
		},
		is: func() shape.Shape { return listShape(fresh().keys().shape()) },
	}
}

// noted has a comment the first time that it is written.
type noted struct {
	value
	comment string
}

func (n noted) write(e *encoder) *yamlgen.Node {
	x := n.value.write(e)
	if x != nil {
		yamlgen.Comment(x, e.once(n.comment))
	}
	return x
}
