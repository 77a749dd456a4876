package record

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
)

// The value of the attribute, the id and the trace id of its events go. All else stays, byte for byte.
func TestEraser(t *testing.T) {
	events := []event.Event{
		{ID: "a", Service: "shop", Type: "order", Time: time.Unix(1, 5).UTC(), Outcome: event.Failure, Severity: "high",
			Count: 7, Weight: 3, Durations: []event.DurationCount{{Duration: time.Second, Count: 7}},
			Attributes: []event.Attr{{Name: "customer", Value: "42"}, {Name: "order", Value: "42"}}},
		{ID: "b", Service: "shop", Type: "order", Time: time.Unix(2, 0).UTC(), Count: 1, Weight: 1,
			Attributes: []event.Attr{{Name: "customer", Value: "420"}, {Name: "trace_id", Value: "t"}}},
		{ID: "c", Service: "shop", Type: "order", Time: time.Unix(3, 0).UTC(), Count: 1, Weight: 1, HasDuration: true,
			Duration: time.Minute, Attributes: []event.Attr{{Name: "customer", Value: "42"}, {Name: "trace_id", Value: "t"}}},
	}
	encode := func(events []event.Event) []byte {
		b := &event.Batch{Backfill: true, Covers: []event.Span{{From: 1, To: 2}}}
		payload := AppendHead(nil, len(events), b, []byte("position"))
		for i := range events {
			payload = event.AppendBinary(payload, &events[i])
		}
		return payload
	}
	e := retained.NewErasure("customer", "42")
	require.NotContains(t, e.Token, "42")
	rec := &wal.Record{Seq: 9, Type: TypeEvents, Payload: encode(events)}
	got, n, err := Eraser(func(dst, raw []byte) ([]byte, error) { return append(dst, raw...), nil })([]byte("x"), rec, &e)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	events[0].ID, events[2].ID = e.Token+"-9-0", e.Token+"-9-2"
	events[0].Attributes[0].Value, events[2].Attributes[0].Value = e.Token, e.Token
	events[2].Attributes[1].Value = e.Token
	require.Equal(t, append([]byte("x"), encode(events)...), got)

	rec.Payload = got[1:]
	same, n, err := Eraser(func(dst, raw []byte) ([]byte, error) { return append(dst, raw...), nil })(nil, rec, &e)
	require.NoError(t, err)
	require.Zero(t, n, "again it finds nothing")
	require.Empty(t, same)
	other := wal.Record{Seq: 9, Type: TypeIncident, Payload: []byte("42")}
	_, n, err = Eraser(func(dst, raw []byte) ([]byte, error) { return append(dst, raw...), nil })(nil, &other, &e)
	require.NoError(t, err)
	require.Zero(t, n)
	rec.Payload = rec.Payload[:len(rec.Payload)-1]
	_, _, err = Eraser(func(dst, raw []byte) ([]byte, error) { return append(dst, raw...), nil })(nil, rec, &e)
	require.Error(t, err)
}
