package alertpage

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
)

// tryResult is what two forms of an SLO did with the same past.
type tryResult struct {
	Shown, Replayed string
	Figures         []triedFigure
	Budget          chart.Figure
	Timeline        *chart.AlertTimeline
	Alerts          []triedAlert
	More            int // alerts that are not listed
	Notes           []string
}

type triedFigure struct{ Name, Before, After string }

type triedAlert struct {
	At           format.Stamp
	Spec, Name   string
	Severity     string
	Group        []string
	Lasted       string
	Incident     string
	IncidentHref string
}

// The names of the two forms.
const (
	running   = "running spec"
	candidate = "candidate"
)

const shownTried = 100

func newTryResult(id string, r *backtest.Result, now time.Time, incident func(id string) string) *tryResult {
	sp := slo.Span{From: r.From, To: r.To}
	out := &tryResult{Shown: format.Span(sp), Replayed: fmt.Sprintf("%s of the service, %s by each spec.",
		format.Plural(int(r.Events), "event"), format.Plural(r.Ticks, "evaluation"))}
	out.Notes = append(out.Notes, r.Missing...)
	out.Notes = append(out.Notes, r.Notes...)
	for i := range out.Notes {
		out.Notes[i] = format.Safe(out.Notes[i], format.MaxText)
	}
	if r.Down > 0 {
		out.Notes = append(out.Notes, "The engine was down for "+format.Duration(time.Duration(r.Down)*time.Second)+
			" of it, or nothing is retained: no alert was evaluated.")
	}
	i := slices.IndexFunc(r.Subjects, func(s backtest.Subject) bool { return s.Kind == backtest.KindSLO && s.ID == id })
	if i < 0 || r.Subjects[i].Before == nil || r.Subjects[i].After == nil {
		return out
	}
	before, after := r.Subjects[i].Before, r.Subjects[i].After
	out.figures(before, after)
	var marked []chart.TriedSpan
	for _, inc := range r.Incidents {
		if len(inc.SLOs) == 0 || slices.Contains(inc.SLOs, id) {
			marked = append(marked, chart.TriedSpan{Span: slo.Span{From: inc.Onset, To: endOf(inc.End, r.To)},
				Title: format.Safe(inc.ID, format.MaxName)})
		}
	}
	both := []chart.TriedLine{budgetLine(running, before), budgetLine(candidate, after)}
	out.Budget = chart.NewTried(observed(sp, both), both, marked, now)
	out.alerts(r, before, after, now, incident)
	return out
}

// observed is the part of a span from the first hour on of which a line has the budget, but the last day at least. What
// the lines have before it, which is nothing, is removed from them.
func observed(sp slo.Span, all []chart.TriedLine) slo.Span {
	from := sp.To.Add(-24 * time.Hour)
	for _, l := range all {
		i := slices.IndexFunc(l.Left, func(p chart.TriedPoint) bool { return !math.IsNaN(p.Left) })
		if i >= 0 && l.Left[i].At.Before(from) {
			from = l.Left[i].At
		}
	}
	if from.Before(sp.From) {
		return sp
	}
	for i, l := range all {
		all[i].Left = slices.DeleteFunc(l.Left, func(p chart.TriedPoint) bool { return p.At.Before(from) })
	}
	return slo.Span{From: from, To: sp.To}
}

