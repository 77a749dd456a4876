package api

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// maxMailRows is how many lines a table of a mail has at most. The rest is in the CSV.
const maxMailRows = 100

// mailModel is a report in words.
type mailModel struct {
	Subject, Title, Heading, Dates, Zone, Scope string
	Running                                     string // "" or how far the period is
	Empty                                       string // "" or why there are no numbers
	Page                                        string
	Figures                                     []mailFigure
	Tables                                      []mailTable
	Compared                                    string // the period before; "": none
	Notes                                       []string

	most int // lines of a table
}

type mailFigure struct {
	Name, Value, Before string
	Bad                 bool
}

const (
	green = "#17633a"
	red   = "#a3221b"
	grey  = "#555b66"
)

func newMailModel(in *mailInput) *mailModel {
	r := in.Report
	m := &mailModel{
		Title: format.Safe(in.Title, format.MaxName), Heading: "SLO report: " + r.Period.Title(),
		Dates: r.Period.Dates(), Page: in.Page,
		Scope: mailScope(r), Zone: mailZones(r), most: maxMailRows,
	}
	if in.Whole {
		m.most = math.MaxInt
	}
	switch {
	case !r.Begun:
		m.Empty = "The period has not begun."
	case len(r.SLOs)+len(r.SLAs)+len(r.Thresholds) == 0:
		m.Empty = "There is nothing to report on: the spec has no SLO, SLA or event threshold for it."
	}
	before := indexLines(in.Before)
	if in.Before != nil && m.Empty == "" {
		m.Compared = in.Before.Period.Title()
	}
	m.Subject = mailSubject(m, r)
	if m.Empty != "" {
		return m
	}
	if r.Running {
		m.Running = "The period is not over. These are the numbers so far."
	}
	m.Figures = mailFigures(r, in.Before)
	m.addAgreements(r, before)
	m.addSLOs(r, before)
	m.addThresholds(r, before)
	m.Notes = r.Notes()
	m.fillCosts(r, in.Before)
	m.fillIncidents(r)
	m.fillLedgers(r)
	m.fillForecasts(r)
	return m
}

func (m *mailModel) table(title string) *mailTable {
	return &mailTable{Title: title, most: m.most, compared: m.Compared != ""}
}

// show adds a table that is filled, if it has lines.
func (m *mailModel) show(t *mailTable) {
	if len(t.Rows) > 0 {
		m.Tables = append(m.Tables, *t)
	}
}

func mailSubject(m *mailModel, r *report.Report) string {
	agreements, objectives := r.Agreements(), r.Objectives()
	what := "no data"
	switch {
	case m.Empty != "":
		what = "nothing to report on"
	case agreements.Judged() > 0:
		what = fmt.Sprintf("%d of %d SLAs met", agreements.Met, agreements.Judged())
	case objectives.Judged() > 0:
		what = fmt.Sprintf("%d of %d objectives met", objectives.Met, objectives.Judged())
	}
	about := r.Period.Title()
	if name := cmp.Or(m.Title, m.Scope); name != "" {
		about = name + ", " + about
	}
	return "SLO report " + about + ": " + what
}

func mailScope(r *report.Report) string {
	if r.Agreement != "" {
		return format.Safe(string(r.Agreement), format.MaxTitle)
	}
	return format.Safe(r.Service, format.MaxName)
}

// mailZones names the zone of all lines, if it is one.
func mailZones(r *report.Report) string {
	seen := map[string]bool{}
	covered := func(c *report.Covered) { seen[c.Zone.String()] = true }
	for i := range r.SLOs {
		covered(&r.SLOs[i].Covered)
	}
	for i := range r.SLAs {
		covered(&r.SLAs[i].Covered)
	}
	if len(seen) != 1 {
		return "time zones of the SLAs"
	}
	for z := range seen {
		return z
	}
	return ""
}

// mailLines are those of another period, by what they are about.
type mailLines struct {
	slos       map[string]*report.SLO
	slas       map[string]*report.SLA
	thresholds map[string]*report.Threshold
}

