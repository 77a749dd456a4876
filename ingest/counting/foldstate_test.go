package counting

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// The log has what counters added. A reader that lost what was in front of that, or that needs no counters, has the
// times that were observed all the same, and so the events.
func TestCountersThatWereLost(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	newState := func(counters *counter.Table) FoldState {
		f, err := fold.New(fold.Options{})
		require.NoError(t, err)
		require.NoError(t, f.SetConfig(&fold.Config{Version: fold.ConfigVersion, Services: []fold.Service{{Name: "shop"}},
			Indicators: []fold.Indicator{{ID: "shop/paid", Service: "shop", Kind: fold.Events, Retention: time.Hour,
				Source: "main", Bad: []fold.Matcher{{Name: "outcome", Op: slo.OpEqual, Value: "failure"}}}}}, start))
		return FoldState{Fold: f, Incidents: incident.NewBook(), Positions: position.NewBook(), Counters: counters}
	}
	full := newState(counter.NewTable())
	var records []wal.Record
	for i := range int64(3) {
		b := counter.NewBatch(full.Counters)
		b.Begin()
		p := counter.Point{Time: start + i*int64(time.Minute), Counts: counter.Counts{Count: 5 * uint64(i)}}
		b.Observe(&p)
		b.Keep()
		b.Observed(counter.Observation{Source: "main", From: p.Time, To: p.Time + int64(time.Minute)})
		rec := wal.Record{Seq: uint64(i + 1), Type: record.TypeEvents, Time: p.Time,
			Payload: record.AppendHead(nil, 0, &event.Batch{}, b.AppendPosition(nil, nil))}
		records = append(records, rec)
		require.NoError(t, full.Apply(rec, nil))
	}
	end := time.Unix(0, start).Add(3 * time.Minute)
	for name, damage := range map[string]func(*FoldState, *wal.Record){
		"the part of the checkpoint": func(s *FoldState, _ *wal.Record) { require.NoError(t, s.Restore(CountersPart, nil)) },
		"records":                    func(_ *FoldState, r *wal.Record) { r.Lost = 2 },
		"no counters are needed":     func(s *FoldState, r *wal.Record) { s.Counters, r.Lost = nil, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			s, last := newState(counter.NewTable()), records[2]
			require.ErrorContains(t, s.Apply(last, nil), "counters changed")
			require.Zero(t, s.Fold.ObservedUntil("main"))
			damage(&s, &last)
			require.NoError(t, s.Apply(last, nil))
			require.True(t, end.Equal(s.Fold.ObservedUntil("main")))
		})
	}
}

// TestUncountedEvents of a record are told of once, with their number.
func TestUncountedEvents(t *testing.T) {
	f, err := fold.New(fold.Options{})
	require.NoError(t, err)
	var told []string
	state := FoldState{Fold: f, Incidents: incident.NewBook(), Positions: position.NewBook(),
		Uncounted: NewUncounted(func(seq uint64, received time.Time, list []event.Unknown) {
			told = append(told, fmt.Sprint(seq, " ", received.Unix(), " ", list))
		})}
	cfg := &fold.Config{Version: fold.ConfigVersion,
		Services: []fold.Service{{Name: "shop", Types: []string{"order"}, AdmitUnknown: true}}}
	payload, err := EncodeConfig(cfg, nil)
	require.NoError(t, err)
	refuse := func(_ int, _ []byte, reason string) { t.Error(reason) }
	at := time.Unix(1_700_000_000, 0)
	require.NoError(t, state.Apply(wal.Record{Seq: 1, Time: at.UnixNano(), Type: record.TypeConfig, Payload: payload},
		refuse))
	for seq, types := range [][]string{{"order", "ordr", "visit", "ordr"}, {"order"}} {
		var events []byte
		for _, typ := range types {
			events = event.AppendBinary(events, &event.Event{Service: "shop", Type: typ, Time: at, Count: 2, Weight: 3})
		}
		body := append(record.AppendHead(nil, len(types), &event.Batch{}, nil), events...)
		require.NoError(t, state.Apply(wal.Record{Seq: uint64(2 + seq), Time: at.UnixNano(), Type: record.TypeEvents,
			Payload: body}, refuse))
	}
	require.Equal(t, []string{"2 1700000000 [{shop ordr uncounted 12} {shop visit uncounted 6}]"}, told)
}
