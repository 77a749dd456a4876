package counting

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/ingest/trace"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/traces"
)

// TestTracesOfBadEvents: the trace id of a bad event is its attribute, else that in the id of a span, else what it came
// with: that of the log record or that of the request. Good events leave none.
func TestTracesOfBadEvents(t *testing.T) {
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	store, requests := traces.NewStore(), new(trace.Table)
	tracing := NewTracing(store, requests)
	f, err := fold.New(fold.Options{Witness: tracing})
	require.NoError(t, err)
	state := FoldState{Fold: f, Incidents: incident.NewBook(), Positions: position.NewBook(), Tracing: tracing}
	seq := uint64(0)
	apply := func(typ byte, payload []byte) {
		t.Helper()
		seq++
		require.NoError(t, state.Apply(wal.Record{Seq: seq, Type: typ, Time: noon.UnixNano() + int64(seq), Payload: payload},
			func(_ int, _ []byte, reason string) { require.Fail(t, "refused", reason) }))
	}
	cfg, err := json.Marshal(&fold.Config{Version: fold.ConfigVersion, Services: []fold.Service{{Name: "shop"}},
		Indicators: []fold.Indicator{
			{ID: "shop/paid", Service: "shop", Kind: fold.Events, Retention: time.Hour,
				Bad: []fold.Matcher{{Name: "outcome", Op: slo.OpEqual, Value: "failure"}}},
			{ID: "shop/limit:slow", Service: "shop", Kind: fold.Latency, Retention: time.Hour, Edges: []time.Duration{1}},
		}})
	require.NoError(t, err)
	apply(record.TypeConfig, cfg)

	const attribute, span, other = "11111111111111111111111111111111", "22222222222222222222222222222222", "not-a-trace-id"
	var body []byte
	add := func(id string, outcome event.Outcome, traceID string) {
		e := event.Event{ID: id, Time: noon, Service: "shop", Type: "order", Outcome: outcome, Duration: time.Second,
			HasDuration: true}
		if traceID != "" {
			e.Set("trace_id", traceID)
		}
		body = event.AppendBinary(body, &e)
	}
	add("good", event.Success, "99999999999999999999999999999999")
	add(span+"-0000000000000001", event.Failure, attribute)
	add(span+"-0000000000000001", event.Failure, other)
	add("of a log record", event.Failure, "")
	add("of the request", event.Failure, "")
	ids := trace.OfRequest(trace.ID{0x44})
	ids.Add(event.Key([]byte("shop"), []byte("of a log record")), trace.ID{0x33})
	requests.Put(seq+1, ids)
	payload := append(record.AppendHead(nil, 5, &event.Batch{}, nil), body...)
	apply(record.TypeEvents, payload)
	var got []string
	for _, x := range store.Of("shop/paid", nil, noon) {
		got = append(got, x.ID.String())
	}
	require.Equal(t, []string{attribute, span, "33000000000000000000000000000000", "44000000000000000000000000000000"},
		got)
	require.Len(t, store.All(noon), len(got), "event thresholds have none")
	require.Equal(t, traces.Trace{ID: store.Of("shop/paid", nil, noon)[0].ID, Time: noon, Duration: time.Second,
		Group: slo.Group{}, Service: "shop", Type: "order", Outcome: "failure"}, store.Of("shop/paid", nil, noon)[0])

	body = nil
	add("without one", event.Failure, "")
	apply(record.TypeEvents, append(record.AppendHead(nil, 1, &event.Batch{}, nil), body...))
	require.Len(t, store.All(noon), len(got), "the ids of a request are those of its record")

	apply(record.TypeForget, (&record.Forget{Services: []string{"shop"}}).Append(nil))
	require.Empty(t, store.All(noon))
}

// BenchmarkTracing folds records of 1,000 spans, of which all failed, with and without traces that are remembered: the
// worst case. Good events cost a comparison.
func BenchmarkTracing(b *testing.B) {
	for _, remembered := range []bool{false, true} {
		b.Run(fmt.Sprintf("remembered=%v", remembered), func(b *testing.B) {
			var tracing *Tracing
			var options fold.Options
			if remembered {
				tracing = NewTracing(traces.NewStore(), new(trace.Table))
				options.Witness = tracing
			}
			f, err := fold.New(options)
			require.NoError(b, err)
			state := FoldState{Fold: f, Incidents: incident.NewBook(), Positions: position.NewBook(), Tracing: tracing}
			noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
			require.NoError(b, f.SetConfig(&fold.Config{Version: fold.ConfigVersion, Services: []fold.Service{{Name: "shop"}},
				Indicators: []fold.Indicator{{ID: "shop/paid", Service: "shop", Kind: fold.Events, Retention: time.Hour,
					Bad: []fold.Matcher{{Name: "outcome", Op: slo.OpEqual, Value: "failure"}}}}}, noon.UnixNano()))
			payload := record.AppendHead(nil, 1000, &event.Batch{}, nil)
			for n := range 1000 {
				payload = event.AppendBinary(payload, &event.Event{ID: fmt.Sprintf("%032x-%016x", n+1, n+1), Time: noon,
					Service: "shop", Type: "server", Outcome: event.Failure, Duration: time.Second, HasDuration: true,
					Attributes: []event.Attr{{Name: "http_route", Value: "/cart"}}})
			}
			rec := wal.Record{Type: record.TypeEvents, Time: noon.UnixNano(), Payload: payload}
			b.ReportAllocs()
			for b.Loop() {
				rec.Seq++
				rec.Time++
				require.NoError(b, state.Apply(rec, nil))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/event")
		})
	}
}
