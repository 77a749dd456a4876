package fold

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

// pastOracle remembers all events, and for each indicator which of them it has
// had no finer counts of at some time, and which it has dropped.
type pastOracle struct {
	rec    time.Time
	events []*event.Event
	hourly map[string]map[int]bool
	gone   map[string]map[int]bool
}

func pastStart(rec time.Time, keep time.Duration) time.Time {
	return rec.Add(-max(keep, historyKeep) - time.Minute).Truncate(day)
}

// flush notes what became too old.
func (o *pastOracle) flush(cfg *Config) {
	for i := range cfg.Indicators {
		ind := &cfg.Indicators[i]
		if o.hourly[ind.ID] == nil {
			o.hourly[ind.ID], o.gone[ind.ID] = map[int]bool{}, map[int]bool{}
		}
		for j, e := range o.events {
			if e.Time.Before(oldest(o.rec, keepOf(ind))) {
				o.hourly[ind.ID][j] = true
			}
			if e.Time.Before(pastStart(o.rec, keepOf(ind))) {
				o.gone[ind.ID][j] = true
			}
		}
	}
}

// sum counts event by event what is kept of a span.
func (o *pastOracle) sum(ind *Indicator, group slo.Group, sp slo.Span) []uint64 {
	x := &oracle{rec: o.rec}
	out := make([]uint64, 2)
	for i, e := range o.events {
		at, from, to := e.Time, x.edge(sp.From), x.edge(sp.To)
		if o.hourly[ind.ID][i] {
			at, from, to = e.Time.Truncate(time.Hour), sp.From, sp.To
		}
		if o.gone[ind.ID][i] || at.Before(from) || !at.Before(to) || !inGroup(ind, group, e) {
			continue
		}
		bin := 0
		if ind.Kind == Events && e.Outcome == event.Failure || ind.Kind == Latency && e.Duration > ind.Edges[0] {
			bin = 1
		}
		out[bin] += uint64(max(1, e.Count)) * uint64(max(1, e.Weight))
	}
	return out
}

// TestHistoryEqualsHours: whatever comes in whatever order, with jumps of time,
// restarts and changes of the retention, Read gives what a naive count of all
// events by the hour gives.
func TestHistoryEqualsHours(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := config(availability("product"),
			Indicator{ID: "shop/latency", Service: "shop", Kind: Latency, Edges: []time.Duration{time.Second},
				Retention: time.Hour},
			Indicator{ID: "shop/third", Service: "shop", Kind: Events, Bad: []Matcher{eq("outcome", "failure")},
				Retention: 100 * day})
		f := newFold(t, cfg, t0)
		o := &pastOracle{rec: t0, hourly: map[string]map[int]bool{}, gone: map[string]map[int]bool{}}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0, 1, 2:
				pass := rapid.OneOf(rapid.IntRange(0, 7200), rapid.IntRange(0, 3*86400),
					rapid.IntRange(0, 40*86400)).Draw(rt, "pass")
				o.rec = o.rec.Add(time.Duration(pass) * time.Second)
				f.Advance(o.rec.UnixNano(), Tick)
			case 3:
				cfg.Indicators[0].Retention = time.Duration(rapid.SampledFrom([]int{1, 3, 7, 30, 95}).Draw(rt, "days")) * day
				require.NoError(rt, f.SetConfig(cfg, o.rec.UnixNano()))
			case 4:
				parts, _ := encode(f)
				f = restored(rt, parts)
				again, _ := encode(f)
				require.Equal(rt, parts, again)
			default:
				for range rapid.IntRange(1, 5).Draw(rt, "events") {
					age := rapid.OneOf(rapid.Int64Range(-3600, 4*3600), rapid.Int64Range(0, 10*86400),
						rapid.Int64Range(0, 110*86400)).Draw(rt, "age")
					e := shop(o.rec.Add(-time.Duration(age)*time.Second), "product",
						rapid.SampledFrom([]string{"A", "B"}).Draw(rt, "product"))
					e = took(e, time.Duration(rapid.IntRange(0, 2).Draw(rt, "took"))*time.Second)
					e.Count = rapid.SampledFrom([]uint32{1, 3, 70_000, 4_000_000_000}).Draw(rt, "count")
					e.Weight = rapid.SampledFrom([]uint32{1, 1, 10}).Draw(rt, "weight")
					if rapid.Bool().Draw(rt, "failed") {
						e = failed(e)
					}
					require.NoError(rt, tryApply(f, o.rec, rapid.SampledFrom([]Mode{Live, Backfill, Replay}).Draw(rt, "mode"), e))
					o.events = append(o.events, e)
				}
			}
			o.flush(cfg)
		}
		spans := []slo.Span{{From: t0.Add(-200 * day), To: o.rec.Add(day)}, last(o.rec, 90*day), last(o.rec, 4*time.Hour)}
		for range 3 {
			from := o.rec.Add(-time.Duration(rapid.IntRange(-3600, 110*86400).Draw(rt, "from")) * time.Second)
			spans = append(spans, slo.Span{
				From: from, To: from.Add(time.Duration(rapid.IntRange(0, 50*86400).Draw(rt, "length")) * time.Second)})
		}
		for d := range 100 {
			end := o.rec.Truncate(day).Add(-time.Duration(d) * day)
			spans = append(spans, slo.Span{From: end.Add(-day), To: end})
		}
		for i := range cfg.Indicators {
			ind := &cfg.Indicators[i]
			groups := []slo.Group{{}}
			if ind.GroupBy != nil {
				groups = []slo.Group{{"A"}, {"B"}}
			}
			got := f.Read([]ReadRequest{{ID: ind.ID, Groups: groups, Spans: spans}})[0]
			require.Equal(rt, pastStart(o.rec, keepOf(ind)), got.Oldest)
			require.Equal(rt, oldest(o.rec, keepOf(ind)), got.Hourly)
			for k, group := range groups {
				for j, sums := range got.Groups[k] {
					require.Equal(rt, o.sum(ind, group, spans[j]), sums, "%s %s %v at %s", ind.ID, group, spans[j], o.rec)
				}
			}
		}
	})
}

