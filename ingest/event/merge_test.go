package event

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func view(t require.TestingT, e *Event) *View {
	v := new(View)
	_, err := v.Parse(AppendBinary(nil, e))
	require.NoError(t, err)
	return v
}

func merged(t require.TestingT, attrs []string, id string, events ...*Event) *Event {
	m := newMerger(attrs)
	for _, e := range events {
		require.True(t, m.Add(view(t, e)))
	}
	var v View
	bin := m.Append(nil, id)
	n, err := v.Parse(bin)
	require.NoError(t, err)
	require.Len(t, bin, n)
	require.Equal(t, id != "", v.Assigned)
	var e Event
	v.Event(&e)
	return &e
}

func TestMerge(t *testing.T) {
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	base := func(s int, ms int, n uint32) *Event {
		e := &Event{ID: "own", Service: "shop", Type: "order", Outcome: Failure, Severity: "critical",
			Time: at(s), Count: n, Weight: 10}
		e.Attributes = []Attr{{"channel", "web"}, {"trace", "abc"}, {"zone", "z"}}
		if ms >= 0 {
			e.Duration, e.HasDuration = time.Duration(ms)*time.Millisecond, true
		}
		return e
	}
	aggregated := base(1, -1, 5)
	aggregated.Durations = []DurationCount{{20 * time.Millisecond, 4}, {1500 * time.Microsecond, 1}}

	got := merged(t, []string{"channel", "product", "zone"}, "m-1", base(3, 20, 2), base(9, 700, 0), aggregated)
	require.Equal(t, &Event{
		ID: "m-1", Service: "shop", Type: "order", Outcome: Failure, Severity: "critical", Time: at(9), Count: 8, Weight: 10,
		Attributes: []Attr{
			{"aggregated", "true"}, {"channel", "web"}, {"duration_max_ms", "700"}, {"duration_min_ms", "1.5"},
			{"duration_sum_ms", "821.5"}, {"zone", "z"},
		},
		Durations: []DurationCount{{1500 * time.Microsecond, 1}, {20 * time.Millisecond, 6}, {700 * time.Millisecond, 1}},
	}, got)
	require.True(t, json.Valid(got.AppendJSON(nil)))

	got = merged(t, nil, "", base(0, -1, 1), base(1, -1, 2))
	require.EqualValues(t, 3, got.Count)
	require.Equal(t, []Attr{{"aggregated", "true"}}, got.Attributes)
	require.Empty(t, got.Durations)
	require.False(t, got.HasDuration)
	require.Empty(t, got.ID)

	// A kept attribute of such a name is not written over, nor made up.
	marked := base(0, 5, 1)
	marked.Set("aggregated", "no")
	keep := []string{"aggregated", "duration_sum_ms"}
	require.Equal(t, []Attr{{"aggregated", "no"}, {"duration_max_ms", "5"}, {"duration_min_ms", "5"}},
		merged(t, keep, "", marked).Attributes)
	require.Equal(t, []Attr{{"duration_max_ms", "5"}, {"duration_min_ms", "5"}},
		merged(t, keep, "", base(0, 5, 1)).Attributes)
	require.Empty(t, newMerger(nil).Append(nil, "x"))
}

func TestMergedSums(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		n    uint32
		want string
	}{
		{0, 3, "0"},
		{999 * time.Microsecond, 2, "1.998"},
		{time.Second, 1, "1000"},
		{time.Second + 5*time.Millisecond, 1, "1005"},
		{time.Second + 50*time.Nanosecond, 1, "1000.00005"},
		{MaxDuration, math.MaxUint32, sumOf(MaxDuration, math.MaxUint32)},
	} {
		e := &Event{Service: "s", Type: "t", Time: now, Duration: c.d, HasDuration: true, Count: c.n}
		require.Equal(t, c.want, merged(t, nil, "", e).Attr("duration_sum_ms"), "%s", c.d)
	}
}

// sumOf multiplies whole milliseconds digit by digit.
func sumOf(d time.Duration, n uint32) string {
	digits, carry := []byte{}, uint64(0)
	for text := strconv.AppendInt(nil, d.Milliseconds(), 10); len(text) > 0 || carry > 0; {
		if last := len(text) - 1; last >= 0 {
			carry += uint64(text[last]-'0') * uint64(n)
			text = text[:last]
		}
		digits = append([]byte{byte('0' + carry%10)}, digits...)
		carry /= 10
	}
	return string(digits)
}

