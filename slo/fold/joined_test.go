package fold

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

// catchUp hands a Joined what changed in a fold, in as many answers as a bound of bytes makes of it.
func catchUp(t require.TestingT, j *Joined, part int, f *Fold, since uint64, bytes int) uint64 {
	r := RawRequest{Since: since, Bytes: bytes}
	clock := uint64(0)
	for {
		out := f.Raw(r)
		require.NoError(t, j.Update(part, &out))
		if clock == 0 {
			clock = out.Clock
		}
		if !out.More {
			break
		}
		r.From = out.Next
	}
	s := f.Sums(Request{Now: unix(f.rec)})
	observed := map[string][]slo.Span{}
	for _, e := range s.Eras {
		observed[e.Indicator] = e.Observed(s.Up)
	}
	j.Observe(part, observed)
	return clock
}

// slicedOf are the groups of sliced indicators, with what Joined says of them.
func slicedOf(groups []Group) (out []Group) {
	for _, g := range groups {
		if g.Indicator.Slice != nil {
			out = append(out, Group{Indicator: &Indicator{ID: g.Indicator.ID}, Values: g.Values, Spans: g.Spans, Loss: g.Loss})
		}
	}
	return out
}

// TestJoinedJudgesAsOneFold: three folds that count a part of the events each are judged as one that counts all,
// whenever their slices are fetched, and in however many answers.
func TestJoinedJudgesAsOneFold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := mixed()
		cfg.Indicators[4].GroupBy = []string{"product"}
		begin := t0.Add(-2 * time.Hour)
		whole, parts := newFold(t, cfg, begin), make([]*Fold, 3)
		all := []*Fold{whole}
		for i := range parts {
			parts[i] = newFold(t, cfg, begin)
			all = append(all, parts[i])
		}
		j, err := NewJoined(cfg, len(parts))
		require.NoError(rt, err)
		since := make([]uint64, len(parts))
		now := begin
		check := func() {
			req := everything(now)
			req.Extra = map[string][]slo.Span{"shop/throughput": {{From: now.Add(-3 * time.Hour), To: now.Add(-time.Hour)}},
				"shop/slices": {last(now, 40*time.Minute)}}
			got, err := j.Groups(req)
			require.NoError(rt, err)
			require.Equal(rt, slicedOf(whole.Sums(req).Groups), slicedOf(got))
			reads := []ReadRequest{{ID: "shop/throughput", Groups: []slo.Group{{"A"}, {"B"}},
				Spans: hoursOf(now.Add(-6*time.Hour), now)}, {ID: "shop/none"}}
			want := whole.Read(reads)
			read, err := j.Read(reads)
			require.NoError(rt, err)
			require.Equal(rt, want[0].Groups, read[0].Groups)
			require.Equal(rt, want[0].Observed, read[0].Observed)
			require.False(rt, read[1].Known)
		}
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			to := now.Add(time.Duration(rapid.IntRange(1, 240).Draw(rt, "minutes")) * time.Minute)
			mark := rapid.SampledFrom([]Mark{Tick, Tick, Stop}).Draw(rt, "mark")
			for _, f := range all {
				if mark == Stop { // all are down for the same time
					f.Advance(now.UnixNano(), Stop)
					f.Advance(to.Add(-20*time.Second).UnixNano(), Start)
					f.Advance(to.UnixNano(), Tick)
					continue
				}
				tick(f, now, to)
			}
			now = to
			for range rapid.IntRange(0, 30).Draw(rt, "events") {
				e := drawEvent(rt, now)
				part := parts[rapid.IntRange(0, 2).Draw(rt, "part")]
				a, b := tryApply(whole, now, Live, e), tryApply(part, now, Live, e)
				require.Equal(rt, a == nil, b == nil)
			}
			if rapid.IntRange(0, 3).Draw(rt, "drop") == 0 {
				at, n := now.Add(-time.Duration(rapid.IntRange(0, 90).Draw(rt, "dropped"))*time.Minute),
					uint64(rapid.IntRange(1, 9).Draw(rt, "n"))
				dropAt(whole, at, "order", n)
				dropAt(parts[rapid.IntRange(0, 2).Draw(rt, "part")], at, "order", n)
			}
			for i, f := range parts {
				since[i] = catchUp(rt, j, i, f, since[i], rapid.SampledFrom([]int{1, 100, 1 << 20}).Draw(rt, "bytes"))
			}
			check()
		}
		// What a fold forgets and gives again changes nothing.
		again := rapid.IntRange(0, 2).Draw(rt, "again")
		j.Reset(again)
		catchUp(rt, j, again, parts[again], 0, 1<<20)
		check()
	})
}

