package explain

import (
	"time"

	"github.com/sloengine/sloengine/internal/order"
)

// Window is one condition of an alert: the burn rate over its length is above
// the factor.
type Window struct {
	Length time.Duration
	Factor float64
}

// Condition holds when all of its windows burn, for at least For.
type Condition struct {
	Windows []Window
	For     time.Duration
}

// Policy fires when any of its conditions does.
type Policy []Condition

// Outage is a time in which a constant share of constant traffic fails, after
// and before times in which nothing does.
type Outage struct {
	ErrorRatio float64       // 0 to 1
	Length     time.Duration // 0 = it never ends
}

// Detection is when an alert fires and when it is over.
type Detection struct {
	Fires bool
	After time.Duration // from the start of the outage
	Reset time.Duration // from its end; 0 if it never ends
}

// Detect tells when a policy sees an outage, for a budget of 1 - objective.
//
// Over a window of length w the error ratio of an outage grows as e*t/w, so that
// it exceeds a threshold of factor*budget after t = factor*budget*w/e (Google SRE
// workbook, chapter 5). Scrapes and evaluations come on top.
func (p Policy) Detect(budget float64, o Outage) Detection {
	const forever = time.Duration(1<<63 - 1)
	var d Detection
	var end time.Duration
	var spans []span
	for _, c := range p {
		s, ok := c.burns(budget, o)
		if !ok {
			continue
		}
		if s.from += c.For; s.from >= s.to {
			continue
		}
		spans = append(spans, s)
	}
	if len(spans) == 0 {
		return d
	}
	// It is over when the first unbroken span is.
	order.By(spans, func(a, b *span) int { return int(min(1, max(-1, a.from-b.from))) })
	d.Fires, d.After, end = true, spans[0].from, spans[0].to
	for _, s := range spans {
		if s.from <= end {
			end = max(end, s.to)
		}
	}
	if end != forever && o.Length > 0 {
		d.Reset = end - o.Length
	}
	return d
}

type span struct{ from, to time.Duration }

func (c Condition) burns(budget float64, o Outage) (span, bool) {
	const forever = time.Duration(1<<63 - 1)
	out := span{0, forever}
	for _, w := range c.Windows {
		// The window is above its threshold once so much of it lies in the outage.
		need := float64(w.Length) * w.Factor * budget / o.ErrorRatio
		most := w.Length
		if o.Length > 0 {
			most = min(most, o.Length)
		}
		if !(need < float64(most)) {
			return span{}, false
		}
		out.from = max(out.from, time.Duration(need))
		if o.Length > 0 {
			out.to = min(out.to, o.Length+w.Length-time.Duration(need))
		}
	}
	return out, out.from < out.to
}
