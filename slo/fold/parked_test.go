package fold

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

// elsewhere is a config without any indicator of the service shop.
func elsewhere() *Config {
	return config(Indicator{ID: "bank/availability", Service: "bank", Kind: Events, Retention: 30 * day})
}

// TestParkedIsAsIfStopped: whatever happens before, in between and after, a
// generation that was parked has what it has in an engine that kept its config
// and was down for that time. In between the fold may be stored and read back.
func TestParkedIsAsIfStopped(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		parked, stopped := newFold(t, mixed(), t0), newFold(t, mixed(), t0)
		rec := t0
		pass := func(most int) time.Time {
			return rec.Add(
				time.Duration(rapid.OneOf(rapid.IntRange(0, 600), rapid.IntRange(0, most)).Draw(rt, "pass")) * time.Second)
		}
		count := func() {
			for range rapid.IntRange(0, 6).Draw(rt, "events") {
				e := drawEvent(rt, rec)
				for _, f := range []*Fold{parked, stopped} {
					require.NoError(rt, tryApply(f, rec, Live, e))
				}
			}
			if rapid.Bool().Draw(rt, "dropped") {
				x := drawDrop(rt, rec)
				x.apply(parked)
				x.apply(stopped)
			}
			next := pass(3 * 3600)
			tick(parked, rec, next)
			tick(stopped, rec, next)
			rec = next
		}
		for range rapid.IntRange(1, 3).Draw(rt, "times") {
			count()
			count()
			require.NoError(rt, parked.SetConfig(elsewhere(), rec.UnixNano()))
			stopped.Advance(rec.UnixNano(), Stop)
			require.Len(rt, parked.inds, 1)
			for range rapid.IntRange(0, 2).Draw(rt, "in between") {
				rec = pass(4 * 86400)
				parked.Advance(rec.UnixNano(), Tick)
				data, _ := encode(parked)
				parked = restored(rt, data)
				again, _ := encode(parked)
				require.Equal(rt, data, again)
			}
			require.NoError(rt, parked.SetConfig(mixed(), rec.UnixNano()))
			stopped.Advance(rec.UnixNano(), Start)
			require.Equal(rt, mixed().Indicators[0].ID, parked.LastChange().Resumed[0].ID)
			require.Len(rt, parked.LastChange().Resumed, len(mixed().Indicators))
		}
		count()

		a, b := parked.Sums(everything(rec)), stopped.Sums(everything(rec))
		require.Len(rt, a.Groups, len(b.Groups))
		for i, g := range a.Groups {
			want := b.Groups[i]
			require.Equal(rt, want.Values, g.Values)
			require.Equal(rt, want.Spans, g.Spans, "%s %s", g.Indicator.ID, g.Values)
			require.Equal(rt, want.Excess, g.Excess, "%s %s", g.Indicator.ID, g.Values)
			for k := 0; k < 4 && g.Indicator.Slice == nil; k++ { // the windows of asked up to slo.ReceivedWindow
				wantBins, wantExcess := want.Received(k, 2)
				bins, excess := g.Received(k, 2)
				require.Equal(rt, wantBins, bins)
				require.Equal(rt, wantExcess, excess)
			}
			require.Equal(rt, want.Loss, g.Loss)
			require.Equal(rt, want.LastEvent, g.LastEvent)
			require.EqualValues(rt, 1, g.Generation)
		}
		var requests []ReadRequest
		for _, ind := range parked.inds {
			r := ReadRequest{ID: ind.spec.ID, Spans: []slo.Span{last(rec, 100*day), last(rec, 10*day), last(rec, time.Hour)}}
			for _, g := range ind.sorted {
				r.Groups = append(r.Groups, g.values)
			}
			requests = append(requests, r)
		}
		require.Equal(rt, stopped.Read(requests), parked.Read(requests))
	})
}

