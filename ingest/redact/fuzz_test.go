package redact

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/ingest/event"
)

var fuzzRules = []Rule{
	{Attributes: []string{"user", "u*"}, Action: Hash, Key: key},
	{Attributes: []string{"*"}, Action: Mask, Pattern: `[a-z]+@`, Replace: "${0}${0}@"},
	{Attributes: []string{"ip"}, Action: TruncateIP},
	{Attributes: []string{"*"}, Types: []string{"t*"}, Action: Remove, Pattern: `\d+`},
	{Attributes: []string{"secret"}, Action: Remove},
	{Attributes: []string{"*"}, Action: Hash, Key: key, Pattern: `日.`},
}

// FuzzApply: valid events stay valid, and only values of attributes differ.
func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"service":"s","type":"t1","id":"1","attributes":{"user":"jane","ip":"1.2.3.4","secret":"x","n":1.5}}`))
	f.Add([]byte(`{"service":"s","type":"x","attributes":{"a":"jane@x joe@y 日本","secret":"","b":"42"}}` + "\n" +
		`{"service":"s","type":"t","count":2,"durations":[[1,2]],"attributes":{"c":"1"}}`))
	f.Add([]byte(
		`{"service":"s","type":"t","severity":"x","duration_ms":5,"attributes":{"a":"` + strings.Repeat("a@", 500) + `"}}`))
	r, err := New(fuzzRules, nil)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body []byte) {
		var d event.Decoder
		var b, before event.Batch
		opt := event.DecodeOptions{Now: time.Unix(1.8e9, 0)}
		if d.Decode(event.NDJSON, body, opt, &b) != nil || d.Decode(event.NDJSON, body, opt, &before) != nil {
			return
		}
		require.NoError(t, r.Apply(&b))
		checkBatch(t, &before, &b)
	})
}

// checkBatch compares with the result of a slow redactor for the same events.
func checkBatch(t require.TestingT, before, after *event.Batch) {
	require.Len(t, after.Events, len(before.Events))
	at := 0
	for i := range after.Events {
		item := after.Events[i]
		require.Equal(t, at, item.Start)
		at = item.End
		item.Start, item.End = before.Events[i].Start, before.Events[i].End
		require.Equal(t, before.Events[i], item)

		var v event.View
		var want, got event.Event
		_, err := v.Parse(before.Event(i))
		require.NoError(t, err)
		v.Event(&want)
		assigned := v.Assigned
		n, err := v.Parse(after.Event(i))
		require.NoError(t, err)
		require.Equal(t, len(after.Event(i)), n)
		v.Event(&got)
		require.Equal(t, assigned, v.Assigned)
		want.Attributes = slowly(want.Type, want.Attributes)
		require.Equal(t, want, got)
		for j, a := range got.Attributes {
			require.True(t, utf8.ValidString(a.Value))
			require.LessOrEqual(t, len(a.Value), MaxValueBytes)
			if j > 0 {
				require.Less(t, got.Attributes[j-1].Name, a.Name)
			}
		}
	}
	require.Len(t, after.Buf, at)
}

// slowly is fuzzRules without any of the machinery.
func slowly(typ string, attrs []event.Attr) []event.Attr {
	clip := func(s string, before int) string {
		for n := max(before, MaxValueBytes); len(s) > n; {
			_, size := utf8.DecodeLastRuneInString(s)
			s = s[:len(s)-size]
		}
		return s
	}
	var out []event.Attr
	for _, a := range attrs {
		v := a.Value
		if strings.HasPrefix(a.Name, "u") && v != "" {
			v = hashed(v)
		}
		v = clip(regexp.MustCompile(`[a-z]+@`).ReplaceAllStringFunc(v, func(m string) string { return m + m + "@" }), len(v))
		if a.Name == "ip" && v != "" {
			if ip, ok := truncated([]byte(v)); ok {
				v = ip.String()
			} else {
				v = "***"
			}
		}
		gone := false
		if strings.HasPrefix(typ, "t") && v != "" {
			v = regexp.MustCompile(`\d+`).ReplaceAllString(v, "")
			gone = v == ""
		}
		if a.Name == "secret" && v != "" {
			gone = true
		}
		v = clip(regexp.MustCompile(`日.`).ReplaceAllStringFunc(v, hashed), len(v))
		if !gone {
			out = append(out, event.Attr{Name: a.Name, Value: v})
		}
	}
	return out
}

// Events of every shape, drawn rather than mutated.
func TestApplyKeepsEventsGood(t *testing.T) {
	r, err := New(fuzzRules, nil)
	require.NoError(t, err)
	attr := rapid.OneOf(rapid.SampledFrom([]string{"user", "ip", "secret", "u_", "a"}),
		rapid.StringMatching(`[a-z_][a-z0-9_.-]{0,130}`)).Filter(func(s string) bool {
		return len(s) <= 128 && event.ValidAttributeName(s)
	})
	long := rapid.Custom(func(t *rapid.T) string {
		return strings.Repeat(rapid.SampledFrom([]string{"a@", "日本", "x1"}).Draw(t, "piece"),
			rapid.IntRange(1, 500).Draw(t, "times"))
	})
	value := rapid.OneOf(long, rapid.StringMatching(`([a-z]{1,3}@|\d{1,3}|日本|\.)*`), rapid.String(),
		rapid.SampledFrom([]string{"", "1.2.3.4", "::1"}))
	rapid.Check(t, func(t *rapid.T) {
		var before event.Batch
		for range rapid.IntRange(1, 4).Draw(t, "events") {
			e := event.Event{ID: rapid.StringMatching(`.{0,60}`).Draw(t, "id"), Service: "s", Time: time.Unix(1.8e9, 0).UTC(),
				Type: rapid.StringMatching(`[a-zt][a-z]{0,128}`).Draw(t, "type"), Count: rapid.Uint32Min(1).Draw(t, "count")}
			for name, v := range rapid.MapOfN(attr, value, 0, 64).Draw(t, "attributes") {
				e.Set(name, strings.ToValidUTF8(v[:min(len(v), MaxValueBytes)], ""))
			}
			if rapid.Bool().Draw(t, "durations") {
				e.Durations = []event.DurationCount{{Duration: time.Hour, Count: e.Count}}
			}
			start := len(before.Buf)
			before.Buf = event.AppendBinary(before.Buf, &e)
			before.Events = append(before.Events, event.Item{Start: start, End: len(before.Buf), Index: len(before.Events)})
		}
		after := event.Batch{Events: slices.Clone(before.Events), Buf: bytes.Clone(before.Buf)}
		if err := r.Apply(&after); err != nil {
			t.Fatal(err)
		}
		checkBatch(t, &before, &after)
	})
}