// TestMergerRefusesWhatDoesNotFit: nothing of a refused event is taken.
func TestMergerRefusesWhatDoesNotFit(t *testing.T) {
	plain := func(n uint32) *Event { return &Event{Service: "s", Type: "t", Time: now, Count: n} }
	timed := func(ns int) *Event {
		return &Event{Service: "s", Type: "t", Time: now, Duration: time.Duration(ns), HasDuration: true}
	}
	m := newMerger(nil)
	require.True(t, m.Add(view(t, plain(math.MaxUint32-5))))
	before := string(m.Append(nil, ""))
	require.False(t, m.Add(view(t, plain(6))))
	require.False(t, m.Add(view(t, timed(1))), "no durations until now")
	heavy, bad := plain(1), plain(1)
	heavy.Weight, bad.Outcome = 2, Failure
	require.False(t, m.Add(view(t, heavy)))
	require.False(t, m.Add(view(t, bad)))
	require.Equal(t, before, string(m.Append(nil, "")))
	require.True(t, m.Add(view(t, plain(5))))
	require.Equal(t, 2, m.Events())

	m.Reset([]string{"a"})
	for i := range maxPairs {
		require.True(t, m.Add(view(t, timed(2*i))))
	}
	require.False(t, m.Add(view(t, timed(1))), "too many different durations")
	require.False(t, m.Add(view(t, plain(1))))
	require.True(t, m.Add(view(t, timed(2*7))), "not a new one")
	two := plain(2)
	two.Durations = []DurationCount{{2, 1}, {4, 1}}
	require.True(t, m.Add(view(t, two)))
	require.Equal(t, maxPairs+2, m.Events())
	var v View
	_, err := v.Parse(m.Append(nil, ""))
	require.NoError(t, err)
	require.EqualValues(t, maxPairs+3, v.Count)
}

// TestMergeKeyTellsApart: any one difference gives another key; ignored fields do not change the
// key.
func TestMergeKeyTellsApart(t *testing.T) {
	attrs := []string{"channel", "product", "zone"}
	base := func() *Event {
		return &Event{ID: "a", Service: "shop", Type: "order", Severity: "low", Time: time.Unix(1000, 0),
			Attributes: []Attr{{"product", "A"}, {"trace", "1"}}}
	}
	key := func(change func(e *Event)) string {
		e := base()
		change(e)
		return string(MergeKey(nil, view(t, e), attrs, 0))
	}
	same := key(func(*Event) {})
	for name, change := range map[string]func(e *Event){
		"id":    func(e *Event) { e.ID = "b" },
		"count": func(e *Event) { e.Count = 9 },
		"trace": func(e *Event) { e.Set("trace", "2") },
		"other": func(e *Event) { e.Set("alpha", "2"); e.Set("zzz", "x") },
		"time":  func(e *Event) { e.Time = time.Unix(1009, 999_999_999) },
	} {
		require.Equal(t, same, key(change), name)
	}
	seen := map[string]string{same: "base"}
	for name, change := range map[string]func(e *Event){
		"service":   func(e *Event) { e.Service = "shopo"; e.Type = "rder" },
		"type":      func(e *Event) { e.Type = "orders" },
		"outcome":   func(e *Event) { e.Outcome = Failure },
		"severity":  func(e *Event) { e.Severity = "" },
		"duration":  func(e *Event) { e.HasDuration = true },
		"weight":    func(e *Event) { e.Weight = 2 },
		"later":     func(e *Event) { e.Time = time.Unix(1010, 0) },
		"earlier":   func(e *Event) { e.Time = time.Unix(999, 999_999_999) },
		"1969":      func(e *Event) { e.Time = time.Unix(-1, 0) },
		"1970":      func(e *Event) { e.Time = time.Unix(0, 0) },
		"product":   func(e *Event) { e.Set("product", "B") },
		"noproduct": func(e *Event) { e.Attributes = nil },
		"empty":     func(e *Event) { e.Set("product", "") },
		"channel":   func(e *Event) { e.Set("channel", "A") },
		"zone":      func(e *Event) { e.Set("zone", "A") },
		"moved":     func(e *Event) { e.Attributes = []Attr{{"channel", "A"}} },
	} {
		k := key(change)
		require.Empty(t, seen[k], "%s is the same as %s", name, seen[k])
		seen[k] = name
	}
	// Pairs count as durations, and a shorter step is kept to.
	pairs := base()
	pairs.Durations = []DurationCount{{time.Second, 1}}
	require.Equal(t, key(func(e *Event) { e.HasDuration = true }), string(MergeKey(nil, view(t, pairs), attrs, 0)))
	second := func(ns int64) string {
		e := base()
		e.Time = time.Unix(1000, ns)
		return string(MergeKey(nil, view(t, e), attrs, 100*time.Millisecond))
	}
	require.Equal(t, second(0), second(99_999_999))
	require.NotEqual(t, second(0), second(100_000_000))
}

