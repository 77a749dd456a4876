package alerts

import (
	"fmt"
	"math"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// HoldReason says what keeps an alert from starting.
type HoldReason string

// The reasons.
const (
	HoldObserved  HoldReason = "observed"   // too little of the window was observed yet
	HoldMinEvents HoldReason = "min_events" // too few events
	HoldMinBad    HoldReason = "min_bad"    // too few bad events
	HoldEvidence  HoldReason = "evidence"   // so many bad events may be chance
	// the short window has few events, and the longer one that is read instead says no
	HoldQuiet HoldReason = "quiet"
	// so many events came later than the long window that they could decide, had they come in time
	HoldLate HoldReason = "late"
)

// Hold is one reason why an alert does not start though what was observed is over
// its threshold.
type Hold struct {
	Reason   HoldReason
	Window   time.Duration
	Have     float64 // what is compared: an error ratio, a share of the budget, a score, evidence, or events
	Want     float64 // what Have must exceed, reach, or for a score fall below
	Observed float64 // share of the window that was observed, in [0,1]
	Events   float64 // in the window, as far as they are counted
	kind     LiveKind
	rate     float64 // of HoldEvidence: the error ratio that must be exceeded
}

// String explains the hold with its numbers.
func (h Hold) String() string {
	w := slo.FormatDuration(h.Window)
	observed := shown(h.Observed) + " of " + w + " observed"
	switch {
	case h.Reason == HoldLate:
		return fmt.Sprintf(
			"late: %s events of the last %s were received more than %s after their time; they count in the budget only",
			number(h.Events), slo.FormatDuration(slo.ReceivedWindow), w)
	case h.Reason == HoldMinEvents:
		return fmt.Sprintf("min_events: %s of %s events in %s", number(math.Floor(h.Events)), number(h.Want), w)
	case h.Reason == HoldMinBad:
		return fmt.Sprintf("min_bad: %s of %s bad events in %s", number(math.Floor(h.Have+half)), number(h.Want), w)
	case h.Reason == HoldEvidence:
		return fmt.Sprintf(
			"evidence: %.2g of %.2g that more than %s of the events in %s are bad: with %s events it may be chance",
			h.Have, h.Want, shown(h.rate), w, number(math.Floor(h.Events)))
	case h.Reason == HoldQuiet:
		return fmt.Sprintf(
			"quiet: the short window has few events, so that the last %s count instead: %s of it is bad, more than %s needed", w,
			shown(h.Have), shown(h.Want))
	case h.kind == LiveExhausted:
		return fmt.Sprintf("%s, so %s of its budget is spent", observed, shown(h.Have))
	case h.kind == LiveScore:
		return fmt.Sprintf("%s, so the score over all of it is %s, below %s needed", observed,
			number(math.Round(10*h.Have)/10), number(h.Want))
	}
	return fmt.Sprintf("%s, so %s of it is bad, more than %s needed", observed, shown(h.Have), shown(h.Want))
}

// shown is a share in percent with three digits.
func shown(ratio float64) string { return fmt.Sprintf("%.3g %%", 100*ratio) }

// unobserved is the hold of an error ratio that is above a threshold by what was observed of a window only.
func (l *Live) unobserved(w time.Duration, e Reading, threshold float64, firing bool) []Hold {
	if have := e.Ratio * e.weight(firing); have <= threshold {
		return []Hold{
			{Reason: HoldObserved, Window: w, Have: have, Want: threshold, Observed: e.Observed, Events: e.Events, kind: l.Kind}}
	}
	return nil
}

func (l *Live) fewEvents(w time.Duration, events float64) []Hold {
	if events >= float64(l.MinEvents) {
		return nil
	}
	return []Hold{{Reason: HoldMinEvents, Window: w, Have: events, Want: float64(l.MinEvents), Observed: 1,
		Events: events, kind: l.Kind}}
}

// unproven is the hold of an error ratio that may be chance, by the first guard that holds it.
func (l *Live) unproven(w time.Duration, e Reading, rate, needed float64) []Hold {
	h := Hold{Window: w, Observed: e.Observed, Events: e.Events, kind: l.Kind, rate: rate}
	switch have := slo.Evidence(e.Events, e.Ratio, rate); {
	case e.proves(rate, needed):
		return nil
	case e.bad() <= slo.MinBad-half:
		h.Reason, h.Have, h.Want = HoldMinBad, e.bad(), slo.MinBad
	default:
		h.Reason, h.Have, h.Want = HoldEvidence, have, needed
	}
	return []Hold{h}
}

// HeldBurn tells what keeps a tier from starting though both windows are above its
// threshold by what was observed; nil if they are not, or nothing does. See Tier.Burns.
func (l *Live) HeldBurn(read func(window time.Duration) Reading) []Hold {
	t := l.Tier
	long := read(t.Long)
	if !long.above(t.Threshold, true) {
		return nil
	}
	short := read(t.Short)
	if !short.above(t.Threshold, true) {
		return nil
	}
	out := append(l.unobserved(t.Long, long, t.Threshold, false), l.unobserved(t.Short, short, t.Threshold, false)...)
	out = append(out, l.fewEvents(t.Long, long.Events)...)
	if t.Page {
		out = append(out, l.unproven(t.Long, long, t.Rate, t.Evidence)...)
	}
	if t.few(read) {
		if e := read(t.Quiet.Window); !e.above(t.Threshold, true) {
			out = append(out, Hold{Reason: HoldQuiet, Window: t.Quiet.Window, Have: e.Ratio, Want: t.Threshold,
				Observed: e.Observed, Events: e.Events, kind: l.Kind})
		}
	}
	return out
}

// HeldLate names events that a tier leaves out because they came later than its long window: nil if they are too few to
// matter, were all of them bad. received is the burn over slo.ReceivedWindow without them.
func (l *Live) HeldLate(received *slo.Burn, later uint64) []Hold {
	n := float64(later)
	if received != nil {
		n /= float64(later + received.Counts.Valid())
	}
	if later == 0 || n <= l.Tier.Threshold {
		return nil
	}
	bound := slo.Lateness[slo.LatenessOf(l.Tier.Long)]
	return []Hold{
		{Reason: HoldLate, Window: bound, Have: n, Want: l.Tier.Threshold, Observed: 1, Events: float64(later), kind: l.Kind}}
}
