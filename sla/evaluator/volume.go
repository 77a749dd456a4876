package evaluator

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// This file judges volumes: days, weeks or months of the calendar, each by the sum of its events. The fold counts plain
// events; the sums of the periods are asked for at every tick, so a late event still changes what is said of its day.

// volumeDelay is how long after its end a period is judged, as slices are.
const volumeDelay = 2 * time.Minute

// volumeReach is how far back the periods that tell the usual course of one begin.
func volumeReach(s *slo.SLO) time.Duration {
	const margin = 2 * 24 * time.Hour
	if s.Indicator.Calendar == slo.Month {
		return 5*31*24*time.Hour + margin
	}
	return 5*7*24*time.Hour + margin
}

// volumePlan is what to ask for an SLO on a volume. It is made at every tick.
type volumePlan struct {
	slo     *slo.SLO
	windows []int // whose periods are judged

	// extra holds the asked spans: closed periods, oldest first; the present one as far as it has come; and pairs of a
	// whole period and its part up to the same point, for the usual course.
	extra   []slo.Span
	closed  int
	excused []bool // by closed period: planned maintenance touches it
	present slo.Span
	known   bool // there is a present period
	usual   int
}

// ask lists the spans as of now and adds them to the request.
func (v *volumePlan) ask(req *fold.Request, now time.Time) {
	in := &v.slo.Indicator
	all := slo.Span{From: now, To: now}
	for _, w := range v.windows {
		if from := req.Spans[w].From; from.Before(all.From) {
			all.From = from
		}
	}
	v.extra, v.excused, v.usual = nil, nil, 0 // the last tick's request owns the old ones
	for _, p := range in.Periods(all) {
		if p.To.Add(volumeDelay).After(now) {
			break
		}
		v.extra = append(v.extra, p)
		v.excused = append(v.excused, len(v.slo.Corrections) > 0 && len(slo.TakenOut(v.slo.Corrections, p)) > 0)
	}
	v.closed = len(v.extra)
	if v.present, v.known = in.Period(now); v.known {
		v.extra = append(v.extra, v.present.Intersect(slo.Span{From: v.present.From, To: now}))
		if over := now.Sub(v.present.From); now.Before(v.present.To) {
			for _, p := range in.Usual(v.present) {
				v.extra = append(v.extra, p, p.Intersect(slo.Span{From: p.From, To: p.From.Add(over)}))
				v.usual++
			}
		}
	}
	if len(v.extra) > 0 {
		if req.Extra == nil {
			req.Extra = map[string][]slo.Span{}
		}
		req.Extra[string(v.slo.ID)] = v.extra
	}
}

// volumeReport completes the report of one group of an SLO on a volume.
func (t *tick) volumeReport(p *sloPlan, g *fold.Group, r *sla.SLOReport, known cover) {
	v, in := p.volume, &p.slo.Indicator
	r.Total = slo.Counts{Good: r.Total.Valid()}
	count := func(i int) uint64 { return events(slo.KindVolume, g.Spans[len(t.spans)+i]).Good }
	seen := func(i int) float64 {
		if g.Observed != nil {
			return g.Observed[len(t.spans)+i]
		}
		return t.up.coverage(g, v.extra[i])
	}
	raw, net := make([]slo.Counts, v.closed), make([]slo.Counts, v.closed)
	first := 0 // a group begins with its first event, unless it is expected
	if _, expected := p.expect[string(t.groupKey(g.Values))]; len(g.Values) > 0 && !expected {
		for first < v.closed && count(first) == 0 {
			first++
		}
	}
	for i := first; i < v.closed; i++ {
		n, share := count(i), seen(i)
		raw[i], net[i] = in.JudgeVolume(n, share, false), in.JudgeVolume(n, share, v.excused[i])
	}
	// A period belongs to the windows that hold its start.
	within := func(judged []slo.Counts, from time.Time) (sum slo.Counts) {
		for i := v.closed - 1; i >= 0 && !v.extra[i].From.Before(from); i-- {
			sum = sum.Add(judged[i])
		}
		return sum
	}
	budget := func(judged []slo.Counts, window int) slo.Budget {
		return slo.NewBudget(p.slo.Objective, within(judged, t.spans[window].From))
	}
	r.Raw, r.Budget = budget(raw, p.period), budget(net, p.period)
	burns := func(judged []slo.Counts, whole slo.Budget) []slo.Burn {
		coverage := t.burnCoverage(g)
		first := len(t.burns)
		for i, w := range t.plan.burns {
			b := slo.NewBurn(slo.BurnWindows[i], budget(judged, w))
			b.Observed, b.Coverage = coverage[i].observed, coverage[i].coverage
			t.burns = append(t.burns, b)
		}
		last := slo.NewBurn(r.Period.Duration(), whole)
		last.Period, last.Observed, last.Coverage = true, known.observed, known.coverage
		t.burns = append(t.burns, last)
		return t.burns[first:len(t.burns):len(t.burns)]
	}
	r.RawBurns = burns(raw, r.Raw)
	r.Burns = r.RawBurns
	if len(p.slo.Corrections) > 0 {
		r.Burns = burns(net, r.Budget)
		for i := range v.closed {
			if v.excused[i] && raw[i] != net[i] && !v.extra[i].From.Before(r.Period.From) {
				r.Corrected += v.extra[i].Duration()
			}
		}
	}
	r.State = slo.Judge(p.slo.Window.Nominal(), r.Budget, r.Burns)
	if v.known {
		r.Volume = t.present(p, v, net, count)
	}
	for _, u := range p.usages {
		c := within(net, t.spans[u.window].From)
		t.addCounts(u, g, bins{c.Good, c.Bad})
	}
}

// present is how far the present period of a group has come.
func (t *tick) present(p *sloPlan, v *volumePlan, judged []slo.Counts, count func(int) uint64) *sla.VolumeReport {
	target := p.slo.Indicator.AtLeast
	out := &sla.VolumeReport{Span: v.present, Events: count(v.closed), Target: target, Expected: float64(target)}
	for i := v.closed - 1; i >= 0 && !v.extra[i].From.Before(t.spans[p.period].From); i-- {
		if judged[i].Bad > 0 {
			out.Missed, out.MissedEvents = v.extra[i], count(i)
			break
		}
	}
	if !t.now.Before(v.present.To) {
		return out
	}
	var whole, part uint64
	for k := range v.usual {
		if n := count(v.closed + 1 + 2*k); n > 0 {
			whole, part = whole+n, part+count(v.closed+2+2*k)
			out.Usual++
		}
	}
	share := float64(t.now.Sub(v.present.From)) / float64(v.present.Duration())
	if whole > 0 {
		share = float64(part) / float64(whole)
	}
	out.Expected = share * float64(target)
	return out
}
