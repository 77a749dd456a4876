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

// uptime answers how much of a span was observed.
type uptime struct {
	spans  []slo.Span      // sorted, apart
	before []time.Duration // observed before spans[i] begins
	total  time.Duration
}

// newUptime reads the observed times as of now. The last one reaches up to now
// if it ended just before: whoever asks is up.
func newUptime(up []slo.Span, now time.Time) uptime {
	u := uptime{spans: slo.MergeSpans(slices.Clone(up))}
	if n := len(u.spans); n > 0 {
		if last := &u.spans[n-1]; last.To.Before(now) && now.Sub(last.To) <= upGrace {
			last.To = now
		}
	}
	for _, s := range u.spans {
		u.before = append(u.before, u.total)
		u.total += s.Duration()
	}
	return u
}

// until is the time observed before t.
func (u *uptime) until(t time.Time) time.Duration {
	i := sort.Search(len(u.spans), func(i int) bool { return u.spans[i].To.After(t) })
	if i == len(u.spans) {
		return u.total
	}
	return u.before[i] + max(0, t.Sub(u.spans[i].From))
}

func (u *uptime) within(s slo.Span) time.Duration {
	if !s.From.Before(s.To) {
		return 0
	}
	return u.until(s.To) - u.until(s.From)
}

// coverage is the share of a span, in [0,1], in which a group was observed:
// since its generation began, while the engine was up; and before that, as far
// back as a backfill reached.
func (u *uptime) coverage(g *fold.Group, s slo.Span) float64 {
	d := s.Duration()
	if d == 0 {
		return 1
	}
	live := s
	var seen time.Duration
	if g.Since.After(s.From) {
		live.From = g.Since
		if !g.Backfilled.IsZero() {
			seen = s.Intersect(slo.Span{From: g.Backfilled, To: g.Since}).Duration()
		}
	}
	seen += u.within(live)
	return min(1, float64(seen)/float64(d))
}
