package fold

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

func TestRefusals(t *testing.T) {
	cfg := config(availability())
	cfg.Services[0].Types = []string{"order"}
	f := newFold(t, cfg, t0)
	other := shop(t0)
	other.Type = "refund"
	stranger := shop(t0)
	stranger.Service = "bank"
	for _, c := range []struct {
		name   string
		e      *event.Event
		reason string
	}{
		{"service", stranger, `unknown service "bank"`},
		{"type", other, `service "shop" has no events of type "refund"`},
		{"type again, from the cache", other, `service "shop" has no events of type "refund"`},
		{"far ahead", shop(t0.Add(25 * time.Hour)), "more than a day ahead"},
		{"before 1970", shop(time.Unix(-5, 0)), "before 1970"},
	} {
		err := tryApply(f, t0, Live, c.e)
		require.ErrorIs(t, err, ErrRefused, c.name)
		require.ErrorContains(t, err, c.reason, c.name)
	}
	s := f.Sums(Request{Now: t0})
	require.EqualValues(t, 5, s.Stats.Refused)
	require.Zero(t, s.Stats.Events)
	require.Empty(t, s.Traffic)

	empty, err := New(Options{})
	require.NoError(t, err)
	require.ErrorIs(t, tryApply(empty, t0, Live, shop(t0)), ErrRefused, "no config yet")
	_, err = New(Options{MaxPlans: -1})
	require.Error(t, err)
}

func TestLateTooOldAndFuture(t *testing.T) {
	f := newFold(t, config(availability()), t0)
	now := t0.Add(30 * time.Second)
	apply(t, f, now, shop(now.Add(-60*time.Second)))                       // not late yet
	apply(t, f, now, shop(now.Add(-61*time.Second)))                       // late
	apply(t, f, now, shop(now.Add(-40*day)))                               // late and too old
	apply(t, f, now, shop(now.Add(5*time.Minute)))                         // ahead of its time
	require.NoError(t, tryApply(f, now, Backfill, shop(now.Add(-20*day)))) // a backfill is never late
	s := f.Sums(Request{Now: now, Spans: []slo.Span{last(now, 30*day), last(now, time.Hour)}})
	g := groupOf(t, s, "shop/availability")
	require.Equal(t, []uint64{4, 0}, g.Total)
	require.Equal(t, []uint64{1, 0}, g.Old)
	require.Equal(t, [][]uint64{{3, 0}, {2, 0}}, g.Spans)
	require.EqualValues(t, 2, s.Stats.Late)
	require.EqualValues(t, 1, s.Stats.TooOld)
	require.Equal(t, now.Add(5*time.Minute), g.LastEvent)
	require.Equal(t, []slo.Span{{From: now.Add(-20 * day), To: now.Add(-20 * day)}}, g.Backfilled)

	tick(f, now, now.Add(6*time.Minute))
	require.Equal(t, []uint64{1, 0}, sums(f, "shop/availability", last(now.Add(6*time.Minute), 2*time.Minute))[""][0])
}

