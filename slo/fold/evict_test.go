package fold

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

// named are the totals of an indicator's groups, by value.
func named(f *Fold, id string) map[string][]uint64 {
	out := map[string][]uint64{}
	for _, g := range f.Sums(Request{}).Groups {
		if g.Indicator.ID == id {
			out[g.Values.Key()] = g.Total
		}
	}
	return out
}

// TestSilentGroupsMakeRoom: a tenant without a group gets one once another one has
// been silent for the whole window.
func TestSilentGroupsMakeRoom(t *testing.T) {
	ind := availability("tenant")
	ind.MaxGroups, ind.Expect, ind.Retention = 3, [][]string{{"expected"}}, 3*day
	f := newFold(t, config(ind), t0)
	apply(t, f, t0, shop(t0, "tenant", "a"))
	apply(t, f, t0, shop(t0, "tenant", "b"))
	require.Empty(t, f.Sums(Request{}).Stats.Full, "as many as there may be, and none without")
	for range 100 {
		apply(t, f, t0, failed(shop(t0, "tenant", "new")))
	}
	require.Equal(t, []Full{{ind.ID, 3, 100}}, f.Sums(Request{}).Stats.Full)

	now := t0.Add(70 * time.Hour)
	f.Advance(now.UnixNano(), Tick)
	apply(t, f, now, shop(now, "tenant", "b"))
	apply(t, f, now, failed(shop(now, "tenant", "new")))
	now = t0.Add(80 * time.Hour) // buckets are dropped in pieces of 4h
	f.Advance(now.UnixNano(), Tick)
	s := f.Sums(Request{})
	require.Empty(t, s.Stats.Full)
	require.EqualValues(t, 1, s.Stats.Evicted)
	require.Equal(t, map[string][]uint64{"b": {2, 0}, "expected": {0, 0}, slo.OtherGroup: {0, 101}}, named(f, ind.ID))

	apply(t, f, now, failed(shop(now, "tenant", "new")))
	require.Equal(t, map[string][]uint64{"b": {2, 0}, "expected": {0, 0}, "new": {0, 1}, slo.OtherGroup: {0, 101}},
		named(f, ind.ID), "its earlier counts stay")
	require.Equal(t, []uint64{0, 1}, groupSum(f, ind.ID, "new", last(now.Add(time.Minute), 3*day)))

	// One that returns begins at zero, here in the other group, for the names are taken.
	apply(t, f, now, shop(now, "tenant", "a"))
	require.Equal(t, []uint64{1, 101}, named(f, ind.ID)[slo.OtherGroup])
	require.Len(t, f.Sums(Request{}).Stats.Full, 1)
	now = now.Add(4 * day)
	f.Advance(now.UnixNano(), Tick)
	apply(t, f, now, shop(now, "tenant", "a"))
	require.Equal(t, map[string][]uint64{"a": {1, 0}, "expected": {0, 0}}, named(f, ind.ID), "all were silent, other too")
	require.Empty(t, f.Sums(Request{}).Stats.Full)
}

func groupSum(f *Fold, id, values string, sp slo.Span) []uint64 { return sums(f, id, sp)[values][0] }

// TestGroupsBelowTheLimitStay: silence alone evicts nothing.
func TestGroupsBelowTheLimitStay(t *testing.T) {
	ind := availability("tenant")
	ind.MaxGroups = 2
	f := newFold(t, config(ind), t0)
	apply(t, f, t0, shop(t0, "tenant", "a"))
	f.Advance(t0.Add(100*day).UnixNano(), Tick)
	require.Contains(t, named(f, ind.ID), "a")
	require.Zero(t, f.Sums(Request{}).Stats.Evicted)
}

