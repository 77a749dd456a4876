package evaluator

import (
	"slices"
	"sort"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// upGrace is how long after its last record an engine still counts as up: an
// idle one writes a heartbeat every ten seconds.
const upGrace = 30 * time.Second

// observed answers how much of a span is in a list of spans.
type observed struct {
	spans  []slo.Span      // sorted, apart
	before []time.Duration // of all before spans[i] begins
	total  time.Duration
}

// uptime answers how much of a span was observed.
type uptime struct {
	observed
	backfills map[*slo.Span]*observed // by the first of fold.Group.Backfilled, which groups share
}

// newUptime reads the observed times as of now. The last one reaches up to now
// if it ended just before: whoever asks is up.
func newUptime(up []slo.Span, now time.Time) uptime {
	spans := slo.MergeSpans(slices.Clone(up))
	if n := len(spans); n > 0 {
		if last := &spans[n-1]; last.To.Before(now) && now.Sub(last.To) <= upGrace {
			last.To = now
		}
	}
	return uptime{newObserved(spans), map[*slo.Span]*observed{}}
}

func newObserved(spans []slo.Span) observed {
	u := observed{spans: spans, before: make([]time.Duration, len(spans))}
	for i, s := range spans {
		u.before[i] = u.total
		u.total += s.Duration()
	}
	return u
}

// until is the time observed before t.
func (u *observed) until(t time.Time) time.Duration {
	i := sort.Search(len(u.spans), func(i int) bool { return u.spans[i].To.After(t) })
	if i == len(u.spans) {
		return u.total
	}
	return u.before[i] + max(0, t.Sub(u.spans[i].From))
}

func (u *observed) within(s slo.Span) time.Duration {
	if !s.From.Before(s.To) {
		return 0
	}
	return u.until(s.To) - u.until(s.From)
}

// cover is how much is known of a window, both in [0,1].
type cover struct {
	observed float64 // share of its time in which a group was observed
	coverage float64 // the same, times the share of the indicator's events that no limit dropped
}

// cover is how much is known of one of the plan's windows for a group.
func (t *tick) cover(g *fold.Group, window int) cover {
	var o float64
	if g.Observed != nil {
		o = g.Observed[window]
	} else {
		o = t.up.coverage(g, t.spans[window])
	}
	return cover{o, o * g.Loss.Kept(window)}
}

// Coverage answers how much of spans one engine observed, for sums of several.
type Coverage struct{ up uptime }

// NewCoverage reads the times in which an engine was up, as of now.
func NewCoverage(up []slo.Span, now time.Time) *Coverage { return &Coverage{newUptime(up, now)} }

// Shares are the parts of spans, in [0,1], in which the indicator of an era was observed.
func (c *Coverage) Shares(e *fold.Era, spans []slo.Span) []float64 {
	g := fold.Group{Since: e.Since, Backfilled: e.Backfilled}
	out := make([]float64, len(spans))
	for i, s := range spans {
		out[i] = c.up.coverage(&g, s)
	}
	return out
}

// coverage is the share of a span, in [0,1], in which a group was observed:
// since its generation began, while the engine was up; and before that, where it
// was backfilled.
func (u *uptime) coverage(g *fold.Group, s slo.Span) float64 {
	d := s.Duration()
	if d == 0 {
		return 1
	}
	live := s
	var seen time.Duration
	if g.Since.After(s.From) {
		live.From = g.Since
		if len(g.Backfilled) > 0 {
			seen = u.backfilled(g).within(s.Intersect(slo.Span{From: s.From, To: g.Since}))
		}
	}
	seen += u.within(live)
	return min(1, float64(seen)/float64(d))
}

// backfilled is what was backfilled of a group, which has some.
func (u *uptime) backfilled(g *fold.Group) *observed {
	key := &g.Backfilled[0]
	o := u.backfills[key]
	if o == nil {
		fresh := newObserved(g.Backfilled)
		o = &fresh
		u.backfills[key] = o
	}
	return o
}

// sameCoverage reports whether two groups were observed at the same times, and
// lost the same. Those that share no list may be told apart though they were.
func sameCoverage(a, b *fold.Group) bool {
	if a.Loss != b.Loss || !a.Since.Equal(b.Since) || len(a.Backfilled) != len(b.Backfilled) ||
		len(a.Observed) != len(b.Observed) {
		return false
	}
	if len(a.Observed) > 0 {
		return &a.Observed[0] == &b.Observed[0]
	}
	return len(a.Backfilled) == 0 || &a.Backfilled[0] == &b.Backfilled[0]
}
