package inflight

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var t0 = time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC).UnixNano()

const (
	second = int64(time.Second)
	within = 15 * time.Minute
)

func newTable(t testing.TB, most int) *Table {
	t.Helper()
	x, err := New(Options{Within: within, Max: most})
	require.NoError(t, err)
	return x
}

// at is a moment some seconds after t0.
func at(s int64) Moment { return Moment{Version: 1, Record: t0 + s*second} }

func key(n int) []byte { return fmt.Appendf(nil, "order-%d", n) }

// naive keeps work in a map and looks at all of it each time.
type naive struct {
	now       int64
	work      map[string]*naiveWork
	ambiguous bool
}

type naiveWork struct {
	state       state
	start, end  int64
	until       int64 // the minute that must be over
	group       uint32
	stage       uint16
	stageAt     int64
	old, failed bool
}

func (o *naive) deadline(w *naiveWork) int64 { return w.start + int64(within) }

func (o *naive) started(m Moment, k string, at int64, group uint32, stage uint16, old bool) (out Outcome) {
	if w := o.work[k]; w != nil {
		switch w.state {
		case held:
			if w.end+int64(time.Minute) >= at {
				n := &naiveWork{state: open, start: at, group: group}
				return o.finish(m, k, n, w.end, w.failed, w.old || old)
			}
		case closed:
		default:
			if at <= o.deadline(w) {
				return Outcome{}
			}
			if w.state == open {
				out = Outcome{Counted: true, Bad: true, Old: w.old, Group: w.group, At: o.deadline(w)}
			}
		}
	}
	due := max(at, m.Record-int64(time.Minute)) + int64(within) + int64(2*time.Minute)
	if old {
		due = max(at+int64(within), m.Record) + int64(2*time.Minute)
	}
	o.work[k] = &naiveWork{state: open, start: at, until: due / minute, group: group, stage: stage, stageAt: at, old: old}
	return out
}

// place is where work counts that ends at a time.
func (o *naive) place(w *naiveWork, at int64, failed bool) (int64, bool) {
	if d := o.deadline(w); at > d {
		return d, true
	}
	return at, failed
}

// finish ends work, which may have counted already.
func (o *naive) finish(m Moment, k string, w *naiveWork, at int64, failed, old bool) (out Outcome) {
	out = Outcome{Counted: true, Old: old, Group: w.group}
	out.At, out.Bad = o.place(w, at, failed)
	switch w.state {
	case overdue:
		out.Undo, out.UndoBad, out.UndoAt = true, true, o.deadline(w)
	case closed:
		out.Undo = true
		out.UndoAt, out.UndoBad = o.place(w, w.end, w.failed)
	}
	if out.Undo && out.At == out.UndoAt && out.Bad == out.UndoBad {
		out = Outcome{}
	}
	delete(o.work, k)
	if o.ambiguous {
		o.work[k] = &naiveWork{state: closed, start: w.start, end: at, failed: failed, old: old, group: w.group,
			until: (m.Record + int64(time.Hour)) / minute}
	}
	return out
}

func (o *naive) ended(m Moment, k string, at int64, failed, old bool) Outcome {
	w := o.work[k]
	earlier := w != nil && (at < w.end || at == w.end && failed && !w.failed)
	switch {
	case w != nil && w.state == held:
		switch {
		case at-w.end > int64(within):
		case o.ambiguous && earlier && w.end-at <= int64(within):
			w.end, w.failed, w.old = at, failed, w.old || old
			return Outcome{}
		default:
			return Outcome{}
		}
	case w != nil && w.state == closed && (at < w.start-int64(time.Minute) || !earlier):
	case w != nil && at < w.start-int64(time.Minute):
		return Outcome{}
	case w != nil:
		return o.finish(m, k, w, at, failed, old || w.old)
	}
	o.work[k] = &naiveWork{
		state: held, end: at, failed: failed, old: old, until: (m.Record + int64(within) + int64(24*time.Hour)) / minute}
	return Outcome{}
}

