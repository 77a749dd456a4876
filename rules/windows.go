package rules

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// maxTerms is how many recorded rates a longer one may be joined from.
const maxTerms = 8

// over is the name of the recorded rate of a window; "" if there is none.
func (f family) over(w time.Duration) string {
	switch w {
	case base:
		return f.rate5m
	case 30 * time.Minute:
		return f.rate30m
	case time.Hour:
		return f.rate1h
	}
	return ""
}

// over is an expression that is proportional to the events in a window, with
// corrections taken out, for each group. It binds as tightly as a selector. The
// factor is the same for bad and valid events and for all groups.
func (r *sloRules) over(f family, w slo.Window) string {
	if r.g.Minimal() {
		return r.minimalOver(f, w)
	}
	if w.Calendar == "" && w.Rolling <= shortLimit {
		return r.short(f, w.Rolling)
	}
	return r.long(r.series(f.rate5m), r.series(f.increase), w, r.corrected)
}

// short is the rate over a window of up to six hours, in events per second.
//
// Rates over five minutes are joined end to end, which counts an event as soon
// as it is scraped; where one is missing, as before the first event, nothing was
// counted. The mean of all of them over the window would see an outage only after
// half of their five minutes; it stands in where some have to be left out.
func (r *sloRules) short(f family, w time.Duration) string {
	rate := r.series(f.rate5m)
	if !r.corrected.is() {
		if name := r.recorded(f, w); name != "" {
			return r.series(name)
		}
		return "(" + r.joined(f, w) + ")"
	}
	if w == base {
		return "(" + rate + " unless on () " + r.corrected.now() + ")"
	}
	step := r.step(w)
	masked := "sum_over_time((" + rate + " unless on () " + r.corrected.then() + ")[" + dur(w) + ":" + dur(step) +
		"]) / " + num(float64(w)/float64(step))
	whole := r.tiles(f, w)
	if name := r.recorded(f, w); name != "" {
		whole = r.series(name)
	}
	if whole == "" {
		return "(" + masked + ")"
	}
	return "(" + whole + " unless on () " + r.corrected.since(w) + "\nor\n" + masked + ")"
}

// recorded is the name of the recorded rate of a window, of all or of this SLO; ""
// if there is none.
func (r *sloRules) recorded(f family, w time.Duration) string {
	if name := f.over(w); name != "" {
		return name
	}
	if f == validSeries && slices.Contains(countedWindows(r.s), w) {
		return series.ValidEventsOver(dur(w))
	}
	return ""
}

// joined is the rate over a window from those of shorter ones, without
// corrections taken out.
func (r *sloRules) joined(f family, w time.Duration) string {
	if joined := r.tiles(f, w); joined != "" {
		return joined
	}
	return "sum_over_time(" + r.series(f.rate5m) + "[" + dur(w) + "]) / " + num(float64(w)/float64(r.g.Eval))
}

func (r *sloRules) tiles(f family, w time.Duration) string {
	return tiles(func(part time.Duration) string { return r.series(f.over(part)) }, r.series(series.ValidEventsZero), w)
}

// zero is 0 for every group that has a rate or had one within half an hour.
func (r *sloRules) zero() string {
	rate := r.series(series.ValidEvents)
	terms := []string{rate}
	for at := base; at < 30*time.Minute; at += base {
		terms = append(terms, rate+" offset "+dur(at))
	}
	return "(" + join(terms, "or") + ") * 0"
}

// tiles joins what is recorded over parts of a window end to end, as their mean; ""
// if too many would be needed. A part that is missing counts as 0: before the first
// event, and in a gap. Five minutes are filled with zeros for half an hour; half
// hours and hours last for as long as they are.
func tiles(recorded func(part time.Duration) string, zero string, w time.Duration) string {
	for _, part := range []time.Duration{time.Hour, 30 * time.Minute, base} {
		n := int(w / part)
		if w%part != 0 || n < 2 || n > maxTerms {
			continue
		}
		now := recorded(part)
		var terms []string
		for i := range n {
			at := now
			if i > 0 {
				at += " offset " + dur(time.Duration(i)*part)
			}
			switch {
			case part == base:
				at = "(" + at + " or " + zero + ")"
			case i > 0:
				at = "(" + at + " or " + now + " * 0)"
			case n == 2:
				at = "(" + at + " or " + now + " offset " + dur(part) + " * 0)"
			}
			terms = append(terms, at)
		}
		return "(" + join(terms, "+") + ") / " + num(float64(n))
	}
	return ""
}

// step is the distance of the rates that a subquery over a window reads. It
// divides five minutes, so that every event is in equally many of them.
func (r *sloRules) step(w time.Duration) time.Duration {
	switch {
	case w > 2*time.Hour:
		return base
	case w > 30*time.Minute && time.Minute%r.g.Eval == 0:
		return time.Minute
	}
	return r.g.Eval
}

// long is the sum over a window beyond six hours. Without anything to leave out
// it reads the events of every five minutes; else it reads the rate of every
// five minutes, which is recorded more often and so sits closer to the edges.
func (r *sloRules) long(rate, increase string, w slo.Window, m mask) string {
	length, p := w.Longest(), (*periodTable)(nil)
	if w.Calendar != "" {
		p = r.g.services[r.s.ID.Service()].periods[w.String()]
	}
	if p == nil && !m.is() && increase != "" {
		return "sum_over_time(" + increase + "[" + dur(length) + "])"
	}
	inner := rate
	if p != nil {
		inner += " and on () " + p.sofar()
	}
	if m.is() {
		inner += " unless on () " + m.then()
	}
	if inner != rate {
		inner = "(" + inner + ")"
	}
	return "sum_over_time(" + inner + "[" + dur(length) + ":5m])"
}
