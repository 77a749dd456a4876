package fold

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

// folded is an event as the oracle remembers it.
type folded struct {
	recv   time.Time
	record int
	mode   Mode
	e      *event.Event
}

func (x *folded) backfill() bool { return x.mode == Backfill }

// old reports whether it is no new traffic.
func (x *folded) old() bool {
	return x.mode == Backfill || x.mode == Replay && x.recv.Sub(x.e.Time) > time.Minute
}

// weight is what the event's count is multiplied by.
func (x *folded) weight() uint64 { return uint64(max(1, x.e.Weight)) }

// oracle counts by going through all events each time.
type oracle struct {
	began  time.Time
	rec    time.Time
	events []folded
	drops  []drop

	covered []covered // what each record said of its backfill
}

// edge is the documented rounding of a window's edge.
func (o *oracle) edge(t time.Time) time.Time {
	up := func(t time.Time, d time.Duration) time.Time {
		if r := t.Truncate(d); !r.Equal(t) {
			return r.Add(d)
		}
		return t
	}
	fineStart := o.rec.Add(-61 * time.Minute).Truncate(10 * time.Minute)
	middleStart := o.rec.Add(-3*day - time.Minute).Truncate(time.Hour)
	switch {
	case t.After(fineStart):
		return up(t, 10*time.Second)
	case t.After(middleStart):
		return up(t, time.Minute)
	}
	return up(t, 5*time.Minute)
}

// oldest is the start of what a retention keeps, which the fold cuts in pieces of 4h.
func oldest(rec time.Time, keep time.Duration) time.Time {
	return rec.Add(-keep - time.Minute).Truncate(4 * time.Hour)
}

func (o *oracle) sum(ind *Indicator, group slo.Group, sp slo.Span) []uint64 {
	keep := keepOf(ind)
	return o.sumBy(ind, group, sp, func(x *folded) (time.Time, bool) {
		return x.e.Time, !x.e.Time.Before(oldest(x.recv, keep))
	})
}

// received is what alert conditions count: without what is no new traffic, and by receive time what is more than a
// minute off its time, unless that is later than a bound.
func (o *oracle) received(ind *Indicator, group slo.Group, sp slo.Span, bound time.Duration) []uint64 {
	return o.sumBy(ind, group, sp, func(x *folded) (time.Time, bool) {
		bucket := x.e.Time.Truncate(10 * time.Second)
		late := x.recv.Sub(bucket.Add(10 * time.Second))
		if late <= time.Minute && bucket.Sub(x.recv) <= time.Minute {
			return x.e.Time, !x.old()
		}
		return x.recv, !x.old() && late <= bound
	})
}

// sumBy counts the events at the times that at gives, without those that it refuses.
func (o *oracle) sumBy(ind *Indicator, group slo.Group, sp slo.Span, at func(x *folded) (time.Time, bool)) []uint64 {
	out := make([]uint64, len(ind.Edges)+1)
	if ind.Kind == Events || ind.Kind == Ratio {
		out = make([]uint64, 2)
	}
	keep := keepOf(ind)
	from, to := o.edge(sp.From), o.edge(sp.To)
	if old := oldest(o.rec, keep); from.Before(old) {
		from = old
	}
	for i := range o.events {
		x := &o.events[i]
		if t, ok := at(x); !ok || t.Before(from) || !t.Before(to) || !inGroup(ind, group, x.e) {
			continue
		}
		n := uint64(max(1, x.e.Count)) * x.weight()
		if ind.Kind == Ratio {
			if x.e.Attr("channel") == "web" {
				out[RatioNumerator] += n
			}
			if x.e.Outcome == event.Success {
				out[RatioDenominator] += n
			}
		} else if ind.Kind == Events {
			if x.e.Outcome == event.Failure {
				out[1] += n
			} else {
				out[0] += n
			}
		} else if x.e.HasDuration {
			out[binOf(edgesOf(ind), int64(x.e.Duration))] += n
		} else {
			for _, d := range x.e.Durations {
				out[binOf(edgesOf(ind), int64(d.Duration))] += uint64(d.Count) * x.weight()
			}
		}
	}
	return out
}

func edgesOf(ind *Indicator) (out []int64) {
	for _, e := range ind.Edges {
		out = append(out, int64(e))
	}
	return out
}

func inGroup(ind *Indicator, group slo.Group, e *event.Event) bool {
	for i, name := range ind.GroupBy {
		if group[i] != e.Attr(name) {
			return false
		}
	}
	return true
}

