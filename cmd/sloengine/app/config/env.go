package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/slo/yamldoc"
)

// EnvironmentVariable names the environment. It has precedence over engine.yaml, so that one file serves all.
const EnvironmentVariable = "SLOENGINE_ENV"

// anyEnvironment is the key for all environments that are not named.
const anyEnvironment = "default"

var environmentName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

const environmentHint = "want lower-case letters, digits, '-' and '_'"

// environmentChooser picks the value for env where a value differs by environment: {production: 10s, default: 2s}. It
// reports a mapping without one.
func environmentChooser(env string) func(*yamldoc.Value, reflect.Value, func(*yamldoc.Value) bool) *yamldoc.Value {
	return func(v *yamldoc.Value, into reflect.Value, valid func(*yamldoc.Value) bool) (chosen *yamldoc.Value) {
		if !v.IsMapping() || !differs(v.Path, into) {
			return v
		}
		fail := func(hint, format string, args ...any) {
			v.Errorf(hint, v.Path+": "+format, args...)
		}
		before := v.Errors()
		o := v.Open()
		for _, name := range o.Keys {
			at := o.Field(name)
			at.Path = child(v.Path, name)
			at.What = at.Path
			if !environmentName.MatchString(name) {
				v.ErrorfAt(o.KeyAt(name), environmentHint, "%s: invalid environment name", at.Path)
				continue
			}
			if valid(at) && (name == env || name == anyEnvironment && chosen == nil) {
				chosen = at
			}
		}
		switch {
		case chosen != nil || v.Errors() > before:
		case env == "" && len(o.Keys) > 0:
			fail(
				"set environment, or "+EnvironmentVariable, "the value differs by environment, and there is no default among them")
		default:
			fail("add it, or a default", "no value for the environment %q", env)
		}
		return chosen
	}
}

// differs reports whether a value may be a mapping by environment: any single one of the rate limits, the sinks and
// their policies.
func differs(path string, into reflect.Value) bool {
	kind := into.Kind()
	if kind == reflect.Pointer {
		kind = into.Type().Elem().Kind()
	}
	switch kind {
	case reflect.Struct, reflect.Slice, reflect.Map:
		return false
	}
	section, _, _ := strings.Cut(path, ".")
	section, _, _ = strings.Cut(section, "[")
	if section == "limits" {
		return into.Kind() == reflect.Pointer // the values of a rule
	}
	return slices.Contains([]string{"retry", "breaker", "bulkhead", "timeout", "sinks"}, section)
}

// environment is whose values are taken.
type environment string

// DecodeYAML implements yamldoc.Unmarshaler.
func (e *environment) DecodeYAML(d *yamldoc.Decoder, v *yamldoc.Value, tag reflect.StructTag) {
	var text string
	switch {
	case !d.DecodeTagged(v, &text, tag):
	case text != "" && !validEnvironment(text):
		d.Errorf(v.Path, environmentHint, "invalid environment name %q", text)
	default:
		*e = environment(text)
	}
}

func validEnvironment(name string) bool {
	return environmentName.MatchString(name) && name != anyEnvironment
}

// Disableable is a section or a value that can be switched off with the word off.
type Disableable[T any] struct {
	Off bool
	V   T
}

// DecodeYAML implements yamldoc.Unmarshaler.
func (o *Disableable[T]) DecodeYAML(d *yamldoc.Decoder, v *yamldoc.Value, tag reflect.StructTag) {
	single := v.IsScalar() && !v.IsNull()
	o.Off = single && v.Raw() == "off" // a sink may switch on again what is off for all
	switch {
	case o.Off:
	case single && reflect.TypeFor[T]().Kind() == reflect.Struct:
		d.Errorf(v.Path, "", "want a mapping or off, got %s", v.Shape())
	default:
		d.DecodeTagged(v, &o.V, tag)
	}
}
