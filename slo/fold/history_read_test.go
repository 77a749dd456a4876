package fold

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// TestReadEqualsSums: what Read gives over spans of its own is what Sums gives
// over the same, for events, bins and slices alike, and reading changes nothing.
func TestReadEqualsSums(t *testing.T) {
	plain := availability("product")
	bins := Indicator{ID: "shop/latency", Service: "shop", Kind: Latency, Edges: []time.Duration{time.Second, time.Minute},
		GroupBy: []string{"product"}, Retention: 30 * 24 * time.Hour}
	sliced := availability("product")
	sliced.ID, sliced.Slice = "shop/slices", &Slice{Per: time.Minute, Target: 0.9}
	f := newFold(t, config(plain, bins, sliced), t0)
	at := t0
	for i := range 2000 {
		at = at.Add(20 * time.Second)
		e := took(shop(at.Add(-time.Duration(i%7)*time.Second), "product", []string{"a", "b", "c"}[i%3]),
			time.Duration(i%90)*time.Second)
		if i%11 == 0 {
			e = failed(e)
		}
		apply(t, f, at, e)
	}
	spans := []slo.Span{
		last(at, time.Hour), last(at, 5*time.Minute), {From: t0, To: t0.Add(time.Hour)},
		{From: t0.Add(time.Hour), To: t0.Add(2 * time.Hour)},
		{From: at, To: at}, {From: t0.Add(-100 * 24 * time.Hour), To: t0},
	}
	groups := []slo.Group{{"a"}, {"nobody"}, {"c"}, {"b"}}
	before := f.Sums(Request{Now: at, Spans: spans})
	for _, id := range []string{plain.ID, bins.ID, sliced.ID} {
		got := f.Read([]ReadRequest{{ID: id, Groups: groups, Spans: spans}})[0]
		require.True(t, got.Known)
		require.Equal(t, id == sliced.ID, got.Sliced)
		require.Nil(t, got.Groups[1], "nobody has sent an event")
		sum := uint64(0)
		for _, i := range []int{0, 2, 3} {
			want := groupOf(t, before, id, groups[i]...)
			require.Equal(t, want.Spans, got.Groups[i], "%s %s", id, groups[i])
			sum += got.Groups[i][0][0]
		}
		require.NotZero(t, sum)
	}
	require.Equal(t, bins.Edges, f.Read([]ReadRequest{{ID: bins.ID}})[0].Edges)
	require.Equal(t, before.Groups, f.Sums(Request{Now: at, Spans: spans}).Groups)
}

func TestReadSaysWhatWasObserved(t *testing.T) {
	f := newFold(t, config(availability()), t0)
	tick(f, t0, t0.Add(10*time.Minute))
	f.Advance(t0.Add(20*time.Minute).UnixNano(), Start)
	tick(f, t0.Add(20*time.Minute), t0.Add(30*time.Minute))
	got := f.Read([]ReadRequest{
		{ID: "shop/availability", Groups: []slo.Group{nil}, Spans: []slo.Span{{From: t0, To: t0.Add(time.Hour)}}}})[0]
	require.Equal(t, []slo.Span{{From: t0, To: t0.Add(10 * time.Minute)},
		{From: t0.Add(20 * time.Minute), To: t0.Add(30 * time.Minute)}}, got.Observed)
	require.False(t, got.Hourly.After(t0.Add(-30*24*time.Hour)), "thirty days are kept as they are")
	require.True(t, got.Hourly.After(t0.Add(-32*24*time.Hour)))
	require.False(t, got.Oldest.After(t0.Add(-90*24*time.Hour)), "ninety days are kept by the hour")
	require.True(t, got.Oldest.After(t0.Add(-92*24*time.Hour)))

	// A day that is backfilled counts as observed, too.
	backfill(t, f, t0.Add(31*time.Minute), t0.Add(-48*time.Hour), t0.Add(-24*time.Hour))
	got = f.Read([]ReadRequest{{ID: "shop/availability"}})[0]
	require.Equal(t, slo.Span{From: t0.Add(-48 * time.Hour), To: t0.Add(-24 * time.Hour)}, got.Observed[0])
}

func TestReadRefuses(t *testing.T) {
	f := newFold(t, config(availability()), t0)
	require.Equal(t, make([]ReadResult, 1), f.Read([]ReadRequest{{ID: "shop/none"}}))
	many := make([]slo.Span, MaxRead+1)
	require.False(t, f.Read([]ReadRequest{{ID: "shop/availability", Groups: []slo.Group{nil}, Spans: many}})[0].Known)
	require.Empty(t, f.Read(nil))
}

// BenchmarkReadPage is what a detail page of 30 days asks of an SLO with many
// groups: four histories of one group, and one span of a hundred groups.
func BenchmarkReadPage(b *testing.B) {
	f := newFold(b, config(availability("product")), t0)
	at := t0
	for range 30 * 24 {
		at = at.Add(time.Hour)
		for g := range 100 {
			e := times(shop(at.Add(-time.Minute), "product", string(rune('a'+g%26))+string(rune('a'+g/26))), 7)
			if err := tryApply(f, at, Live, e); err != nil {
				b.Fatal(err)
			}
		}
	}
	cut := func(n int, step time.Duration) (out []slo.Span) {
		for i := range n {
			out = append(out, slo.Span{From: at.Add(-time.Duration(i+1) * step), To: at.Add(-time.Duration(i) * step)})
		}
		return out
	}
	var all []slo.Group
	for _, g := range f.inds[0].sorted {
		all = append(all, g.values)
	}
	one := all[:1]
	id := "shop/availability"
	requests := []ReadRequest{
		{id, one, cut(180, 4*time.Hour)}, {id, one, cut(200, 4*time.Hour)}, {id, one, cut(180, 4*time.Hour)},
		{id, one, cut(90, 24*time.Hour)}, {id, all, []slo.Span{last(at, 30*24*time.Hour)}},
	}
	for b.Loop() {
		if got := f.Read(requests); !got[4].Known {
			b.Fatal("nothing was read")
		}
	}
}