// TestNinetyDays runs a hundred days and compares the last ninety with the truth,
// for windows of 30 days and less, for events, latencies and slices.
func TestNinetyDays(t *testing.T) {
	month, short := availability("product"), availability()
	short.ID, short.Retention = "shop/short", 7*day
	slow := Indicator{ID: "shop/slow", Service: "shop", Kind: Latency, Edges: []time.Duration{time.Second},
		Retention: 30 * day}
	through := Indicator{ID: "shop/through", Service: "shop", Kind: Events, Retention: 30 * day,
		Slice: &Slice{Per: 5 * time.Minute, AtLeast: 2}}
	ratio := Indicator{ID: "shop/ratio", Service: "shop", Kind: Events, Bad: month.Bad, Retention: 5 * day,
		Slice: &Slice{Per: 15 * time.Minute, Target: 0.9}}
	f := newFold(t, config(month, short, slow, through, ratio), t0)

	const days = 100
	down := slo.Span{From: t0.Add(20*day + 5*time.Hour), To: t0.Add(20*day + 11*time.Hour)}
	truth := map[string][][]uint64{}
	for _, id := range []string{month.ID, short.ID, slow.ID, through.ID, ratio.ID} {
		truth[id] = make([][]uint64, days)
		for d := range days {
			truth[id][d] = make([]uint64, SliceBins)
		}
	}
	r := rand.New(rand.NewPCG(7, 8))
	end := t0.Add(days * day)
	for at := t0; at.Before(end); at = at.Add(15 * time.Minute) {
		d := int(at.Sub(t0) / day)
		if !at.Before(down.From) && at.Before(down.To) {
			continue
		}
		if at.Equal(down.To) {
			f.Advance(at.UnixNano(), Start)
		}
		good, bad := uint64(1+r.IntN(200_000)), uint64(r.IntN(30_000))
		a := took(times(shop(at, "product", "A"), uint32(good)), time.Second)
		apply(t, f, at, a)
		if bad > 0 {
			apply(t, f, at, took(failed(times(shop(at.Add(time.Second), "product", "A"), uint32(bad))), 2*time.Second))
		}
		tick(f, at, at.Add(15*time.Minute-time.Second))
		for _, id := range []string{month.ID, short.ID, slow.ID} {
			truth[id][d][0] += good
			truth[id][d][1] += bad
		}
		if at.Equal(end.Add(-15*time.Minute)) || at.Add(15*time.Minute).Equal(down.From) {
			continue // not closed, or not observed to its end: see below
		}
		x := truth[through.ID][d]
		x[SliceBad] += 2
		x[SliceTarget] += 6
		x[SliceAchieved] += min(2, good+bad)
		if good+bad >= 2 {
			x[SliceGood]++
		} else {
			x[SliceBad]++
		}
		x = truth[ratio.ID][d]
		x[SliceRatio] += (2*good*1e9/(good+bad) + 1) / 2
		if float64(good) >= 0.9*float64(good+bad) {
			x[SliceGood]++
		} else {
			x[SliceBad]++
		}
	}
	parts, _ := encode(f)
	for name, f := range map[string]*Fold{"as it is": f, "restored": restored(t, parts)} {
		rec := unix(f.rec)
		var spans []slo.Span
		for d := days - 90; d < days; d++ {
			spans = append(spans, slo.Span{From: t0.Add(time.Duration(d) * day), To: t0.Add(time.Duration(d+1) * day)})
		}
		for _, id := range slices.Sorted(maps.Keys(truth)) {
			group := slo.Group{}
			if id == month.ID {
				group = slo.Group{"A"}
			}
			got := f.Read([]ReadRequest{{ID: id, Groups: []slo.Group{group}, Spans: spans}})[0]
			require.False(t, got.Oldest.After(rec.Add(-90*day)), "%s: ninety days are kept", id)
			require.Equal(t, []slo.Span{{From: t0, To: down.From.Add(-time.Second)}, {From: down.To, To: rec}}, got.Observed, id)
			for i, sums := range got.Groups[0] {
				d := days - 90 + i
				want := truth[id][d][:len(sums)]
				if got.Sliced && (d == 20 || d == days-1) {
					continue // some of its slices were not observed, or are not closed
				}
				require.Equal(t, want, sums, "%s %s day %d", name, id, d)
			}
		}
		// The day with the hours of silence: eighteen hours less a slice were observed.
		got := f.Read([]ReadRequest{
			{ID: through.ID, Groups: []slo.Group{{}}, Spans: []slo.Span{{From: t0.Add(20 * day), To: t0.Add(21 * day)}}}})[0]
		require.EqualValues(t, 18*12-1, got.Groups[0][0][SliceGood]+got.Groups[0][0][SliceBad], name)

		// Windows are as long as the retention, and no longer.
		want := []uint64{0, 0}
		for d := days - 30; d < days; d++ {
			want[0] += truth[month.ID][d][0]
			want[1] += truth[month.ID][d][1]
		}
		require.Equal(t, want, sums(f, month.ID, slo.Span{From: t0.Add((days - 30) * day), To: rec})["A"][0], name)
		s := f.Sums(
			Request{Now: rec, Spans: []slo.Span{last(rec, 90*day)}, Extra: map[string][]slo.Span{month.ID: {last(rec, 90*day)}}})
		g := groupOf(t, s, month.ID, "A")
		require.Equal(t, g.Spans[0], g.Spans[1])
		require.Equal(t, sums(f, month.ID, slo.Span{From: oldest(rec, 30*day), To: rec})["A"][0], g.Spans[0])
	}
}

