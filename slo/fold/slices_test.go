package fold

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

func perMinute(atLeast uint64, during string) Indicator {
	return Indicator{ID: "shop/throughput", Service: "shop", Kind: Events, Retention: 5 * day,
		Slice: &Slice{Per: time.Minute, AtLeast: atLeast, During: during}}
}

// judged gives total and sum over the span of the group of the only indicator.
func judged(t *testing.T, f *Fold, sp slo.Span, values ...string) (total, sum []uint64) {
	t.Helper()
	g := groupOf(t, f.Sums(Request{Spans: []slo.Span{sp}}), "shop/throughput", values...)
	return g.Total, g.Spans[0]
}

func TestThroughput(t *testing.T) {
	f := newFold(t, config(perMinute(10, "")), t0)
	tick(f, t0, t0.Add(20*time.Second))
	apply(t, f, t0.Add(20*time.Second), times(shop(t0), 15))
	apply(t, f, t0.Add(20*time.Second), times(shop(t0.Add(59*time.Second)), 1))
	tick(f, t0.Add(20*time.Second), t0.Add(80*time.Second))
	apply(t, f, t0.Add(80*time.Second), times(shop(t0.Add(70*time.Second)), 4))
	hour := slo.Span{From: t0, To: t0.Add(time.Hour)}

	tick(f, t0.Add(80*time.Second), t0.Add(179*time.Second))
	total, sum := judged(t, f, hour)
	require.Equal(t, []uint64{0, 0, 0, 0, 0}, total, "nothing has closed")
	require.Equal(t, total, sum)

	tick(f, t0.Add(180*time.Second), t0.Add(300*time.Second))
	total, sum = judged(t, f, hour)
	require.Equal(t, []uint64{1, 2, 14, 30, 0}, total, "a good slice, one with 4 of 10, an empty one")
	require.Equal(t, total, sum)

	// A late event makes a bad slice good: in the sums, not in what was counted.
	apply(t, f, t0.Add(300*time.Second), times(shop(t0.Add(60*time.Second)), 6))
	total, sum = judged(t, f, hour)
	require.Equal(t, []uint64{1, 2, 14, 30, 0}, total)
	require.Equal(t, []uint64{2, 1, 20, 30, 0}, sum)
	_, sum = judged(t, f, slo.Span{From: t0.Add(time.Second), To: t0.Add(121 * time.Second)})
	require.Equal(t, []uint64{1, 1, 10, 20, 0}, sum, "slices that begin in the span")
}

func TestTimeslices(t *testing.T) {
	ind := perMinute(0, "")
	ind.Slice.Target, ind.Bad = 0.95, []Matcher{eq("outcome", "failure")}
	f := newFold(t, config(ind), t0)
	apply(t, f, t0, times(shop(t0), 95))
	apply(t, f, t0, times(failed(shop(t0)), 5)) // exactly on target
	apply(t, f, t0, times(shop(t0.Add(time.Minute)), 2))
	apply(t, f, t0, failed(shop(t0.Add(time.Minute))))
	tick(f, t0, t0.Add(10*time.Minute))
	total, sum := judged(t, f, slo.Span{From: t0, To: t0.Add(time.Hour)})
	require.Equal(t, []uint64{1, 1, 0, 0, 950_000_000 + 666_666_667}, total, "empty slices are left out")
	require.Equal(t, total, sum)
}

// TestSlicesNeedCoverage: unobserved time is neither good nor bad.
func TestSlicesNeedCoverage(t *testing.T) {
	f := newFold(t, config(perMinute(1, "")), t0)
	tick(f, t0, t0.Add(10*time.Minute)) // slices 0 to 9
	f.Advance(t0.Add(20*time.Minute).Add(30*time.Second).UnixNano(), Start)
	tick(f, t0.Add(20*time.Minute).Add(40*time.Second), t0.Add(30*time.Minute)) // slices 21 to 27 have closed
	total, sum := judged(t, f, slo.Span{From: t0.Add(-time.Hour), To: t0.Add(time.Hour)})
	require.Equal(t, []uint64{0, 17, 0, 17, 0}, total)
	require.Equal(t, total, sum)

	// A backfill makes the time before the generation count, but no counter move.
	require.NoError(t, tryApply(f, t0.Add(30*time.Minute), Backfill, shop(t0.Add(-5*time.Minute))))
	total, sum = judged(t, f, slo.Span{From: t0.Add(-time.Hour), To: t0.Add(time.Hour)})
	require.Equal(t, []uint64{0, 17, 0, 17, 0}, total)
	require.Equal(t, []uint64{1, 17 + 4, 1, 17 + 5, 0}, sum)
	f.Advance(t0.Add(30*time.Minute).UnixNano(), Tick)
	require.NoError(t, tryApply(f, t0.Add(30*time.Minute), Backfill, shop(t0.Add(-10*time.Minute))))
	_, sum = judged(t, f, slo.Span{From: t0.Add(-time.Hour), To: t0.Add(time.Hour)})
	require.Equal(t, []uint64{2, 17 + 8, 2, 17 + 10, 0}, sum)
}

