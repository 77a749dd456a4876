package otlp

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

// severityError is the lowest severity of an error (OpenTelemetry, logs data model).
const severityError = 17

// Log returns the event of a log record that counts, or why it does not count.
func (m *Mapper) Log(r *otlpwire.LogRecord) (*event.Draft, Reason) {
	m.gather(&r.Origin, r.Attrs)
	p := m.plan
	rule := m.logRule(r)
	switch {
	case rule == nil:
		return nil, NoRule
	case !m.takes(rule.typ):
		return nil, m.refuse()
	}
	at := r.Time
	if at == 0 {
		at = r.ObservedTime
	}
	e := &m.draft
	*e = event.Draft{Service: p.service, Type: rule.typ, Weight: 1, Duration: event.NoDuration,
		Trace: r.TraceID, Time: int64(min(at, math.MaxInt64)), Attributes: e.Attributes[:0]}
	if r.Severity >= severityError {
		e.Outcome = event.Failure
	}
	if e.ID = m.logID(r); at == 0 || at > math.MaxInt64 {
		e.Problem, e.Detail = event.CodeBadTime, "The log record has no time, or one after the year 2261."
	} else if rule.duration != "" {
		var ok bool
		if e.Duration, ok = milliseconds(r.Attrs, rule.duration); !ok {
			e.Problem = event.CodeBadDuration
			e.Detail = "The attribute of duration_ms in the rule is missing, or no number between 0 and 366 days."
		}
	}
	m.giveTrace(&r.TraceID)
	m.collect(e)
	m.find(rule.typ, signalLogs, e.Weight)
	return e, Counts
}

// logRule is the first rule that the record meets; nil if there is none.
func (m *Mapper) logRule(r *otlpwire.LogRecord) *logRule {
	for _, rule := range m.plan.logs {
		if rule.event != "" && !isEvent(r, rule.event) || !m.meets(rule.match, &r.Origin, r.Attrs) {
			continue
		}
		if rule.body == anyText || r.Body.Kind == otlpwire.String && rule.body.match(string(r.Body.Bytes)) {
			return rule
		}
	}
	return nil
}

// isEvent reports whether the record is an event of that name. Earlier conventions have the name in an attribute.
func isEvent(r *otlpwire.LogRecord, name string) bool {
	if len(r.EventName) > 0 {
		return string(r.EventName) == name
	}
	v, _ := otlpwire.Lookup(r.Attrs, "event.name")
	return v.Kind == otlpwire.String && string(v.Bytes) == name
}

// milliseconds is a duration in nanoseconds.
func milliseconds(attrs []otlpwire.Attr, key string) (int64, bool) {
	v, _ := otlpwire.Lookup(attrs, key)
	ms := -1.0
	switch v.Kind {
	case otlpwire.Int:
		ms = float64(v.Int)
	case otlpwire.Float:
		ms = v.Float
	case otlpwire.String:
		if f, err := strconv.ParseFloat(string(v.Bytes), 64); err == nil {
			ms = f
		}
	}
	return int64(ms * 1e6), ms >= 0 && ms <= float64(event.MaxDuration)/1e6
}

// logID is log.record.uid, or a hash of all that the record says: two equal records are then one.
func (m *Mapper) logID(r *otlpwire.LogRecord) []byte {
	if v, ok := otlpwire.Lookup(r.Attrs, "log.record.uid"); ok && v.Kind == otlpwire.String && event.ValidID(v.Bytes) {
		return v.Bytes
	}
	h := &m.hash
	h.Reset()
	for _, a := range r.Resource {
		m.hashAttr(&a)
	}
	m.hashText(r.ScopeName)
	m.hashNumber(r.Time)
	m.hashNumber(uint64(r.Severity))
	m.hashText(r.EventName)
	m.hashValue(&r.Body)
	for _, a := range r.Attrs {
		m.hashAttr(&a)
	}
	_, _ = h.Write(r.TraceID[:])
	_, _ = h.Write(r.SpanID[:])
	sum := h.Sum128().Bytes()
	hex.Encode(m.id[:], sum[:])
	return m.id[:2*len(sum)]
}

func (m *Mapper) hashAttr(a *otlpwire.Attr) {
	m.hashText(a.Key)
	m.hashValue(&a.Value)
}

func (m *Mapper) hashValue(v *otlpwire.Value) {
	m.hashNumber(uint64(v.Kind))
	m.hashText(v.Bytes)
	m.hashNumber(uint64(v.Int))
	m.hashNumber(math.Float64bits(v.Float))
}

// hashText hashes a text with its length, so that neighbours cannot be mistaken for each other.
func (m *Mapper) hashText(text []byte) {
	m.hashNumber(uint64(len(text)))
	_, _ = m.hash.Write(text)
}

func (m *Mapper) hashNumber(n uint64) {
	binary.LittleEndian.PutUint64(m.number[:], n)
	_, _ = m.hash.Write(m.number[:])
}