// TestJudgementsOutliveTheirSlices: what Read gives of closed slices does not
// change when their counts are dropped, nor with the retention.
func TestJudgementsOutliveTheirSlices(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		per := rapid.SampledFrom(
			[]time.Duration{time.Minute, 7 * time.Minute, time.Hour, 5 * time.Hour, 2 * day}).Draw(rt, "per")
		ind := Indicator{ID: "shop/slices", Service: "shop", Kind: Events, Bad: []Matcher{eq("outcome", "failure")},
			GroupBy: []string{"product"},
			Slice: &Slice{
				Per: per, During: rapid.SampledFrom([]string{"", "Mon-Fri 09:00-18:00 Europe/Moscow"}).Draw(rt, "during")}}
		if rapid.Bool().Draw(rt, "throughput") {
			ind.Slice.AtLeast, ind.Expect = 5_000_000_000, [][]string{{"A"}}
		} else {
			ind.Slice.Target = 0.5
		}
		began := t0.Add(-time.Duration(rapid.IntRange(0, 100).Draw(rt, "began")) * time.Hour)
		f := newFold(t, config(ind), began)
		rec := began
		for range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			for range rapid.IntRange(0, 6).Draw(rt, "events") {
				e := shop(rec.Add(-time.Duration(rapid.IntRange(0, 3*86400).Draw(rt, "age"))*time.Second), "product",
					rapid.SampledFrom([]string{"A", "B"}).Draw(rt, "product"))
				e.Count = rapid.SampledFrom([]uint32{1, 4_000_000_000}).Draw(rt, "count")
				if rapid.Bool().Draw(rt, "failed") {
					e = failed(e)
				}
				require.NoError(rt, tryApply(f, rec, rapid.SampledFrom([]Mode{Live, Backfill}).Draw(rt, "mode"), e))
			}
			next := rec.Add(time.Duration(rapid.IntRange(0, 6*3600).Draw(rt, "pass")) * time.Second)
			tick(f, rec, next)
			rec = next
		}
		run := time.Duration(runFor(int64(per))) * per
		var spans []slo.Span
		for at := f.slices[0].first * int64(per); at+int64(run) <= f.slices[0].next*int64(per); at += int64(run) {
			spans = append(spans, slo.Span{From: unix(at), To: unix(at).Add(run)})
		}
		request := []ReadRequest{{ID: ind.ID, Groups: []slo.Group{{"A"}, {"B"}}, Spans: spans}}
		want := f.Read(request)[0].Groups
		for range rapid.IntRange(1, 5).Draw(rt, "changes") {
			if rapid.Bool().Draw(rt, "retention") {
				ind.Retention = time.Duration(rapid.SampledFrom([]int{3, 7, 30}).Draw(rt, "days")) * day
				require.NoError(rt, f.SetConfig(config(ind), rec.UnixNano()))
			}
			if rapid.Bool().Draw(rt, "restored") {
				parts, _ := encode(f)
				f = restored(rt, parts)
				again, _ := encode(f)
				require.Equal(rt, parts, again)
			}
			rec = rec.Add(time.Duration(rapid.IntRange(0, 16*86400).Draw(rt, "jump")) * time.Second)
			f.Advance(rec.UnixNano(), Tick)
			require.Equal(rt, want, f.Read(request)[0].Groups)
		}
	})
}

