package public

import (
	"html/template"
	"slices"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/markdown"
	"github.com/sloengine/sloengine/web/site"
)

// incidentRow is a public incident, ready to be shown.
type incidentRow struct {
	ID       string // of the element that links lead to
	Name     string
	Service  string // "" if Name says it, or if there is none
	Mark     chart.Mark
	From, To format.Stamp // To is empty if it goes on
	Lasted   string
	Updates  []updateRow
	More     int
}

type updateRow struct {
	Mark chart.Mark
	At   format.Stamp
	Text template.HTML
}

// name is what the incident is called. An alert's title stays inside.
func (x *Incident) name() string {
	switch {
	case x.Title != "":
		return format.Safe(x.Title, format.MaxTitle)
	case x.Service != "":
		return "Incident affecting " + format.Safe(x.Service, format.MaxName)
	}
	return "Incident"
}

// sentence describes a change of state or status that has no text.
func (u *IncidentUpdate) sentence() string {
	switch {
	case u.Status == incident.StatusIdentified:
		return "The cause is identified."
	case u.Status == incident.StatusMonitoring:
		return "A fix is in place and is being monitored."
	case u.State == incident.Open:
		return "The incident is being investigated."
	}
	return "The incident is " + string(u.State) + "."
}

func (x *Incident) mark(s incident.Status) chart.Mark {
	switch {
	case s == incident.StatusResolved:
		return chart.OK(string(s))
	case s == incident.StatusMonitoring:
		return chart.Wait(string(s))
	case x.Impact == impactMajor:
		return chart.Bad(string(s))
	}
	return chart.Risk(string(s))
}

func newIncidentRow(x *Incident, now time.Time) incidentRow {
	r := incidentRow{
		ID: anchor(x), Name: x.name(), Mark: x.mark(x.Status), From: format.NewStamp(x.Started, now), More: x.More,
	}
	end := now
	if x.Resolved != nil {
		end = *x.Resolved
		r.To = format.NewStamp(end, now)
	}
	r.Lasted = format.Duration(end.Sub(x.Started))
	if x.Title != "" {
		r.Service = format.Safe(x.Service, format.MaxName)
	}
	for k := range x.Updates {
		u := &x.Updates[k]
		row := updateRow{Mark: x.mark(u.Status), At: format.NewStamp(u.Time, now), Text: u.html}
		if u.Text == "" {
			row.Text = template.HTML("<p>" + u.sentence() + "</p>") // no word of it is foreign
		}
		r.Updates = append(r.Updates, row)
	}
	return r
}

// Preview is what the public page would show of an incident that is not public yet, or with another title.
type Preview struct {
	Shown    bool     `json:"shown"` // the page shows incidents of its service
	Incident Incident `json:"incident"`
}

// Preview is that of an incident with a public title; "" is none.
func (pub *Handler) Preview(inc *incident.Incident, title string, v site.View) Preview {
	as := *inc
	as.Public, as.PublicTitle = true, title
	return Preview{pub.shows(inc, v), newIncident(&as)}
}

// PreviewPage is the same as HTML.
func (pub *Handler) PreviewPage(p Preview, now time.Time) (template.HTML, error) {
	for k := range p.Incident.Updates {
		p.Incident.Updates[k].html = markdown.Render(p.Incident.Updates[k].Text)
	}
	return pub.Fragment("pubwhole", newIncidentRow(&p.Incident, now))
}

// shows reports whether the page shows incidents like this one once they are public.
func (pub *Handler) shows(inc *incident.Incident, v site.View) bool {
	if inc.Service == "" || v.Rep == nil {
		return inc.Service == "" && !inc.Automated
	}
	return slices.ContainsFunc(v.Rep.SLOs, func(r sla.SLOReport) bool {
		return r.SLO.ID.Service() == inc.Service && pub.isPublic(r.SLO)
	}) || slices.ContainsFunc(pub.publicAgreements(v.Rep), func(a agreementOf) bool { return a.service == inc.Service })
}

// anchor is the name of an incident on the page.
func anchor(x *Incident) string { return "incident-" + x.ID }

// headline says in a few words how things are: what is measured, and whether an incident goes on.
func (s *Status) headline() (m chart.Mark, head, text string) {
	m = s.State.mark()
	open := s.MoreIncidents
	for i := range s.Incidents {
		if s.Incidents[i].State != incident.Resolved {
			open++
		}
	}
	switch {
	case len(s.Services) == 0:
		m, head, text = chart.None(""), "Nothing is published", "No SLO is marked as public in the spec."
	case s.State == Operational:
		head = "All systems are operational"
	case s.State == DegradedNow:
		head = "Some systems are degraded"
	case s.State == Outage:
		head = "There is an outage"
	default:
		head = "There is no data"
	}
	if open == 0 {
		return m, head, text
	}
	incidents := "1 incident is open"
	if open > 1 {
		incidents = format.Count(open) + " incidents are open"
	}
	if s.State == DegradedNow || s.State == Outage {
		return m, head, incidents + "."
	}
	if len(s.Services) > 0 {
		text = head + "."
	}
	return chart.Risk(""), incidents, text
}