func indexLines(r *report.Report) mailLines {
	l := mailLines{map[string]*report.SLO{}, map[string]*report.SLA{}, map[string]*report.Threshold{}}
	if r == nil {
		return l
	}
	for i := range r.SLOs {
		l.slos[sloKey(&r.SLOs[i])] = &r.SLOs[i]
	}
	for i := range r.SLAs {
		l.slas[slaKey(&r.SLAs[i])] = &r.SLAs[i]
	}
	for i := range r.Thresholds {
		l.thresholds[thresholdKey(&r.Thresholds[i])] = &r.Thresholds[i]
	}
	return l
}

func sloKey(r *report.SLO) string { return string(r.Now.SLO.ID) + "\x00" + r.Now.Group.Key() }
func slaKey(r *report.SLA) string {
	return r.SLA.Service + "/" + r.SLA.Name + "\x00" + r.Group.Key()
}
func thresholdKey(r *report.Threshold) string {
	return r.Now.Threshold.Service + "/" + r.Now.Threshold.Name
}

// comparableCoverage reports whether a line of the period before has all of its numbers.
func comparableCoverage(c *report.Covered) bool {
	return c.KeptFrom.IsZero() && c.Coverage >= report.WholeCoverage
}

func (m *mailModel) addAgreements(r *report.Report, before mailLines) {
	t := m.table("SLAs").left("State", "SLA", "Group").right("Score").before("Before", "Change").
		left("Worst component").right("Coverage")
	for _, x := range report.WorstFirst(r.SLAs, func(x *report.SLA) report.Verdict { return x.Verdict }) {
		score, was, diff, worst := format.NoValue, format.NoValue, format.NoValue, format.NoValue
		has := x.Verdict != report.NoData
		if has {
			score = format.Score(x.Score)
			if x.Missing > 0 {
				score += fmt.Sprintf(" (%s to %s)", format.Score(x.Low), format.Score(x.High))
			}
		}
		if has && x.Worst >= 0 {
			c := x.Components[x.Worst]
			worst = fmt.Sprintf("%s cost %s", format.Safe(c.Name, format.MaxName), format.PointsLost(c.Lost))
		}
		if b := before.slas[slaKey(x)]; b != nil && b.Verdict != report.NoData {
			was = format.Score(b.Score)
			switch {
			case !comparableCoverage(&b.Covered):
				was += " (partial)"
			case has:
				diff = cmp.Or(strings.TrimPrefix(format.Signed(x.Score-b.Score, 2), "+0.00"), "0")
			}
		}
		name := format.Safe(x.SLA.Service+"/"+x.SLA.Name, format.MaxTitle)
		t.add(mailVerdict(x.Verdict), name, mailGroup(x.SLA.GroupBy, x.Group), score, was, diff, worst,
			mailCoverage(&x.Covered))
	}
	m.show(t)
}

func (m *mailModel) addSLOs(r *report.Report, before mailLines) {
	corrected := slices.ContainsFunc(r.SLOs, func(x report.SLO) bool { return x.Corrected > 0 })
	t := m.table("SLOs").left("State", "SLO", "Group").right("Objective", "Indicator").
		columns(mailColumn{textOnly: true, hidden: !corrected},
			[]string{"Raw"}).before("Before").right("Budget spent").before("Before").
		columns(mailColumn{textOnly: true}, []string{"Good"}).right("Bad", "Events").left("Worst day").right("Coverage")
	for _, x := range report.WorstFirst(r.SLOs, func(x *report.SLO) report.Verdict { return x.Verdict }) {
		s := x.Now.SLO
		digits := format.Decimals(s.Objective)
		indicator, raw, spent, worst := format.NoValue, format.NoValue, format.NoValue, format.NoValue
		if x.Net.HasData {
			indicator, spent = format.Percent(x.Net.SLI, digits), format.Percent(x.Net.Consumed, 1)
		}
		if x.Raw.HasData {
			raw = format.Percent(x.Raw.SLI, digits)
		}
		if x.Worst >= 0 {
			d := &x.Days[x.Worst]
			worst = d.Date
			if at, err := time.Parse(time.DateOnly, d.Date); err == nil {
				worst = at.Format("Mon 2 Jan")
			}
			worst += " (" + format.Percent(d.Share, 0) + ")"
		}
		was, spentBefore := format.NoValue, format.NoValue
		if b := before.slos[sloKey(x)]; b != nil && b.Net.HasData {
			was, spentBefore = format.Percent(b.Net.SLI, digits), format.Percent(b.Net.Consumed, 1)
			if !comparableCoverage(&b.Covered) {
				spentBefore += " (partial)"
			}
		}
		n := x.Net.Counts
		t.add(mailVerdict(x.Verdict), format.Safe(string(s.ID), format.MaxTitle), mailGroup(s.GroupBy, x.Now.Group),
			s.Objective.String(),
			indicator, raw, was, spent, spentBefore, format.Count(n.Good), format.Count(n.Bad), format.Count(x.Events), worst,
			mailCoverage(&x.Covered))
	}
	m.show(t)
}