// TestObservedOutlivesARetention: a shorter retention cuts windows, not what
// Read knows to have been observed.
func TestObservedOutlivesARetention(t *testing.T) {
	a, b := availability(), availability()
	b.ID, b.Bad = "shop/later", nil
	f := newFold(t, config(a), t0)
	backfill(t, f, t0, t0.Add(-20*day), t0.Add(-10*day))
	tick(f, t0, t0.Add(2*day))
	require.NoError(t, f.SetConfig(config(a, b), t0.Add(2*day).UnixNano()))
	tick(f, t0.Add(2*day), t0.Add(5*day))
	now := t0.Add(6 * day)
	f.Advance(now.UnixNano(), Start)
	want := []slo.Span{ago(20*day, 10*day), {From: t0, To: t0.Add(5 * day)}}
	observed := func(f *Fold) []slo.Span { return f.Read([]ReadRequest{{ID: a.ID}})[0].Observed }
	later := func(f *Fold) []slo.Span { return f.Read([]ReadRequest{{ID: b.ID}})[0].Observed }
	require.Equal(t, want, observed(f))
	for _, days := range []int{3, 30, 5, 40} {
		a.Retention = time.Duration(days) * day
		b.Retention = a.Retention
		require.NoError(t, f.SetConfig(config(a, b), now.UnixNano()))
		require.Equal(t, []slo.Span{{From: t0.Add(2 * day), To: t0.Add(5 * day)}}, later(f), "%d days", days)
		require.Equal(t, want, observed(f), "%d days", days)
		parts, _ := encode(f)
		f = restored(t, parts)
		require.Equal(t, want, observed(f), "%d days, restored", days)
	}
	require.Equal(t, oldest(now, 3*day), groupOf(t, f.Sums(Request{}), a.ID).Since, "windows do not see it")
	require.Empty(t, backfilled(t, f, a.ID))
	f.Advance(t0.Add(130*day).UnixNano(), Tick)
	require.Empty(t, observed(f), "all of it is forgotten")
}

// TestShorterRetentionsJudge: slices that a shorter retention has no room for
// are judged before their counts go, and go with their indicator.
func TestShorterRetentionsJudge(t *testing.T) {
	ind := perMinute(2, "")
	ind.Retention = 30 * day
	f := newFold(t, config(ind), t0)
	for at := t0; at.Before(t0.Add(day)); at = at.Add(time.Minute) {
		apply(t, f, at, times(shop(at), uint32(1+at.Minute()%2)))
		tick(f, at, at.Add(time.Minute))
	}
	f.Advance(t0.Add(10*day).UnixNano(), Tick)
	want := []uint64{720, 720, 1440 + 720, 2880, 0}
	read := func() []uint64 {
		return f.Read(
			[]ReadRequest{{ID: ind.ID, Groups: []slo.Group{{}}, Spans: []slo.Span{{From: t0, To: t0.Add(day)}}}})[0].Groups[0][0]
	}
	require.Equal(t, want, read())
	for _, days := range []int{3, 30, 7} {
		ind.Retention = time.Duration(days) * day
		require.NoError(t, f.SetConfig(config(ind), unix(f.rec).UnixNano()))
		require.Equal(t, want, read(), "%d days", days)
	}
	ind.Slice.AtLeast = 3
	require.NoError(t, f.SetConfig(config(ind), unix(f.rec).UnixNano()))
	require.Equal(t, make([]uint64, SliceBins), read(), "a new generation has no past")
}