// TestGroupsExistFromTheirFirstEvent: before it a group that is not expected has
// no empty slices; an expected one has.
func TestGroupsExistFromTheirFirstEvent(t *testing.T) {
	ind := perMinute(1, "")
	ind.GroupBy, ind.Expect = []string{"product"}, [][]string{{"A"}}
	f := newFold(t, config(ind), t0)
	now := t0.Add(5 * time.Hour)
	tick(f, t0, now)
	apply(t, f, now, shop(now.Add(-10*time.Minute), "product", "B"))
	whole := slo.Span{From: t0, To: now}
	_, sum := judged(t, f, whole, "A")
	require.Equal(t, []uint64{0, 298, 0, 298, 0}, sum)
	_, sum = judged(t, f, whole, "B")
	require.Equal(t, []uint64{1, 7, 1, 8, 0}, sum)

	apply(t, f, now, shop(now.Add(-4*time.Hour), "product", "B")) // it is older than it seemed
	_, sum = judged(t, f, whole, "B")
	require.Equal(t, []uint64{2, 236, 2, 238, 0}, sum)
	tick(f, now, now.Add(2*time.Hour))
	_, sum = judged(t, f, slo.Span{From: t0, To: now.Add(2 * time.Hour)}, "B")
	require.Equal(t, []uint64{2, 236 + 120, 2, 238 + 120, 0}, sum)

	f = newFold(t, config(ind), t0)
	tick(f, t0, now)
	apply(t, f, now, shop(now, "product", "B"))
	tick(f, now, now.Add(4*time.Minute))
	total, sum := judged(t, f, slo.Span{From: t0, To: now.Add(time.Hour)}, "B")
	require.Equal(t, []uint64{1, 1, 1, 2, 0}, total, "the slice of its first event is judged, too")
	require.Equal(t, total, sum)
}

// TestOpenHoursFollowTheZone counts the slices of days with a clock change.
func TestOpenHoursFollowTheZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for _, c := range []struct {
		name   string
		day    time.Time // 00:00 in Berlin
		during string
		slices int
	}{
		{"usual", time.Date(2026, 3, 28, 0, 0, 0, 0, berlin), "Mon-Sun 01:00-05:00 Europe/Berlin", 240},
		{"spring, an hour is missing", time.Date(2026, 3, 29, 0, 0, 0, 0, berlin), "Mon-Sun 01:00-05:00 Europe/Berlin", 180},
		{"autumn, an hour comes twice", time.Date(2026, 10, 25, 0, 0, 0, 0, berlin),
			"Mon-Sun 01:00-05:00 Europe/Berlin", 300},
		{"closed", time.Date(2026, 3, 28, 0, 0, 0, 0, berlin), "Mon-Fri 01:00-05:00 Europe/Berlin", 0},
	} {
		f := newFold(t, config(perMinute(1, c.during)), c.day)
		tick(f, c.day, c.day.Add(8*time.Hour))
		total, sum := judged(t, f, slo.Span{From: c.day, To: c.day.Add(8 * time.Hour)})
		require.EqualValues(t, c.slices, total[SliceBad], c.name)
		require.Equal(t, total, sum, c.name)
	}
}

func TestUptime(t *testing.T) {
	var u uptime
	at := func(s int) int64 { return t0.Add(time.Duration(s) * time.Second).UnixNano() }
	for _, step := range []struct {
		at   int
		mark Mark
		want []int // edges of the spans
	}{
		{0, Start, []int{0, 0}},
		{10, Tick, []int{0, 10}},
		{40, Tick, []int{0, 40}},         // 30s of silence is still up
		{71, Tick, []int{0, 40, 71, 71}}, // 31s is not
		{80, Stop, []int{0, 40, 71, 80}},
		{85, Tick, []int{0, 40, 71, 80, 85, 85}}, // after a stop nothing goes on
		{90, Start, []int{0, 40, 71, 80, 85, 85, 90, 90}},
		{90, Start, []int{0, 40, 71, 80, 85, 85, 90, 90}},
		{95, Tick, []int{0, 40, 71, 80, 85, 85, 90, 95}},
	} {
		u.note(at(step.at), step.mark)
		var got []int
		for _, s := range u.list(always) {
			got = append(got, int(s.From.Sub(t0)/time.Second), int(s.To.Sub(t0)/time.Second))
		}
		require.Equal(t, step.want, got)
	}
	require.True(t, covers(u.spans, at(0), at(40)))
	require.True(t, covers(u.spans, at(72), at(80)))
	require.False(t, covers(u.spans, at(39), at(41)))
	require.False(t, covers(u.spans, at(94), at(96)))
	require.False(t, covers(u.spans, at(50), at(60)))
	u.forget(at(60))
	require.Len(t, u.spans, 3)
}

// TestReusedSliceColumnsAreEmpty gives the columns of a group to another
// indicator's, after their judgements had been added up.
func TestReusedSliceColumnsAreEmpty(t *testing.T) {
	f := newFold(t, config(perMinute(1, "")), t0)
	now := t0.Add(3 * time.Hour)
	tick(f, t0, now)
	whole := slo.Span{From: t0, To: now}
	_, sum := judged(t, f, whole)
	require.Equal(t, []uint64{0, 178, 0, 178, 0}, sum)

	require.NoError(t, f.SetConfig(config(perMinute(2, "")), now.UnixNano()))
	total, sum := judged(t, f, whole)
	require.Equal(t, make([]uint64, SliceBins), sum)
	require.Equal(t, make([]uint64, SliceBins), total)
}
