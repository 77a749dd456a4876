package fold

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// countsOf is all that was counted for an indicator, as a parked generation has it. The clock, which numbers the calls
// of a fold, is taken to be the same. The fold counts on.
func countsOf(t require.TestingT, f *Fold, id string) []byte {
	data, _ := encode(f)
	c := restored(t, data)
	c.reach, c.clock = f.reach, 1
	c.plans.clear()
	for _, ind := range c.inds {
		if ind.spec.ID == id {
			ind.gen = 1
			require.NoError(t, c.park(ind))
			return c.parked[len(c.parked)-1].data
		}
	}
	require.Fail(t, "no such indicator", id)
	return nil
}

// TestTakeOver: a definition that was counted from old records beside the fold, and took over, has byte for byte what
// it has in a fold that had that definition from the first record on, and counts on like it: buckets, hours, slices,
// groups, what was observed, and work in flight. Neither where the other definition took effect nor where the counts
// took over, nor that they were written and read in between, makes a difference.
func TestTakeOver(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := mixed()
		long := availability()
		long.ID, long.Retention = "shop/long", 100*day
		cfg.Indicators = append(cfg.Indicators, long, orders("product"))
		at := rapid.IntRange(0, len(cfg.Indicators)-1).Draw(rt, "changed")
		id := cfg.Indicators[at].ID
		if rapid.Bool().Draw(rt, "types") {
			cfg.Services[0].Types = []string{"order", "created", "shipped"}
		}
		old := config(slices.Clone(cfg.Indicators)...)
		old.Services = cfg.Services
		if ind := &old.Indicators[at]; rapid.Bool().Draw(rt, "new") {
			old.Indicators = slices.Delete(old.Indicators, at, at+1)
		} else {
			*ind = availability("product")
			ind.ID, ind.Retention = id, 30*day
			ind.Valid = []Matcher{eq("type", "refund")}
		}
		want, is := newFold(t, cfg, t0), newFold(t, old, t0)
		lone, err := NewLone(cfg, []string{id})
		require.NoError(rt, err)
		require.NoError(rt, lone.Configure(old, t0.UnixNano()))
		folds := []*Fold{want, is, lone.Fold}
		rec := t0
		all := func(do func(f *Fold) error) {
			err := do(folds[0])
			for _, f := range folds[1:] {
				require.Equal(rt, err, do(f))
			}
		}
		traffic := func() {
			whole := rapid.Bool().Draw(rt, "whole")
			all(func(f *Fold) error { f.Covers(nil, whole); return nil })
			for range rapid.IntRange(0, 6).Draw(rt, "events") {
				e, mode := drawEvent(rt, rec), rapid.SampledFrom([]Mode{Live, Live, Backfill, Replay}).Draw(rt, "mode")
				e.Type = rapid.SampledFrom([]string{"order", "order", "refund", "created", "shipped"}).Draw(rt, "type")
				e.Set("order_id", rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "order"))
				all(func(f *Fold) error { return tryApply(f, rec, mode, e) })
			}
			if rapid.Bool().Draw(rt, "dropped") {
				x := drawDrop(rt, rec)
				all(func(f *Fold) error { x.apply(f); return nil })
			}
			switch rapid.IntRange(0, 9).Draw(rt, "special") {
			case 0:
				all(func(f *Fold) error { f.Forget(nil, []string{"shop"}); return nil })
			case 1:
				all(func(f *Fold) error { f.Gap(); return nil })
			case 2:
				if n := len(folds); folds[n-1] == lone.Fold {
					lone, err = RestoreLone(lone.Append(nil))
					require.NoError(rt, err)
					folds[n-1] = lone.Fold
				}
			}
			next := rec.Add(time.Duration(rapid.OneOf(rapid.IntRange(0, 600), rapid.IntRange(0, 4*3600),
				rapid.IntRange(0, 2*86400), rapid.IntRange(0, 60*86400)).Draw(rt, "pass")) * time.Second)
			mark := rapid.SampledFrom([]Mark{Tick, Start, Stop}).Draw(rt, "mark")
			if next.Sub(rec) < 5*time.Hour {
				all(func(f *Fold) error { tick(f, rec, next); return nil })
			} else {
				all(func(f *Fold) error { f.Advance(next.UnixNano(), mark); return nil })
			}
			rec = next
		}
		for range rapid.IntRange(0, 6).Draw(rt, "before") {
			traffic()
		}
		require.NoError(rt, is.SetConfig(cfg, rec.UnixNano()))
		require.NoError(rt, want.SetConfig(cfg, rec.UnixNano()))
		require.NoError(rt, lone.Configure(cfg, rec.UnixNano()))
		for range rapid.IntRange(0, 4).Draw(rt, "beside") {
			traffic()
		}
		is.Advance(rec.UnixNano(), Tick)
		want.Advance(rec.UnixNano(), Tick)
		before := is.inds[slices.IndexFunc(is.inds, func(x *indicator) bool { return x.spec.ID == id })].gen
		require.NoError(rt, is.TakeOver(lone))
		folds = folds[:2]
		for range rapid.IntRange(0, 4).Draw(rt, "after") {
			traffic()
		}
		require.Equal(rt, countsOf(rt, want, id), countsOf(rt, is, id), id)
		work := func(f *Fold) (out []any) {
			for _, x := range f.inFlight() {
				x.Bytes = 0
				out = append(out, x)
			}
			return out
		}
		require.Equal(rt, work(want), work(is))
		g := is.inds[slices.IndexFunc(is.inds, func(x *indicator) bool { return x.spec.ID == id })]
		require.Greater(rt, g.gen, before, "exported totals begin at zero")
		data, _ := encode(is)
		again, _ := encode(restored(rt, data))
		require.Equal(rt, data, again)
	})
}
