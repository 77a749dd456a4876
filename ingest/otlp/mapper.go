package otlp

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

// Reason is why a span, a log record or a point of a metric does not count.
type Reason uint8

// The reasons.
const (
	Counts         Reason = iota
	WrongKind             // it does not enter the service: internal, client or producer
	LocalParent           // a server span whose parent is in the same process
	WrongOperation        // a consumer span that does not process a message
	ByRule                // a rule of the settings says so
	UnknownService        // no spec has the service
	UnknownType           // the spec of the service has not the type
	NoRule                // of a log record or point: no rule says that it counts
	FirstPoint            // of a counter that may have been there for long
	NothingNew            // the point adds nothing, or a later one is known
	Decreased             // a counter has fallen, though it did not begin again
	reasons
)

var reasonNames = [reasons]string{"", "kind", "local_parent", "operation", "rule", "unknown_service", "unknown_type",
	"no_rule", "first_point", "nothing_new", "decreased"}

// Reasons are the names of the reasons for which a span or a log record does not count, by Reason.
func Reasons() []string { return reasonNames[:] }

// Mapper makes events of spans and log records. It is for one goroutine; all that it hands out is valid until its next
// call.
type Mapper struct {
	settings   *Settings
	keep       []pattern
	rules      []*rule
	logs       []*logRule
	metrics    []*metricRule
	seen       *Seen
	findings   *Findings
	minute     int64 // of the request
	catalog    event.Catalog
	attributes func(service []byte) []string

	plans    map[string]*plan // by namespace and name as they are sent
	plan     *plan
	resource int // whose values are below; -1: none

	inherited, values [][]byte // by plan.names: of the resource, and of the span
	resourceText      []byte   // of inherited values that are no texts
	text              []byte   // of values
	own               [maxNames]bool
	draft             event.Draft
	id                [2*16 + 1 + 2*8]byte
	trace             [2 * 16]byte
	http              int64
	rpc               []byte
	operation         []byte
	later             [rolesEnd]bool // the value above is that of the later conventions
	tail              bool           // a tail sampler chose the item
	resourceTail      bool           // the same of its resource
	cut               int
	refused           []byte // the type that takes refused last

	hash   xxh3.Hasher // of log records and points
	number [8]byte

	counters   *counter.Batch
	point      counter.Point
	observed   bool // the point, which may be kept
	thresholds func(service, typ string) []time.Duration
	allow      func(service []byte) bool
}

// maxPlans bounds the services that a mapper remembers, of which one request may name any number.
const maxPlans = 200

// NewMapper makes a mapper. Spans that no spec counts are noted in seen, and what is wrong with others in findings.
// Both may be nil.
func NewMapper(s *Settings, seen *Seen, findings *Findings) *Mapper {
	m := &Mapper{settings: s, seen: seen, findings: findings, plans: map[string]*plan{}}
	for _, key := range s.Keep {
		m.keep = append(m.keep, newPattern(key))
	}
	for i := range s.Spans {
		m.rules = append(m.rules, newRule(&s.Spans[i]))
	}
	for i := range s.Logs {
		m.logs = append(m.logs, newLogRule(&s.Logs[i]))
	}
	for i := range s.Metrics {
		m.metrics = append(m.metrics, newMetricRule(&s.Metrics[i]))
	}
	return m
}

// Begin starts a request. attributes are those that the spec names for a service. They belong to the catalogue, so that
// they are asked for again when that is another one.
func (m *Mapper) Begin(catalog event.Catalog, attributes func(service []byte) []string) {
	if catalog != m.catalog {
		clear(m.plans)
	}
	m.catalog, m.attributes, m.resource, m.cut = catalog, attributes, -1, 0
	if m.findings != nil {
		m.minute = m.findings.o.Now().Unix() / 60
	}
}

// Cut is how many values of the request were shortened or left out.
func (m *Mapper) Cut() int { return m.cut }

// Span returns the event of a span that counts, or why it does not count.
func (m *Mapper) Span(s *otlpwire.Span) (*event.Draft, Reason) {
	m.gather(&s.Origin, s.Attrs)
	p := m.plan
	typ, why := m.typeOf(s)
	switch {
	case typ == nil:
		if why == WrongKind && s.Kind == kindInternal && !s.HasParent {
			m.notice(s, []byte(kinds[kindInternal]))
		}
		return nil, why
	case !m.takes(typ):
		m.notice(s, typ)
		return nil, m.refuse()
	case !p.isCounted(typ):
		m.notice(s, typ)
	}
	e := m.event(s, typ)
	m.find(typ, signalSpans, e.Weight)
	return e, Counts
}

