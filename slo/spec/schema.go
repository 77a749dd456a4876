package spec

import (
	"slices"

	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// A key is one key of a mapping in the own format, bound to the field that it is about as package flag binds flags. It
// is declared once: readers, Encode, the reference and the JSON Schema all go by it. keys.txt has the texts for people.
type key struct {
	name string
	value
	hint   string // what to do where it is missing; "" if it need not be there
	preset string // what holds without it; a value that is written the same is left out
	shown  bool   // the preset is written too
}

// value is what stands at a key.
type value interface {
	read(v *yamldoc.Value)
	write(e *encoder) *yamlgen.Node // nil if there is nothing to write
	shape() shape.Shape
}

func at(name string, v value) key { return key{name: name, value: v} }

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

func (ks keys) names() []string {
	names := make([]string, len(ks))
	for i := range ks {
		names[i] = ks[i].name
	}
	return names
}

func (ks keys) open(v *yamldoc.Value) *yamldoc.Object {
	o := v.Open()
	if o == nil {
		return nil
	}
	for _, name := range o.Keys { // nearly always all are known, and their names are not needed
		if !slices.ContainsFunc(ks, func(k key) bool { return k.name == name }) {
			o.Restrict(ks.names())
			break
		}
	}
	return o
}

func (ks keys) readFrom(o *yamldoc.Object) {
	for i := range ks {
		k := &ks[i]
		var x *yamldoc.Value
		if k.hint != "" {
			x = o.Need(k.name, k.hint)
		} else if _, later := k.value.(interface{ later() }); !later {
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
		s.Keys = append(s.Keys, shape.Key{Name: k.name, Required: k.hint != "", Default: k.preset, Shape: k.shape()})
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
	w := m.keys().write(e)
	if m.tall && w.Len() > 0 {
		return w.Node()
	}
	return someLine(w)
}

// someLine is a mapping on one line if it is short, nil if it is empty.
func someLine(m *yamlgen.Map) *yamlgen.Node {
	if m.Len() == 0 {
		return nil
	}
	return m.Line()
}

func (m inside) shape() shape.Shape {
	s := m.keys().shape()
	s.One = m.one
	return s
}

// custom is a value of a form of its own.
type custom struct {
	in  func(v *yamldoc.Value)
	out func(e *encoder) *yamlgen.Node // nil if it is never written
	is  func() shape.Shape
}

func (c custom) read(v *yamldoc.Value) { c.in(v) }

func (c custom) write(e *encoder) *yamlgen.Node {
	if c.out == nil {
		return nil
	}
	return c.out(e)
}

func (c custom) shape() shape.Shape { return c.is() }

// unread is embedded in values that are read together with the keys beside them, by whoever reads the mapping.
type unread struct{}

func (unread) read(*yamldoc.Value) {}
func (unread) later()              {}

// lineOf is a list on one line if it is short, nil if it is empty.
func lineOf[T any](of []T, write func(x *T) *yamlgen.Node) *yamlgen.Node {
	if len(of) == 0 {
		return nil
	}
	var all []*yamlgen.Node
	for i := range of {
		all = append(all, write(&of[i]))
	}
	return yamlgen.Line(yamlgen.List(all...))
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

type doc = shape.Shape

// Patterns that only the description needs.
const (
	idPattern         = `^([a-z0-9._-]*[a-z0-9][a-z0-9._-]*/)?[a-z0-9._-]*[a-z0-9][a-z0-9._-]*$`
	anyCasePattern    = `^[A-Za-z0-9._-]*[A-Za-z0-9][A-Za-z0-9._-]*$`
	percentilePattern = `^p[0-9]{2}(\.[0-9]+)?$`
	instantPattern    = `^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:.]+([Zz]|[+-][0-9]{2}:[0-9]{2})$`
)

var (
	textDoc     = doc{Kind: shape.Text}
	nameDoc     = doc{Kind: shape.Text, Pattern: namePattern.String(), Note: "name"}
	zoneDoc     = doc{Kind: shape.Text, Note: "IANA time zone"}
	matchersDoc = doc{Kind: shape.Text, Note: "label matchers"}
	queryDoc    = doc{Kind: shape.Text, Note: "PromQL"}
	labelDoc    = doc{Kind: shape.Text, Pattern: attributePattern.String(), Note: "attribute"}
	percentDoc  = doc{Kind: shape.Number, Quoted: true, Min: "1", Max: "100", Above: true,
		Below: true, Note: "percentage"}
	shareDoc = doc{Kind: shape.Number, Quoted: true, Min: "0", Max: "1000", Above: true,
		Below: true, Note: "percentage"}
	amountDoc     = doc{Kind: shape.Number, Quoted: true, Min: "0", Above: true, Note: "amount of money"}
	labelsDoc     = doc{Kind: shape.Map, Of: &textDoc, Pattern: labelPattern.String()}
	anyCaseDoc    = doc{Kind: shape.Text, Pattern: anyCasePattern, Note: "name"}
	currencyDoc   = doc{Kind: shape.Text, Pattern: currencyPattern.String(), Note: "currency of ISO 4217"}
	instantDoc    = doc{Kind: shape.Text, Pattern: instantPattern, Note: "RFC 3339 time"}
	falsePagesDoc = doc{Kind: shape.Text, Pattern: falsePagesPattern.String(), Note: "pages per year"}
	idDoc         = doc{Kind: shape.Text, Pattern: idPattern, Note: "name or service/name"}
	counterDoc    = doc{Kind: shape.Text, Note: "selector of a counter"}
	ruleDoc       = doc{Kind: shape.Text, Note: "RFC 5545 rule"}
	hoursDoc      = doc{Kind: shape.Text, Note: "weekly hours"}
)

func wholeShape(least, most string) doc {
	return doc{Kind: shape.Whole, Quoted: true, Min: least, Max: most}
}
func numberShape(least, most string) doc {
	return doc{Kind: shape.Number, Quoted: true, Min: least, Max: most}
}
func wordsShape(list ...string) doc { return doc{Kind: shape.Text, Words: list} }
func listShape(of doc) doc          { return doc{Kind: shape.List, Of: &of} }
func eitherShape(shapes ...doc) doc { return doc{Kind: shape.Either, Or: shapes} }
