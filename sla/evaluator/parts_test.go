package evaluator

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

func at(h float64) time.Time { return monday.Add(time.Duration(h * float64(time.Hour))) }

func span(from, to float64) slo.Span { return slo.Span{From: at(from), To: at(to)} }

func TestCoverage(t *testing.T) {
	for _, c := range []struct {
		name              string
		up                []slo.Span
		since, backfilled float64 // hours; backfilled from there to since; -1000 = never
		of                slo.Span
		want              float64
	}{
		{"always up", []slo.Span{span(0, 100)}, 0, -1000, span(50, 100), 1},
		{"down for a tenth", []slo.Span{span(0, 60), span(65, 100)}, 0, -1000, span(50, 100), .9},
		{"began halfway", []slo.Span{span(0, 100)}, 75, -1000, span(50, 100), .5},
		{"began halfway, backfilled", []slo.Span{span(75, 100)}, 75, 0, span(50, 100), 1},
		{"backfilled in part", []slo.Span{span(75, 100)}, 75, 60, span(50, 100), .8},
		{"backfilled, then down", []slo.Span{span(75, 80), span(90, 100)}, 75, 0, span(50, 100), .8},
		{"began now", []slo.Span{span(0, 100)}, 100, -1000, span(50, 100), 0},
		{"never up", nil, 0, -1000, span(50, 100), 0},
		{"nothing asked", nil, 0, -1000, span(100, 100), 1},
		{"last heard of seconds ago", []slo.Span{{From: at(0), To: at(100).Add(-10 * time.Second)}}, 0,
			-1000, span(50, 100), 1},
		{"last heard of a while ago", []slo.Span{span(0, 99)}, 0, -1000, span(50, 100), .98},
		{"overlapping reports of up-time", []slo.Span{span(0, 60), span(40, 75)}, 0, -1000, span(50, 100), .5},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUptime(c.up, at(100))
			g := fold.Group{Since: at(c.since)}
			if c.backfilled > -1000 {
				g.Backfilled = []slo.Span{span(c.backfilled, c.since)}
			}
			require.InDelta(t, c.want, u.coverage(&g, c.of), 1e-12)
		})
	}
}

func TestCoverageOfBackfills(t *testing.T) {
	u := newUptime([]slo.Span{span(80, 90), span(95, 100)}, at(100))
	g := fold.Group{Since: at(80), Backfilled: []slo.Span{span(10, 10), span(20, 55), span(60, 60), span(75, 80)}}
	for _, c := range []struct {
		of   slo.Span
		want float64
	}{
		{span(0, 100), 55. / 100}, {span(50, 100), 25. / 50}, {span(5, 15), 0}, {span(76, 84), 1},
		{span(85, 95), .5}, {span(60, 75), 0},
	} {
		require.InDelta(t, c.want, u.coverage(&g, c.of), 1e-12, "%v", c.of)
	}
	shares, alike := fold.Group{Since: g.Since, Backfilled: g.Backfilled},
		fold.Group{Since: g.Since, Backfilled: slices.Clone(g.Backfilled)}
	require.True(t, sameCoverage(&g, &shares))
	require.False(t, sameCoverage(&g, &alike))
	require.False(t, sameCoverage(&g, &fold.Group{Since: g.Since}))
	require.True(t, sameCoverage(&fold.Group{Since: g.Since}, &fold.Group{Since: g.Since}))
}

func TestCorrectionsTakeOutExactlyTheirTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cs []slo.Correction
		for range rapid.IntRange(0, 6).Draw(t, "corrections") {
			cs = append(cs, slo.Correction{
				Start:    at(float64(rapid.IntRange(0, 300).Draw(t, "start"))),
				Duration: time.Duration(rapid.IntRange(1, 30).Draw(t, "hours")) * time.Hour,
			})
		}
		now := at(float64(rapid.IntRange(100, 350).Draw(t, "now")))
		var spans []slo.Span
		var windows []int
		for i := range rapid.IntRange(1, 6).Draw(t, "windows") {
			spans = append(
				spans, slo.Span{From: now.Add(-time.Duration(rapid.IntRange(1, 300).Draw(t, "length")) * time.Hour), To: now})
			windows = append(windows, i)
		}
		c := correction{exclusion: &exclusion{corrections: cs, reach: 300 * time.Hour}, windows: windows}
		c.update(now, spans)
		for _, w := range windows {
			want := slo.Excluded(cs, spans[w])
			u := c.uses[w]
			var got []slo.Span
			if u.cut >= 0 {
				got = append(got, c.extra[u.cut])
			}
			got = append(got, c.extra[u.first:c.whole]...)
			require.Equal(t, want, slices.Clip(got))
			var taken time.Duration
			for _, s := range want {
				taken += s.Duration()
			}
			require.Equal(t, taken, u.taken)
		}
	})
}