// worstGroups is how many groups of an event threshold a report has: those with most violations. The CSV has all.
const worstGroups = 10

// addThresholds adds the lines of event thresholds: of all events, and of the worst groups.
func (m *mailModel) addThresholds(r *report.Report, before mailLines) {
	t := m.table("Violations of event thresholds").left("Event threshold").right("Within", "Warnings", "Critical").
		before("Warnings and critical before/Before").right("Coverage")
	t.most = math.MaxInt
	for i := range r.Thresholds {
		x := &r.Thresholds[i]
		b := before.thresholds[thresholdKey(x)]
		add := func(name string, now sla.Violations, then func() sla.Violations) {
			was := format.NoValue
			if b != nil && b.Coverage > 0 {
				v := then()
				was = format.Count(v.Warning) + " and " + format.Count(v.Critical)
				if !comparableCoverage(&b.Covered) {
					was += " (partial)"
				}
			}
			t.add(name, format.Count(now.Within), format.Count(now.Warning), format.Count(now.Critical),
				was, mailCoverage(&x.Covered))
		}
		name := format.Safe(x.Now.Threshold.Service+"/"+x.Now.Threshold.Name, format.MaxTitle)
		add(name, x.Violations, func() sla.Violations { return b.Violations })
		for _, g := range x.Worst(worstGroups) {
			add(name+": "+mailGroup(x.Now.Threshold.GroupBy, g.Group), g.Violations, func() (then sla.Violations) {
				same := func(o report.ThresholdGroup) bool { return slices.Equal(o.Group, g.Group) }
				if at := slices.IndexFunc(b.Groups, same); at >= 0 {
					then = b.Groups[at].Violations
				}
				return then
			})
		}
	}
	m.show(t)
}

func mailFigures(r, before *report.Report) []mailFigure {
	of := func(t report.Tally) string { return fmt.Sprintf("%d of %d", t.Met, t.Judged()) }
	values := func(r *report.Report) []mailFigure {
		agreements, objectives, v := r.Agreements(), r.Objectives(), r.Violations()
		low, known := r.LowestCoverage()
		coverage := format.NoValue
		if known {
			coverage = format.Percent(low, 1)
		}
		return []mailFigure{
			{Name: "SLAs met", Value: of(agreements), Bad: agreements.Breached > 0},
			{Name: "Objectives met", Value: of(objectives), Bad: objectives.Breached > 0},
			{Name: "Critical violations", Value: format.Count(v.Critical), Bad: v.Critical > 0},
			{Name: "Warnings", Value: format.Count(v.Warning)},
			{Name: "Lowest coverage", Value: coverage, Bad: low < report.WholeCoverage},
		}
	}
	out := values(r)
	if before != nil {
		for i, was := range values(before) {
			out[i].Before = was.Value
		}
	}
	return out
}

func mailVerdict(v report.Verdict) mailCell {
	switch v {
	case report.Met:
		return mailCell{Text: "met", Color: green}
	case report.Breached:
		return mailCell{Text: "breached", Color: red}
	case report.Informative:
		return mailCell{Text: "informs only", Color: grey}
	}
	return mailCell{Text: "no data", Color: grey}
}

func mailGroup(names []string, g slo.Group) string {
	var parts []string
	for _, l := range format.Labels(names, g) {
		parts = append(parts, l.Name+"="+l.Value)
	}
	return strings.Join(parts, ", ")
}

func mailCoverage(c *report.Covered) string {
	out := format.Percent(c.Coverage, 1)
	if !c.KeptFrom.IsZero() {
		out += " since " + c.KeptFrom.In(c.Zone).Format("2 Jan 15:04")
	}
	if !c.NewFrom.IsZero() {
		out += " new since " + c.NewFrom.In(c.Zone).Format("2 Jan 15:04")
	}
	if c.Rounded {
		out += ", whole hours"
	}
	return out
}
