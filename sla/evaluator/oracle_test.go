package evaluator

import (
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// happening is one event of the little world that the oracle counts in.
type happening struct {
	at, received   time.Time
	typ, outcome   string
	product, stage string
	late           time.Duration
	took           time.Duration // -1: none
	n              uint64
}

func (h *happening) label(name string) string {
	switch name {
	case "service":
		return "shop"
	case "type":
		return h.typ
	case "outcome":
		return h.outcome
	case "product":
		return h.product
	}
	return h.stage
}

func (h *happening) matches(s slo.Selector) bool { return s.Matches(h.label) }

// oracle works out by brute force what the engine should say, event by event
// and slice by slice, from the events received so far.
type oracle struct {
	now    time.Time
	began  time.Time
	events []happening
	down   []slo.Span // when the engine was not up

	members map[string][]happening  // of's answers, by SLO and group
	closed  map[slo.ID][]slo.Span   // every occurrence of the SLO's corrections, rounded outward
	counted map[string]verdict      // count's answers
	asked   map[slo.ID][]slo.Window // of agreements
}

// of lists the SLO's valid events in a group.
func (o *oracle) of(s *slo.SLO, g slo.Group) []happening {
	key := string(s.ID) + "|" + g.Key()
	if have, ok := o.members[key]; ok {
		return have
	}
	var out []happening
	for _, e := range o.events {
		measured := s.Indicator.Kind != slo.KindLatency && s.Indicator.Kind != slo.KindApdex || e.took >= 0
		wanted := e.matches(s.Indicator.Valid) || s.Indicator.Kind == slo.KindRatio && e.matches(s.Indicator.Numerator)
		if wanted && measured && slices.Equal(groupOf(s, &e), g) {
			out = append(out, e)
		}
	}
	o.members[key] = out
	return out
}

func groupOf(s *slo.SLO, e *happening) slo.Group {
	var g slo.Group
	for _, l := range s.GroupBy {
		g = append(g, e.label(l))
	}
	return g
}

func isBad(s *slo.SLO, e *happening) bool {
	switch s.Indicator.Kind {
	case slo.KindEvents:
		return e.matches(s.Indicator.Bad)
	case slo.KindLatency:
		return e.took > s.Indicator.Threshold
	}
	return false
}

// verdict is what an SLO counts over some time.
type verdict struct {
	counts           slo.Counts
	above, below     uint64  // numerator and denominator
	ratios           float64 // sum of the slices' ratios
	achieved, target uint64
}

// count counts events, or judges slices, in [from, now), with or without the
// corrections.
func (o *oracle) count(s *slo.SLO, g slo.Group, from time.Time, corrected bool) verdict {
	key := fmt.Sprint(s.ID, g.Key(), from.UnixNano(), corrected)
	v, ok := o.counted[key]
	if !ok {
		v = o.recount(s, g, from, corrected)
		o.counted[key] = v
	}
	return v
}

func (o *oracle) recount(s *slo.SLO, g slo.Group, from time.Time, corrected bool) verdict {
	mine := o.of(s, g)
	per := s.Budgeting.Slice
	if s.Indicator.Kind == slo.KindThroughput {
		per = s.Indicator.Per
	}
	if s.Indicator.Kind == slo.KindVolume {
		return o.volumes(s, g, from, corrected)
	}
	if per == 0 {
		var v verdict
		for _, e := range mine {
			out := e.at.Before(from) || !e.at.Before(o.now) || corrected && o.touched(s, slo.Span{From: e.at, To: e.at.Add(1)})
			switch {
			case out:
			case s.Indicator.Kind == slo.KindRatio:
				if e.matches(s.Indicator.Numerator) {
					v.above += e.n
				}
				if e.matches(s.Indicator.Valid) {
					v.below += e.n
				}
				v.counts = slo.Counts{Good: v.below} // 1 at most
				if v.above < v.below {
					v.counts = slo.Counts{Good: v.above, Bad: v.below - v.above}
				}
			case s.Indicator.Kind == slo.KindApdex:
				switch {
				case e.took <= s.Indicator.Satisfied:
					v.counts.Good += 2 * e.n
				case e.took <= s.Indicator.Tolerating:
					v.counts.Good += e.n
					v.counts.Bad += e.n
				default:
					v.counts.Bad += 2 * e.n
				}
			case isBad(s, &e):
				v.counts.Bad += e.n
			default:
				v.counts.Good += e.n
			}
		}
		return v
	}
	bySlice := map[int64]slo.Counts{}
	var first int64
	for i, e := range mine {
		n := e.at.Unix() / int64(per.Seconds())
		c := bySlice[n]
		if isBad(s, &e) {
			c.Bad += e.n
		} else {
			c.Good += e.n
		}
		bySlice[n] = c
		if i == 0 || n < first {
			first = n
		}
	}
	var v verdict
	if len(mine) == 0 {
		return v
	}
	for n := max(first, from.Unix()/int64(per.Seconds())); ; n++ {
		sp := slo.Span{From: time.Unix(n*int64(per.Seconds()), 0), To: time.Unix((n+1)*int64(per.Seconds()), 0)}
		if sp.To.Add(2 * time.Minute).After(o.now) {
			return v
		}
		if sp.From.Before(from) || !o.observed(sp) || corrected && o.touched(s, sp) {
			continue
		}
		o.judge(s, bySlice[n], sp, &v)
	}
}

func (o *oracle) judge(s *slo.SLO, c slo.Counts, sp slo.Span, v *verdict) {
	if s.Indicator.Kind == slo.KindThroughput {
		if !s.Indicator.During.Covers(sp) {
			return
		}
		v.target += s.Indicator.AtLeast
		v.achieved += min(s.Indicator.AtLeast, c.Valid())
		if c.Valid() >= s.Indicator.AtLeast {
			v.counts.Good++
		} else {
			v.counts.Bad++
		}
		return
	}
	ratio, ok := c.Ratio()
	if !ok {
		return
	}
	v.ratios += ratio
	if s.Budgeting.Method == slo.RatioTimeslices || ratio >= s.Budgeting.Target.Ratio() {
		v.counts.Good++
	} else {
		v.counts.Bad++
	}
}

func (o *oracle) observed(sp slo.Span) bool {
	for _, d := range o.down {
		if sp.Intersect(d).Duration() > 0 {
			return false
		}
	}
	return !sp.From.Before(o.began)
}

// maintenance lists the occurrences of the SLO's corrections in whole five
// minutes.
func (o *oracle) maintenance(s *slo.SLO) []slo.Span {
	spans, ok := o.closed[s.ID]
	if !ok {
		for _, c := range s.Corrections {
			for _, sp := range c.Occurrences(slo.Span{From: o.began, To: o.now.Add(day)}) {
				for sp.From.Unix()%300 != 0 {
					sp.From = sp.From.Add(-time.Second)
				}
				for sp.To.Unix()%300 != 0 {
					sp.To = sp.To.Add(time.Second)
				}
				spans = append(spans, sp)
			}
		}
		o.closed[s.ID] = spans
	}
	return spans
}

// corrected counts the minutes of the period that corrections take out.
func (o *oracle) corrected(s *slo.SLO, period slo.Span) (sum time.Duration) {
	for at := period.From; at.Before(period.To); at = at.Add(time.Minute) {
		if o.touched(s, slo.Span{From: at, To: at.Add(time.Minute)}) {
			sum += time.Minute
		}
	}
	return sum
}

// touched reports whether some correction of the SLO overlaps the span.
func (o *oracle) touched(s *slo.SLO, sp slo.Span) bool {
	for _, c := range o.maintenance(s) {
		if c.From.Before(sp.To) && sp.From.Before(c.To) {
			return true
		}
	}
	return false
}

// sli is the indicator that a verdict gives.
func (v verdict) sli(s *slo.SLO) (float64, bool) {
	n := v.counts.Valid()
	if n == 0 {
		return 0, false
	}
	if s.Budgeting.Method == slo.RatioTimeslices {
		return v.ratios / float64(n), true
	}
	return float64(v.counts.Good) / float64(n), true
}

func (o *oracle) coverage(from time.Time) float64 {
	want := slo.Span{From: from, To: o.now}
	if want.Duration() == 0 {
		return 1 // the window begins now
	}
	seen := want.Intersect(slo.Span{From: o.began, To: o.now}).Duration()
	for _, d := range o.down {
		seen -= d.Intersect(want).Intersect(slo.Span{From: o.began, To: o.now}).Duration()
	}
	return float64(seen) / float64(want.Duration())
}

// start of a window, without slo.Window.Start.
func start(w slo.Window, now time.Time) time.Time {
	if w.Calendar == "" {
		return now.Add(-w.Rolling)
	}
	t := now.In(w.Location)
	t = time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, w.Location)
	for {
		switch {
		case w.Calendar == slo.Day, w.Calendar == slo.Week && t.Weekday() == time.Monday,
			w.Calendar == slo.Month && t.Day() == 1:
			return t
		}
		t = t.AddDate(0, 0, -1)
	}
}

