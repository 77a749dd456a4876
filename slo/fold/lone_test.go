package fold

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/ingest/event"
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
			case 3: // a record that was counted when it came is lost before the others read it
				for _, f := range []*Fold{folds[0], folds[len(folds)-1]} {
					if f != is {
						f.Gap()
					}
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
		shown := func(f *Fold) (out []upSpan) {
			for _, e := range f.Sums(Request{Now: rec}).Eras {
				for _, s := range e.Observed(f.up.list(f.kept)) {
					if from, to := max(s.From.UnixNano(), f.kept), s.To.UnixNano(); e.Indicator == id && from < to {
						out = append(out, upSpan{from, to})
					}
				}
			}
			return out
		}
		require.Equal(rt, shown(want), shown(is))
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

// TestTakeOverOfAnInterruptedLog: counts of a log that lacks records are not observed where those are missing, although
// the engine was up. A backfill of that time after the takeover makes no difference, as after the counts began.
func TestTakeOverOfAnInterruptedLog(t *testing.T) {
	ind := availability()
	want, is := newFold(t, config(ind), t0), newFold(t, config(availability("product")), t0)
	lone, err := NewLone(config(ind), []string{ind.ID})
	require.NoError(t, err)
	require.NoError(t, lone.Configure(config(ind), t0.UnixNano()))
	lost, found, taken := t0.Add(10*time.Minute), t0.Add(40*time.Minute), t0.Add(50*time.Minute)
	for _, f := range []*Fold{want, lone.Fold} {
		tick(f, t0, lost)
		f.Gap()
		tick(f, found, taken)
	}
	tick(is, t0, taken)
	require.NoError(t, is.SetConfig(config(ind), taken.UnixNano()))
	require.NoError(t, is.TakeOver(lone))
	for _, f := range []*Fold{want, is} {
		tick(f, taken, taken.Add(time.Minute))
		for m := range 30 {
			e := &event.Event{Service: "shop", Type: "order", Time: lost.Add(time.Duration(m) * time.Minute)}
			require.NoError(t, tryApply(f, taken.Add(time.Minute), Backfill, e))
		}
		require.False(t, f.observed(f.inds[0], nil, lost.UnixNano(), lost.Add(time.Minute).UnixNano()))
		require.True(t, f.observed(f.inds[0], nil, found.UnixNano(), taken.Add(time.Minute).UnixNano()))
	}
	require.Equal(t, countsOf(t, want, ind.ID), countsOf(t, is, ind.ID))
	since, ok := is.Since(ind.ID)
	require.True(t, ok)
	require.Equal(t, t0, since)
}

// TestErasAfterATakeover: an era that begins with a takeover is cut as one that was counted from its start on.
func TestErasAfterATakeover(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spans := func(label string, from, to int64) (out []upSpan) {
			for n := rapid.IntRange(0, 3).Draw(rt, label); n > 0; n-- {
				at := rapid.Int64Range(from, to).Draw(rt, "from")
				out = append(out, upSpan{at, rapid.Int64Range(at, to).Draw(rt, "to")})
			}
			return merged(out)
		}
		const start, taken, end = 100, 200, 300
		backfilled := spans("backfilled", 0, start)
		earlier, later := spans("earlier", start-20, taken-1), spans("later", taken+1, end)
		after := slices.Concat([]upSpan{{taken - 1, taken + 1}}, later)
		whole := merged(slices.Concat(earlier, after))
		f := &Fold{up: uptime{spans: merged(append([]upSpan{{10, taken}}, after...))}}
		counted := &era{since: start, spans: backfilled}
		rebuilt := &era{since: taken, began: start, spans: slices.Clone(backfilled), own: until(whole, 0, taken)}
		require.Equal(rt, whole, f.upFrom(rebuilt))
		at := rapid.Int64Range(0, end).Draw(rt, "at")
		to := rapid.Int64Range(0, end).Draw(rt, "lost to")
		for _, cut := range []func(e *era, up []upSpan) *era{
			func(e *era, _ []upSpan) *era { return e.copied() },
			func(e *era, up []upSpan) *era { return e.from(at, up) },
			func(e *era, up []upSpan) *era { return e.without(at, to, up) },
		} {
			x, y := cut(counted, whole), cut(rebuilt, f.upFrom(rebuilt))
			require.Equal(rt, x.observed(whole), y.observed(f.upFrom(y)))
			require.Equal(rt, x.start(), y.start())
		}
	})
}