// TestAloneCountsAlike: a fold that knows one indicator only, and is given the same records, counts for it what a fold
// with others counts for it, byte for byte: buckets, hours, slices, groups and what was observed. So a definition can
// be counted from the log without the others.
func TestAloneCountsAlike(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		among := mixed()
		long := availability()
		long.ID, long.Retention = "shop/long", 100*day
		among.Indicators = append(among.Indicators, long, orders("product"))
		ind := rapid.SampledFrom(among.Indicators).Draw(rt, "alone")
		alone := config(ind)
		if rapid.Bool().Draw(rt, "types") {
			types := []string{"order", "created", "shipped"}
			among.Services[0].Types, alone.Services[0].Types = types, types
		}
		folds := []*Fold{newFold(t, among, t0), newFold(t, alone, t0)}
		rec := t0
		both := func(do func(f *Fold) error) {
			var errs [2]error
			for i, f := range folds {
				errs[i] = do(f)
			}
			require.Equal(rt, errs[0], errs[1])
		}
		for range rapid.IntRange(1, 10).Draw(rt, "rounds") {
			whole := rapid.Bool().Draw(rt, "whole")
			both(func(f *Fold) error { f.Covers(nil, whole); return nil })
			for range rapid.IntRange(0, 6).Draw(rt, "events") {
				e, mode := drawEvent(rt, rec), rapid.SampledFrom([]Mode{Live, Live, Backfill, Replay}).Draw(rt, "mode")
				e.Type = rapid.SampledFrom([]string{"order", "order", "refund", "created", "shipped"}).Draw(rt, "type")
				e.Set("order_id", rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "order"))
				both(func(f *Fold) error { return tryApply(f, rec, mode, e) })
			}
			if rapid.Bool().Draw(rt, "dropped") {
				x := drawDrop(rt, rec)
				both(func(f *Fold) error { x.apply(f); return nil })
			}
			switch rapid.IntRange(0, 9).Draw(rt, "special") {
			case 0:
				both(func(f *Fold) error { f.Forget(nil, []string{"shop"}); return nil })
			case 1:
				both(func(f *Fold) error { f.Gap(); return nil })
			case 2: // the config of another start
				at := rec.UnixNano()
				require.NoError(rt, folds[0].SetConfig(among, at))
				require.NoError(rt, folds[1].SetConfig(alone, at))
			case 3: // only the rebuild stops and goes on
				data, _ := encode(folds[1])
				folds[1] = restored(rt, data)
			}
			next := rec.Add(time.Duration(rapid.OneOf(rapid.IntRange(0, 600), rapid.IntRange(0, 4*3600),
				rapid.IntRange(0, 2*86400), rapid.IntRange(0, 60*86400)).Draw(rt, "pass")) * time.Second)
			mark := rapid.SampledFrom([]Mark{Tick, Start, Stop}).Draw(rt, "mark")
			if next.Sub(rec) < 5*time.Hour {
				both(func(f *Fold) error { tick(f, rec, next); return nil })
			} else {
				both(func(f *Fold) error { f.Advance(next.UnixNano(), mark); return nil })
			}
			rec = next
		}
		// The longest retention of all says how far back it is known what was observed.
		known := max(folds[0].known, folds[1].known)
		var got [2][]byte
		for i, f := range folds {
			f.up.forget(known)
			for _, e := range eras(f.inds) {
				e.forget(known)
			}
			at := slices.IndexFunc(f.inds, func(x *indicator) bool { return x.spec.ID == ind.ID })
			f.plans.clear()
			require.NoError(rt, f.park(f.inds[at]))
			got[i] = f.parked[0].data
		}
		require.Equal(rt, got[0], got[1], ind.ID)
	})
}

// TestParkedCountsNothing: what happens while a generation is parked is not its
// own, its counters begin at zero when it resumes, and it is not the generation
// that counted in the meantime.
func TestParkedCountsNothing(t *testing.T) {
	a, b := availability(), availability()
	b.Bad = append(slices.Clone(b.Bad), ne("severity", "business"))
	f := newFold(t, config(a), t0)
	apply(t, f, t0, times(shop(t0), 100))
	apply(t, f, t0, failed(times(shop(t0), 7)))
	at := t0.Add(time.Minute)
	tick(f, t0, at)
	require.NoError(t, f.SetConfig(config(b), at.UnixNano()))
	require.Equal(t, []string{b.ID}, f.LastChange().Started)
	require.Equal(t, a.ID, f.LastChange().Parked[0].ID)
	apply(t, f, at, failed(times(shop(at), 5)))
	g := groupOf(t, f.Sums(Request{Now: at, Spans: []slo.Span{last(at.Add(time.Second), day)}}), a.ID)
	require.Equal(t, []uint64{0, 5}, g.Spans[0])
	require.EqualValues(t, 2, g.Generation)

	at = at.Add(time.Minute)
	require.NoError(t, f.SetConfig(config(a), at.UnixNano()))
	apply(t, f, at, times(shop(at), 3))
	g = groupOf(t, f.Sums(Request{Now: at, Spans: []slo.Span{last(at.Add(time.Second), day)}}), a.ID)
	require.Equal(t, []uint64{103, 7}, g.Spans[0])
	require.Equal(t, []uint64{3, 0}, g.Total)
	require.EqualValues(t, 1, g.Generation)
	require.Equal(t, at, g.Since)
	require.Equal(t, []slo.Span{{From: t0, To: t0.Add(time.Minute)}}, g.Backfilled)

	// Both ways again, and a third definition is neither.
	require.NoError(t, f.SetConfig(config(b), at.UnixNano()))
	g = groupOf(t, f.Sums(Request{Now: at, Spans: []slo.Span{last(at.Add(time.Second), day)}}), a.ID)
	require.Equal(t, []uint64{0, 5}, g.Spans[0])
	c := availability()
	c.Valid = []Matcher{eq("type", "order")}
	require.NoError(t, f.SetConfig(config(c), at.UnixNano()))
	g = groupOf(t, f.Sums(Request{Now: at, Spans: []slo.Span{last(at.Add(time.Second), day)}}), a.ID)
	require.Equal(t, []uint64{0, 0}, g.Spans[0])
	require.EqualValues(t, 3, g.Generation)
}