func (t *tryResult) figures(before, after *backtest.Side) {
	add := func(name string, of func(*backtest.Side) string) {
		t.Figures = append(t.Figures, triedFigure{name, of(before), of(after)})
	}
	ratio := func(x *float64) string {
		if x == nil {
			return format.NoValue
		}
		return format.Percent(*x, 0)
	}
	seconds := func(x *float64) string {
		if x == nil {
			return format.NoValue
		}
		return format.Duration(time.Duration(*x * float64(time.Second)))
	}
	add("Objective", func(s *backtest.Side) string { return s.Objective + "% over " + s.Window })
	add("Pages", func(s *backtest.Side) string { return fmt.Sprint(s.Score.Pages) })
	add("Pages per week", func(s *backtest.Side) string { return fmt.Sprintf("%.1f", s.Score.PagesPerWeek) })
	add("Pages at night", func(s *backtest.Side) string { return fmt.Sprint(s.Score.NightPages) })
	add("Tickets", func(s *backtest.Side) string { return fmt.Sprint(s.Score.Tickets) })
	add("Pages during an incident (precision)", func(s *backtest.Side) string { return ratio(s.Score.Precision) })
	add("Incidents with a page (recall)", func(s *backtest.Side) string {
		if s.Score.Incidents == 0 {
			return "no incident is known"
		}
		return fmt.Sprintf("%s (%d of %d)", ratio(s.Score.Recall), s.Score.Found, s.Score.Incidents)
	})
	add("Median time to the page", func(s *backtest.Side) string { return seconds(s.Score.Detection) })
	add("Budget left at the end", func(s *backtest.Side) string {
		if n := len(s.Days); n > 0 && s.Days[n-1].Remaining != nil {
			return format.Percent(*s.Days[n-1].Remaining, 1)
		}
		return format.NoValue
	})
}

func budgetLine(name string, s *backtest.Side) chart.TriedLine {
	l := chart.TriedLine{Name: name}
	for _, h := range s.Hours {
		left := math.NaN()
		if h.Remaining != nil {
			left = *h.Remaining
		}
		l.Left = append(l.Left, chart.TriedPoint{At: h.At, Left: left})
	}
	return l
}

func endOf(t *time.Time, end time.Time) time.Time {
	if t == nil {
		return end
	}
	return *t
}

// alerts lists the alerts of both, and draws them.
func (t *tryResult) alerts(
	r *backtest.Result, before, after *backtest.Side, now time.Time, incident func(string) string) {
	var lanes []chart.TriedLane
	type row struct {
		at time.Time
		triedAlert
	}
	var rows []row
	for _, side := range []struct {
		name string
		*backtest.Side
	}{{running, before}, {candidate, after}} {
		for i := range side.Alerts {
			a := &side.Alerts[i]
			name := format.Safe(a.Name, format.MaxName)
			if a.Tier != "" {
				name += " " + format.Safe(a.Tier, format.MaxName)
			}
			k := slices.IndexFunc(lanes, func(l chart.TriedLane) bool { return l.Name == name && l.Spec == side.name })
			if k < 0 {
				k = len(lanes)
				lanes = append(lanes, chart.TriedLane{Name: name, Spec: side.name})
			}
			span := slo.Span{From: a.Start, To: endOf(a.End, r.To)}
			if span.From.Before(r.From) {
				span.From = r.From
			}
			lanes[k].Spans = append(lanes[k].Spans, chart.TriedSpan{Span: span, Page: a.Page,
				Title: "fired " + format.Span(span)})
			x := triedAlert{At: format.NewStamp(a.Start, now), Spec: side.name, Name: name, Severity: "ticket",
				Lasted: "fires at the end"}
			if a.Page {
				x.Severity = "page"
			}
			if a.End != nil {
				x.Lasted = format.Duration(a.End.Sub(a.Start))
			}
			for _, v := range a.Group {
				x.Group = append(x.Group, format.GroupValue(v))
			}
			if a.Incident != "" {
				x.Incident, x.IncidentHref = format.Safe(a.Incident, format.MaxName), incident(a.Incident)
			}
			rows = append(rows, row{a.Start, x})
		}
	}
	order.By(lanes, func(a, b *chart.TriedLane) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Spec, a.Spec)) // the running spec first
	})
	t.Timeline = chart.NewTriedAlerts(slo.Span{From: r.From, To: r.To}, lanes)
	order.By(rows, func(a, b *row) int { return b.at.Compare(a.at) })
	t.More = max(0, len(rows)-shownTried)
	for _, x := range rows[:len(rows)-t.More] {
		t.Alerts = append(t.Alerts, x.triedAlert)
	}
}