// takes reports whether events of the type from the service at hand are stored.
func (m *Mapper) takes(typ []byte) bool {
	p := m.plan
	if p.isCounted(typ) { // plans go with their catalogue
		return true
	}
	known := event.KnownYes
	if m.catalog != nil {
		known = m.catalog.Lookup(p.service, typ)
	}
	switch {
	case !p.known || !known.Admitted():
		m.refused = typ
		return false
	case known == event.KnownYes:
		p.counted = typ
	}
	return true
}

// isCounted reports whether the type is the one that a spec was last found to count.
func (p *plan) isCounted(typ []byte) bool {
	return p.counted != nil && string(p.counted) == string(typ)
}

// refuse says why the spec does not count an item that takes has refused.
func (m *Mapper) refuse() Reason {
	if !m.plan.known {
		return UnknownService
	}
	return UnknownType
}

// Refused is the service and the type of the last item that was UnknownService or UnknownType. Both are valid until the
// next one.
func (m *Mapper) Refused() (service, typ []byte) { return m.plan.service, m.refused }

// gather reads the attributes of an item.
func (m *Mapper) gather(from *otlpwire.Origin, attrs []otlpwire.Attr) {
	if from.ResourceIndex != m.resource {
		m.enter(from)
	}
	p := m.plan
	m.values = append(m.values[:0], m.inherited...)
	m.text, m.http, m.rpc, m.operation, m.later = m.text[:0], 0, nil, nil, [len(m.later)]bool{}
	clear(m.own[:len(p.names)])
	m.tail = false
	for i := range from.Scope {
		if to, ok := roles[string(from.Scope[i].Key)]; ok {
			m.tail = m.tail || tailSampled(to, &from.Scope[i].Value)
		}
	}
	for i := range attrs {
		a := &attrs[i]
		to := p.slot(i, a.Key)
		if to.role != 0 {
			m.note(to, &a.Value)
		}
		if to.name >= 0 {
			m.set(to, &a.Value)
		}
	}
}

// enter begins the items of another resource.
func (m *Mapper) enter(s *otlpwire.Origin) {
	m.resource = s.ResourceIndex
	name, namespace := resourceText(s, "service.name"), resourceText(s, "service.namespace")
	key := namespace + "/" + name
	p := m.plans[key]
	if p == nil {
		if len(m.plans) >= maxPlans {
			clear(m.plans)
		}
		p = m.newPlan(namespace, name)
		m.plans[key] = p
	}
	m.plan = p
	m.resourceText = m.resourceText[:0]
	m.inherited = m.inherited[:0]
	m.values = m.values[:0]
	m.text, m.resourceTail = m.resourceText, false
	for i := range s.Resource {
		a := &s.Resource[i]
		if len(a.Key) > maxNameBytes {
			continue
		}
		to, ok := p.keys[string(a.Key)]
		if !ok {
			to = p.learn(string(a.Key))
		}
		m.resourceTail = m.resourceTail || tailSampled(to.role, &a.Value)
		if to.name >= 0 {
			m.set(to, &a.Value)
		}
	}
	m.inherited, m.values = m.values, m.inherited
	m.resourceText, m.text = m.text, m.resourceText
	clear(m.own[:])
}

// resourceText is a text of the resource, which is cut where it is too long for a name.
func resourceText(s *otlpwire.Origin, key string) string {
	v, _ := otlpwire.Lookup(s.Resource, key)
	if v.Kind != otlpwire.String {
		return ""
	}
	n := min(len(v.Bytes), maxNameBytes)
	for n > 0 && n < len(v.Bytes) && !utf8.RuneStart(v.Bytes[n]) {
		n--
	}
	return string(v.Bytes[:n])
}

func (m *Mapper) newPlan(namespace, name string) *plan {
	service := ServiceName(name)
	if to, ok := m.settings.Services[namespace+"/"+name]; ok {
		service = to
	} else if to, ok := m.settings.Services[name]; ok {
		service = to
	}
	p := &plan{service: []byte(service), keep: m.keep, keys: map[string]slot{}, ratio: m.settings.Sampling[service]}
	p.known = m.catalog == nil || m.catalog.Lookup(p.service, nil) != event.UnknownService
	p.named = map[string]bool{}
	if m.attributes != nil {
		for _, a := range m.attributes(p.service) {
			p.named[a] = true
		}
	}
	p.operation, p.trace = p.named[Operation], p.named[TraceID]
	p.traced = m.findings != nil && m.findings.o.Traced(p.service)
	for _, r := range m.rules {
		if r.service == "" || r.service == service {
			p.rules = append(p.rules, r)
		}
	}
	for _, r := range m.logs {
		if r.service == "" || r.service == service {
			p.logs = append(p.logs, r)
		}
	}
	for _, r := range m.metrics {
		if r.service == "" || r.service == service {
			p.metrics = append(p.metrics, r.of(service))
		}
	}
	return p
}

