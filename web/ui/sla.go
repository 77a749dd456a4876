package ui

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// shownCards is how many agreements the first page shows.
const shownCards = 6

// slaCard is one agreement in one group: what every page shows of it.
type slaCard struct {
	ID          string // of the row in the page, the same in every report
	Mark        chart.Mark
	Informative bool
	Service     string
	Name        string
	Title       string
	Href        string
	Group       []format.Label
	Window      string
	Method      string
	Levels      string // the alert thresholds of the score
	Below       string // "score below 90" if the score is below an alert threshold
	Score       string
	Range       string // what it could be, if something is missing
	Why         string // what breaches it, such as "availability below objective"; "" if nothing does
	Summary     string
	Segments    []chart.Bar
	BarLabel    string
	Components  []componentRow
	Worst       *componentRow // nil if nothing was lost
	NoData      bool          // of no component
}

// componentRow is one part of a score.
type componentRow struct {
	Name       string
	Href       string
	Note       string
	Weight     string
	Indicator  string
	Objective  string
	Attainment string
	Points     string // what it scored of its own, in per cent
	Earned, Of string // the same in points of the score
	Lost       string
	Good, Bad  string
	Coverage   string
	Worst      bool
	Missing    bool
	Some       bool // it lost something
	Partial    bool
}

func slaSeverity(r *sla.SLAReport) int {
	return slices.Index(chart.AgreementMarks, chart.AgreementMark(r))
}

// worstFirst lists the agreements of a service (of all if ""), worst first.
func worstFirst(rep *sla.Report, service string) []*sla.SLAReport {
	var out []*sla.SLAReport
	for i := range rep.SLAs {
		if service == "" || rep.SLAs[i].SLA.Service == service {
			out = append(out, &rep.SLAs[i])
		}
	}
	slices.SortStableFunc(out, compareWorst)
	return out
}

func compareWorst(a, b *sla.SLAReport) int {
	return cmp.Or(slaSeverity(a)-slaSeverity(b), cmp.Compare(a.Score, b.Score))
}

// SLAHref links to the detail page of an agreement's group.
func (ui *Handler) SLAHref(r *sla.SLAReport) string { return ui.Href("/sla", slaQuery(r)) }

func slaQuery(r *sla.SLAReport) url.Values {
	q := site.GroupQuery(r.SLA.GroupBy, r.Group)
	q.Set("service", r.SLA.Service)
	q.Set("sla", r.SLA.Name)
	return q
}