// mixed are indicators of all kinds that need stores of several retentions.
func mixed() *Config {
	a := availability("product")
	a.Retention = 5 * day
	short := availability()
	short.ID, short.Retention = "shop/short", time.Hour
	short.Valid = []Matcher{eq("type", "order")}
	l := Indicator{ID: "shop/latency", Service: "shop", Kind: Latency,
		Edges: []time.Duration{100 * time.Millisecond, time.Second}, GroupBy: []string{"product", "channel"},
		Retention: 5 * day}
	th := Indicator{ID: "shop/throughput", Service: "shop", Kind: Events, GroupBy: []string{"product"}, Retention: 4 * day,
		Slice:  &Slice{Per: 7 * time.Minute, AtLeast: 3, During: "Mon-Fri 09:00-18:00 Europe/Moscow"},
		Expect: [][]string{{"A"}}}
	ts := Indicator{
		ID: "shop/slices", Service: "shop", Kind: Latency, Edges: []time.Duration{time.Second}, Retention: 4 * day,
		Slice: &Slice{Per: time.Minute, Target: 0.5}}
	ra := Indicator{ID: "shop/ratio", Service: "shop", Kind: Ratio, GroupBy: []string{"product"}, Retention: 4 * day,
		Numerator: []Matcher{eq("channel", "web")}, Valid: []Matcher{eq("outcome", "success")}}
	return config(a, short, l, th, ts, ra)
}

func drawEvent(t *rapid.T, rec time.Time) *event.Event {
	age := rapid.OneOf(
		rapid.Int64Range(-300, 60), rapid.Int64Range(0, 2*3600), rapid.Int64Range(0, 86400), rapid.Int64Range(0, 6*86400),
	).Draw(t, "age")
	e := shop(
		rec.Add(-time.Duration(age)*time.Second-time.Duration(rapid.IntRange(0, 999).Draw(t, "ms"))*time.Millisecond),
		"product", rapid.SampledFrom([]string{"A", "B", ""}).Draw(t, "product"),
		"noise", rapid.SampledFrom([]string{"x", "y"}).Draw(t, "noise"))
	if rapid.Bool().Draw(t, "channel") {
		e.Set("channel", "web")
	}
	if rapid.IntRange(0, 3).Draw(t, "failed") == 0 {
		e = failed(e)
	}
	switch rapid.IntRange(0, 3).Draw(t, "duration") {
	case 0:
		e.Durations = []event.DurationCount{{Duration: 50 * time.Millisecond, Count: 2},
			{Duration: 2 * time.Second, Count: 5}}
		e.Count = 7
	case 1:
	default:
		e = took(e, time.Duration(rapid.SampledFrom([]int{0, 100, 101, 1000, 1001}).Draw(t, "took"))*time.Millisecond)
		e.Count = rapid.SampledFrom([]uint32{1, 1, 1, 3, 40_000, 4_000_000_000}).Draw(t, "count")
	}
	e.Weight = rapid.SampledFrom([]uint32{0, 1, 1, 2, 10, 200}).Draw(t, "weight")
	return e
}

var asked = []time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour, day, 3 * day, 5 * day}

