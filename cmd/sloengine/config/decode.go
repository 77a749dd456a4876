package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// The decoder reads settings into structs, strictly, and goes on after an error.
// It knows these tags besides yaml:
//
//	min, max, above  bounds of a number, duration or size; above is exclusive
//	one              the words that a text may be, with spaces between them
//	is               required: the key must be there; file: a name, relative to the file

// special are types that read their value themselves.
type special interface {
	setting(f *settingsFile, n *yaml.Node, path string, tag reflect.StructTag)
}

// prefilled are types whose default is not their zero value, or comes from other
// settings, which stand before it in config.
type prefilled interface{ prefill(c *Config) }

// decode reads a node into v, which holds the default.
func (f *settingsFile) decode(n *yaml.Node, path string, v reflect.Value, tag reflect.StructTag) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	f.nodes[path] = n
	if n.Kind == yaml.MappingNode && differs(path, v) {
		n = f.byEnvironment(n, path, func(n *yaml.Node, path string) bool {
			before := len(f.problems)
			f.decode(n, path, reflect.New(v.Type()).Elem(), tag)
			return len(f.problems) == before
		})
		if n == nil {
			return
		}
	}
	if p, ok := v.Addr().Interface().(prefilled); ok {
		p.prefill(f.config)
	}
	if s, ok := v.Addr().Interface().(special); ok {
		s.setting(f, n, path, tag)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		f.decodeStruct(n, path, v)
	case reflect.Pointer:
		if isNull(n) {
			f.addProblemAt(n, path, "write {} for its defaults, or leave it out", "nothing is written here")
			return
		}
		fresh := reflect.New(v.Type().Elem())
		f.decode(n, path, fresh.Elem(), tag)
		v.Set(fresh)
	case reflect.Slice:
		f.decodeList(n, path, v, tag)
	case reflect.Map:
		f.decodeMap(n, path, v, tag)
	default:
		f.decodeScalar(n, path, v, tag)
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// shape says what was written, for messages.
func shape(n *yaml.Node) string {
	switch {
	case isNull(n):
		return "nothing"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case len(n.Value) > 64:
		return strconv.Quote(n.Value[:64]) + "..."
	}
	return strconv.Quote(n.Value)
}

// pair is a key of a mapping with its value.
type pair struct {
	key   string
	at    *yaml.Node
	value *yaml.Node
}

// mapping gives the pairs of a mapping. A merge key (<<) brings in those of another
// that are not there themselves.
func (f *settingsFile) mapping(n *yaml.Node, path string) (pairs []pair) {
	if isNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		f.addProblemAt(n, path, "", "want a mapping, got %s", shape(n))
		return nil
	}
	seen := map[string]bool{}
	add := func(key, value *yaml.Node, merged bool) {
		if seen[key.Value] {
			if !merged {
				f.addProblemAt(key, child(path, key.Value), "keep one", "given twice")
			}
			return
		}
		seen[key.Value] = true
		pairs = append(pairs, pair{key.Value, key, value})
	}
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Tag == "!!merge" && value.Kind == yaml.AliasNode && value.Alias.Kind == yaml.MappingNode:
			merges = append(merges, value.Alias)
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			f.addProblemAt(key, path, "", "want a word as key, got %s", shape(key))
		default:
			add(key, value, false)
		}
	}
	for _, m := range merges {
		for i := 0; i+1 < len(m.Content); i += 2 {
			if m.Content[i].Kind == yaml.ScalarNode && m.Content[i].Tag != "!!merge" {
				add(m.Content[i], m.Content[i+1], true)
			}
		}
	}
	return pairs
}

// settingField is a field of a struct of settings, those of embedded structs
// included.
type settingField struct {
	key   string
	value reflect.Value
	tag   reflect.StructTag
}

func settingFields(v reflect.Value) (fields []settingField) {
	for i := range v.NumField() {
		t := v.Type().Field(i)
		key := t.Tag.Get("yaml")
		switch {
		case t.Anonymous && key == "":
			fields = append(fields, settingFields(v.Field(i))...)
		case t.IsExported() && key != "-":
			fields = append(fields, settingField{key, v.Field(i), t.Tag})
		}
	}
	return fields
}

// decodeStruct reads the fields in the order of the struct, so that a field may
// take its default from those before it.
func (f *settingsFile) decodeStruct(n *yaml.Node, path string, v reflect.Value) {
	given := map[string]pair{}
	pairs := f.mapping(n, path)
	for _, p := range pairs {
		given[p.key] = p
	}
	var keys []string
	for _, field := range settingFields(v) {
		keys = append(keys, field.key)
		p, ok := given[field.key]
		switch {
		case ok:
			f.decode(p.value, child(path, field.key), field.value, field.tag)
		case is(field.tag, "required") && (n.Kind == yaml.MappingNode || isNull(n)):
			f.addProblemAt(n, child(path, field.key), "", "missing")
		}
	}
	for _, p := range pairs {
		if !slices.Contains(keys, p.key) {
			f.addProblemAt(p.at, child(path, p.key), meant(p.key, keys), "unknown setting")
		}
	}
}

func is(tag reflect.StructTag, word string) bool {
	return slices.Contains(strings.Fields(tag.Get("is")), word)
}

func (f *settingsFile) decodeList(n *yaml.Node, path string, v reflect.Value, tag reflect.StructTag) {
	if n.Kind != yaml.SequenceNode {
		f.addProblemAt(n, path, "write [a, b], or each item with a dash", "want a list, got %s", shape(n))
		return
	}
	if len(n.Content) == 0 {
		v.SetZero()
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		f.decode(c, item(path, i), list.Index(i), tag)
	}
	v.Set(list)
}

