package otlp

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

// This file makes the event of a span that counts.

// event fills the draft of a span that counts.
func (m *Mapper) event(s *otlpwire.Span, typ []byte) *event.Draft {
	p, e := m.plan, &m.draft
	*e = event.Draft{Service: p.service, Type: typ, Outcome: m.outcome(s), Weight: 1, Attributes: e.Attributes[:0]}
	n := hex.Encode(m.id[:], s.TraceID[:])
	m.id[n] = '-'
	hex.Encode(m.id[n+1:], s.SpanID[:])
	e.ID = m.id[:]
	switch {
	case s.BadID:
		e.Problem, e.ID = event.CodeBadID, nil
		e.Detail = "The trace id must have 16 bytes, the span id and the parent's 8, and neither may be zero."
	case s.End == 0 || s.End > math.MaxInt64:
		e.Problem, e.Detail = event.CodeBadTime, "The span has no end, or one after the year 2261."
	case s.End < s.Start:
		e.Problem = event.CodeBadDuration
		e.Detail = fmt.Sprintf("The span ends %d ns before it starts. Correct the sender's clock.", s.Start-s.End)
	case s.End-s.Start > uint64(event.MaxDuration):
		e.Problem, e.Detail = event.CodeBadDuration, "The span lasts more than 366 days, or has no start."
	default:
		e.Duration = int64(s.End - s.Start)
	}
	e.Time = int64(min(s.End, math.MaxInt64))
	if share, ok := threshold(s.TraceState); ok {
		e.Weight = weightOf(share, s.TraceID)
	} else if p.ratio > 0 {
		e.Weight = weightOf(p.ratio, s.TraceID)
	}
	m.extend(s)
	m.collect(e)
	return e
}

// extend gives the span the attributes that come from its other fields, where they are kept.
func (m *Mapper) extend(s *otlpwire.Span) {
	p := m.plan
	if p.operation {
		m.give(Operation, m.bound(s.Name))
	}
	m.giveTrace(&s.TraceID)
	if len(s.ExceptionType) > 0 {
		if to := p.slotOf("error.type"); to >= 0 && !(int(to) < len(m.values) && len(m.values[to]) > 0) {
			m.give("error_type", m.bound(s.ExceptionType))
		}
	}
}

// giveTrace gives the attribute trace_id if the spec names it.
func (m *Mapper) giveTrace(id *[16]byte) {
	if m.plan.trace && *id != [16]byte{} {
		hex.Encode(m.trace[:], id[:])
		m.give(TraceID, m.trace[:])
	}
}

// slotOf is the place of an attribute of the conventions; -1 if it is not kept.
func (p *plan) slotOf(key string) int16 {
	to, ok := p.keys[key]
	if !ok {
		to = p.learn(key)
	}
	return to.name
}

func (m *Mapper) give(name string, value []byte) {
	to := m.plan.name(name)
	if to < 0 {
		return
	}
	for len(m.values) <= int(to) {
		m.values = append(m.values, nil)
	}
	m.values[to] = value
}

// collect puts the attributes into the draft, sorted. Those that the spec names come first if there are too many.
func (m *Mapper) collect(e *event.Draft) {
	p := m.plan
	for _, i := range p.order {
		if int(i) < len(m.values) && len(m.values[i]) > 0 {
			e.Attributes = append(e.Attributes, event.Attribute{Name: p.texts[i], Value: m.values[i]})
		}
	}
	if over := len(e.Attributes) - maxKept; over > 0 {
		kept := e.Attributes[:0]
		for i := len(e.Attributes) - 1; i >= 0 && over > 0; i-- {
			if !p.named[string(e.Attributes[i].Name)] {
				e.Attributes[i].Name = nil
				over--
				m.cut++
			}
		}
		for _, a := range e.Attributes {
			if a.Name != nil {
				kept = append(kept, a)
			}
		}
		e.Attributes = kept
	}
}

// notice lists a span that no spec counts, under its operation as people know it: the route with its method, or else
// the span's name.
func (m *Mapper) notice(s *otlpwire.Span, typ []byte) {
	if m.seen == nil {
		return
	}
	span := spanSeen{service: m.plan.service, typ: typ, known: m.plan.known, took: int64(s.End - s.Start),
		failed: m.outcome(s) == event.Failure}
	if route := m.lookup(s, "http.route"); route != "" {
		method := cmp.Or(m.lookup(s, "http.request.method"), m.lookup(s, "http.method"))
		span.routed, span.operation = true, strings.TrimSpace(method+" "+route)
	} else {
		span.operation = cmp.Or(string(m.bound(s.Name)), "(no name)")
	}
	m.seen.note(span)
}

func (m *Mapper) lookup(s *otlpwire.Span, key string) string {
	if v, _ := otlpwire.Lookup(s.Attrs, key); v.Kind == otlpwire.String {
		return string(m.bound(v.Bytes))
	}
	return ""
}