// check compares every sum that the fold gives with the oracle's.
func (o *oracle) check(t require.TestingT, f *Fold, now time.Time, odd slo.Span) {
	recent := slo.Span{From: now.Add(-40 * time.Minute), To: now.Add(-10 * time.Minute)}
	req := Request{
		Now: now, Extra: map[string][]slo.Span{"shop/latency": {odd, recent}, "shop/throughput": {odd, last(now, day)}}}
	for _, d := range asked {
		req.Spans = append(req.Spans, last(now, d))
	}
	req.Spans = append(req.Spans, odd)
	s := f.Sums(req)
	events, old := uint64(0), uint64(0)
	for _, g := range s.Groups {
		o.checkExtra(t, s, &g, req)
		spans := slices.Concat(req.Spans, req.Extra[g.Indicator.ID])
		require.Len(t, g.Spans, len(spans))
		for i, sp := range spans {
			want := []uint64(nil)
			if g.Indicator.Slice != nil {
				want = o.sliceSum(g, s.Up, sp)
			} else {
				want = o.sum(g.Indicator, g.Values, sp)
			}
			require.Equal(t, want, g.Spans[i], "%s %q %v", g.Indicator.ID, g.Values, sp)
			if g.Indicator.Slice != nil || sp.From.Before(now.Add(-slo.ReceivedWindow)) {
				continue
			}
			for k, bound := range slo.Lateness {
				want := o.received(g.Indicator, g.Values, sp, bound)
				bins, _ := g.Received(i, k)
				require.Equal(t, want, bins, "%s %q %v within %s", g.Indicator.ID, g.Values, sp, bound)
				all, later := o.received(g.Indicator, g.Values, sp, math.MaxInt64), g.Later(i, k)
				for bin := range all {
					require.Equal(t, all[bin]-want[bin], later[bin])
				}
			}
		}
		cut := o.rec.Add(-5 * day) // what is older may be forgotten
		require.Equal(t, after(o.backfilled(&g), cut), after(g.Backfilled, cut))
		if g.Indicator.ID == "shop/availability" {
			events += g.Total[0] + g.Total[1]
			for _, n := range g.Old {
				old += n
			}
		}
	}
	total, backfilled, traffic := uint64(0), uint64(0), uint64(0)
	for _, x := range o.events {
		if n := uint64(max(1, x.e.Count)) * x.weight(); x.old() {
			backfilled += n
		} else {
			total += n
		}
	}
	require.Equal(t, total, events, "the groups' totals are all new traffic")
	require.Equal(t, backfilled, old, "and beside it all else")
	for _, x := range s.Traffic {
		traffic += x.Count
	}
	require.Equal(t, total, traffic)
	require.Equal(t, len(o.events), int(s.Stats.Events))
	reasons, replayed := map[string]uint64{}, 0
	for _, x := range o.drops {
		if x.n > 0 {
			reasons[x.reason] += x.n
		}
	}
	for _, x := range o.events {
		if x.mode == Replay {
			replayed++
		}
	}
	require.Equal(t, reasons, s.Stats.Dropped)
	require.EqualValues(t, replayed, s.Stats.Replayed)
}

func TestSumsEqualOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := &oracle{began: t0, rec: t0}
		f := newFold(t, mixed(), t0)
		for round := range rapid.IntRange(1, 12).Draw(rt, "rounds") {
			c := covered{whole: rapid.Bool().Draw(rt, "whole")}
			for range rapid.IntRange(0, 2).Draw(rt, "covers") {
				from := o.rec.Add(-time.Duration(rapid.IntRange(0, 5*86400).Draw(rt, "from")) * time.Second)
				c.spans = append(c.spans, slo.Span{
					From: from, To: from.Add(time.Duration(rapid.IntRange(0, 86400).Draw(rt, "covered")) * time.Second)})
			}
			f.Covers(c.spans, c.whole)
			o.covered = append(o.covered, c)
			for range rapid.IntRange(0, 6).Draw(rt, "events") {
				x := folded{o.rec, round, rapid.SampledFrom([]Mode{Live, Live, Live, Backfill, Replay}).Draw(rt, "mode"),
					drawEvent(rt, o.rec)}
				require.NoError(rt, tryApply(f, x.recv, x.mode, x.e))
				o.events = append(o.events, x)
			}
			for range rapid.IntRange(0, 3).Draw(rt, "drops") {
				x := drawDrop(rt, o.rec)
				x.apply(f)
				o.drops = append(o.drops, x)
			}
			pass := time.Duration(rapid.OneOf(rapid.IntRange(0, 120), rapid.IntRange(0, 4*3600),
				rapid.IntRange(0, 2*86400)).Draw(rt, "pass")) * time.Second
			if rapid.IntRange(0, 3).Draw(rt, "gap") > 0 && pass < 5*time.Hour {
				tick(f, o.rec, o.rec.Add(pass))
			} else {
				f.Advance(o.rec.Add(pass).UnixNano(), rapid.SampledFrom([]Mark{Tick, Start, Stop}).Draw(rt, "mark"))
			}
			o.rec = o.rec.Add(pass)
			now := o.rec.Add(time.Duration(rapid.IntRange(0, 9999).Draw(rt, "now")) * time.Millisecond)
			a := now.Add(-time.Duration(rapid.IntRange(0, 6*86400).Draw(rt, "a")) * time.Second)
			o.check(
				rt, f, now, slo.Span{From: a, To: a.Add(time.Duration(rapid.IntRange(0, 86400).Draw(rt, "length")) * time.Second)})
		}
	})
}