// TestReusedPastColumnsAreEmpty: a new generation in the columns of the old one
// has none of its history.
func TestReusedPastColumnsAreEmpty(t *testing.T) {
	ind := availability()
	ind.Retention = 0
	f := newFold(t, config(ind), t0)
	apply(t, f, t0, shop(t0))
	f.Advance(t0.Add(10*day).UnixNano(), Tick)
	read := func() []uint64 {
		return f.Read(
			[]ReadRequest{{ID: ind.ID, Groups: []slo.Group{{}}, Spans: []slo.Span{{From: t0, To: t0.Add(day)}}}})[0].Groups[0][0]
	}
	require.Equal(t, []uint64{1, 0}, read())
	ind.Bad = nil
	require.NoError(t, f.SetConfig(config(ind), unix(f.rec).UnixNano()))
	require.Equal(t, []uint64{0, 0}, read())
	parts, _ := encode(f)
	for name := range parts {
		require.False(t, strings.HasPrefix(name, "hours-"), name)
	}
}

// TestPastIsWrittenOnce: hours that are dropped from the buckets change the part
// of their day, and no other.
func TestPastIsWrittenOnce(t *testing.T) {
	ind, sliced := availability(), perMinute(1, "")
	ind.Retention, sliced.Retention = 0, 0
	f := newFold(t, config(ind, sliced), t0)
	_, before := encode(f)
	written, days := map[string]int{}, map[string]bool{}
	for at := t0; at.Before(t0.Add(100 * day)); at = at.Add(2 * time.Hour) {
		apply(t, f, at, shop(at))
		tick(f, at, at.Add(10*time.Minute))
		_, after := encode(f)
		changed := map[string]int{}
		for name, v := range after {
			kind, _, _ := strings.Cut(name, "-")
			if kind != "hours" && kind != "judged" {
				continue
			}
			days[name] = true
			if before[name] != v {
				changed[kind]++
				written[name]++
			}
		}
		require.LessOrEqual(t, changed["hours"], 1, at)
		require.LessOrEqual(t, changed["judged"], 2, "two hours, over midnight") // of runs
		before = after
	}
	hourDays := 0
	for name := range days {
		if strings.HasPrefix(name, "hours-") {
			hourDays++
		}
	}
	require.Equal(t, 97, hourDays, "all but the three days that have buckets")
	require.Equal(t, 97, len(days)-hourDays)
	for name, n := range written {
		most := 6 // pieces of four hours
		if strings.HasPrefix(name, "judged") {
			most = 13 // pieces of two hours
		}
		require.LessOrEqual(t, n, most, name)
	}
	kept := 0
	for name := range before {
		if strings.HasPrefix(name, "hours-") {
			kept++
		}
	}
	require.InDelta(t, 90-3, kept, 1, "the oldest days are dropped, the last three have buckets")
}

// TestLateHoursAllocateNothing: an event that is too old for a bucket costs no memory.
func TestLateHoursAllocateNothing(t *testing.T) {
	f := newFold(t, twenty(), t0)
	events := encoded(1, func(*rand.Rand) time.Time { return t0.Add(-60 * day) })
	var v event.View
	_, err := v.Parse(events[0])
	require.NoError(t, err)
	require.NoError(t, f.Apply(t0.UnixNano(), Replay, &v))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if f.Apply(t0.UnixNano(), Replay, &v) != nil {
			t.Fatal("refused")
		}
	}))
	require.NotZero(t, f.Sums(Request{}).Stats.TooOld)
}

// BenchmarkReadCalendar is what a calendar asks: the days of one group.
func BenchmarkReadCalendar(b *testing.B) {
	f := busy(b, 1000, 200)
	rec := unix(f.rec)
	var spans []slo.Span
	for d := range 90 {
		end := rec.Truncate(day).Add(-time.Duration(d) * day)
		spans = append(spans, slo.Span{From: end, To: end.Add(day)})
	}
	for _, n := range []int{1, 500} {
		var groups []slo.Group
		for j := range n {
			groups = append(groups, slo.Group{fmt.Sprintf("group-%03d", j)})
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if !f.Read([]ReadRequest{{ID: "shop/l00", Groups: groups, Spans: spans}})[0].Known {
					b.Fatal("nothing was read")
				}
			}
		})
	}
}
