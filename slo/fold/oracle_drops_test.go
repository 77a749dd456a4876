package fold

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

// drop is what a limit kept out, as the oracle remembers it.
type drop struct {
	recv, at time.Time
	typ      string
	n        uint64
	reason   string
}

func (x *drop) apply(f *Fold) {
	f.Dropped(x.recv.UnixNano(), []byte("shop"), []byte(x.typ), x.at.UnixNano(), x.n, x.reason)
}

func drawDrop(t *rapid.T, rec time.Time) drop {
	return drop{
		recv: rec, at: drawEvent(t, rec).Time, typ: rapid.SampledFrom([]string{"order", "refund"}).Draw(t, "type"),
		n:      uint64(rapid.IntRange(0, 1000).Draw(t, "dropped")),
		reason: rapid.SampledFrom([]string{"limit", "throttled"}).Draw(t, "reason"),
	}
}

// checkExtra compares what is known of a group's weights and of what was dropped.
func (o *oracle) checkExtra(t require.TestingT, s *Sums, g *Group, req Request) {
	sliced := g.Indicator.Slice != nil
	for i, sp := range slices.Concat(req.Spans, req.Extra[g.Indicator.ID]) {
		want := uint64(0)
		if !sliced {
			want = o.excess(g.Indicator, g.Values, sp)
		}
		if g.Excess == nil {
			require.Zero(t, want, "%s %q %v", g.Indicator.ID, g.Values, sp)
		} else {
			require.Equal(t, want, g.Excess[i], "%s %q %v", g.Indicator.ID, g.Values, sp)
		}
	}
	for i, sp := range req.Spans {
		dropped, offered := uint64(0), uint64(0)
		for _, x := range o.drops {
			if x.typ == "order" || len(g.Indicator.Valid) == 0 || g.Indicator.Kind == Ratio { // which selects no type
				dropped += o.countedDrop(g, s, sp, x)
			}
		}
		if dropped == 0 {
			require.Equal(t, 1.0, g.Loss.Kept(i))
			continue
		}
		for _, x := range s.Groups {
			if x.Indicator.ID == g.Indicator.ID {
				offered += o.valid(&x, s, sp)
			}
		}
		require.Equal(t, dropped, g.Loss.Dropped[i], "%s %v", g.Indicator.ID, sp)
		require.Equal(t, dropped+offered, g.Loss.Offered[i], "%s %v", g.Indicator.ID, sp)
		require.InDelta(t, float64(offered)/float64(dropped+offered), g.Loss.Kept(i), 1e-12)
	}
}

// excess is what weights add to the sum of squared weights.
func (o *oracle) excess(ind *Indicator, group slo.Group, sp slo.Span) uint64 {
	sum := uint64(0)
	for _, x := range o.events {
		w := x.weight()
		one := oracle{rec: o.rec, events: []folded{x}}
		for bin, n := range one.sum(ind, group, sp) {
			if ind.Kind == Ratio && bin != RatioDenominator {
				continue // a ratio rests on its denominator
			}
			sum += n * (w - 1)
		}
	}
	return sum
}

// inSpan reports whether an event of a time, received at another, is kept in a span.
func (o *oracle) inSpan(ind *Indicator, recv, at time.Time, sp slo.Span) bool {
	from, to, keep := o.edge(sp.From), o.edge(sp.To), keepOf(ind)
	if old := oldest(o.rec, keep); from.Before(old) {
		from = old
	}
	return !at.Before(from) && at.Before(to) && !at.Before(oldest(recv, keep))
}

// countedDrop is how much of a drop counts in a span.
func (o *oracle) countedDrop(g *Group, s *Sums, sp slo.Span, x drop) uint64 {
	if g.Indicator.Slice == nil {
		if o.inSpan(g.Indicator, x.recv, x.at, sp) {
			return x.n
		}
		return 0
	}
	per := g.Indicator.Slice.Per
	if n := x.at.UnixNano() / int64(per); n >= o.firstSlice(g, x.recv) && o.judged(g, s, n, sp) {
		return x.n
	}
	return 0
}

// valid is how many events of a group count in a span.
func (o *oracle) valid(g *Group, s *Sums, sp slo.Span) (sum uint64) {
	if g.Indicator.Slice == nil {
		for _, n := range o.sum(g.Indicator, g.Values, sp) {
			sum += n
		}
		return sum
	}
	for _, x := range o.events {
		n := x.e.Time.UnixNano() / int64(g.Indicator.Slice.Per)
		if !inGroup(g.Indicator, g.Values, x.e) || n < o.firstSlice(g, x.recv) || !o.judged(g, s, n, sp) {
			continue
		}
		switch {
		case g.Indicator.Kind == Events || x.e.HasDuration:
			sum += uint64(max(1, x.e.Count)) * x.weight()
		default:
			for _, d := range x.e.Durations {
				sum += uint64(d.Count) * x.weight()
			}
		}
	}
	return sum
}

func (o *oracle) firstSlice(g *Group, rec time.Time) int64 {
	per := int64(g.Indicator.Slice.Per)
	run := (int64(time.Hour) + per - 1) / per
	keep := (int64(keepOf(g.Indicator)) + per - 1) / per
	return (rec.Add(-2*time.Minute).UnixNano()/per - keep) / run * run
}

// judged reports whether a slice is kept, closed, in a span, in the open hours, and was observed.
func (o *oracle) judged(g *Group, sums *Sums, n int64, sp slo.Span) bool {
	per := int64(g.Indicator.Slice.Per)
	s := slo.Span{From: time.Unix(0, n*per).UTC(), To: time.Unix(0, (n+1)*per).UTC()}
	if n < o.firstSlice(g, o.rec) || n >= o.rec.Add(-2*time.Minute).UnixNano()/per || s.From.Before(sp.From) ||
		!s.From.Before(sp.To) {
		return false
	}
	seen := []slo.Span{}
	for _, u := range sums.Up {
		if u = u.Intersect(slo.Span{From: g.Since, To: o.rec}); u.Duration() > 0 {
			seen = append(seen, u)
		}
	}
	seen = slo.MergeSpans(append(seen, g.Backfilled...))
	sched, _ := slo.ParseSchedule(g.Indicator.Slice.During)
	return slices.ContainsFunc(seen, func(u slo.Span) bool { return u.Intersect(s) == s }) && sched.Covers(s)
}
