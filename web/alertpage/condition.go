package alertpage

import (
	"fmt"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// compared is one comparison of a condition: a value of the report, and what the alert compares it with.
type compared struct {
	What      string // such as the error ratio of a window
	Value     string
	Rate      string // the same as a burn rate; "" if there is none
	Threshold string
	Factor    string // the same as a burn rate
	Events    string // that the value rests on; "" if that is not a number of events
	Observed  string // share of the window
	Over      bool   // the value is beyond the threshold
}

// compare lists the comparisons of an alert, by the numbers of the report. Where the report lacks them, the value is
// the one that the engine compared last. There are none if the definition of the alert is not known any more.
func compare(a *state.Alert, rep *sla.Report) []compared {
	l := a.Definition()
	if l == nil {
		return nil
	}
	var r *sla.SLOReport
	if l.SLO != nil && rep != nil {
		r = site.FindSLO(rep, l.SLO.ID, a.Group)
	}
	if r != nil {
		switch l.Kind {
		case alerts.LiveBurn:
			return burns(l, r)
		case alerts.LiveRatio:
			out := ratioOver(l, r, l.Window, l.Above, false)
			if l.UpTo > 0 {
				out.Threshold += ", up to " + format.WrittenPercent(l.UpTo)
			}
			return []compared{out}
		case alerts.LiveExhausted:
			if r.Budget.HasData {
				return []compared{{What: "error budget left over " + r.SLO.Window.String(),
					Value: format.Percent(r.Budget.Remaining, 1), Threshold: "at most " + format.WrittenPercent(l.Below),
					Over:   r.Budget.Remaining <= l.Below,
					Events: format.Count(r.Budget.Counts.Valid()), Observed: format.Percent(r.Coverage, 0)}}
			}
		case alerts.LiveRecovered:
			out := ratioOver(l, r, l.Window, l.Above, false)
			out.Threshold, out.Over = "at most "+format.WrittenPercent(l.Above), false
			return []compared{out}
		}
	}
	return []compared{last(a, l)}
}

// burns compares both windows of a tier.
func burns(l *alerts.Live, r *sla.SLOReport) []compared {
	out := []compared{ratioOver(l, r, l.Tier.Long, l.Tier.Threshold, true),
		ratioOver(l, r, l.Tier.Short, l.Tier.Threshold, true)}
	for i := range out {
		out[i].Factor = format.BurnRate(l.Tier.Factor)
	}
	return out
}

// ratioOver compares the error ratio of a window.
func ratioOver(l *alerts.Live, r *sla.SLOReport, window time.Duration, above float64, rate bool) compared {
	out := compared{What: "error ratio over " + slo.FormatDuration(window), Value: format.NoValue,
		Threshold: "above " + format.WrittenPercent(above)}
	b := r.Condition(window, max(l.Window, l.Recovery()))
	e := alerts.NewReading(r.SLO, b)
	if !e.HasData {
		return out
	}
	out.Value, out.Over, out.Events, out.Observed = format.Percent(e.Ratio, 2), e.Ratio > above,
		format.Count(uint64(e.Events)), format.Percent(e.Observed, 0)
	if rate {
		out.Rate = format.BurnRate(b.Rate)
	}
	return out
}

// last is the comparison of an alert by the value that the engine compared last.
func last(a *state.Alert, l *alerts.Live) compared {
	out := compared{Value: format.Percent(a.Value, 2), Over: a.State == state.Firing}
	window := slo.FormatDuration(l.Window)
	switch l.Kind {
	case alerts.LiveBurn:
		out.What, out.Threshold = "error ratio over "+window, "above "+format.WrittenPercent(l.Tier.Threshold)
		out.Factor = format.BurnRate(l.Tier.Factor)
	case alerts.LiveExhausted:
		out.What, out.Threshold = "error budget left", "at most "+format.WrittenPercent(l.Below)
	case alerts.LiveSoon:
		out.What = "probability that the budget is exhausted within " + window
		out.Threshold = "at least " + format.WrittenPercent(l.Above)
	case alerts.LiveNoData:
		out.What, out.Threshold = "events within "+window+", all groups", "0"
		out.Value = format.Count(uint64(max(0, a.Value)))
	case alerts.LiveRatio, alerts.LiveTrend:
		out.What, out.Threshold = "error ratio over "+window, "above "+format.WrittenPercent(l.Above)
		if l.Kind == alerts.LiveTrend {
			out.Threshold += ", and higher in the last 10m than in the 10m before"
		}
	case alerts.LiveLimit:
		out.What = "share of critical threshold violations over " + window
		out.Threshold = "above " + format.WrittenPercent(l.Above)
	case alerts.LiveScore:
		out.What, out.Value, out.Threshold = "score of the SLA", format.Score(a.Value), "below "+format.Score(l.Below)
	case alerts.LiveRestored:
		out.What, out.Value = "score of the SLA", format.Score(a.Value)
		out.Threshold = "at least " + format.Score(l.Below)
	case alerts.LiveRecovered:
		out.What, out.Threshold = "error ratio over "+window, "at most "+format.WrittenPercent(l.Above)
	case alerts.LiveDecline:
		out.What = "events per " + slo.FormatDuration(l.SLO.Indicator.Per)
		out.Value, out.Threshold = fmt.Sprintf("%.4g", a.Value), fmt.Sprintf("below %.4g", l.Below)
	case alerts.LiveCascade:
		out.What, out.Value = "bad events within 5m", format.Count(uint64(max(0, a.Value)))
		out.Threshold = "more than allowed, here and at " + format.Safe(string(l.Effect.ID), format.MaxName)
	case alerts.LiveSilent:
		out.What, out.Value = "events within "+window, format.Count(uint64(max(0, a.Value)))
		out.Threshold = fmt.Sprintf("0, where half an hour of last week had at least %s", format.Count(l.MinEvents))
	case alerts.LiveEngine:
		out.What, out.Value, out.Threshold = "value of the expression", fmt.Sprintf("%.4g", a.Value), "any value fires"
	}
	return out
}