func TestBinsOfLatency(t *testing.T) {
	ind := Indicator{ID: "shop/l", Service: "shop", Kind: Latency, Edges: []time.Duration{time.Second, 2 * time.Second}}
	cfg := config(ind)
	cfg.Services[0].Buckets = []time.Duration{time.Second}
	f := newFold(t, cfg, t0)
	apply(t, f, t0, took(shop(t0), 0))
	apply(t, f, t0, took(shop(t0), time.Second)) // an edge belongs to the bin below
	apply(t, f, t0, took(shop(t0), time.Second+1))
	apply(t, f, t0, times(took(shop(t0), 2*time.Second), 10))
	apply(t, f, t0, took(shop(t0), time.Hour))
	apply(t, f, t0, times(shop(t0.Add(time.Minute)), 7)) // no duration: not valid
	many := times(shop(t0), 5)
	many.Durations = []event.DurationCount{{Duration: time.Second, Count: 2}, {Duration: time.Minute, Count: 3}}
	apply(t, f, t0, many)

	s := f.Sums(Request{Now: t0.Add(2 * time.Minute), Spans: []slo.Span{last(t0.Add(2*time.Minute), time.Hour)}})
	g := groupOf(t, s, "shop/l")
	require.Equal(t, []uint64{4, 11, 4}, g.Total)
	require.Equal(t, []uint64{4, 11, 4}, g.Spans[0])
	require.Equal(t, t0, g.LastEvent, "the event without a duration is not valid")
	require.Equal(t, map[string]uint64{"shop/l": 7}, s.Stats.Unmeasured)
	require.Len(t, s.Durations, 1)
	require.Equal(t, []uint64{4, 15}, s.Durations[0].Counts)
	want := time.Second + time.Second + 1 + 20*time.Second + time.Hour + 2*time.Second + 3*time.Minute
	require.Equal(t, want, s.Durations[0].Sum)
	require.InDelta(t, want.Seconds(), s.Durations[0].SumSeconds, 1e-6)
}

func TestSumOfDurationsPassesItsType(t *testing.T) {
	f := newFold(t, config(availability()), t0)
	for range 3 {
		apply(t, f, t0, times(took(shop(t0), event.MaxDuration), math.MaxUint32))
	}
	for range 400 {
		apply(t, f, t0, took(shop(t0), event.MaxDuration))
	}
	d := f.Sums(Request{}).Durations[0]
	require.Equal(t, time.Duration(math.MaxInt64), d.Sum)
	require.InEpsilon(t, (3*float64(math.MaxUint32)+400)*event.MaxDuration.Seconds(), d.SumSeconds, 1e-12)
}

func TestCountsBeyondTheirCells(t *testing.T) {
	f := newFold(t, config(availability()), t0)
	want := uint64(0)
	for i := range 40 {
		n := uint32(math.MaxUint32 - i*1000)
		apply(t, f, t0, times(shop(t0), n))
		apply(t, f, t0, times(failed(shop(t0)), 65_535))
		want += uint64(n)
	}
	for _, now := range []time.Time{t0.Add(time.Second), t0.Add(2 * time.Hour), t0.Add(4 * day)} {
		tick(f, t0, t0) // the same time again
		f.Advance(now.UnixNano(), Tick)
		data, _ := encode(f)
		for _, g := range []*Fold{f, restored(t, data)} {
			got := sums(g, "shop/availability", last(now, 5*day), slo.Span{From: t0, To: t0.Add(10 * time.Minute)})[""]
			require.Equal(t, [][]uint64{{want, 40 * 65_535}, {want, 40 * 65_535}}, got)
		}
	}
}

func TestGroups(t *testing.T) {
	ind := availability("product", "outcome")
	ind.MaxGroups = 3
	ind.Expect = [][]string{{"Z", "success"}}
	f := newFold(t, config(ind), t0)
	require.Equal(t, []uint64{0, 0}, groupOf(t, f.Sums(Request{}), ind.ID, "Z", "success").Total,
		"exists before its first event")
	apply(t, f, t0, shop(t0, "product", "A"))
	apply(t, f, t0, shop(t0)) // a missing attribute is an empty one
	apply(t, f, t0, shop(t0, "product", "B"))
	apply(t, f, t0, failed(shop(t0, "product", "A"))) // too many groups
	apply(t, f, t0, shop(t0, "product", "A"))
	apply(t, f, t0, shop(t0, "product", "Z"))
	apply(t, f, t0, shop(t0, "product", slo.OtherGroup))

	var got []string
	for _, g := range f.Sums(Request{}).Groups {
		got = append(got, fmt.Sprintf("%q %v", g.Values, g.Total))
	}
	require.Equal(t, []string{
		`["" "success"] [1 0]`, `["A" "success"] [2 0]`, `["Z" "success"] [1 0]`, `["__other__" "__other__"] [2 1]`,
	}, got)

	// With more room a value leaves other at its next event; what it counted stays.
	ind.MaxGroups = 10
	require.NoError(t, f.SetConfig(config(ind), t0.UnixNano()))
	apply(t, f, t0, shop(t0, "product", "B"))
	require.Equal(t, []uint64{2, 1}, groupOf(t, f.Sums(Request{}), ind.ID, slo.OtherGroup, slo.OtherGroup).Total)
	require.Equal(t, []uint64{1, 0}, groupOf(t, f.Sums(Request{}), ind.ID, "B", "success").Total)
}

