package event

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// anyEvent draws events that keep to the rules.
var anyEvent = rapid.Custom(func(t *rapid.T) *Event {
	name := rapid.StringMatching(`[a-zA-Z0-9._-]{1,20}`)
	e := &Event{
		ID:      rapid.StringMatching(`[a-z"\\ é😀]{0,40}`).Draw(t, "id"),
		Time:    time.Unix(0, rapid.Int64Range(-9.2e18, 9.2e18).Draw(t, "time")).UTC(),
		Service: name.Draw(t, "service"),
		Type:    name.Draw(t, "type"),
		Outcome: Outcome(rapid.IntRange(0, 1).Draw(t, "outcome")),
		Count:   rapid.Uint32Min(1).Draw(t, "count"),
		Weight:  rapid.OneOf(rapid.Just(uint32(1)), rapid.Uint32Min(1)).Draw(t, "weight"),
	}
	if rapid.Bool().Draw(t, "severe") {
		e.Severity = name.Draw(t, "severity")
	}
	attrName := rapid.StringMatching(`[a-zA-Z_][a-zA-Z0-9_.-]{0,9}`).Filter(ValidAttributeName)
	for attr, value := range rapid.MapOfN(attrName, rapid.String(), 0, 20).Draw(t, "attributes") {
		value = strings.ToValidUTF8(value[:min(len(value), 1000)], "?")
		e.Attributes = append(e.Attributes, Attr{attr, value})
	}
	span := rapid.Int64Range(0, int64(MaxDuration))
	switch rapid.IntRange(0, 2).Draw(t, "durations") {
	case 1:
		e.Duration, e.HasDuration = time.Duration(span.Draw(t, "duration")), true
	case 2:
		e.Count = 0
		for range rapid.IntRange(1, 10).Draw(t, "pairs") {
			p := DurationCount{time.Duration(span.Draw(t, "ns")), rapid.Uint32Range(1, 1e6).Draw(t, "n")}
			e.Durations = append(e.Durations, p)
			e.Count += p.Count
		}
	}
	return e
})

func sorted(e *Event) *Event {
	c := *e
	c.Attributes = slices.Clone(e.sortedAttributes())
	return &c
}

func TestBinaryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(anyEvent, 1, 4).Draw(t, "events")
		var b []byte
		for _, e := range events {
			b = AppendBinary(b, e)
		}
		for _, e := range events {
			var v View
			n, err := v.Parse(b)
			require.NoError(t, err)
			b = b[n:]
			var got Event
			v.Event(&got)
			requireSame(t, sorted(e), &got)
			for _, a := range e.Attributes {
				value, ok := v.Attr(a.Name)
				require.True(t, ok)
				require.Equal(t, a.Value, string(value))
			}
			_, ok := v.Attr("no such")
			require.False(t, ok)
		}
		require.Empty(t, b)
	})
}

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent.Draw(t, "event")
		var v View
		_, err := v.Parse(AppendBinary(nil, e))
		require.NoError(t, err)
		for _, text := range [][]byte{e.AppendJSON(nil), v.AppendJSON(nil)} {
			require.True(t, json.Valid(text))
			var got Event
			require.NoError(t, json.Unmarshal(text, &got), string(text))
			requireSame(t, sorted(e), &got)
		}
		require.Equal(t, string(v.AppendJSON(nil)), string(sorted(e).AppendJSON(nil)))
	})
}

func requireSame(t *rapid.T, want, got *Event) {
	t.Helper()
	require.Equal(t, want.Attributes, got.Attributes[:len(got.Attributes):len(got.Attributes)])
	require.Equal(t, len(want.Durations), len(got.Durations))
	for i := range want.Durations {
		require.Equal(t, want.Durations[i], got.Durations[i])
	}
	w, g := *want, *got
	w.Attributes, g.Attributes, w.Durations, g.Durations = nil, nil, nil, nil
	require.Equal(t, w, g)
}

func TestAppendJSON(t *testing.T) {
	require.Equal(
		t, `{"id":"pol-42-issued","time":"2026-11-20T09:00:30Z","service":"insurance-unpaid","type":"application",`+
			`"outcome":"failure","severity":"critical","count":3,`+
			`"attributes":{"product":"MEDCARE","channel":"front","stage":"CREATE_APPLICATION"},"durations":[[812,1],[1000,2]]}`,
		string(sample().AppendJSON(nil)))
	e := Event{Service: "s", Type: "t", Duration: 1_000_001, HasDuration: true}
	e.Set("a", "x\xff\n\u2028\"")
	e.Set("a", e.Attr("a")+"\x01")
	text, err := json.Marshal(&e)
	require.NoError(t, err)
	require.JSONEq(
		t, `{"service":"s","type":"t","duration_ms":1.000001,"attributes":{"a":"x\ufffd\n\u2028\"\u0001"}}`, string(text))
	require.Empty(t, e.Attr("none"))
}

func TestUnmarshalJSON(t *testing.T) {
	var e Event
	var ee *EventError
	require.ErrorAs(t, json.Unmarshal([]byte(`{"service":"s"}`), &e), &ee)
	require.Equal(t, CodeMissingField, ee.Code)
	require.ErrorAs(t, e.UnmarshalJSON([]byte(`{"service":"s","type":"t"}{}`)), &ee)
	require.Equal(t, CodeInvalidJSON, ee.Code)
	require.ErrorContains(t, e.UnmarshalJSON([]byte(with(`"time":"9999-01-01T00:00:00Z"`))), "1678")
	require.NoError(t, e.UnmarshalJSON([]byte(with(`"id":"x"`))))
	require.True(t, e.Time.IsZero())
}

// Every cut and every flipped byte of an event is an error or another event,
// never a panic; every cut is an error.
func TestParseDamaged(t *testing.T) {
	good := AppendBinary(nil, sample())
	var v View
	for i := range good {
		_, err := v.Parse(good[:i])
		require.ErrorIs(t, err, ErrShort)
		damaged := slices.Clone(good)
		for bit := range 8 {
			damaged[i] = good[i] ^ 1<<bit
			if _, err := v.Parse(damaged); err == nil {
				for range v.Attrs {
				}
				for range v.Durations {
				}
			}
		}
	}
	newer := slices.Clone(good)
	newer[lengthBytes] |= flagMore
	_, err := v.Parse(newer)
	require.ErrorIs(t, err, ErrNewer)
	_, err = v.Parse([]byte{1, 0, 0, 0, 0})
	require.True(t, errors.Is(err, ErrMalformed))
}

func TestKeySeparatesServiceAndID(t *testing.T) {
	require.NotEqual(t, Key([]byte("ab"), []byte("c")), Key([]byte("a"), []byte("bc")))
	require.Equal(t, Key([]byte("a"), []byte("b")), Key([]byte("a"), []byte("b")))
	long := []byte(strings.Repeat("x", 1000))
	require.NotEqual(t, Key(long, long), Key(long, long[1:]))
}