// backfilled are the times before since that records covered: their backfilled events, and what each said. What is 5m
// apart or less is joined. Of slices it is what was kept when the record came.
func (o *oracle) backfilled(g *Group) []slo.Span {
	since := g.Since
	var spans []slo.Span
	add := func(x *folded, sp slo.Span) {
		if g.Indicator.Slice != nil {
			_, first := sliceNumbers(g.Indicator)
			kept := time.Unix(0, first(x.recv)*int64(g.Indicator.Slice.Per)).UTC()
			if sp.To.Before(kept.Add(-5 * time.Minute)) {
				return
			}
			if sp.To.Before(kept) {
				sp.To = kept
			}
			if sp.From.Before(kept) {
				sp.From = kept
			}
		}
		spans = append(spans, sp)
	}
	whole := map[int]slo.Span{}
	for i := range o.events {
		x := &o.events[i]
		if !x.backfill() {
			continue
		}
		c := o.covered[x.record]
		for _, sp := range slices.Concat(c.spans, []slo.Span{{From: x.e.Time, To: x.e.Time}}) {
			add(x, sp)
		}
		if !c.whole {
			continue
		}
		sp, ok := whole[x.record]
		if !ok || x.e.Time.Before(sp.From) {
			sp.From = x.e.Time
		}
		if !ok || x.e.Time.After(sp.To) {
			sp.To = x.e.Time
		}
		whole[x.record] = sp
		add(x, sp)
	}
	spans = slices.DeleteFunc(spans, func(sp slo.Span) bool { return !sp.From.Before(since) })
	slices.SortFunc(spans, func(a, b slo.Span) int { return a.From.Compare(b.From) })
	var out []slo.Span
	for _, sp := range spans {
		if since.Sub(sp.To) <= 5*time.Minute {
			sp.To = since // also what is after it
		}
		if n := len(out) - 1; n >= 0 && sp.From.Sub(out[n].To) <= 5*time.Minute {
			if sp.To.After(out[n].To) {
				out[n].To = sp.To
			}
			continue
		}
		out = append(out, sp)
	}
	return out
}

// after cuts spans off at a time.
func after(spans []slo.Span, t time.Time) (out []slo.Span) {
	for _, sp := range spans {
		if sp.From.Before(t) {
			sp.From = t
		}
		if !sp.To.Before(t) {
			out = append(out, sp)
		}
	}
	return out
}

// sliceNumbers give the first slice that is open at a record time, and the first that is kept.
func sliceNumbers(ind *Indicator) (open, first func(rec time.Time) int64) {
	per := int64(ind.Slice.Per)
	open = func(rec time.Time) int64 { return rec.Add(-2*time.Minute).UnixNano() / per }
	run := (int64(time.Hour) + per - 1) / per
	keep := (int64(keepOf(ind)) + per - 1) / per
	return open, func(rec time.Time) int64 { return (open(rec) - keep) / run * run }
}

// sliceSum judges slice by slice.
func (o *oracle) sliceSum(g Group, up []slo.Span, sp slo.Span) []uint64 {
	per := g.Indicator.Slice.Per
	seen := []slo.Span{}
	for _, u := range up {
		if u = u.Intersect(slo.Span{From: g.Since, To: o.rec}); u.Duration() > 0 {
			seen = append(seen, u)
		}
	}
	seen = slo.MergeSpans(append(seen, g.Backfilled...))
	sched, _ := slo.ParseSchedule(g.Indicator.Slice.During)
	counts := map[int64][2]uint64{}
	exists := time.Time{}
	expected := len(g.Values) == 0 || g.Values[0] == "A"
	open, first := sliceNumbers(g.Indicator)
	for _, x := range o.events {
		n := x.e.Time.UnixNano() / int64(per)
		if !inGroup(g.Indicator, g.Values, x.e) || n < first(x.recv) {
			continue
		}
		c := counts[n]
		bins := []folded{x}
		for _, b := range bins {
			add := func(d time.Duration, k uint64) {
				if g.Indicator.Kind == Latency && d > g.Indicator.Edges[0] ||
					g.Indicator.Kind == Events && b.e.Outcome == event.Failure {
					c[1] += k
				} else {
					c[0] += k
				}
			}
			switch {
			case g.Indicator.Kind == Events || b.e.HasDuration:
				add(b.e.Duration, uint64(max(1, b.e.Count))*b.weight())
			default:
				for _, d := range b.e.Durations {
					add(d.Duration, uint64(d.Count)*b.weight())
				}
			}
		}
		if c != counts[n] && (exists.IsZero() || x.e.Time.Before(exists)) {
			exists = x.e.Time
		}
		counts[n] = c
	}
	out := make([]uint64, SliceBins)
	for n := first(o.rec); n < open(o.rec); n++ {
		s := slo.Span{From: time.Unix(0, n*int64(per)).UTC(), To: time.Unix(0, (n+1)*int64(per)).UTC()}
		if s.From.Before(sp.From) || !s.From.Before(sp.To) {
			continue
		}
		if !expected && (exists.IsZero() || !s.To.After(exists)) {
			continue
		}
		inside := slices.ContainsFunc(seen, func(u slo.Span) bool { return u.Intersect(s) == s })
		if !inside || !sched.Covers(s) {
			continue
		}
		good, valid := counts[n][0], counts[n][0]+counts[n][1]
		ok := false
		if want := g.Indicator.Slice.AtLeast; want > 0 {
			out[SliceAchieved] += min(want, valid)
			out[SliceTarget] += want
			ok = valid >= want
		} else {
			if valid == 0 {
				continue
			}
			ratio := new(big.Int).Mul(new(big.Int).SetUint64(good), big.NewInt(2e9))
			ratio.Div(ratio, new(big.Int).SetUint64(valid))
			out[SliceRatio] += (ratio.Uint64() + 1) / 2
			ok = float64(good) >= g.Indicator.Slice.Target*float64(valid)
		}
		if ok {
			out[SliceGood]++
		} else {
			out[SliceBad]++
		}
	}
	return out
}