func TestAValueThatPretendsToBeOtherClosesNothing(t *testing.T) {
	f := newFold(t, config(availability("product")), t0)
	apply(t, f, t0, shop(t0, "product", slo.OtherGroup))
	apply(t, f, t0, shop(t0, "product", "A"))
	require.Equal(t, []uint64{1, 0}, groupOf(t, f.Sums(Request{}), "shop/availability", "A").Total)
}

func TestMatching(t *testing.T) {
	i := func(id string, valid, bad []Matcher) Indicator {
		return Indicator{ID: id, Service: "shop", Kind: Events, Valid: valid, Bad: bad}
	}
	f := newFold(t, config(
		i("all", nil, []Matcher{eq("outcome", "failure"), ne("severity", "business")}),
		i("type", []Matcher{eq("type", "order")}, nil),
		i("missing", []Matcher{eq("channel", "")}, nil),
		i("regexp", []Matcher{{"status", slo.OpRegexp, "5.."}}, nil),
		i("notregexp", []Matcher{{"status", slo.OpNotRegexp, "5.."}}, nil),
		i("elsewhere", []Matcher{eq("service", "bank")}, nil),
		i("field", []Matcher{eq("service", "shop"), eq("severity", "business")}, nil),
	), t0)
	business := failed(shop(t0, "status", "503"))
	business.Severity = "business"
	apply(t, f, t0, business)
	apply(t, f, t0, failed(shop(t0, "channel", "web", "status", "1503")))
	apply(t, f, t0, shop(t0, "zone", "x"))
	got := map[string][]uint64{}
	for _, g := range f.Sums(Request{}).Groups {
		got[g.Indicator.ID] = g.Total
	}
	require.Equal(t, map[string][]uint64{
		"all": {2, 1}, "type": {0, 3}, "missing": {0, 2}, "regexp": {0, 1}, "notregexp": {0, 2},
		"elsewhere": {0, 0}, "field": {0, 1},
	}, got, "an empty bad selector matches everything")
}

func TestTraffic(t *testing.T) {
	cfg := config(availability())
	cfg.Services[0].Dimensions = []string{"error_type"}
	f := newFold(t, cfg, t0)
	apply(t, f, t0, times(failed(shop(t0, "error_type", "MDM", "noise", "1")), 3))
	apply(t, f, t0, failed(shop(t0.Add(time.Second), "error_type", "MDM", "noise", "2")))
	apply(t, f, t0, shop(t0))
	s := f.Sums(Request{})
	require.Equal(t, []Traffic{
		{"shop", "order", "failure", "", []string{"MDM"}, 4, t0.Add(time.Second)},
		{"shop", "order", "success", "", []string{""}, 1, t0},
	}, s.Traffic)

	for i := range 3 * maxTraffic {
		e := shop(t0, "error_type", fmt.Sprint(i))
		e.Type = fmt.Sprint("t", i)
		apply(t, f, t0, took(e, time.Second))
	}
	s = f.Sums(Request{})
	require.Len(t, s.Traffic, maxTraffic+1)
	require.Len(t, s.Durations, maxSeries+1)
	total := uint64(0)
	for _, x := range s.Traffic {
		total += x.Count
	}
	require.EqualValues(t, 5+3*maxTraffic, total)
	require.EqualValues(t, s.Stats.Events+2, total)
}