// TestRenameOfParked: a generation resumes under the ID that it was, and a rename
// that is undone loses nothing.
func TestRenameOfParked(t *testing.T) {
	old, renamed := availability(), availability()
	renamed.ID, renamed.Was = "shop/uptime", old.ID
	counted := func(f *Fold, id string) []uint64 {
		now := unix(f.rec).Add(time.Second)
		return groupOf(t, f.Sums(Request{Now: now, Spans: []slo.Span{last(now, day)}}), id).Spans[0]
	}
	set := func(f *Fold, cfg *Config) { require.NoError(t, f.SetConfig(cfg, f.rec+int64(time.Minute))) }
	f := newFold(t, config(old), t0)
	apply(t, f, t0, times(shop(t0), 10))

	set(f, elsewhere())
	set(f, config(renamed))
	require.Equal(t, []uint64{10, 0}, counted(f, renamed.ID), "parked under the ID that it was")
	set(f, config(old))
	require.Equal(t, []uint64{10, 0}, counted(f, old.ID), "the rename is undone")
	require.Empty(t, f.LastChange().Parked)
	set(f, config(renamed))
	set(f, elsewhere())
	data, _ := encode(f)
	f = restored(t, data)
	set(f, config(old))
	require.Equal(t, []uint64{10, 0}, counted(f, old.ID), "undone after it was parked")
}

// TestParkedWithAnotherRetention: a longer window does not promise what a shorter
// one has dropped meanwhile.
func TestParkedWithAnotherRetention(t *testing.T) {
	ind := availability()
	ind.Retention = 3 * day
	f := newFold(t, config(ind), t0)
	apply(t, f, t0, times(shop(t0), 10))
	tick(f, t0, t0.Add(time.Hour))
	require.NoError(t, f.SetConfig(elsewhere(), f.rec))
	now := t0.Add(10 * day)
	ind.Retention = 30 * day
	require.NoError(t, f.SetConfig(config(ind), now.UnixNano()))
	g := groupOf(t, f.Sums(Request{Now: now, Spans: []slo.Span{last(now, 30*day)}}), ind.ID)
	require.Equal(t, []uint64{0, 0}, g.Spans[0])
	require.Empty(t, g.Backfilled)
	read := f.Read([]ReadRequest{{ID: ind.ID, Groups: []slo.Group{{}}, Spans: []slo.Span{last(now, 30*day)}}})[0]
	require.Equal(t, []uint64{10, 0}, read.Groups[0][0], "by the hour it is kept")
	require.Equal(t, slo.Span{From: t0, To: t0.Add(time.Hour)}, read.Observed[0])
}

