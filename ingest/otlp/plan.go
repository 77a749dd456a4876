package otlp

import (
	"maps"
	"slices"
	"strings"
)

// maxNames bounds the attributes that one service may keep; further ones are left out and counted as cut.
const maxNames = 128

// The bounds of what a plan remembers, since senders can invent any number of keys and names.
const (
	maxKeys      = 256
	maxNameBytes = 128 // of a key; a longer one is not kept. Names of services are cut
)

// role is what an attribute means besides itself.
type role uint8

const (
	roleHTTPStatus role = iota + 1
	roleRPCStatus
	roleOperation // of messaging
	roleTail      // a tail sampler writes it
	roleRefinery  // that of Honeycomb writes it, which may also sample at random
	rolesEnd
)

var roles = map[string]role{
	"http.response.status_code": roleHTTPStatus,
	"rpc.response.status_code":  roleRPCStatus,
	"messaging.operation.type":  roleOperation,

	// The processor tail_sampling of the Collector with its feature gate recordpolicy, on scopes.
	"tailsampling.policy":           roleTail,
	"tailsampling.composite_policy": roleTail,
	"tailsampling.cached_decision":  roleTail,
	"meta.refinery.reason":          roleRefinery,
}

// slot is where the value of an attribute goes.
type slot struct {
	name  int16 // index in plan.names; -1: it is not kept
	role  role
	older bool // the key is one of earlier conventions: it gives way to the later one
}

// plan says what is kept of the spans of a service. It is for one goroutine.
type plan struct {
	service []byte
	named   map[string]bool // attributes that the spec names
	keep    []pattern       // further ones, as keys of the conventions
	rules   []*rule
	logs    []*logRule
	metrics []*metricRule
	ratio   float64 // of sampling that spans do not say; 0: none
	known   bool    // a spec has it
	counted []byte  // the type that a spec was last found to count

	operation, trace bool // the spec names these two
	traced           bool // an SLO follows work by trace

	fed   []feeding             // of the types that counted
	noted [findingReasons]int64 // when each was noted last

	names []string // in the order in which they were met
	texts [][]byte // the same
	order []int16  // indexes in names, rising by name
	keys  map[string]slot
	shape []shapeKey
}

// shapeKey is a key at its place among the attributes of the last span. Spans of one sender mostly have the same keys,
// so that comparing one spares looking it up.
type shapeKey struct {
	key  string
	slot slot
}

// slot returns where the i-th attribute of a span goes.
func (p *plan) slot(i int, key []byte) slot {
	if len(key) > maxNameBytes {
		return slot{name: -1}
	}
	if i < len(p.shape) && p.shape[i].key == string(key) {
		return p.shape[i].slot
	}
	s, ok := p.keys[string(key)]
	if !ok {
		s = p.learn(string(key))
	}
	if i == len(p.shape) && i < 64 {
		p.shape = append(p.shape, shapeKey{string(key), s})
	} else if i < len(p.shape) {
		p.shape[i] = shapeKey{string(key), s}
	}
	return s
}

func (p *plan) learn(key string) slot {
	now, older := renamed[key]
	if !older {
		now = key
	}
	name := AttributeName(key)
	s := slot{name: -1, role: roles[now], older: older}
	if name != "" && (p.named[name] || slices.ContainsFunc(p.keep, func(k pattern) bool { return k.match(now) })) {
		s.name = p.name(name)
	}
	if len(p.keys) >= maxKeys {
		clear(p.keys)
	}
	p.keys[key] = s
	return s
}

// name returns the index of a name, which is new if need be; -1 if there are too many.
func (p *plan) name(name string) int16 {
	if i := slices.Index(p.names, name); i >= 0 {
		return int16(i)
	}
	if len(p.names) >= maxNames {
		return -1
	}
	at := int16(len(p.names))
	p.names, p.texts = append(p.names, name), append(p.texts, []byte(name))
	place, _ := slices.BinarySearchFunc(p.order, name, func(i int16, name string) int {
		return strings.Compare(p.names[i], name)
	})
	p.order = slices.Insert(p.order, place, at)
	return at
}

// rule is a compiled SpanRule.
type rule struct {
	service string
	name    pattern
	kind    int // 0 is any
	match   []condition
	typ     []byte
}

type condition struct {
	key   string
	value pattern
}

func newRule(r *SpanRule) *rule {
	out := &rule{service: r.Service, kind: max(slices.Index(kinds[:], r.Kind), 0), typ: []byte(r.Type)}
	if out.name = newPattern(r.Name); r.Name == "" {
		out.name = anyText
	}
	out.match = conditions(r.Match)
	return out
}

// logRule is a compiled LogRule.
type logRule struct {
	service  string
	event    string
	body     pattern
	match    []condition
	typ      []byte
	duration string // attribute
}

func newLogRule(r *LogRule) *logRule {
	out := &logRule{service: r.Service, event: r.Event, match: conditions(r.Match), typ: []byte(r.Type),
		duration: r.Duration}
	if out.body = newPattern(r.Body); r.Body == "" {
		out.body = anyText
	}
	return out
}

func conditions(match map[string]string) (out []condition) {
	for _, key := range slices.Sorted(maps.Keys(match)) {
		out = append(out, condition{key, newPattern(match[key])})
	}
	return out
}