func TestDurationsByOutcomeAndDimension(t *testing.T) {
	cfg := config(availability())
	cfg.Services[0].Dimensions = []string{"task"}
	cfg.Services[0].Buckets = []time.Duration{time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, time.Minute}
	f := newFold(t, cfg, t0)
	for _, d := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, time.Second, time.Second + 1,
		2 * time.Second, 5 * time.Second, 5*time.Second + 1, time.Minute, time.Minute + 1} {
		apply(t, f, t0, took(shop(t0, "task", "sign"), d))
	}
	apply(t, f, t0, took(failed(shop(t0, "task", "sign")), time.Hour))
	apply(t, f, t0, took(shop(t0, "task", "mail", "noise", "1"), time.Second))
	apply(t, f, t0, shop(t0, "task", "instant"))
	require.NoError(t, tryApply(f, t0, Backfill, took(shop(t0, "task", "past"), time.Second)))
	check := func(ds []Durations) {
		var got []string
		for _, d := range ds {
			got = append(got, fmt.Sprint(d.Type, " ", d.Outcome, " ", d.Dimensions, " ", d.Counts))
		}
		require.Equal(t, []string{
			"order failure [sign] [0 0 0 0 0 1]",
			"order success [mail] [0 1 0 0 0 0]",
			"order success [sign] [2 2 2 1 2 1]", // an event of exactly a bound is within it
		}, got, "without series of events that have no duration, or were backfilled")
	}
	check(f.Sums(Request{}).Durations)
	parts, _ := encode(f)
	check(restored(t, parts).Sums(Request{}).Durations)

	cfg.Indicators[0].Retention = 2 * day
	require.NoError(t, f.SetConfig(cfg, t0.UnixNano()))
	check(f.Sums(Request{}).Durations)
	cfg.Services[0].Dimensions = nil
	require.NoError(t, f.SetConfig(cfg, t0.UnixNano()))
	require.Empty(t, f.Sums(Request{}).Durations, "split in another way")
}

func TestFoldingAllocatesNothing(t *testing.T) {
	f := newFold(t, twenty(), t0)
	for name, at := range map[string]func(*rand.Rand) time.Time{"current": current, "spread": spread} {
		events := encoded(500, at)
		i := 0
		one := func() {
			var v event.View
			_, err := v.Parse(events[i%len(events)])
			if err == nil {
				err = f.Apply(t0.UnixNano(), Live, &v)
			}
			if err != nil {
				t.Fatal(err)
			}
			i++
		}
		for range events {
			one()
		}
		require.Zero(t, testing.AllocsPerRun(1000, one), name)
	}
}

// TestCallersShareNothing changes what was handed in and out.
func TestCallersShareNothing(t *testing.T) {
	cfg := config(availability("product"))
	f := newFold(t, cfg, t0)
	cfg.Indicators[0].GroupBy[0] = "channel"
	apply(t, f, t0, shop(t0, "product", "A"))
	req := Request{
		Now: t0.Add(time.Minute), Spans: []slo.Span{last(t0.Add(time.Minute), time.Hour), last(t0.Add(time.Minute), day)}}
	first := f.Sums(req)
	g := groupOf(t, first, "shop/availability", "A")
	g.Total[0], g.Spans[0][0], g.Values[0] = 99, 99, "B"
	require.Equal(t, []uint64{1, 0}, g.Spans[1])
	g = groupOf(t, f.Sums(req), "shop/availability", "A")
	require.Equal(t, []uint64{1, 0}, g.Total)
	require.Equal(t, []uint64{1, 0}, g.Spans[0])
}

func TestRecordTimeNeverGoesBack(t *testing.T) {
	f := newFold(t, config(availability()), t0)
	f.Advance(t0.Add(-time.Hour).UnixNano(), Tick)
	apply(t, f, t0.Add(-time.Hour), shop(t0))
	require.Equal(t, t0, f.Sums(Request{}).Watermark)
}