// levelsText says below which scores an agreement alerts.
func levelsText(a *sla.Agreement) string {
	var out []string
	for _, l := range []struct {
		name string
		at   float64
	}{{"warning", a.Warning}, {"critical", a.Critical}} {
		if l.at > 0 {
			out = append(out, l.name+" below "+strconv.FormatFloat(l.at, 'g', 6, 64))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "alerts: " + strings.Join(out, ", ")
}

// belowText says which alert threshold the score is below; "" if none.
func belowText(r *sla.SLAReport) string {
	at := map[sla.Level]float64{sla.LevelWarning: r.SLA.Warning, sla.LevelCritical: r.SLA.Critical}[r.Level]
	if at == 0 {
		return ""
	}
	return "score below " + strconv.FormatFloat(at, 'g', 6, 64)
}

func (ui *Handler) newCard(rep *sla.Report, r *sla.SLAReport) slaCard {
	a := r.SLA
	card := slaCard{
		ID: "s" + respond.Hash(slices.Concat([]string{a.Service, a.Name}, r.Group)...), Mark: chart.AgreementMark(r),
		Informative: r.Informative,
		Service:     format.Safe(a.Service, format.MaxName), Name: format.Safe(a.Name, format.MaxName),
		Title: format.Safe(a.Description, format.MaxTitle), Href: ui.SLAHref(r),
		Group: format.Labels(a.GroupBy, r.Group), Window: a.Window.String(), Method: string(a.Method), Levels: levelsText(a),
		Below: belowText(r), Score: format.NoValue,
	}
	if r.HasData {
		card.Score = format.Score(r.Score)
	}
	if r.Missing > 0 {
		card.Range = format.Score(r.Low) + " to " + format.Score(r.High)
	}
	worst := chart.WorstComponent(r)
	switch {
	case r.Missing == len(r.Components):
		card.Summary, card.NoData = "No component has data.", true
	case worst != nil:
		card.Summary = fmt.Sprintf("%s lost the most: %s points.", format.Safe(worst.Name, format.MaxName),
			format.PointsLost(worst.Lost))
	default:
		card.Summary = "No points lost."
	}
	if r.Missing > 0 && r.Missing < len(r.Components) {
		card.Summary += fmt.Sprintf(" %d without data, which %s.", r.Missing, noDataText(a.NoData))
	}
	card.Why = breachText(r)
	card.Segments = chart.PointsBar(r)
	for i := range r.Components {
		card.Components = append(card.Components, ui.newComponent(rep, r, &r.Components[i], &r.Components[i] == worst))
	}
	if worst != nil {
		card.Worst = &card.Components[r.Worst]
	}
	card.BarLabel = "Points by component: " + card.Summary
	return card
}

// shownBreaches is how many components a row names.
const shownBreaches = 3

// breachText says which components breach an agreement.
func breachText(r *sla.SLAReport) string {
	if !r.Breached {
		return ""
	}
	var below, missing []string
	for i := range r.Components {
		c := &r.Components[i]
		switch {
		case c.HasData && c.Attainment < 1:
			below = append(below, format.Safe(c.Name, format.MaxName))
		case !c.HasData && r.SLA.NoData == sla.NoDataBad:
			missing = append(missing, format.Safe(c.Name, format.MaxName))
		}
	}
	var parts []string
	for _, p := range []struct {
		names []string
		what  string
	}{{below, " below objective"}, {missing, " without data"}} {
		if n := len(p.names); n > 0 {
			if n > shownBreaches {
				p.names = append(p.names[:shownBreaches], format.Count(n-shownBreaches)+" more")
			}
			parts = append(parts, format.And(p.names)+p.what)
		}
	}
	return strings.Join(parts, ", ")
}

func noDataText(n sla.NoData) string {
	return map[sla.NoData]string{sla.NoDataExclude: "is left out", sla.NoDataGood: "counts as good",
		sla.NoDataBad: "counts as bad"}[n]
}

func (ui *Handler) newComponent(rep *sla.Report, r *sla.SLAReport, c *sla.ComponentReport, worst bool) componentRow {
	out := componentRow{
		Name: format.Safe(c.Name, format.MaxName), Note: format.Safe(c.Note, format.MaxName),
		Weight: format.WrittenPercent(c.Weight), Worst: worst, Missing: !c.HasData,
		Indicator: "no data", Objective: format.WrittenPercent(c.Objective), Attainment: format.NoValue,
		Points: format.NoValue, Earned: format.NoValue, Of: format.Score(100 * c.Weight), Lost: format.NoValue,
		Good: format.Count(c.Counts.Good), Bad: format.Count(c.Counts.Bad), Coverage: format.Percent(c.Coverage, 1),
		Partial: c.Coverage < partialCoverage,
	}
	// The component's SLO may be grouped finer than the agreement: link to all of it.
	q := map[string][]string{"slo": {string(c.SLO)}}
	target := site.FindSLO(rep, c.SLO, r.Group)
	if target != nil && slices.Equal(target.SLO.GroupBy, r.SLA.GroupBy) {
		out.Href = ui.SLOHref(target)
	} else {
		out.Href = ui.Href("/", q)
	}
	decimals := 2
	if target != nil {
		decimals = format.Decimals(target.SLO.Objective)
	}
	if c.HasData {
		out.Indicator, out.Points, out.Lost = format.Percent(c.Indicator, decimals),
			strings.Replace(format.Percent(c.Points, 1), ".0%", "%", 1), format.PointsLost(c.Lost)
		out.Attainment, out.Earned, out.Some = strings.Replace(format.Percent(c.Attainment, 1), ".0%", "%", 1),
			format.Score(100*c.Weight*c.Points), c.Lost > 0
	}
	return out
}
