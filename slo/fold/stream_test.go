package fold

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// read is an indicator of failures that a source reads.
func read(source string) Indicator {
	ind := availability()
	ind.ID, ind.Source = "shop/read", source
	return ind
}

// shareOf is how much of the last times an indicator was observed, and -1 where the engine's up-time says it.
func shareOf(t *testing.T, f *Fold, id string, now time.Time, spans ...time.Duration) []float64 {
	var asked []slo.Span
	for _, d := range spans {
		asked = append(asked, last(now, d))
	}
	for _, g := range f.Sums(Request{Now: now, Spans: asked}).Groups {
		if g.Indicator.ID == id && g.Observed == nil {
			return []float64{-1}
		} else if g.Indicator.ID == id {
			return g.Observed
		}
	}
	require.Fail(t, "no group of "+id)
	return nil
}

func stored(f *Fold) map[string]string {
	parts, _ := encode(f)
	return parts
}

// What a source read is what it observed, wherever the engine was.
func TestSourceObserves(t *testing.T) {
	f := newFold(t, config(availability(), read("prometheus")), t0)
	at := func(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }
	observe := func(from, to int) { f.Observe("prometheus", at(from).UnixNano(), at(to).UnixNano()) }
	tick(f, t0, at(10))
	require.Equal(t, []float64{0}, shareOf(t, f, "shop/read", at(10), 10*time.Minute), "nothing was read")
	require.Equal(t, []float64{-1}, shareOf(t, f, "shop/availability", at(10), 10*time.Minute))
	observe(-5, 4)
	require.Equal(t, []float64{0.4}, shareOf(t, f, "shop/read", at(10), 10*time.Minute))
	observe(4, 9)
	require.Equal(t, []float64{1, 0.75}, shareOf(t, f, "shop/read", at(10), 10*time.Minute, 20*time.Minute),
		"what was read of the time before the indicator began counts, and the next reading is under way")
	require.Equal(t, []float64{0.7}, shareOf(t, f, "shop/read", at(12), 10*time.Minute), "it is overdue")
	f.Observe("other", at(0).UnixNano(), at(99).UnixNano())
	tick(f, at(10), at(20))
	observe(15, 20)
	require.Equal(t, []float64{0.5, 0.7}, shareOf(t, f, "shop/read", at(20), 10*time.Minute, 20*time.Minute))
	got := f.Read([]ReadRequest{{ID: "shop/read"}})
	require.Equal(t, []slo.Span{{From: at(-5), To: at(9)}, {From: at(15), To: at(20)}}, got[0].Observed)

	f.Advance(at(20).UnixNano(), Stop)
	f = restored(t, stored(f))
	f.Advance(at(90).UnixNano(), Start)
	observe(20, 90) // it reads what happened meanwhile
	require.Equal(t, []float64{1, 84. / 90}, shareOf(t, f, "shop/read", at(90), time.Hour, 90*time.Minute))
}

// What another source reads is another thing, so counts begin again. They return with the source, which reads on from
// where it was.
func TestChangeOfSource(t *testing.T) {
	f := newFold(t, config(read("a")), t0)
	at := func(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }
	use := func(minutes int, cfg *Config) { require.NoError(t, f.SetConfig(cfg, at(minutes).UnixNano())) }
	counted := func(now time.Time) (n uint64) {
		for _, g := range f.Sums(Request{Now: now, Spans: []slo.Span{last(now, time.Hour)}}).Groups {
			n += g.Spans[0][0] + g.Spans[0][1]
		}
		return n
	}
	apply(t, f, at(4), shop(at(4)))
	tick(f, t0, at(10))
	f.Observe("a", at(0).UnixNano(), at(10).UnixNano())
	require.Equal(t, at(10), f.ObservedUntil("a"))
	require.Equal(t, uint64(1), counted(at(10)))

	use(10, config(read("b")))
	tick(f, at(10), at(20))
	require.Zero(t, counted(at(20)))
	require.Zero(t, f.ObservedUntil("a"), "nobody has it")
	require.Zero(t, f.ObservedUntil("b"), "all of its past may be read")
	f.Observe("b", at(-60).UnixNano(), at(20).UnixNano())
	require.Equal(t, []float64{1}, shareOf(t, f, "shop/read", at(20), time.Hour))

	use(20, config(read("a")))
	require.Equal(t, uint64(1), counted(at(20)))
	require.Equal(t, at(10), f.ObservedUntil("a"), "what was counted is not read again")
	f = restored(t, stored(f))
	require.Equal(t, at(10), f.ObservedUntil("a"))
	f.Observe("a", at(10).UnixNano(), at(30).UnixNano())
	tick(f, at(20), at(30))
	require.Equal(t, at(30), f.ObservedUntil("a"))
	require.Equal(t, []float64{1}, shareOf(t, f, "shop/read", at(30), 30*time.Minute))
}