// TestColumnsOfTheEvictedAreClean: the next group in the columns of an evicted one
// has none of its slices, history, weights or bins.
func TestColumnsOfTheEvictedAreClean(t *testing.T) {
	volume := perMinute(5, "")
	volume.GroupBy, volume.MaxGroups, volume.Retention = []string{"tenant"}, 1, 3*day
	events := availability("tenant")
	events.MaxGroups, events.Retention = 1, 3*day
	slow := Indicator{ID: "shop/latency", Service: "shop", Kind: Latency, Edges: []time.Duration{time.Second},
		GroupBy: []string{"tenant"}, MaxGroups: 1, Retention: 3 * day}
	f := newFold(t, config(events, slow, volume), t0)
	old := took(times(shop(t0.Add(time.Minute), "tenant", "old"), 70_000), time.Hour)
	old.Weight = 3
	apply(t, f, t0.Add(time.Minute), old)
	now := t0.Add(71 * time.Hour)
	tick(f, t0.Add(time.Minute), now)
	whole := slo.Span{From: t0, To: now}
	require.Positive(t, groupSum(f, volume.ID, "old", whole)[SliceBad], "what it was judged is remembered")

	tick(f, now, t0.Add(77*time.Hour))
	now = t0.Add(77 * time.Hour)
	apply(t, f, now, took(shop(now, "tenant", "new"), time.Millisecond))
	tick(f, now, now.Add(10*time.Minute))
	now = now.Add(10 * time.Minute)
	long := slo.Span{From: now.Add(-3 * day), To: now}
	require.Equal(t, []uint64{1, 0}, groupSum(f, events.ID, "new", long))
	require.Equal(t, []uint64{1, 0}, groupSum(f, slow.ID, "new", long))
	require.Equal(t, []uint64{0, 8, 1, 40, 0}, groupSum(f, volume.ID, "new", long), "its slices since its first event")
	for _, id := range []string{events.ID, slow.ID, volume.ID} {
		require.NotContains(t, named(f, id), "old", id)
	}
	require.Nil(t, groupOf(t, f.Sums(everything(now)), events.ID, "new").Excess)
	for _, bins := range f.Read(
		[]ReadRequest{{ID: events.ID, Groups: []slo.Group{{"new"}}, Spans: hoursOf(t0, now.Add(-time.Hour))}})[0].Groups[0] {
		require.Equal(t, []uint64{0, 0}, bins)
	}
	data, _ := encode(f)
	require.Equal(t, plain(f.Sums(everything(now))), plain(restored(t, data).Sums(everything(now))))
}

// TestEvictionEqualsModel holds names, counts and eviction against a few lines that
// say the same, whatever is cached and however often the fold is restored.
func TestEvictionEqualsModel(t *testing.T) {
	const keep = 3 * day
	rapid.Check(t, func(rt *rapid.T) {
		ind := availability("tenant")
		ind.MaxGroups, ind.Retention = rapid.IntRange(1, 4).Draw(rt, "max"), keep
		if rapid.Bool().Draw(rt, "expect") {
			ind.Expect = [][]string{{"t0"}}
		}
		f, err := New(Options{MaxPlans: rapid.IntRange(1, 5).Draw(rt, "plans")})
		require.NoError(rt, err)
		f.Advance(t0.UnixNano(), Start)
		require.NoError(rt, f.SetConfig(config(ind), t0.UnixNano()))
		type known struct {
			n    uint64
			last time.Time
		}
		groups, full, rec := map[string]*known{}, false, t0
		for _, e := range ind.Expect {
			groups[e[0]] = &known{}
		}
		names := func() (n int) {
			for v := range groups {
				if v != slo.OtherGroup {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				data, _ := encode(f)
				f = restored(rt, data)
			case 1, 2:
				before := rec
				rec = rec.Add(time.Duration(rapid.IntRange(0, 50*3600).Draw(rt, "pass")) * time.Second)
				f.Advance(rec.UnixNano(), Tick)
				aged := func(t time.Time) time.Time { return t.Add(-61 * time.Minute).Truncate(10 * time.Minute) }
				if aged(before).Equal(aged(rec)) || !full && names() < ind.MaxGroups {
					continue
				}
				maps.DeleteFunc(groups, func(v string, k *known) bool {
					return k.last.Before(oldest(rec, keep)) && !(v == "t0" && ind.Expect != nil)
				})
				full = full && groups[slo.OtherGroup] != nil && names() >= ind.MaxGroups
			default:
				v := fmt.Sprintf("t%d", rapid.IntRange(0, 6).Draw(rt, "tenant"))
				at := rec.Add(-time.Duration(rapid.IntRange(0, 80*3600).Draw(rt, "age")) * time.Second)
				require.NoError(rt, tryApply(f, rec, Live, shop(at, "tenant", v)))
				if groups[v] == nil && names() >= ind.MaxGroups {
					v, full = slo.OtherGroup, true
				}
				if groups[v] == nil {
					groups[v] = &known{}
				}
				groups[v].n++
				if at.After(groups[v].last) {
					groups[v].last = at
				}
			}
			got := named(f, ind.ID)
			require.Equal(rt, slices.Sorted(maps.Keys(groups)), slices.Sorted(maps.Keys(got)))
			for v, k := range groups {
				require.Equal(rt, k.n, got[v][0], v)
			}
			require.Equal(rt, full, len(f.Sums(Request{}).Stats.Full) == 1)
		}
	})
}
