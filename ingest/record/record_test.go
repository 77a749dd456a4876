package record

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/wal"
)

func TestItems(t *testing.T) {
	var body []byte
	for _, id := range []string{"a", "b"} {
		body = event.AppendBinary(body, &event.Event{ID: id, Time: time.Unix(1, 0), Service: "shop", Type: "order"})
	}
	split := func(kind byte, payload []byte) (ids []string, err error) {
		rec := wal.Record{Seq: 7, Time: 1e18, Type: kind, Payload: payload}
		err = Items(&rec, func(item dispatch.Item) {
			require.Equal(t, "shop", item.Service)
			require.EqualValues(t, 1e18, item.Time.UnixNano())
			ids = append(ids, item.ID)
		})
		return ids, err
	}
	keyed := func(flags byte, ids ...string) []byte {
		p := AppendKeyedHead(nil, 2, flags, nil)
		for _, l := range ids {
			p = append(append(p, byte(len(l))), l...)
		}
		return append(p, body...)
	}
	for _, tt := range []struct {
		kind    byte
		payload []byte
		want    []string
	}{
		{TypeEvents, append(AppendHead(nil, 2, &event.Batch{Timed: true}, nil), body...), []string{"a", "b"}},
		{TypeEvents, append(AppendHead(nil, 2, &event.Batch{Backfill: true}, []byte("position")), body...),
			[]string{"a", "b"}},
		{TypeReplay, keyed(FlagReplayed, "d1", "d2"), []string{"a", "b"}},
		{TypeReplay, keyed(FlagReplayed|FlagDelivered, "d1", "d2"), nil},
		{TypeHeartbeat, []byte{0}, nil},
		{TypeDropped, (&Dropped{Service: []byte("shop"), Type: []byte("pay"), N: 3}).Append(nil), nil},
	} {
		ids, err := split(tt.kind, tt.payload)
		require.NoError(t, err)
		require.Equal(t, tt.want, ids)
	}
	_, err := split(TypeEvents, append(AppendHead(nil, 2, &event.Batch{Timed: true}, nil), body[:len(body)-1]...))
	require.ErrorContains(t, err, "event of record 7")
	require.True(t, errors.Is(err, event.ErrShort), err)
}

// A record may hold a position, with or without events.
func TestPositionOfARecord(t *testing.T) {
	for _, body := range []string{"", "events"} {
		covers := []event.Span{{From: -5, To: 7}, {From: 1e18, To: 1e18}}
		head := AppendHead(nil, len(body), &event.Batch{Backfill: true, Covers: covers}, []byte("offsets"))
		payload := append(head, body...)
		e, err := ParseEvents(payload)
		require.NoError(t, err)
		want := Events{Count: len(body), Backfill: true, Covers: covers, Position: []byte("offsets"), Body: []byte(body)}
		require.Equal(t, want, e)
		for n := range payload[:len(payload)-len(body)] {
			_, err := ParseEvents(payload[:n])
			require.Error(t, err)
		}
	}
}

// A backfill that says nothing of gaps was written by version 0.2.0 or older, and covers them.
func TestGapsOfABackfill(t *testing.T) {
	e, err := ParseEvents([]byte{0, flagBackfill})
	require.NoError(t, err)
	require.Equal(t, Events{Backfill: true, Whole: true, Body: []byte{}}, e)
	e, err = ParseEvents(AppendHead(nil, 0, &event.Batch{Backfill: true}, nil))
	require.NoError(t, err)
	require.Equal(t, Events{Backfill: true, Body: []byte{}}, e)
	_, err = ParseEvents([]byte{0, flagEnd})
	require.ErrorContains(t, err, "newer version")
}