// set gives an attribute its value. One of earlier conventions gives way to that of later ones.
func (m *Mapper) set(to slot, v *otlpwire.Value) {
	for len(m.values) <= int(to.name) {
		m.values = append(m.values, nil)
	}
	if to.older && m.own[to.name] {
		return
	}
	text := m.valueText(v)
	if to.role == roleRPCStatus {
		text = m.rpc
	}
	if text != nil {
		m.values[to.name], m.own[to.name] = text, true
	}
}

// valueText is a value as the text of an attribute; nil for one that has none.
func (m *Mapper) valueText(v *otlpwire.Value) []byte {
	from := len(m.text)
	switch v.Kind {
	case otlpwire.String:
		return m.bound(v.Bytes)
	case otlpwire.Int:
		m.text = strconv.AppendInt(m.text, v.Int, 10)
	case otlpwire.Bool:
		m.text = strconv.AppendBool(m.text, v.Int != 0)
	case otlpwire.Float:
		m.text = strconv.AppendFloat(m.text, v.Float, 'g', -1, 64)
	case otlpwire.Bytes, otlpwire.Array, otlpwire.Map:
		m.cut++
		return nil
	default:
		return nil
	}
	return m.text[from:len(m.text):len(m.text)]
}

// bound cuts a text that is too long.
func (m *Mapper) bound(text []byte) []byte {
	if len(text) <= maxValueBytes {
		return text
	}
	m.cut++
	n := maxValueBytes
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// note keeps a value that says how the span ended, or what a consumer did.
func (m *Mapper) note(to slot, v *otlpwire.Value) {
	r := to.role
	if to.older && m.later[r] {
		return
	}
	m.later[r] = m.later[r] || !to.older
	switch {
	case r == roleHTTPStatus && v.Kind == otlpwire.Int:
		m.http = v.Int
	case r == roleHTTPStatus && v.Kind == otlpwire.String:
		m.http, _ = strconv.ParseInt(string(v.Bytes), 10, 64)
	case r == roleRPCStatus && v.Kind == otlpwire.Int && v.Int >= 0 && v.Int < int64(len(grpcCodes)):
		m.rpc = grpcCodes[v.Int]
	case r == roleRPCStatus && v.Kind == otlpwire.String:
		m.rpc = m.bound(v.Bytes)
	case r == roleOperation && v.Kind == otlpwire.String:
		m.operation = v.Bytes
	case tailSampled(r, v):
		m.tail = true
	}
}

// tailSampled reports whether an attribute says that a tail sampler chose its item.
func tailSampled(r role, v *otlpwire.Value) bool {
	return r == roleTail || r == roleRefinery && v.Kind == otlpwire.String &&
		!bytes.HasPrefix(v.Bytes, []byte("deterministic"))
}

func (m *Mapper) outcome(s *otlpwire.Span) event.Outcome { return outcome(s.Status, m.http, m.rpc) }

// The bits of a span's flags that say whether its parent is in another process.
const (
	flagKnowsRemote = 1 << 8
	flagRemote      = 1 << 9
)

var (
	typeServer   = []byte("server")
	typeConsumer = []byte("consumer")
)

// IsSpanType reports whether spans have a type without a rule.
func IsSpanType(typ string) bool { return typ == string(typeServer) || typ == string(typeConsumer) }

// typeOf is the type of the event, or why there is none. A span counts if it enters the service, or processes a
// message: the parent of such a span may be the one that has received it.
func (m *Mapper) typeOf(s *otlpwire.Span) ([]byte, Reason) {
	for _, r := range m.plan.rules {
		if m.matches(r, s) {
			if len(r.typ) == 0 {
				return nil, ByRule
			}
			return r.typ, Counts
		}
	}
	switch s.Kind {
	case kindServer:
		if s.HasParent && s.Flags&flagKnowsRemote != 0 && s.Flags&flagRemote == 0 {
			return nil, LocalParent
		}
		return typeServer, Counts
	case kindConsumer:
		switch string(m.operation) {
		case "process", "deliver": // the word of semantic conventions 1.21 to 1.25
			return typeConsumer, Counts
		}
		return nil, WrongOperation
	}
	return nil, WrongKind
}

func (m *Mapper) matches(r *rule, s *otlpwire.Span) bool {
	if r.kind != 0 && int(s.Kind) != r.kind || !r.name.match(string(s.Name)) {
		return false
	}
	return m.meets(r.match, &s.Origin, s.Attrs)
}

// meets reports whether attributes of an item, or else of its resource, have the values of all conditions.
func (m *Mapper) meets(list []condition, from *otlpwire.Origin, attrs []otlpwire.Attr) bool {
	for _, c := range list {
		v, ok := otlpwire.Lookup(attrs, c.key)
		if !ok {
			v, ok = otlpwire.Lookup(from.Resource, c.key)
		}
		if !ok || !c.value.match(string(m.valueText(&v))) {
			return false
		}
	}
	return true
}
