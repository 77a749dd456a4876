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
	keys   []string        // in the order of the file, unknown ones too
	fields []field         // of the keys
	index  map[string]int  // into both, for mappings that are too long to look through
	meant  map[string]bool // known keys that some unknown key was probably meant to be
}

// field is one key of a mapping with its value.
type field struct {
	value   value
	key     *yaml.Node
	r       *reader // of the file that it is in
	unknown bool
}

// lookThrough is how many keys are compared one by one.
const lookThrough = 16

func (o *object) find(key string) *field {
	if o.index != nil {
		if i, ok := o.index[key]; ok {
			return &o.fields[i]
		}
		return nil
	}
	if i := slices.Index(o.keys, key); i >= 0 {
		return &o.fields[i]
	}
	return nil
}

// add adds a field whose key is not there yet.
func (o *object) add(key string, f field) {
	o.keys, o.fields = append(o.keys, key), append(o.fields, f)
	if n := len(o.keys); o.index != nil {
		o.index[key] = n - 1
	} else if n > lookThrough {
		o.index = make(map[string]int, 2*n)
		for i, k := range o.keys {
			o.index[k] = i
		}
	}
}

// field gives the value of a key, nil if it is not there.
func (o *object) field(key string) *value {
	if f := o.find(key); f != nil && !f.unknown {
		return &f.value
	}
	return nil
}

// keyAt is the place of a key that is there.
func (o *object) keyAt(key string) Position {
	if f := o.find(key); f != nil {
		return f.r.at(f.key)
	}
	return o.at()
}

// known counts the keys that are known.
func (o *object) known() int {
	n := 0
	for i := range o.fields {
		if !o.fields[i].unknown {
			n++
		}
	}
	return n
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
func (v *value) object(known ...string) *object { return v.objectOr(nil, known...) }

// objectOr is object for formats whose keys were once spelt in other ways: old
// gives the spelling of today, which is taken with a warning.
func (v *value) objectOr(old map[string]string, known ...string) *object {
	o := v.open()
	if o == nil {
		return nil
	}
	for i, k := range o.keys {
		now, ok := old[k]
		if !ok || !slices.Contains(known, now) || o.find(now) != nil {
			continue
		}
		v.r.warnf(o.keyAt(k), fmt.Sprintf("write %q", now), "%s: %q is not the spelling of this format", v.what, k)
		o.keys[i], o.fields[i].value.what = now, now
		if o.index != nil {
			delete(o.index, k)
			o.index[now] = i
		}
	}
	for i, k := range o.keys {
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
			if o.meant == nil {
				o.meant = map[string]bool{}
			}
			o.meant[meant] = true
		}
		if place := misplaced[v.what+"."+k]; place != "" {
			hint = place
		}
		v.r.errorf(o.keyAt(k), hint, "%s: unknown key %q", v.what, clip(k))
		o.fields[i].unknown = true
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
	n := len(v.n.Content) / 2
	o := &object{value: v, keys: make([]string, 0, n), fields: make([]field, 0, n)}
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
		if first := o.find(k.Value); first != nil {
			v.r.errorf(v.r.at(k), fmt.Sprintf("it is first given in line %d; keep one", first.key.Line), "%s: duplicate key %q", v.what, clip(k.Value))
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
	what := k.Value
	if strings.ContainsFunc(what, func(c rune) bool { return c < ' ' || c > '~' || c == '\\' }) {
		what = printable(what)
	}
	o.add(k.Value, field{value: *newValue(o.r, n, what), key: k, r: o.r})
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
		for i, k := range in.keys {
			if o.find(k) == nil {
				o.add(k, in.fields[i])
			}
		}
	}
}

// get gives the value of a key, nil if it is not there. A key without a value
// is reported: it is more often forgotten than meant.
func (o *object) get(key string) *value {
	v := o.field(key)
	if v == nil {
		return nil
	}
	if v.null() {
		o.r.errorf(o.keyAt(key), "fill it in or remove the key", "%s: %s is empty", o.what, key)
		return nil
	}
	return v
}

// need is get for a key that must be there. One that is only misspelt is not
// reported a second time.
func (o *object) need(key, suggestion string) *value {
	if !o.has(key) {
		if o.meant[key] {
			return nil
		}
		o.errorf(suggestion, "%s: %s is missing", o.what, key)
		return nil
	}
	return o.get(key)
}

func (o *object) has(key string) bool { return o.field(key) != nil }