func (o *naive) advance(m Moment) (out []Outcome) {
	now := (m.Record - m.Lag) / minute
	if now <= o.now {
		return nil
	}
	o.now = now
	for k, w := range o.work {
		switch {
		case w.until >= now:
		case w.state == open:
			w.state, w.until = overdue, now+24*60
			out = append(out, Outcome{Counted: true, Bad: true, Old: w.old, Group: w.group, At: o.deadline(w)})
		default:
			delete(o.work, k)
		}
	}
	return out
}

// encode gives a snapshot as its parts.
func encode(t *Table) (head []byte, parts map[int][]byte, versions map[int]uint64) {
	parts, versions = map[int][]byte{}, map[int]uint64{}
	for n := range t.Parts() {
		if v, used := t.Part(n); used {
			parts[n], versions[n] = t.AppendPart(nil, n), v
		}
	}
	return t.AppendHead(nil), parts, versions
}

func restored(t testing.TB, x *Table) *Table {
	t.Helper()
	head, parts, versions := encode(x)
	out := newTable(t, x.max)
	for n, data := range parts { // in any order
		require.NoError(t, out.RestorePart(n, versions[n], data))
	}
	rest, err := out.RestoreHead(head)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.NoError(t, out.FinishRestore(1000, 1000))
	return out
}

// TestAgainstNaive lets random events of random keys come in random order, late, twice and after silences and restarts.
// Every outcome is that of the naive table, and a table that is restored now and then gives the same bytes as one that
// never is.
func TestAgainstNaive(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		keys := 1 + rnd.IntN(4000)
		o := &naive{work: map[string]*naiveWork{}, ambiguous: seed%2 == 0}
		options := Options{Within: within, Max: 100_000, Ambiguous: o.ambiguous}
		whole, cut := newTable(t, 100_000), newTable(t, 100_000)
		require.NoError(t, whole.Configure(options))
		require.NoError(t, cut.Configure(options))
		rec := int64(0)
		for step := range 6000 {
			switch rnd.IntN(1000) {
			case 0:
				rec += rnd.Int64N(30 * 3600) // silence
			default:
				rec += rnd.Int64N(8)
			}
			m := at(rec)
			m.Version = uint64(step + 1)
			if rnd.IntN(400) < 20 {
				m.Lag = rnd.Int64N(3600) * second
			}
			compare := func(want []Outcome, got []Outcome) {
				byTime := func(a, b Outcome) int { return int(a.At - b.At + int64(a.Group) - int64(b.Group)) }
				slices.SortFunc(want, byTime)
				slices.SortFunc(got, byTime)
				require.Equal(t, want, got, "seed %d step %d", seed, step)
			}
			want := o.advance(m)
			for _, x := range []*Table{whole, cut} {
				var got []Outcome
				x.Advance(m, func(out Outcome) { got = append(got, out) })
				compare(slices.Clone(want), got)
			}
			k, when := key(rnd.IntN(keys)), m.Record-rnd.Int64N(int64(40*time.Minute))
			if rnd.IntN(3) == 0 {
				when = m.Record - rnd.Int64N(5*second)
			}
			old, failed := rnd.IntN(10) == 0, rnd.IntN(10) == 0
			group, stage := uint32(rnd.IntN(5)), uint16(rnd.IntN(4))
			switch rnd.IntN(5) {
			case 0, 1:
				want := o.started(m, string(k), when, group, stage, old)
				require.Equal(t, want, whole.Start(m, k, when, group, stage, old), "seed %d step %d", seed, step)
				require.Equal(t, want, cut.Start(m, k, when, group, stage, old))
			case 2, 3:
				want := o.ended(m, string(k), when, failed, old)
				require.Equal(t, want, whole.End(m, k, when, failed, old), "seed %d step %d", seed, step)
				require.Equal(t, want, cut.End(m, k, when, failed, old))
			default:
				if w := o.work[string(k)]; w != nil && (w.state == open || w.state == overdue) && when >= w.stageAt {
					w.stage, w.stageAt = stage, when
				}
				whole.Stage(m, k, when, stage)
				cut.Stage(m, k, when, stage)
			}
			if rnd.IntN(300) == 0 {
				cut = restored(t, cut)
				require.NoError(t, cut.Configure(options))
			}
			if step%500 == 0 {
				same(t, o, whole)
				same(t, o, cut)
				h1, p1, v1 := encode(whole)
				h2, p2, v2 := encode(cut)
				require.Equal(t, h1, h2)
				require.Equal(t, v1, v2)
				require.Equal(t, p1, p2)
			}
		}
	}
}