// TestEvictions: parked generations go when their time is over or the budget is
// used up, the oldest first, and with the last one the ids of the service.
func TestEvictions(t *testing.T) {
	const dedup, plenty = 7 * day, 1 << 30
	short, long := availability(), availability()
	short.Retention = day
	long.ID, long.Retention = "shop/long", 30*day
	f := newFold(t, config(short, long), t0)
	apply(t, f, t0, shop(t0))
	propose := func(budget int64) ([]uint64, []string) { return f.Evictions(budget, dedup) }
	none := func(budget int64) {
		t.Helper()
		numbers, services := propose(budget)
		require.Empty(t, numbers)
		require.Empty(t, services)
	}
	none(0)
	require.NoError(t, f.SetConfig(elsewhere(), t0.UnixNano()))
	none(plenty)
	st := f.Sums(Request{}).Stats
	require.Equal(t, 2, st.Parked)
	list := f.Generations(dedup)
	require.Len(t, list, 3)
	require.Equal(t, st.ParkedBytes, list[1].Bytes+list[2].Bytes)
	require.Equal(t, t0.Add(7*day), list[1].Until, "ids are known for longer than its window")
	require.Equal(t, t0.Add(30*day), list[2].Until)

	// A byte too many, and no room at all.
	numbers, services := propose(st.ParkedBytes - 1)
	require.Equal(t, []uint64{1}, numbers)
	require.Empty(t, services, "one is still held")
	numbers, services = propose(0)
	require.Equal(t, []uint64{1, 2}, numbers)
	require.Equal(t, []string{"shop"}, services)

	f.Advance(t0.Add(7*day).UnixNano(), Tick)
	numbers, services = propose(plenty)
	require.Equal(t, []uint64{1}, numbers)
	require.Empty(t, services)
	f.Forget(numbers, services)
	none(plenty)
	f.Advance(t0.Add(30*day).UnixNano(), Tick)
	numbers, services = propose(plenty)
	require.Equal(t, []uint64{2}, numbers)
	require.Equal(t, []string{"shop"}, services)
	f.Forget(numbers, services)
	none(0)
	held, inUse := f.Holds("shop")
	require.False(t, held || inUse)

	// Back again it starts from zero, as a generation that never was.
	require.NoError(t, f.SetConfig(config(long), t0.Add(31*day).UnixNano()))
	g := groupOf(t, f.Sums(Request{}), long.ID)
	require.EqualValues(t, 2, g.Generation)
	require.Equal(t, []string{long.ID}, f.LastChange().Started)
}

// TestForgetInUse: what is in use starts from zero, and nothing else is touched.
func TestForgetInUse(t *testing.T) {
	a, b := availability("product"), availability()
	a.Expect = [][]string{{"A"}}
	b.ID, b.Service = "bank/availability", "bank"
	f := newFold(t, config(a, b), t0)
	apply(t, f, t0, times(shop(t0, "product", "B"), 10))
	other := shop(t0)
	other.Service = "bank"
	apply(t, f, t0, other)
	f.Advance(t0.Add(time.Minute).UnixNano(), Tick)
	f.Forget(nil, []string{"shop"})
	got := sums(f, a.ID, last(t0.Add(time.Minute), day))
	require.Equal(t, map[string][][]uint64{"A": {{0, 0}}}, got)
	require.Equal(t, []uint64{1, 0}, groupOf(t, f.Sums(Request{}), b.ID).Total)
	g := groupOf(t, f.Sums(Request{}), a.ID, "A")
	require.EqualValues(t, 2, g.Generation)
	require.Equal(t, t0.Add(time.Minute), g.Since)
	held, inUse := f.Holds("shop")
	require.True(t, held && inUse)
	apply(t, f, unix(f.rec), times(shop(t0, "product", "B"), 10))
	require.Equal(t, []uint64{10, 0}, groupOf(t, f.Sums(Request{}), a.ID, "B").Total)
	data, _ := encode(f)
	again, _ := encode(restored(t, data))
	require.Equal(t, data, again)
}

// TestCompareIsWhatHappens: what Compare says of a config from outside is what it does.
func TestCompareIsWhatHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFold(t, elsewhere(), t0)
		for range rapid.IntRange(1, 12).Draw(rt, "configs") {
			var inds []Indicator
			for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"shop/a", "shop/b", "shop/c"}), 0, 3,
				rapid.ID[string]).Draw(rt, "ids") {
				ind := availability()
				ind.ID = id
				if rapid.Bool().Draw(rt, "other") {
					ind.Bad = nil
				}
				if was := rapid.SampledFrom([]string{"", "shop/a", "shop/b", "shop/c"}).Draw(rt, "was"); was != id {
					ind.Was = was
				}
				inds = append(inds, ind)
			}
			cfg := config(inds...)
			want, err := Compare(f.Generations(0), cfg)
			require.NoError(rt, err)
			at := f.rec + int64(time.Minute)
			before := len(f.inds) + len(f.parked)
			require.NoError(rt, f.SetConfig(cfg, at))
			require.Equal(rt, before+len(f.change.Started), len(f.inds)+len(f.parked), "nothing is lost")
			got := f.LastChange()
			require.Equal(rt, want.Started, got.Started)
			ids := func(gs []Generation) (out []string) {
				for _, g := range gs {
					out = append(out, g.ID+" "+g.Definition)
				}
				return out
			}
			require.Equal(rt, ids(want.Resumed), ids(got.Resumed))
			require.Equal(rt, ids(want.Parked), ids(got.Parked))
		}
	})
	_, err := Compare(nil, &Config{})
	require.Error(t, err)
}