// TestOrderAndBatchesDoNotMatter shuffles events that arrive at the same record
// time, and cuts them into records differently.
func TestOrderAndBatchesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rec := t0.Add(9 * time.Hour)
		var events []folded
		for range rapid.IntRange(0, 40).Draw(rt, "events") {
			mode := rapid.SampledFrom([]Mode{Live, Backfill, Replay}).Draw(rt, "mode")
			events = append(events, folded{recv: rec, mode: mode, e: drawEvent(rt, rec)})
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		run := func(plans int) *Sums {
			f, err := New(Options{MaxPlans: plans})
			require.NoError(rt, err)
			f.Advance(t0.UnixNano(), Start)
			require.NoError(rt, f.SetConfig(mixed(), t0.UnixNano()))
			tick(f, t0, rec)
			for _, x := range events {
				if r.IntN(5) == 0 {
					f.Advance(rec.UnixNano(), Tick)
				}
				require.NoError(rt, tryApply(f, rec, x.mode, x.e))
			}
			r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			return plain(f.Sums(everything(rec)))
		}
		want := run(0)
		require.Equal(rt, want, run(0))
		require.Equal(rt, want, run(2), "a cache that overflows changes nothing")
	})
}

func everything(now time.Time) Request {
	r := Request{Now: now}
	for _, d := range asked {
		r.Spans = append(r.Spans, last(now, d))
	}
	return r
}

// plain takes out of sums what may differ between two ways to the same counts.
func plain(s *Sums) *Sums {
	s.Stats.PlanHits, s.Stats.PlanMisses, s.Stats.Bytes, s.Stats.Records = 0, 0, 0, 0
	for i := range s.Groups {
		copied := *s.Groups[i].Indicator
		s.Groups[i].Indicator = &copied
	}
	return s
}

func TestHistoryEqualsSums(t *testing.T) {
	f := newFold(t, mixed(), t0)
	r := rand.New(rand.NewPCG(5, 6))
	now := t0.Add(30 * time.Hour)
	tick(f, t0, now)
	for range 500 {
		e := took(shop(now.Add(-time.Duration(r.IntN(30*3600))*time.Second), "product", "A"),
			time.Duration(r.IntN(2000))*time.Millisecond)
		apply(t, f, now, e)
	}
	hours := hoursOf(now.Add(-day), now)
	for _, id := range []string{"shop/availability", "shop/throughput"} {
		rows := f.Read([]ReadRequest{{ID: id, Groups: []slo.Group{{"A"}}, Spans: hours}})[0].Groups[0]
		require.Len(t, rows, 24)
		for i, bins := range rows {
			require.Equal(t, sums(f, id, hours[i])["A"][0], bins, "%s %s", id, hours[i])
		}
	}
	require.False(t, f.Read([]ReadRequest{{ID: "shop/none", Groups: []slo.Group{nil}, Spans: hours}})[0].Known,
		"unknown indicator")
	require.Nil(t, f.Read([]ReadRequest{{ID: "shop/availability", Groups: []slo.Group{{"Z"}}, Spans: hours}})[0].Groups[0],
		"unknown group")
}

// hoursOf cuts a time into hours; the last one may be shorter.
func hoursOf(from, to time.Time) (out []slo.Span) {
	for at := from; at.Before(to); at = at.Add(time.Hour) {
		out = append(out, slo.Span{From: at, To: at.Add(time.Hour)}.Intersect(slo.Span{From: from, To: to}))
	}
	return out
}
