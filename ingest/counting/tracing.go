package counting

import (
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/trace"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/traces"
)

// Tracing remembers the traces of the events that count as bad. It belongs to the goroutine of the fold.
type Tracing struct {
	store    *traces.Store
	requests *trace.Table

	record *trace.Batch // of the record at hand
	at     int64        // when that was received
}

// NewTracing remembers traces in store. requests has the trace ids that events do not carry.
func NewTracing(store *traces.Store, requests *trace.Table) *Tracing {
	return &Tracing{store: store, requests: requests}
}

// begin is called before the events of a record.
func (t *Tracing) begin(seq uint64, at int64) {
	if t != nil {
		t.record, t.at = t.requests.Take(seq), at
	}
}

func (t *Tracing) forget(services []string) {
	if t != nil {
		for _, s := range services {
			t.store.Forget(s)
		}
	}
}

// Wants is part of fold.Witness: the indicators of event thresholds, of bands and of slices are not those of SLOs.
func (*Tracing) Wants(indicator string) bool { return !strings.ContainsAny(indicator, "#:") }

// Bad is part of fold.Witness.
func (t *Tracing) Bad(e fold.Evidence) (remembered bool) {
	if t.store.Full(slo.ID(e.Indicator), t.at) {
		return true // as many as are remembered of one record
	}
	v := e.Event
	id, ok := t.of(v)
	if !ok {
		return false
	}
	t.store.Add(slo.ID(e.Indicator), t.at, &traces.Trace{ID: traces.ID(id), Time: time.Unix(0, v.Time).UTC(),
		Duration: time.Duration(v.Duration), Group: e.Group, Service: e.Service, Type: e.Type, Outcome: e.Outcome,
		Severity: e.Severity, Dimensions: e.Dimensions})
	return true
}

// of is the trace id of an event: its attribute, else that of the span that it was made of, else that of the log record
// or the request that it came with.
func (t *Tracing) of(v *event.View) (trace.ID, bool) {
	if id, ok := traceOf(v); ok {
		return id, true
	}
	return t.record.Of(func() xxh3.Uint128 { return event.Key(v.Service, v.ID) })
}

// traceOf is the trace id that an event carries.
func traceOf(v *event.View) (trace.ID, bool) {
	if v.AttrCount() > 0 {
		if text, ok := v.Attr(otlp.TraceID); ok {
			if id, ok := trace.Parse(text); ok {
				return id, true
			}
		}
	}
	return trace.OfSpan(v.ID)
}