func (f *settingsFile) decodeMap(n *yaml.Node, path string, v reflect.Value, tag reflect.StructTag) {
	pairs := f.mapping(n, path)
	m := reflect.MakeMapWithSize(v.Type(), len(pairs))
	for _, p := range pairs {
		value := reflect.New(v.Type().Elem()).Elem()
		f.decode(p.value, child(path, p.key), value, tag)
		m.SetMapIndex(reflect.ValueOf(p.key), value)
	}
	v.Set(m)
}

// decodeScalar reads a single value. On an error the default stays.
func (f *settingsFile) decodeScalar(n *yaml.Node, path string, v reflect.Value, tag reflect.StructTag) {
	bad := func(hint, format string, args ...any) { f.addProblemAt(n, path, hint, format, args...) }
	if n.Kind != yaml.ScalarNode || isNull(n) {
		hint := ""
		if isNull(n) {
			hint = "leave the key out for the default"
		}
		bad(hint, "want %s, got %s", wanted(v), shape(n))
		return
	}
	fresh := reflect.New(v.Type()).Elem()
	if err := parseScalar(n, fresh); err != nil {
		bad("", "%v", err)
		return
	}
	if text := outOfBounds(fresh, tag); text != "" {
		bad("", "%s, got %s", text, n.Value)
		return
	}
	if words := tag.Get("one"); words != "" && !slices.Contains(strings.Fields(words), n.Value) {
		bad(meant(n.Value, strings.Fields(words)), "%s is not known here", shape(n))
		return
	}
	if is(tag, "file") && n.Value != "" && !filepath.IsAbs(n.Value) {
		fresh.SetString(filepath.Join(f.dir, n.Value))
	}
	v.Set(fresh)
}

// scalar reads a single value and reports whether it is good.
func (f *settingsFile) scalar(n *yaml.Node, path string, v any, tag reflect.StructTag) bool {
	before := len(f.problems)
	f.decodeScalar(n, path, reflect.ValueOf(v).Elem(), tag)
	return len(f.problems) == before
}

// wanted names the kind of a value.
func wanted(v reflect.Value) string {
	switch v.Interface().(type) {
	case Duration:
		return "a duration such as 30s"
	case Size:
		return "a size such as 64KiB"
	}
	switch v.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "a text"
}

func parseScalar(n *yaml.Node, v reflect.Value) error {
	switch p := v.Addr().Interface().(type) {
	case *Duration:
		return p.parse(n.Value)
	case *Size:
		return p.parse(n.Value)
	}
	wrong := fmt.Errorf("want %s, got %s", wanted(v), shape(n))
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Bool:
		if n.Tag != "!!bool" {
			return wrong
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int64:
		x, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 10, 64)
		if err != nil || n.Tag != "!!int" {
			return wrong
		}
		v.SetInt(x)
	case reflect.Float64:
		x, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
		if err != nil || n.Tag != "!!int" && n.Tag != "!!float" || math.IsNaN(x) || math.IsInf(x, 0) {
			return wrong
		}
		v.SetFloat(x)
	default:
		return errors.New("cannot be set")
	}
	return nil
}

// outOfBounds says what the tags allow if the value is something else.
func outOfBounds(v reflect.Value, tag reflect.StructTag) string {
	number := func(v reflect.Value) float64 {
		if v.Kind() == reflect.Float64 {
			return v.Float()
		}
		return float64(v.Int())
	}
	beyond := func(key string, wrong func(x, bound float64) bool) string {
		text := tag.Get(key)
		if text == "" || v.Kind() == reflect.String || v.Kind() == reflect.Bool {
			return ""
		}
		bound := reflect.New(v.Type()).Elem()
		n := yaml.Node{Kind: yaml.ScalarNode, Value: text, Tag: "!!int"}
		if err := parseScalar(&n, bound); err != nil {
			panic(fmt.Sprintf("bound %q of a setting: %v", text, err)) // a mistake in this program
		}
		if wrong(number(v), number(bound)) {
			return text
		}
		return ""
	}
	if b := beyond("above", func(x, b float64) bool { return !(x > b) }); b != "" {
		return "must be more than " + b
	}
	if b := beyond("min", func(x, b float64) bool { return !(x >= b) }); b != "" {
		return "must be at least " + b
	}
	if b := beyond("max", func(x, b float64) bool { return !(x <= b) }); b != "" {
		return "must be at most " + b
	}
	return ""
}

// Disableable is a section or a value that can be switched off with the word off.
type Disableable[T any] struct {
	Off bool
	V   T
}

func (o *Disableable[T]) setting(f *settingsFile, n *yaml.Node, path string, tag reflect.StructTag) {
	if n.Kind == yaml.ScalarNode && n.Value == "off" {
		o.Off = true
		return
	}
	o.Off = false // a sink may switch on again what is off for all
	if n.Kind == yaml.ScalarNode && !isNull(n) && reflect.TypeFor[T]().Kind() == reflect.Struct {
		f.addProblemAt(n, path, "", "want a mapping or off, got %s", shape(n))
		return
	}
	f.decode(n, path, reflect.ValueOf(&o.V).Elem(), tag)
}

// StringOrList is one text or a list of them.
type StringOrList []string

func (t *StringOrList) setting(f *settingsFile, n *yaml.Node, path string, tag reflect.StructTag) {
	if n.Kind == yaml.SequenceNode {
		var list []string
		f.decode(n, path, reflect.ValueOf(&list).Elem(), tag)
		*t = list
		return
	}
	var text string
	if f.scalar(n, path, &text, tag) {
		*t = StringOrList{text}
	}
}
