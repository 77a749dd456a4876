package config

import (
	_ "embed"
	"reflect"
	"strings"
	"sync"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
)

// keysFile has what no type says about the settings: a text for each, and a default where it comes from the component.
//
//go:embed keys.txt
var keysFile string

var keyTexts = sync.OnceValue(func() shape.Texts { return shape.ParseTexts(keysFile) })

func keyText(kind, path string) string { return keyTexts().Of(kind, path) }

// Shape describes engine.yaml: its keys by the types and tags that read it, with the defaults of an empty file.
func Shape() shape.Shape {
	c := Default()
	d := describer(&c)
	s, _ := d.Describe("", &c, "")
	return s
}

// RelayShape describes relay.yaml.
func RelayShape() shape.Shape {
	c := DefaultRelay()
	d := describer(nil)
	each := d.Each
	d.Each = func(path string, value reflect.Value, k *shape.Key) {
		each(path, value, k)
		for kind, to := range map[string]*string{"": &k.Text, "default ": &k.Default, "example ": &k.Example} {
			if text := keyText(kind, "relay."+path); text != "" {
				*to = text
			}
		}
		k.ByEnvironment = false
	}
	s, _ := d.Describe("", &c, "")
	return s
}

func describer(c *Config) *yamldoc.Describer {
	return &yamldoc.Describer{
		Duration: slo.FormatDuration,
		Prefill: func(into any) {
			if p, ok := into.(prefilled); ok {
				p.prefill(c)
			}
		},
		Each: func(path string, value reflect.Value, k *shape.Key) {
			k.ByEnvironment = differs(path, value)
			if rest, ok := strings.CutPrefix(path, "sinks."); ok && isPolicy(rest) {
				k.Inherits, path = "that of `"+rest+"`", rest
			}
			k.Text, k.Example = keyText("", path), keyText("example ", path)
			if text := keyText("default ", path); text != "" {
				k.Default = text
			}
		},
	}
}

// isPolicy reports whether a key of a sink is that of all sinks unless it is given.
func isPolicy(path string) bool {
	section, _, _ := strings.Cut(path, ".")
	for _, p := range []string{"retry", "breaker", "bulkhead", "timeout"} {
		if section == p {
			return true
		}
	}
	return false
}

// Shape implements yamldoc.Shaper.
func (e *environment) Shape(*yamldoc.Describer, string, reflect.StructTag) (shape.Shape, string) {
	return shape.Shape{Kind: shape.Text, Note: "environment name"}, string(*e)
}

// Shape implements yamldoc.Shaper.
func (o *Disableable[T]) Shape(d *yamldoc.Describer, path string, tag reflect.StructTag) (shape.Shape, string) {
	s, value := d.Describe(path, &o.V, tag)
	if o.Off {
		value = "off"
	}
	return shape.Shape{Kind: shape.Either, Or: []shape.Shape{s, {Kind: shape.Text, Words: []string{"off"}}}}, value
}

// Shape implements yamldoc.Shaper.
func (s *amSection) Shape(*yamldoc.Describer, string, reflect.StructTag) (shape.Shape, string) {
	return shape.Shape{Kind: shape.Any, Note: "section of Alertmanager's configuration"}, ""
}

// Shape implements yamldoc.Shaper.
func (r *retries) Shape(d *yamldoc.Describer, path string, _ reflect.StructTag) (shape.Shape, string) {
	n := int(*r)
	s, value := d.Describe(path, &n, retriesRange)
	return shape.Shape{Kind: shape.Either, Or: []shape.Shape{s, {Kind: shape.Text, Words: []string{"unlimited"}}}}, value
}
