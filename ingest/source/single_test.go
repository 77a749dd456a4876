package source

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
)

// A source that takes each message for itself learns its outcome.
func TestOutcomes(t *testing.T) {
	f := newFixture(t, nil)
	f.engine.script = []func(*event.Batch, []int32) (engine.Result, error){
		func(b *event.Batch, _ []int32) (engine.Result, error) {
			return engine.Result{Accepted: 2, Duplicates: 2, DupIndexes: []int{0, 3}}, nil
		},
	}
	const noType = `{"id":"x","service":"shop"}`
	b := f.Batch(false)
	b.Add(&Message{Topic: "q", Offset: 1, Value: []byte(valueOf("a"))})
	b.Refuse(&Message{Topic: "q", Offset: 2, Value: []byte("{}")}, errors.New("no death"))
	b.Add(&Message{Topic: "q", Offset: 3, Value: []byte("garbage")})
	b.Add(&Message{Topic: "q", Offset: 4, Value: nil})
	b.Add(&Message{Topic: "q", Offset: 5, Value: []byte("[" + valueOf("b") + "," + noType + "," + valueOf("c") + "]")})
	b.Add(&Message{Topic: "q", Offset: 6, Value: []byte(valueOf("d"))})
	require.NoError(t, f.Submit(t.Context(), b, nil))
	type outcome struct {
		accepted, duplicates int
		refused              bool
	}
	var got []outcome
	b.Outcomes(func(i, accepted, duplicates int, refused bool) {
		require.Len(t, got, i)
		got = append(got, outcome{accepted, duplicates, refused})
	})
	require.Equal(t, []outcome{{0, 1, false}, {0, 0, true}, {0, 0, true}, {0, 0, false}, {1, 1, true}, {1, 0, false}}, got)
	require.Len(t, f.saved, 3)
	require.Equal(t, "no death", f.saved[0].Error)
	b.Release()
	next := f.Batch(false)
	next.Add(&Message{Topic: "q", Offset: 7, Value: []byte(valueOf("e"))})
	require.NoError(t, f.Submit(t.Context(), next, nil))
	next.Outcomes(func(_, accepted, duplicates int, refused bool) {
		require.Equal(t, outcome{1, 0, false}, outcome{accepted, duplicates, refused}, "nothing is left of an earlier batch")
	})
}

// Events without an id get that of their message, and count once by it.
func TestMessageID(t *testing.T) {
	f := newFixture(t, nil)
	const plain = `{"service":"shop","type":"order"}`
	b := f.Batch(false)
	b.Add(&Message{
		Topic: "q", Offset: 1, MessageID: "m", Value: []byte("[" + plain + "," + valueOf("own") + "," + plain + "]")})
	b.Add(&Message{Topic: "q", Offset: 2, Value: []byte(plain)})
	require.Equal(t, []bool{true, true, true, false},
		[]bool{b.events.Events[0].HasKey, b.events.Events[1].HasKey, b.events.Events[2].HasKey, b.events.Events[3].HasKey})
	for i, want := range []string{"m", "own", "m/2", "q/0/2"} {
		_, err := b.view.Parse(b.events.Event(i))
		require.NoError(t, err)
		require.Equal(t, want, string(b.view.ID))
	}
}