func TestExclusionsAreExpandedAboutOnceADay(t *testing.T) {
	calls := 0
	daily := slo.Correction{Start: at(0), Duration: time.Hour, Between: func(s slo.Span) []slo.Span {
		calls++
		var out []slo.Span
		for d := at(0); d.Before(s.To); d = d.Add(day) {
			if o := (slo.Span{From: d, To: d.Add(time.Hour)}); o.Intersect(s).Duration() > 0 {
				out = append(out, o)
			}
		}
		return out
	}}
	e := exclusion{corrections: []slo.Correction{daily}, reach: 7 * day}
	c := correction{exclusion: &e, windows: []int{0}}
	for now := at(0); now.Before(at(240)); now = now.Add(10 * time.Minute) {
		week := slo.Span{From: now.Add(-7 * day), To: now}
		c.update(now, []slo.Span{week})
		got := append(slices.Clone(c.extra[c.whole:]), c.extra[c.uses[0].first:c.whole]...)
		before := calls
		require.Equal(t, slo.Excluded([]slo.Correction{daily}, week), got)
		calls = before
	}
	require.LessOrEqual(t, calls, 11)
}

// TestCorrectionsAreRoundedOutward: whole five minutes, whatever the window and
// wherever now is.
func TestCorrectionsAreRoundedOutward(t *testing.T) {
	cs := []slo.Correction{
		{Start: at(10).Add(time.Minute), Duration: 4 * time.Minute},
		{Start: at(11).Add(4 * time.Minute), Duration: 2 * time.Minute},
	}
	from, all := at(10).Add(-time.Minute), 5*time.Minute+10*time.Minute
	for _, c := range []struct {
		now  time.Time
		want time.Duration
	}{
		{at(9), 0}, {at(10).Add(30 * time.Second), 30 * time.Second}, {at(10).Add(4 * time.Minute), 4 * time.Minute},
		{at(10.5), 5 * time.Minute}, {at(11).Add(9 * time.Minute), all - time.Minute}, {at(12), all}, {at(200), all},
	} {
		x := correction{exclusion: &exclusion{corrections: cs, reach: 300 * time.Hour}, windows: []int{0}}
		x.update(c.now, []slo.Span{{From: from, To: c.now}})
		require.Equal(t, c.want, x.uses[0].taken, c.now)
	}
}

func TestSlicesThatAreTouchedAreTakenOutWhole(t *testing.T) {
	got := wholeSlices(
		[]slo.Span{{From: at(1).Add(30 * time.Second), To: at(2).Add(time.Nanosecond)}, span(3, 4)}, time.Minute)
	require.True(t, got[0].From.Equal(at(1)))
	require.True(t, got[0].To.Equal(at(2).Add(time.Minute)))
	require.True(t, got[1].From.Equal(at(3)))
	require.True(t, got[1].To.Equal(at(4)))
	before := wholeSlices([]slo.Span{{From: time.Unix(-30, 0), To: time.Unix(-1, 0)}}, time.Minute)
	require.Equal(t, int64(-60), before[0].From.Unix())
	require.Equal(t, int64(0), before[0].To.Unix())
}

func TestClockGuard(t *testing.T) {
	type step struct {
		passed, shown time.Duration // since the step before
		ok            bool
	}
	tick := step{10 * time.Second, 10 * time.Second, true}
	refused := step{10 * time.Second, 10 * time.Second, false}
	repeat := func(s step, n int) (out []step) {
		for range n {
			out = append(out, s)
		}
		return out
	}
	join := func(parts ...[]step) []step { return slices.Concat(parts...) }
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"steady", repeat(tick, 10)},
		{"a source that blocks for two hours", []step{tick, {2 * time.Hour, 2 * time.Hour, true}, tick}},
		{"nudged back a little", []step{tick, {10 * time.Second, 8 * time.Second, true}, tick}},
		{"an hour ahead, and back", []step{tick, {10 * time.Second, time.Hour + 10*time.Second, false}, refused,
			{10 * time.Second, 10*time.Second - time.Hour, true}, tick}},
		{"just below an hour ahead", []step{tick, {10 * time.Second, time.Hour, true}, tick}},
		{"half a minute back is waited out", []step{
			tick, tick, {10 * time.Second, -20 * time.Second, false}, refused, refused, tick, tick,
		}},
		{"a machine that slept is believed after five minutes", join(
			[]step{tick, {10 * time.Second, 5 * time.Hour, false}}, repeat(refused, 29), repeat(tick, 3),
		)},
		{"a clock set right after it was ahead is believed after five minutes", join(
			[]step{tick, {10 * time.Second, -5 * time.Hour, false}}, repeat(refused, 29), repeat(tick, 3),
		)},
		{"a clock that keeps jumping is not", join(
			[]step{tick, {10 * time.Second, 5 * time.Hour, false}}, repeat(refused, 20),
			[]step{{10 * time.Second, 5 * time.Hour, false}}, repeat(refused, 29), repeat(tick, 1),
		)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g clockGuard
			wall, mono := monday, time.Duration(0)
			require.Empty(t, g.check(wall, mono, false))
			for i, s := range c.steps {
				wall, mono = wall.Add(s.shown), mono+s.passed
				why := g.check(wall, mono, false)
				require.Equal(t, s.ok, why == "", "step %d: %s", i, why)
			}
		})
	}
}

// TestComponentIsCoveredAsItsWorstGroup: of the groups that are summed, the one that was observed least decides.
func TestComponentIsCoveredAsItsWorstGroup(t *testing.T) {
	x, in := tick{}, sla.ComponentInput{Observed: -1, Coverage: -1}
	for _, share := range []float64{0.5, 0.25, 0.75} {
		x.observe(&in, usage{}, &fold.Group{Observed: []float64{share}})
	}
	require.Equal(t, []float64{0.25, 0.25}, []float64{in.Observed, in.Coverage})
}