func TestRecordsRoundTrip(t *testing.T) {
	keys := []xxh3.Uint128{event.Key([]byte("shop"), []byte("a")), event.Key([]byte("shop"), []byte("b"))}
	payload := AppendKeyedHead(nil, 1, FlagReplayed|FlagDelivered, keys)
	payload = append(payload, 2, 'd', '1')
	payload = append(payload, "body"...)
	e, err := ParseEvents(payload)
	require.NoError(t, err)
	require.Equal(t, 1, e.Count)
	require.True(t, e.Delivered)
	require.False(t, e.Backfill)
	require.Equal(t, []string{"d1"}, e.DeadLetters)
	require.Equal(t, "body", string(e.Body))
	var got []xxh3.Uint128
	e.EachKey(func(k xxh3.Uint128) { got = append(got, k) })
	require.Equal(t, keys, got)
	for n := range payload[:len(payload)-len("body")] {
		_, err := ParseEvents(payload[:n])
		require.Error(t, err, n)
	}

	list := []Dropped{
		{Service: []byte("shop"), Type: []byte("pay"), Reason: []byte("rate_limited"), Time: -5, N: 1},
		{Service: []byte(strings.Repeat("s", 300)), Type: []byte{}, Reason: []byte{}, Time: 1e18, N: 1 << 40},
	}
	var dropped []byte
	for i := range list {
		dropped = list[i].Append(dropped)
	}
	var back []Dropped
	require.NoError(t, ParseDropped(dropped, func(d *Dropped) { back = append(back, *d) }))
	require.Equal(t, list, back)
	require.Error(t, ParseDropped(dropped[:len(dropped)-1], func(*Dropped) {}))
	require.Error(t, ParseDropped(dropped[:3], func(*Dropped) {}))
}

func TestParseRecords(t *testing.T) {
	for _, payload := range [][]byte{nil, {1}, {0x80}, {1, 2}, {200, 1, 0}} {
		_, err := ParseEvents(payload)
		require.Error(t, err, "%x", payload)
	}
	for _, payload := range [][]byte{nil, {3}, {0, 0}} {
		_, err := ParseBeat(payload)
		require.Error(t, err, "%x", payload)
	}
}

func TestParseForgetKeys(t *testing.T) {
	f := Forget{Keys: []Key{{"order_id", xxh3.HashString128("42")}, {"", xxh3.Uint128{}}}}
	payload := f.Append(nil)
	got, err := ParseForget(payload)
	require.NoError(t, err)
	require.Equal(t, f, got)
	for n := range payload {
		if n != 2 { // two empty lists, as of a version that knew no keys
			_, err = ParseForget(payload[:n])
			require.Error(t, err, n)
		}
	}
}

func TestParseForget(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := Forget{
			Generations: rapid.SliceOfN(rapid.Uint64(), 1, 4).Draw(rt, "generations"),
			Services:    rapid.SliceOfN(rapid.String(), 1, 4).Draw(rt, "services"),
		}
		payload := f.Append(nil)
		got, err := ParseForget(payload)
		require.NoError(rt, err)
		require.Equal(rt, f, got)
		_, err = ParseForget(payload[:rapid.IntRange(0, len(payload)-1).Draw(rt, "cut")])
		require.Error(rt, err)
	})
}

func TestParseRebuilt(t *testing.T) {
	want := Rebuilt{Kind: RebuiltCanceled, Indicators: []string{"shop/a", "shop/a#bands:gold"}, First: 7, Next: 1 << 40,
		File: "x.counts"}
	want.Hash[31] = 1
	payload := want.Append(nil)
	got, err := ParseRebuilt(payload)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for n := range payload {
		_, err := ParseRebuilt(payload[:n])
		require.Error(t, err, n)
	}
	_, err = ParseRebuilt(append(payload, 0))
	require.Error(t, err)
	payload[0] = byte(rebuiltKinds)
	_, err = ParseRebuilt(payload)
	require.Error(t, err)
}

func TestParseTicks(t *testing.T) {
	want := []Tick{
		{Time: 1764324000123456789, Folded: 1 << 30, States: 1 << 31, Started: true, Restored: 1764323990123456789},
		{Time: 1764324010123456789, Folded: 1<<30 + 5},
		{Time: -1, Refused: 30, Started: true},
	}
	var payload []byte
	ends := []int{0}
	for i := range want {
		payload = want[i].Append(payload)
		ends = append(ends, len(payload))
	}
	require.LessOrEqual(t, (33+ends[2]-ends[1])*8640, 500_000, "a day of ticks, each in a frame of its own")
	for n := range len(payload) + 1 {
		var got []Tick
		err := ParseTicks(payload[:n], func(tick Tick) { got = append(got, tick) })
		require.Equal(t, slices.Contains(ends, n), err == nil, n)
		require.Equal(t, want[:len(got)], append([]Tick{}, got...))
	}
	require.ErrorContains(t, ParseTicks([]byte{4}, nil), "newer version")
}