// volumes judges day by day, or by the open hours of days, without slo.Indicator.Periods.
func (o *oracle) volumes(s *slo.SLO, g slo.Group, from time.Time, corrected bool) (v verdict) {
	mine := o.of(s, g)
	begun := len(g) == 0
	at := start(slo.Window{Calendar: s.Indicator.Calendar, Location: s.Indicator.Location}, o.began)
	for ; ; at = at.AddDate(0, 0, 1) {
		sp := slo.Span{From: at, To: at.AddDate(0, 0, 1)}
		switch {
		case s.Indicator.Calendar == slo.Week:
			if at.Weekday() != time.Monday {
				continue
			}
			sp.To = at.AddDate(0, 0, 7)
		case !s.Indicator.During.Always(): // the hours of the world's only schedule
			if at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
				continue
			}
			sp = slo.Span{From: time.Date(at.Year(), at.Month(), at.Day(), 9, 0, 0, 0, at.Location()),
				To: time.Date(at.Year(), at.Month(), at.Day(), 18, 0, 0, 0, at.Location())}
		}
		if sp.To.Add(2 * time.Minute).After(o.now) {
			return v
		}
		if sp.From.Before(o.reach(s, from)) {
			continue
		}
		n := uint64(0)
		for _, e := range mine {
			if !e.at.Before(sp.From) && e.at.Before(sp.To) {
				n += e.n
			}
		}
		if begun = begun || n > 0; !begun || sp.From.Before(from) {
			continue
		}
		seen := slo.Span{From: o.began, To: o.now}.Intersect(sp).Duration()
		for _, d := range o.down {
			seen -= d.Intersect(sp).Duration()
		}
		switch {
		case n >= s.Indicator.AtLeast:
			v.counts.Good++
		case float64(seen) >= 0.99*float64(sp.Duration()) && !(corrected && o.touched(s, sp)):
			v.counts.Bad++
		}
	}
}

// reach is the start of the longest window that is asked of a volume: a group begins with its first event in it.
func (o *oracle) reach(s *slo.SLO, from time.Time) time.Time {
	first := start(s.Window, o.now)
	for _, w := range o.asked[s.ID] {
		if t := start(w, o.now); t.Before(first) {
			first = t
		}
	}
	if from.Before(first) {
		return from
	}
	return first
}