// same compares what is in flight.
func same(t *testing.T, o *naive, x *Table) {
	t.Helper()
	type place struct {
		group uint32
		stage uint16
	}
	want, got := map[place]StageCount{}, map[place]StageCount{}
	keys, waiting, oldest := map[string]Item{}, 0, int64(0)
	for k, w := range o.work {
		p := place{w.group, w.stage}
		c := want[p]
		switch w.state {
		case open:
			c.Open++
		case overdue:
			c.Overdue++
		case held:
			waiting++
			continue
		case closed:
			continue
		}
		want[p] = c
		if oldest == 0 || w.start < oldest {
			oldest = w.start
		}
		keys[k] = Item{Key: k, Group: w.group, Stage: w.stage, Start: w.start, StageFrom: w.stageAt, Deadline: o.deadline(w),
			Overdue: w.state == overdue}
	}
	for g := range uint32(5) {
		has := false
		for _, w := range o.work {
			has = has || w.state != held && w.group == g
		}
		require.Equal(t, has, x.Has(g))
		for s, c := range x.ByStage(g) {
			if c != (StageCount{}) {
				got[place{g, uint16(s)}] = c
			}
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, waiting, x.Stats().Held)
	first, ok := x.Oldest()
	require.Equal(t, len(keys) > 0, ok)
	require.Equal(t, oldest, first)
	all := x.List(1<<20, nil)
	require.True(t, slices.IsSortedFunc(all, func(a, b Item) int { return int(a.Start - b.Start) }))
	require.Len(t, all, len(keys))
	for _, i := range all {
		require.Equal(t, keys[i.Key], i)
	}
	if len(all) > 3 {
		for i, item := range x.List(3, nil) {
			require.Equal(t, all[i].Start, item.Start)
		}
	}
}

// TestOrderMakesNoDifference: whatever the order in which events arrive, and however late, work counts once, and where
// it would have counted had they come at once and in order.
func TestOrderMakesNoDifference(t *testing.T) {
	type happening struct {
		rec, at int64
		k       int
		kind    int // 0 start, 1 end, 2 failure
	}
	type count struct {
		at  int64
		bad bool
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 40 {
		var list []happening
		want := map[int]count{}
		for k := range 500 {
			start := t0 + rnd.Int64N(3600)*second
			deadline := start + int64(within)
			delay := func() int64 { return rnd.Int64N(1 + rnd.Int64N(6*3600)*second) }
			list = append(list, happening{start + delay(), start, k, 0})
			want[k] = count{deadline, true}
			end := start + rnd.Int64N(int64(within)*5/4)
			switch kind := rnd.IntN(3); kind {
			case 0: // stuck
			default:
				list = append(list, happening{end + delay(), end, k, kind})
				if end <= deadline {
					want[k] = count{end, kind == 2}
				}
				if round%2 == 0 {
					continue
				}
				// The other kind of end, within the hour in which ended work is remembered.
				other := max(start, end+(rnd.Int64N(31)-15)*minute)
				list[len(list)-1].rec = end + rnd.Int64N(int64(20*time.Minute))
				list = append(list, happening{other + rnd.Int64N(int64(20*time.Minute)), other, k, 3 - kind})
				if first := min(end, other); first <= deadline {
					want[k] = count{first, end == other || (first == end) == (kind == 2)}
				}
			}
		}
		slices.SortFunc(list, func(a, b happening) int { return int(a.rec - b.rec) })
		x, got := newTable(t, 10_000), map[count]int{}
		require.NoError(t, x.Configure(Options{Within: within, Max: 10_000, Ambiguous: round%2 == 1}))
		note := func(out Outcome) {
			if out.Undo {
				got[count{out.UndoAt, out.UndoBad}]--
			}
			if out.Counted {
				got[count{out.At, out.Bad}]++
			}
		}
		for _, h := range list {
			m := Moment{Version: 1, Record: h.rec}
			x.Advance(m, note)
			if h.kind == 0 {
				note(x.Start(m, key(h.k), h.at, 0, 0, false))
			} else {
				note(x.End(m, key(h.k), h.at, h.kind == 2, false))
			}
		}
		x.Advance(Moment{Version: 1, Record: t0 + 40*3600*second}, note)
		all := map[count]int{}
		for _, c := range want {
			all[c]++
		}
		for c, n := range got {
			if n == 0 {
				delete(got, c)
			}
		}
		for c := range all {
			require.Equal(t, all[c], got[c], "round %d: %v", round, c)
		}
		require.Len(t, got, len(all))
	}
}

// TestDeadline: work is bad in the minute after its deadline and the grace, not before, and later by the lag.
func TestDeadline(t *testing.T) {
	x := newTable(t, 10)
	x.Start(at(0), key(1), t0, 3, 0, false)
	passed := func(m Moment) (n int) {
		x.Advance(m, func(out Outcome) {
			require.Equal(t, Outcome{Counted: true, Bad: true, Group: 3, At: t0 + int64(within)}, out)
			n++
		})
		return n
	}
	require.Zero(t, passed(at(17*60)))
	late := at(20 * 60)
	late.Lag = 2*minute + 1
	require.Zero(t, passed(late))
	require.Equal(t, 1, passed(at(18*60)))
	x.Start(at(18*60), key(2), t0, 0, 0, false)
	require.False(t, x.End(at(18*60), key(2), t0+int64(within), false, false).Bad, "it took exactly as long as it may")
	x.Start(at(18*60), key(2), t0, 0, 0, false)
	require.True(t, x.End(at(18*60), key(2), t0+int64(within)+1, false, false).Bad)
	require.Equal(t, Stats{Ended: 2, Overdue: 1, Expired: 1, Bytes: x.Bytes()}, x.Stats())
	x.Start(at(18*60), key(3), t0, 0, 0, false)
	require.Zero(t, x.Start(at(18*60), key(3), t0+int64(within), 0, 0, false), "a second start, the first could still end")
	require.True(t, x.Start(at(18*60), key(3), t0+int64(within)+1, 0, 0, false).Bad, "new work")
}

// TestDeadlineOfABackfill: the end of work whose deadline is long past comes with the backfill, or never. It counts in
// the minute of the deadline all the same.
func TestDeadlineOfABackfill(t *testing.T) {
	x := newTable(t, 10)
	long, deadline := t0-int64(6*24*time.Hour), t0-int64(6*24*time.Hour)+int64(within)
	x.Start(at(0), key(1), long, 3, 0, true)
	x.Start(at(0), key(2), t0-minute, 3, 0, true) // its deadline is still to come
	var got []Outcome
	passed := func(m Moment) int {
		x.Advance(m, func(out Outcome) { got = append(got, out) })
		return len(got)
	}
	require.Zero(t, passed(at(2*60+59)))
	lag := at(4 * 60)
	lag.Lag = 2 * minute
	require.Zero(t, passed(lag), "the engine was down")
	require.Equal(t, 1, passed(at(3*60)))
	require.Equal(t, Outcome{Counted: true, Bad: true, Old: true, Group: 3, At: deadline}, got[0])
	require.Equal(t, 1, passed(at(16*60+59)))
	require.Equal(t, 2, passed(at(17*60)))
	out := x.End(at(18*60), key(1), long+minute, false, true)
	want := Outcome{Counted: true, Old: true, Group: 3, At: long + minute, Undo: true, UndoBad: true, UndoAt: deadline}
	require.Equal(t, want, out, "an end that comes after all")
}

// TestTwoEnds: of a finish and a failure the earlier one decides, whatever comes first, and the failure of two at once.
func TestTwoEnds(t *testing.T) {
	for _, c := range []struct {
		name           string
		finish, failed int64 // minutes after the start
		bad            bool
		at             int64
	}{
		{"finished, then failed", 5, 9, false, 5},
		{"failed, then finished", 9, 5, true, 5},
		{"at once", 5, 5, true, 5},
		{"finished too late", 16, 9, true, 9},
		{"failed too late", 9, 16, false, 9},
		{"both too late", 17, 16, true, 15},
	} {
		for order := range 6 { // of start, finish and failure
			x := newTable(t, 10)
			require.NoError(t, x.Configure(Options{Within: within, Max: 10, Ambiguous: true}))
			calls := []func() Outcome{
				func() Outcome { return x.Start(at(0), key(1), t0, 0, 0, false) },
				func() Outcome { return x.End(at(0), key(1), t0+c.finish*minute, false, false) },
				func() Outcome { return x.End(at(0), key(1), t0+c.failed*minute, true, false) },
			}
			calls[0], calls[order%3] = calls[order%3], calls[0]
			if order > 2 {
				calls[1], calls[2] = calls[2], calls[1]
			}
			counts := map[Outcome]int{}
			for _, call := range calls {
				out := call()
				if out.Undo {
					counts[Outcome{Bad: out.UndoBad, At: out.UndoAt}]--
				}
				if out.Counted {
					counts[Outcome{Bad: out.Bad, At: out.At}]++
				}
			}
			for out, n := range counts {
				if n == 0 {
					delete(counts, out)
				}
			}
			require.Equal(t, map[Outcome]int{{Bad: c.bad, At: t0 + c.at*minute}: 1}, counts, "%s, order %d", c.name, order)
		}
	}
}

// TestFull: beyond the bound, what is only remembered makes way for new work, the oldest first. Open work never does.
func TestFull(t *testing.T) {
	const most = 5000
	x := newTable(t, most)
	for i := range most / 2 {
		require.Zero(t, x.End(at(int64(i)), key(-i-1), t0, false, false))
	}
	for i := range most {
		require.False(t, x.Start(at(int64(most)), key(i), t0, 0, 0, false).Untracked)
		require.LessOrEqual(t, x.size(), most)
	}
	require.Equal(t, most, x.Stats().Open)
	require.True(t, x.Start(at(most), key(most), t0, 0, 0, false).Untracked)
	require.False(t, x.Start(at(most), key(1), t0, 0, 0, false).Untracked, "it is open")
	x.End(at(most), key(most), t0, false, false)
	s := x.Stats()
	require.Zero(t, s.Held)
	require.EqualValues(t, 1, s.Untracked)
	require.EqualValues(t, 1, s.Unmatched)
	require.EqualValues(t, most/2, s.Displaced)
	require.True(t, x.End(at(most), key(7), t0+second, false, false).Counted)
	require.False(t, x.Start(at(most), key(most), t0, 0, 0, false).Untracked, "there is room again")

	// Of what is remembered the oldest go: the newest held end is still there.
	x = newTable(t, most)
	for i := range most {
		x.End(at(int64(i)), key(i), t0+int64(i)*second, false, false)
	}
	x.Start(at(most), key(-1), t0, 0, 0, false)
	require.InDelta(t, most*15/16, x.Stats().Held, most/16)
	require.True(t, x.Start(at(most), key(most-1), t0+(most-2)*second, 0, 0, false).Counted)
	require.False(t, x.Start(at(most), key(0), t0, 0, 0, false).Counted)
}

// TestMemoryIsReleased: after a peak the memory is released.
func TestMemoryIsReleased(t *testing.T) {
	x := newTable(t, 100_000)
	peak := 0
	for i := range 100_000 {
		x.Start(at(0), key(i), t0, 0, 0, false)
	}
	peak = x.Bytes()
	for i := range 100_000 {
		require.True(t, x.End(at(1), key(i), t0, false, false).Counted)
	}
	x.Advance(at(61), func(Outcome) { t.Fatal("nothing is open") })
	require.Less(t, x.Bytes(), peak/20)
	x.Start(at(62), key(1), t0, 0, 0, false)
	require.Equal(t, 1, x.Stats().Open)
}

// TestLongKeys: what is stored of a key does not grow with it, and keys that begin alike are different.
func TestLongKeys(t *testing.T) {
	x := newTable(t, 10)
	long := slices.Repeat([]byte("x"), 5000)
	x.Start(at(0), long, t0, 0, 0, false)
	x.Start(at(0), append(long, 'y'), t0, 0, 0, false)
	list := restored(t, x).List(10, nil)
	require.Len(t, list, 2)
	require.Equal(t, string(long[:KeyBytes]), list[0].Key)
	require.True(t, list[0].Cut)
	require.True(t, x.End(at(1), long, t0, false, false).Counted)
	require.Equal(t, 1, x.Stats().Open)
}

// TestErase: nobody can read an erased key any more, in a snapshot either, and its work ends as it would have.
func TestErase(t *testing.T) {
	x := newTable(t, 10)
	for n := range 3 {
		x.Start(at(0), key(n), t0, 0, 0, false)
	}
	x.End(at(0), key(3), t0, false, false) // held
	m := at(1)
	for n := 2; n < 5; n++ { // one is open, one held, one unknown
		require.Equal(t, n < 4, x.Readable(Hash(key(n))))
		m.Version++
		x.Erase(m, Hash(key(n)))
		require.False(t, x.Readable(Hash(key(n))))
	}
	version, _ := x.Part(0)
	require.Equal(t, m.Version-1, version, "a checkpoint writes it, and the unknown key changes nothing")
	_, parts, _ := encode(x)
	require.Contains(t, string(parts[0]), "order-1")
	require.NotContains(t, string(parts[0]), "order-2")
	require.NotContains(t, string(parts[0]), "order-3")
	y := restored(t, x)
	list := y.List(10, nil)
	require.Equal(t, []string{"order-0", "order-1", ""}, []string{list[0].Key, list[1].Key, list[2].Key})
	require.True(t, y.End(at(2), key(2), t0+second, false, false).Counted)
	require.True(t, y.Start(at(2), key(3), t0, 0, 0, false).Counted)
	require.Zero(t, y.Stats().Repeated+y.Stats().Unmatched)
}

// TestDamage: bytes that no table has written are an error and never a panic.
func TestDamage(t *testing.T) {
	x := newTable(t, 10_000)
	for i := range 3000 {
		x.Start(at(0), key(i), t0, uint32(i%3), uint16(i%5), false)
	}
	data := x.AppendPart(nil, 0)
	restore := func(data []byte, groups, stages int) error {
		y := newTable(t, 10_000)
		if err := y.RestorePart(0, 1, data); err != nil {
			return err
		}
		return y.FinishRestore(groups, stages)
	}
	require.NoError(t, restore(data, 3, 5))
	require.ErrorIs(t, restore(data, 2, 5), ErrSnapshot)
	require.ErrorIs(t, restore(data, 3, 4), ErrSnapshot)
	require.ErrorIs(t, restore(data[:len(data)-1], 3, 5), ErrSnapshot)
	twice := slices.Clone(data)
	first := twice[pageSize/8:]
	copy(first[recordBytes+len("order-0"):], first[:16])
	require.ErrorIs(t, restore(twice, 3, 5), ErrSnapshot)
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		broken := slices.Clone(data)
		broken[rnd.IntN(len(broken))] ^= 1 << rnd.IntN(8)
		_ = restore(broken[:rnd.IntN(len(broken)+1)], 3, 5)
	}
	_, err := newTable(t, 1).RestoreHead([]byte{1, 2, 0xff})
	require.ErrorIs(t, err, ErrSnapshot)
	require.ErrorIs(t, newTable(t, 1).RestorePart(1<<30, 1, nil), ErrSnapshot)
	_, err = New(Options{Max: 1})
	require.Error(t, err)
	_, err = New(Options{Within: 1, Max: MaxEntries + 1})
	require.Error(t, err)
}
