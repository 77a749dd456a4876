package slo_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func minutes(from, to int) slo.Span {
	return slo.Span{From: epoch.Add(time.Duration(from) * time.Minute), To: epoch.Add(time.Duration(to) * time.Minute)}
}

func TestExcluded(t *testing.T) {
	once := func(from, to int) slo.Correction {
		s := minutes(from, to)
		return slo.Correction{Start: s.From, Duration: s.Duration()}
	}
	hourly := slo.Correction{Start: epoch, Duration: 10 * time.Minute, Between: func(sp slo.Span) []slo.Span {
		var out []slo.Span
		for t := epoch; t.Before(sp.To); t = t.Add(time.Hour) {
			out = append(out, slo.Span{From: t, To: t.Add(10 * time.Minute)})
		}
		return out
	}}
	for _, c := range []struct {
		name  string
		fixes []slo.Correction
		want  []slo.Span
	}{
		{"none", nil, nil},
		{"inside", []slo.Correction{once(10, 20)}, []slo.Span{minutes(10, 20)}},
		{"before", []slo.Correction{once(-20, -10)}, nil},
		{"ends where the span begins", []slo.Correction{once(-20, 0)}, nil},
		{"begins where it ends", []slo.Correction{once(100, 110)}, nil},
		{"over the left edge", []slo.Correction{once(-20, 10)}, []slo.Span{minutes(0, 10)}},
		{"over the right edge", []slo.Correction{once(90, 110)}, []slo.Span{minutes(90, 100)}},
		{"over both", []slo.Correction{once(-10, 110)}, []slo.Span{minutes(0, 100)}},
		{"overlap is taken out once", []slo.Correction{once(10, 30), once(20, 40)}, []slo.Span{minutes(10, 40)}},
		{"one inside another", []slo.Correction{once(10, 40), once(20, 30)}, []slo.Span{minutes(10, 40)}},
		{"touching", []slo.Correction{once(20, 30), once(10, 20)}, []slo.Span{minutes(10, 30)}},
		{"recurring", []slo.Correction{hourly}, []slo.Span{minutes(0, 10), minutes(60, 70)}},
		{"recurring with one-off", []slo.Correction{hourly, once(5, 65)}, []slo.Span{minutes(0, 70)}},
		{"nothing lasts nothing", []slo.Correction{once(10, 10)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, slo.Excluded(c.fixes, minutes(0, 100)))
		})
	}
}

func inside(spans []slo.Span, minute int) (n int) {
	at := minutes(minute, minute).From
	for _, s := range spans {
		if !at.Before(s.From) && at.Before(s.To) {
			n++
		}
	}
	return n
}

var anySpan = rapid.Custom(func(t *rapid.T) slo.Span {
	from := rapid.IntRange(-20, 120).Draw(t, "from")
	return minutes(from, from+rapid.IntRange(0, 40).Draw(t, "length"))
})

// Merged spans hold the same time as before, each part of it once.
func TestMergeSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(anySpan, 0, 8).Draw(t, "spans")
		in := slices.Clone(all)
		out := slo.MergeSpans(slices.Clone(all))
		for m := -20; m <= 160; m++ {
			require.Equal(t, inside(in, m) > 0, inside(out, m) == 1, "minute %d of %v: %v", m, in, out)
			require.LessOrEqual(t, inside(out, m), 1)
		}
		for i, s := range out {
			require.Positive(t, s.Duration())
			if i > 0 {
				require.True(t, out[i-1].To.Before(s.From), "sorted, and neither overlaps nor touches")
			}
		}
	})
}

func TestExcludedAgainstMinutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sp := anySpan.Draw(t, "span")
		var fixes []slo.Correction
		var all []slo.Span
		for _, s := range rapid.SliceOfN(anySpan, 0, 6).Draw(t, "corrections") {
			all = append(all, s)
			fixes = append(fixes, slo.Correction{Start: s.From, Duration: s.Duration()})
		}
		if rapid.Bool().Draw(t, "recurring") {
			rec := rapid.SliceOfN(anySpan, 0, 5).Draw(t, "occurrences")
			all = append(all, rec...)
			fixes = append(fixes, slo.Correction{Between: func(slo.Span) []slo.Span { return rec }})
		}
		out := slo.Excluded(fixes, sp)
		total := time.Duration(0)
		for m := -20; m <= 160; m++ {
			want := inside([]slo.Span{sp}, m) > 0 && inside(all, m) > 0
			require.Equal(t, want, inside(out, m) == 1)
			if want {
				total += time.Minute
			}
		}
		got := time.Duration(0)
		for _, s := range out {
			got += s.Duration()
		}
		require.Equal(t, total, got)
	})
}

func TestTakenOutIsRoundedOutward(t *testing.T) {
	at := func(s string) time.Time {
		at, err := time.Parse(time.DateTime, "2026-01-01 "+s)
		require.NoError(t, err)
		return at
	}
	span := func(from, to string) slo.Span { return slo.Span{From: at(from), To: at(to)} }
	hour := span("10:00:00", "11:00:00")
	for _, c := range []struct {
		name  string
		fixes []slo.Span
		of    slo.Span
		want  []slo.Span
	}{
		{"short", []slo.Span{span("10:01:00", "10:05:00")}, hour, []slo.Span{span("10:00:00", "10:05:00")}},
		{"a second", []slo.Span{span("10:14:59", "10:15:00")}, hour, []slo.Span{span("10:10:00", "10:15:00")}},
		{"aligned", []slo.Span{span("10:10:00", "10:25:00")}, hour, []slo.Span{span("10:10:00", "10:25:00")}},
		{"nothing", []slo.Span{span("10:11:00", "10:11:00")}, hour, nil},
		{"rounded ones touch", []slo.Span{span("10:11:00", "10:12:00"), span("10:16:00", "10:17:00")}, hour,
			[]slo.Span{span("10:10:00", "10:20:00")}},
		{"rounded into the span", []slo.Span{span("09:50:00", "10:01:00")}, span("10:02:00", "11:00:00"),
			[]slo.Span{span("10:02:00", "10:05:00")}},
		{"not begun, and rounded", []slo.Span{span("10:03:00", "12:00:00")}, span("09:00:00", "10:02:00"),
			[]slo.Span{span("10:00:00", "10:02:00")}},
		{"just outside", []slo.Span{span("09:50:00", "10:00:00"), span("11:00:00", "11:01:00")}, hour, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var fixes []slo.Correction
			for _, s := range c.fixes {
				fixes = append(fixes, slo.Correction{Start: s.From, Duration: s.Duration()})
			}
			require.Equal(t, c.want, slo.TakenOut(fixes, c.of))
		})
	}
	early := slo.Span{From: time.Unix(-30, 0), To: time.Unix(-1, 0)}.RoundOut(time.Minute)
	require.Equal(t, []int64{-60, 0}, []int64{early.From.Unix(), early.To.Unix()})
}
