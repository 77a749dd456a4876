package ratelimit

import (
	"slices"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/reliability/pattern"
)

// Caller is who sends the events of a request.
type Caller struct {
	Authenticated bool
	Token         string // name of the token; "" if none
	IP            string
	Header        func(name string) string // of the request; nil if there are none
}

// Subject holds the parts of an event that determine its limits, before redaction. It is only read,
// and not retained.
type Subject struct {
	Service, Type, Severity []byte
	Attrs                   Attributes // nil if there are none
	// Sample is a hash of the event's identity. Sampling keeps by it, so an event
	// that is sent again fares the same.
	Sample uint64
}

// Attributes look up an event's attributes.
type Attributes interface {
	Attr(name string) (value []byte, ok bool)
}

// reason says why a ticket is exempt.
type reason uint8

const (
	byAudit reason = iota + 1
	byBypass
)

// Policy is a compiled Config. It never changes, but for a cache, and is safe for
// concurrent use.
type Policy struct {
	rules    []rule
	global   *rule // nil if there is none
	fallback uint16
	exact    map[string]uint16
	patterns []typePattern // the first that matches applies
	audit    []pattern.Pattern
	contexts []contextRule
	bypass   []bypass
	slots    int // of sources that are the caller's
	cache    typeCache
}

type typePattern struct {
	match pattern.Pattern
	rule  uint16
}

type contextRule struct {
	rule    uint16
	limit   *Limit
	keys    prefix
	from    []source
	extract func(*Caller, *Subject) string
}

type source struct {
	Source
	slot int // in Tickets.origin, unless it is an attribute
}

type bypass struct {
	types              []pattern.Pattern
	severities, tokens []string
	attributes         []attribute
	check              func(*Caller, *Subject) bool
}

type attribute struct {
	name   string
	values []string
}

func (p *Policy) add(r rule) uint16 {
	p.rules = append(p.rules, r)
	return uint16(len(p.rules) - 1)
}

// Add makes the ticket of one event and appends it to t. All events of t are of the
// same request: the caller's headers, address and token are looked up once. c and s may not be nil.
// It does not allocate once t has grown, unless an Extractor or Header does, or the type is new.
func (p *Policy) Add(c *Caller, s *Subject, t *Tickets) {
	if t.caller != c || t.policy != p {
		t.begin(p, c)
	}
	e := p.typeOf(s.Type)
	k := Ticket{Verdict: Verdict{Weight: 1}, sample: s.Sample, rule: e.rule, policy: p}
	k.first = int32(len(t.charges))
	switch {
	case e.audit:
		k.Exempt, k.reason = true, byAudit
	case e.bypass != 0 && c.Authenticated && p.bypassed(e.bypass, c, s):
		k.Exempt, k.reason = true, byBypass
	default:
		if g := p.global; g != nil {
			t.charges = append(t.charges, Charge{Key: g.keys.key, Limit: &g.limit, Layer: Global})
		}
		t.charges = append(t.charges, Charge{Key: e.key, Limit: &p.rules[e.rule].limit, Layer: Type, Rule: e.rule})
		for i := range p.contexts {
			x := &p.contexts[i]
			if key, value, ok := t.context(i, x, c, s); ok {
				t.charges = append(t.charges, Charge{Key: key, Limit: x.limit, Layer: Context, Rule: x.rule, value: value})
			}
		}
	}
	k.end = int32(len(t.charges))
	t.List = append(t.List, k)
}

// bypassed asks those rules whose types fit, one bit each.
func (p *Policy) bypassed(rules uint64, c *Caller, s *Subject) bool {
	for i := range p.bypass {
		if rules&(1<<i) != 0 && p.bypass[i].fits(c, s) {
			return true
		}
	}
	return false
}

// fits checks all conditions but the types.
func (b *bypass) fits(c *Caller, s *Subject) bool {
	if len(b.severities) > 0 && !containsBytes(b.severities, s.Severity) {
		return false
	}
	if len(b.tokens) > 0 && !slices.Contains(b.tokens, c.Token) {
		return false
	}
	for i := range b.attributes {
		if s.Attrs == nil {
			return false
		}
		v, ok := s.Attrs.Attr(b.attributes[i].name)
		if !ok || !containsBytes(b.attributes[i].values, v) {
			return false
		}
	}
	return b.check == nil || b.check(c, s)
}

func containsBytes(list []string, b []byte) bool {
	for _, s := range list {
		if s == string(b) {
			return true
		}
	}
	return false
}

// typeEntry holds the settings that follow from the type of an event.
type typeEntry struct {
	name   string
	rule   uint16
	audit  bool
	key    Key
	bypass uint64 // rules whose types fit
}

func (p *Policy) classify(typ string) *typeEntry {
	e := &typeEntry{name: typ, rule: p.fallback}
	e.audit = matchesAny(p.audit, typ)
	if n, ok := p.exact[typ]; ok {
		e.rule = n
	} else if i := slices.IndexFunc(p.patterns, func(q typePattern) bool { return q.match.Match(typ) }); i >= 0 {
		e.rule = p.patterns[i].rule
	}
	r := &p.rules[e.rule]
	e.key = r.keys.key
	if e.rule == p.fallback { // each type for itself
		e.key = hashKey(append([]byte(r.keys.text), typ...))
	}
	for i := range p.bypass {
		b := &p.bypass[i]
		if len(b.types) == 0 || matchesAny(b.types, typ) {
			e.bypass |= 1 << i
		}
	}
	return e
}

func matchesAny(patterns []pattern.Pattern, typ string) bool {
	return slices.ContainsFunc(patterns, func(p pattern.Pattern) bool { return p.Match(typ) })
}

// typeCache remembers types in sets of four. It neither grows nor locks, however many
// types senders invent.
type typeCache [1024][4]atomic.Pointer[typeEntry]

func (p *Policy) typeOf(typ []byte) *typeEntry {
	h := xxh3.Hash(typ)
	set := &p.cache[h%uint64(len(p.cache))]
	for i := range set {
		if e := set[i].Load(); e != nil && e.name == string(typ) {
			return e
		}
	}
	e := p.classify(string(typ))
	for i := range set {
		if set[i].CompareAndSwap(nil, e) {
			return e
		}
	}
	set[h>>32%uint64(len(set))].Store(e)
	return e
}

// prefix is the common prefix of the keys of a rule.
type prefix struct {
	text string // layer and rule, each with a zero byte, which no name has
	key  Key    // without a value
}

func newPrefix(l Layer, name string) prefix {
	text := l.String() + "\x00" + name + "\x00"
	return prefix{text, hashKey([]byte(text))}
}

func hashKey(b []byte) Key {
	h := xxh3.Hash128(b)
	return Key{h.Hi, h.Lo}
}