// Without the part that says what sources observed, it is unobserved.
func TestLostStreams(t *testing.T) {
	f := newFold(t, config(read("a")), t0)
	tick(f, t0, t0.Add(time.Minute))
	f.Observe("a", t0.UnixNano(), t0.Add(time.Minute).UnixNano())
	parts := stored(f)
	delete(parts, partStreams)
	what, ok := PartLoss(partStreams)
	require.True(t, ok)
	require.NotEmpty(t, what)
	g, err := New(Options{})
	require.NoError(t, err)
	for name, data := range parts {
		require.NoError(t, g.RestorePart(name, []byte(data)))
	}
	require.NoError(t, g.RestoreLost(partStreams))
	require.NoError(t, g.FinishRestore())
	require.Equal(t, []float64{0}, shareOf(t, g, "shop/read", t0.Add(time.Minute), time.Minute))
}

// Groups that one of several servers has alone are observed when it is, and others when all servers are.
func TestGroupsOfServers(t *testing.T) {
	ind := read("a")
	ind.GroupBy = []string{"region", "route"}
	sliced := ind
	sliced.ID, sliced.Slice = "shop/minutes", &Slice{Per: time.Minute, Target: 0.9}
	f := newFold(t, config(ind, sliced), t0)
	at := func(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }
	now := at(20)
	tick(f, t0, now)
	observe := func(stream string, from, to int) { f.Observe(stream, at(from).UnixNano(), at(to).UnixNano()) }
	of := func(region string) string { return slo.PromGroupStream("a", map[string]string{"region": region}) }
	odd := "\n#\"\xff\x00"
	for _, region := range []string{"eu", odd, "alone"} {
		for i := range 20 {
			require.NoError(t, tryApply(f, now, Live, shop(at(i), "region", region, "route", "/")))
		}
	}
	observe(of("eu"), 0, 20)
	observe(of(odd), 0, 10)
	observe("a", 0, 5)
	observe(slo.PromServerStream("a", "key"), 0, 20)
	observe("b", 0, 20)
	observe(slo.PromGroupStream("b", map[string]string{"region": "eu"}), 0, 20)
	check := func() {
		t.Helper()
		for region, want := range map[string]float64{"eu": 1, odd: 0.5, "alone": 0.25} {
			for _, g := range f.Sums(Request{Now: now, Spans: []slo.Span{{From: t0, To: now}}}).Groups {
				if g.Values[0] != region {
					continue
				}
				require.Equal(t, []float64{want}, g.Observed, "%q", region)
				if g.Indicator.Slice != nil {
					require.EqualValues(t, min(18, 20*want), g.Spans[0][SliceGood], "%q", region)
				}
			}
		}
		require.Equal(t, []slo.Span{{From: t0, To: now}}, f.Observed(slo.PromServerStream("a", "key")))
	}
	check()
	f = restored(t, stored(f))
	check()
	require.NoError(t, f.SetConfig(config(read("b")), now.UnixNano()))
	require.Empty(t, f.Observed(of("eu")))
	for i := range 2 * maxGroupStreams {
		f.Observe(slo.PromGroupStream("b", map[string]string{"region": fmt.Sprint(i)}), int64(i)+t0.UnixNano(),
			int64(i)+at(1).UnixNano())
	}
	require.Len(t, f.streams, maxGroupStreams+1)
	last := map[string]string{"region": fmt.Sprint(2*maxGroupStreams - 1)}
	require.NotEmpty(t, f.Observed(slo.PromGroupStream("b", last)))
}

// Slices are judged where the source observed them, also if it did so after they were closed and summed, and never
// where it did not.
func TestSlicesOfASource(t *testing.T) {
	ind := read("prometheus")
	ind.Slice = &Slice{Per: time.Minute, Target: 0.9}
	f := newFold(t, config(ind), t0)
	at := func(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }
	now := t0
	observe := func(from, to int) {
		for i := from; i < to; i++ {
			e := times(shop(at(i)), 10)
			if i%4 == 0 {
				e = failed(e)
			}
			mode := Live
			if i < 0 {
				mode = Backfill
			}
			require.NoError(t, tryApply(f, now, mode, e))
		}
		f.Observe("prometheus", at(from).UnixNano(), at(to).UnixNano())
	}
	want := func(good, bad uint64) {
		t.Helper()
		got := sums(f, "shop/read", slo.Span{From: at(-600), To: at(600)})[""][0]
		require.Equal(t, []uint64{good, bad}, got[SliceGood:SliceBad+1])
	}
	observe(0, 1)
	now = at(180)
	tick(f, t0, now)
	want(0, 1)
	observe(60, 120)
	want(45, 16)
	observe(1, 60)
	want(90, 30)
	observe(-120, 0)
	want(180, 60)
	now = at(186)
	tick(f, at(180), now)
	want(180, 60)
	again, err := New(Options{})
	require.NoError(t, err)
	for name, data := range stored(f) {
		require.NoError(t, again.RestorePart(name, []byte(data)))
	}
	require.NoError(t, again.FinishRestore())
	f = again
	want(180, 60)
	ind.Slice, ind.Work = nil, &Work{}
	require.Error(t, f.SetConfig(config(ind), now.UnixNano()))
}