func TestJoinedWaitsForAllFolds(t *testing.T) {
	cfg := config(Indicator{ID: "shop/throughput", Service: "shop", Kind: Events, Retention: day,
		Slice: &Slice{Per: time.Minute, AtLeast: 10}})
	a, b := newFold(t, cfg, t0), newFold(t, cfg, t0)
	j, err := NewJoined(cfg, 2)
	require.NoError(t, err)
	now := t0.Add(time.Hour)
	judged := func() (good, bad uint64) {
		groups, err := j.Groups(Request{Now: now, Spans: []slo.Span{last(now, time.Hour)}})
		require.NoError(t, err)
		require.Len(t, groups, 1)
		return groups[0].Spans[0][SliceGood], groups[0].Spans[0][SliceBad]
	}
	tick(a, t0, now)
	for m := range 50 {
		apply(t, a, now, times(shop(t0.Add(time.Duration(m)*time.Minute)), 6))
		apply(t, b, t0.Add(time.Duration(m)*time.Minute), times(shop(t0.Add(time.Duration(m)*time.Minute)), 4))
	}
	sa := catchUp(t, j, 0, a, 0, 1<<20)
	good, bad := judged()
	require.Zero(t, good+bad, "a threshold says nothing of a part")
	catchUp(t, j, 1, b, 0, 1<<20)
	good, bad = judged()
	require.Zero(t, good+bad, "the other was never seen to be up for longer than a moment")

	c := newFold(t, cfg, t0)
	tick(c, t0, t0.Add(30*time.Minute))
	for m := range 50 {
		apply(t, c, t0.Add(30*time.Minute), times(shop(t0.Add(time.Duration(m)*time.Minute)), 4))
	}
	j.Reset(1)
	sb := catchUp(t, j, 1, c, 0, 1<<20)
	good, bad = judged()
	require.Equal(t, []uint64{28, 0}, []uint64{good, bad},
		"each has 10 in all, and the last two minutes are not closed in one of them")
	tick(c, t0.Add(30*time.Minute), now)
	tick(a, now, now)
	catchUp(t, j, 0, a, sa, 1)
	catchUp(t, j, 1, c, sb, 1)
	good, bad = judged()
	require.Equal(t, []uint64{50, 8}, []uint64{good, bad})

	// What no fold gives is refused, and changes nothing.
	for name, spoil := range map[string]func(*RawSlices){
		"far ahead":  func(r *RawSlices) { r.Stores[0].Blocks = []RawBlock{{Number: 1 << 60}} },
		"before":     func(r *RawSlices) { r.Stores[0].Blocks = []RawBlock{{Number: 1}} },
		"backwards":  func(r *RawSlices) { r.Stores[0].First -= 60 },
		"endless":    func(r *RawSlices) { r.Stores[0].Next = 1 << 60 },
		"no run":     func(r *RawSlices) { r.Stores[0].First++ },
		"wide":       func(r *RawSlices) { r.Stores[0].Columns = []RawColumn{{At: 1 << 30}} },
		"turned":     func(r *RawSlices) { r.Stores[0].Next = r.Stores[0].First - 1 },
		"before all": func(r *RawSlices) { r.Stores[0].First = -60 },
	} {
		r := a.Raw(RawRequest{Bytes: 1 << 20})
		spoil(&r)
		require.Error(t, j.Update(0, &r), name)
	}
	// Of a store that the configuration does not have nothing is kept.
	require.NoError(t, j.Update(0, &RawSlices{Stores: []RawStore{{Per: time.Second, Keep: day, Next: 1 << 60}}}))
	good, bad = judged()
	require.Equal(t, []uint64{50, 8}, []uint64{good, bad})
	require.False(t, readRaw([]byte{1, 2}, func(uint32, uint64, uint64) {}), "cut short")
}
