package spec

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// value is a YAML value with the name by which problems call it.
type value struct {
	r    *reader
	n    *yaml.Node
	what string
}

// newValue looks through aliases.
func newValue(r *reader, n *yaml.Node, what string) *value {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return &value{r, n, what}
}

func (v *value) at() Position { return v.r.at(v.n) }

func (v *value) errorf(suggestion, format string, args ...any) {
	v.r.errorf(v.at(), suggestion, format, args...)
}

func (v *value) warnf(suggestion, format string, args ...any) {
	v.r.warnf(v.at(), suggestion, format, args...)
}

func (v *value) null() bool     { return isNull(v.n) }
func (v *value) isObject() bool { return v.n.Kind == yaml.MappingNode }
func (v *value) isList() bool   { return v.n.Kind == yaml.SequenceNode }

// shape names what was written, for messages.
func (v *value) shape() string {
	switch {
	case v.null():
		return "nothing"
	case v.isObject():
		return "a mapping"
	case v.isList():
		return "a list"
	}
	return fmt.Sprintf("%q", clip(v.n.Value))
}

// list gives the items of a list.
func (v *value) list() ([]*value, bool) {
	if !v.isList() {
		v.errorf("start each item with a dash", "%s: want a list, got %s", v.what, v.shape())
		return nil, false
	}
	out := make([]*value, len(v.n.Content))
	for i, n := range v.n.Content {
		out[i] = newValue(v.r, n, v.what)
	}
	return out, true
}

// object is a YAML mapping whose keys are known.
type object struct {
	*value
	fields map[string]*value
	keys   []string // in the order of the file; only those of an open object
	keyAt  map[string]Position
	meant  map[string]bool // known keys that some unknown key was probably meant to be
}

// elsewhere are keys that people bring along from other formats, and what they
// are called here.
var elsewhere = map[string]string{
	"target": "objective", "goal": "objective", "sli": "indicator", "slis": "indicator", "indicators": "indicator",
	"timewindow": "window", "time_window": "window", "period": "window", "budgetingmethod": "budgeting",
	"groupby": "group_by", "group": "group_by", "by": "group_by", "filter": "valid", "match": "valid", "matcher": "match",
	"errors": "bad", "error": "bad", "error_query": "bad", "total_query": "total", "alerts": "alerting", "severity": "each",
	"objectives": "slos", "agreements": "slas", "tz": "timezone", "time_zone": "timezone", "cron": "rrule", "owner": "author",
	"comment": "description", "unit": "calendar", "le": "threshold", "schedule": "during", "hours": "during", "title": "name", "apiversion": "version",
	"warn": "warning", "crit": "critical", "method": "score", "scoring": "score", "nodata": "no_data",
}

// misplaced are keys that belong somewhere else.
var misplaced = map[string]string{
	"alerts.window":   "write `alert_window` beside alerts",
	"alerting.labels": "write it inside page or ticket",
	"alerting.for":    "write it inside page or ticket",
}

// object reads a mapping that may only have the given keys. It is nil if the
// value is something else.
func (v *value) object(known ...string) *object {
	o := v.open()
	if o == nil {
		return nil
	}
	for _, k := range o.keys {
		if slices.Contains(known, k) {
			continue
		}
		hint := "known keys: " + strings.Join(known, ", ")
		meant := elsewhere[fold(k)]
		if !slices.Contains(known, meant) {
			meant = closest(k, known)
		}
		if meant != "" {
			hint = fmt.Sprintf("did you mean %q?", meant)
			o.meant[meant] = true
		}
		if place := misplaced[v.what+"."+k]; place != "" {
			hint = place
		}
		v.r.errorf(o.keyAt[k], hint, "%s: unknown key %q", v.what, clip(k))
		delete(o.fields, k)
	}
	return o
}

// open reads a mapping whose keys are the user's own.
func (v *value) open() *object {
	if v.null() {
		v.errorf("fill it in or remove the key", "%s is empty", v.what)
		return nil
	}
	if !v.isObject() {
		v.errorf("", "%s: want a mapping (key: value), got %s", v.what, v.shape())
		return nil
	}
	o := &object{value: v, fields: map[string]*value{}, keyAt: map[string]Position{}, meant: map[string]bool{}}
	var merged []*yaml.Node
	for i := 0; i+1 < len(v.n.Content); i += 2 {
		k, n := v.n.Content[i], v.n.Content[i+1]
		for k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			v.r.errorf(v.r.at(k), "", "%s: a key must be plain text", v.what)
			continue
		}
		if k.ShortTag() == "!!merge" {
			merged = append(merged, n)
			continue
		}
		if first, twice := o.keyAt[k.Value]; twice {
			v.r.errorf(v.r.at(k), fmt.Sprintf("it is first given in line %d; keep one", first.Line), "%s: duplicate key %q", v.what, clip(k.Value))
			continue
		}
		o.set(k, n)
	}
	for _, n := range merged {
		o.merge(n)
	}
	return o
}

func (o *object) set(k, n *yaml.Node) {
	o.keys = append(o.keys, k.Value)
	o.keyAt[k.Value] = o.r.at(k)
	o.fields[k.Value] = newValue(o.r, n, printable(k.Value))
}

// merge brings in the mapping or list of mappings after a "<<" key, whose keys
// give way to those that are there.
func (o *object) merge(n *yaml.Node) {
	v := newValue(o.r, n, "<<")
	from := []*value{v}
	if v.isList() {
		from, _ = v.list()
	}
	for _, v := range from {
		in := v.open()
		if in == nil {
			continue
		}
		for _, k := range in.keys {
			if _, taken := o.fields[k]; !taken {
				o.keys = append(o.keys, k)
				o.keyAt[k], o.fields[k] = in.keyAt[k], in.fields[k]
			}
		}
	}
}

// get gives the value of a key, nil if it is not there. A key without a value
// is reported: it is more often forgotten than meant.
func (o *object) get(key string) *value {
	v := o.fields[key]
	if v == nil {
		return nil
	}
	if v.null() {
		o.r.errorf(o.keyAt[key], "fill it in or remove the key", "%s: %s is empty", o.what, key)
		return nil
	}
	return v
}

// need is get for a key that must be there. One that is only misspelt is not
// reported a second time.
func (o *object) need(key, suggestion string) *value {
	if _, ok := o.fields[key]; !ok {
		if o.meant[key] {
			return nil
		}
		o.errorf(suggestion, "%s: %s is missing", o.what, key)
		return nil
	}
	return o.get(key)
}

func (o *object) has(key string) bool { _, ok := o.fields[key]; return ok }
