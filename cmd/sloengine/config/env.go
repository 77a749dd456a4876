package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// EnvironmentVariable names the environment, before engine.yaml does.
const EnvironmentVariable = "SLOENGINE_ENV"

// anyEnvironment is the key for all environments that are not named.
const anyEnvironment = "default"

var environmentName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// opt is a value that may be left out, and that may differ by environment:
// 100, or {production: 10000, default: 100}.
type opt[T any] struct {
	V   T
	Set bool
}

func (o *opt[T]) setting(f *settingsFile, n *yaml.Node, path string, tag reflect.StructTag) {
	if n.Kind != yaml.MappingNode {
		o.Set = f.scalar(n, path, &o.V, tag)
		return
	}
	chosen := f.byEnvironment(n, path, func(n *yaml.Node, path string) bool {
		var v T // what is written for other environments must be right, too
		return f.scalar(n, path, &v, tag)
	})
	if chosen != nil {
		o.Set = f.scalar(chosen, path, &o.V, tag)
	}
}

// byEnvironment gives the value of a mapping by environment that holds here, or nil if
// there is none, which it reports.
func (f *settingsFile) byEnvironment(n *yaml.Node, path string, valid func(n *yaml.Node, path string) bool) (chosen *yaml.Node) {
	var names []string
	for _, p := range f.mapping(n, path) {
		names = append(names, p.key)
		if !environmentName.MatchString(p.key) {
			f.addProblemAt(p.at, child(path, p.key), "lower-case letters, digits, - and _", "not the name of an environment")
			continue
		}
		if valid(p.value, child(path, p.key)) && (p.key == f.env || p.key == anyEnvironment && chosen == nil) {
			chosen = p.value
		}
	}
	switch {
	case chosen != nil || f.broken(path):
	case f.env == "" && len(names) > 0:
		f.addProblemAt(n, path, "set environment, or "+EnvironmentVariable, "the value differs by environment, and there is no default among them")
	default:
		f.addProblemAt(n, path, "add it, or a default", "no value for the environment %q", f.env)
	}
	return chosen
}

// differs reports whether a value may be a mapping by environment: any single one of the
// sinks and their policies.
func differs(path string, v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64, reflect.String:
	default:
		return false
	}
	top, _, _ := strings.Cut(path, ".")
	top, _, _ = strings.Cut(top, "[")
	return slices.Contains([]string{"retry", "breaker", "bulkhead", "timeout", "sinks"}, top)
}

// pointer is nil for a value that was left out.
func (o opt[T]) pointer() *T {
	if !o.Set {
		return nil
	}
	return &o.V
}

// environment is whose values are taken. The environment variable goes before the
// file, so that one file serves all.
type environment string

func (e *environment) setting(f *settingsFile, n *yaml.Node, path string, tag reflect.StructTag) {
	var text string
	if !f.scalar(n, path, &text, tag) {
		return
	}
	if text != "" && !validEnvironment(text) {
		f.addProblemAt(n, path, "lower-case letters, digits, - and _", "%q is not the name of an environment", text)
		return
	}
	if f.env == "" {
		f.env = text
	}
	*e = environment(f.env)
}

func validEnvironment(name string) bool {
	return environmentName.MatchString(name) && name != anyEnvironment
}