// TestMergeLosesNothing compares a merged event with sums made event by event, in any order.
func TestMergeLosesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		attrs := []string{"a", "b"}
		var events []*Event
		timed := rapid.Bool().Draw(rt, "timed")
		count, want := uint32(0), map[time.Duration]uint32{}
		latest := time.Time{}
		for range rapid.IntRange(1, 30).Draw(rt, "events") {
			e := &Event{Service: "s", Type: "t", Attributes: []Attr{{"a", "x"}},
				Time: time.Unix(50, rapid.Int64Range(0, 9e9).Draw(rt, "time")).UTC()}
			e.Set("noise", rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "noise"))
			e.Count = rapid.Uint32Range(1, 1000).Draw(rt, "count")
			d := func() time.Duration { return time.Duration(rapid.IntRange(0, 20).Draw(rt, "ms")) * time.Millisecond }
			switch {
			case timed && rapid.Bool().Draw(rt, "pairs"):
				e.Count = 0
				for range rapid.IntRange(1, 5).Draw(rt, "n") {
					p := DurationCount{d(), rapid.Uint32Range(1, 9).Draw(rt, "of")}
					e.Durations = append(e.Durations, p)
					e.Count += p.Count
					want[p.Duration] += p.Count
				}
			case timed:
				e.Duration, e.HasDuration = d(), true
				want[e.Duration] += e.Count
			}
			count += e.Count
			if e.Time.After(latest) {
				latest = e.Time
			}
			require.Equal(rt, MergeKey(nil, view(rt, e), attrs, 0),
				MergeKey(nil, view(rt, &Event{Service: "s", Type: "t", Time: time.Unix(50, 0), HasDuration: timed,
					Attributes: []Attr{{"a", "x"}}}), attrs, 0))
			events = append(events, e)
		}
		got := merged(rt, attrs, "", events...)
		require.Equal(rt, count, got.Count)
		require.Equal(rt, latest, got.Time)
		have, last := map[time.Duration]uint32{}, time.Duration(-1)
		for _, p := range got.Durations {
			require.Greater(rt, p.Duration, last)
			have[p.Duration], last = p.Count, p.Duration
		}
		require.Equal(rt, want, have)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		require.Equal(rt, got, merged(rt, attrs, "", events...))
		require.Equal(rt, got, merged(rt, attrs, "", got), "merging what was merged")
	})
}

func TestMergeAllocatesNothing(t *testing.T) {
	e := sample()
	e.Set("long", strings.Repeat("x", 100))
	v, attrs := view(t, e), []string{"channel", "long", "product"}
	m := newMerger(attrs)
	var key []byte
	require.Zero(t, testing.AllocsPerRun(20, func() {
		m.Reset(attrs)
		key = MergeKey(key[:0], v, attrs, 0)
		for range 10 {
			if !m.Add(v) {
				t.Fatal("refused")
			}
		}
	}))
}

func BenchmarkMerge(b *testing.B) {
	v, attrs := view(b, sample()), []string{"channel", "product"}
	m := newMerger(attrs)
	var key []byte
	b.ReportAllocs()
	for b.Loop() {
		key = MergeKey(key[:0], v, attrs, 0)
		if !m.Add(v) {
			m.Reset(attrs)
		}
	}
}

// Of the fields that are asked for a merged event keeps the range and sum of the numbers,
// the distinct texts up to a bound, and one sample. Attributes that are not requested are dropped.
func TestMergeFields(t *testing.T) {
	at := func(amount, path string, n uint32) *Event {
		e := &Event{ID: "x", Service: "shop", Type: "order", Time: now, Count: n}
		e.Attributes = []Attr{{"amount", amount}, {"path", path}, {"secret", "s"}, {"zone", "z"}}
		return e
	}
	m := newMerger([]string{"zone"})
	m.Fields([]string{"amount", "path", "absent", "zone"})
	for _, e := range []*Event{at("12.5", "/a", 2), at("-3", "/b", 1), at("n/a", "/a", 1),
		at("1e3", "/c\"", 1), at("0x10", "", 1)} {
		require.True(t, m.Add(view(t, e)))
	}
	attrs := func() map[string]string {
		var v View
		_, err := v.Parse(m.Append(nil, "m"))
		require.NoError(t, err)
		out := map[string]string{}
		last := ""
		for name, value := range v.Attrs {
			require.Greater(t, string(name), last, "by rising name, each once")
			last = string(name)
			out[last] = string(value)
		}
		return out
	}
	require.Equal(t, map[string]string{
		"aggregated": "true", "zone": "z",
		"amount_min": "-3", "amount_max": "1000", "amount_sum": "1022", "amount_sample": "12.5",
		"amount_values": `["n/a","0x10"]`,
		"path_sample":   "/a", "path_values": `["/a","/b","/c\"",""]`,
	}, attrs())

	for i := range 100 {
		require.True(t, m.Add(view(t, at(strings.Repeat("x", 5000), strconv.Itoa(i)+"-", 1))))
	}
	got := attrs()
	require.Equal(t, "true", got["path_values_more"])
	require.Equal(t, "true", got["amount_values_more"])
	var paths []string
	require.NoError(t, json.Unmarshal([]byte(got["path_values"]), &paths))
	require.Len(t, paths, maxFieldTexts)

	m.Reset(nil)
	require.True(t, m.Add(view(t, at("1", "/a", 1))))
	require.Equal(t, map[string]string{"aggregated": "true"}, attrs(), "asked for each time")
}

func newMerger(attrs []string) *Merger {
	m := &Merger{}
	m.Reset(attrs)
	return m
}
