package site

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
)

// The pages about incidents.
const (
	IncidentListPath = "/incidents"
	IncidentPath     = "/incident" // of one, by the parameter id; notifications link to it
)

// AcknowledgePath begins the address of the page that acknowledges an incident. The id of the incident follows.
const AcknowledgePath = "/acknowledge/"

// Incidents is the book of incidents as pages and API use it. Errors that wrap one of package incident are the
// caller's. All others mean that the log cannot be written now.
type Incidents interface {
	View() *incident.View
	// Do applies an operation and returns the incident as it is then; nil if the operation was about all incidents.
	Do(ctx context.Context, o incident.Operation) (*incident.Incident, error)
	// Spent is what an incident cost so far of the error budgets.
	Spent(inc *incident.Incident) []incident.Spent
	// Measure measures the incidents detected from from to to against the baselines of the spec.
	Measure(from, to time.Time) incident.Measures
	// VerifyAck checks the query of an address at AcknowledgePath, which permits to acknowledge the incident.
	VerifyAck(id, until, signature string) error
}

// ReportSource is where the numbers of reports come from.
func (site *Site) ReportSource() report.Source {
	from := report.Source{Counts: site.Opt.Counts, Kept: site.Opt.Kept, Onsets: site.Opt.Onsets,
		LedgerOptions: site.Opt.Ledger}
	if site.Opt.Annotations != nil {
		from.Annotations = site.Opt.Annotations.List
	}
	if site.Opt.Incidents != nil {
		from.Incidents = site.reportIncidents
	}
	return from
}

// reportIncidents lists the incidents of a time for a report.
func (site *Site) reportIncidents(from, to time.Time) (out []report.Incident, known bool) {
	if !site.Opt.Brief().State.Recovered() {
		return nil, false
	}
	return IncidentsOf(site.Opt.Incidents.View(), site.Opt.Now(), site.Opt.Incidents.Spent)(from, to)
}

// IncidentsOf lists the incidents of a time for a report, as they are now.
func IncidentsOf(view *incident.View, now time.Time,
	spent func(*incident.Incident) []incident.Spent) report.IncidentsFunc {
	return func(from, to time.Time) (out []report.Incident, known bool) {
		if from.Before(now.Add(-incident.Retention)) {
			return nil, false
		}
		for inc := range view.All() {
			if inc.Onset.Before(to) && (inc.Resolved == nil || !inc.Resolved.Time.Before(from)) {
				out = append(out, newReportIncident(inc, spent(inc)))
			}
		}
		return out, true
	}
}

func newReportIncident(inc *incident.Incident, spent []incident.Spent) report.Incident {
	x := report.Incident{
		ID: inc.ID, Title: inc.Title, Service: inc.Service, Critical: inc.Severity == incident.Critical, Onset: inc.Onset,
		Detected: inc.Detected, Automated: inc.Automated, Spent: -1,
	}
	if inc.Ack != nil {
		x.Acknowledged = inc.Ack.Time
	}
	if inc.Resolved != nil {
		x.Resolved = inc.Resolved.Time
	}
	for i := range spent {
		x.Spent = max(x.Spent, spent[i].Budget)
	}
	if c := IncidentCosts(spent); c != nil {
		for i := range c.Sums {
			x.Cost = append(x.Cost, c.Sums[i].Amount)
		}
	}
	for _, a := range inc.Affected() {
		y := report.Affected{SLO: slo.ID(a.SLO), Group: a.Group}
		if a.SLO == "" {
			y.Agreement = slo.NewID(inc.Service, a.Agreement)
		}
		y.Onset, y.Resolved = alertTimes(inc, &a)
		x.Affected = append(x.Affected, y)
	}
	return x
}

// alertTimes are from the first onset of the alerts of an incident about something to the end of the last one. They are
// zero if they are not known, or not over.
func alertTimes(inc *incident.Incident, about *incident.Affected) (onset, resolved time.Time) {
	open := false
	for i := range inc.Alerts {
		x := &inc.Alerts[i]
		if x.SLO != about.SLO || x.SLO == "" && x.Agreement != about.Agreement || !slices.Equal(x.Group, about.Group) {
			continue
		}
		if at := cmp.Or(x.Onset, inc.Onset); onset.IsZero() || at.Before(onset) {
			onset = at
		}
		if open = open || x.Resolved.IsZero(); x.Resolved.After(resolved) {
			resolved = x.Resolved
		}
	}
	if open {
		resolved = time.Time{}
	}
	return onset, resolved
}

// OpenIncidents says in a sentence which incidents of severity critical are not resolved, and how many of severity
// warning are beside them.
func OpenIncidents(view *incident.View) (m chart.Mark, text string, warnings int) {
	open, waiting := 0, 0
	for _, inc := range view.Open() {
		switch {
		case inc.Severity != incident.Critical:
			warnings++
		case inc.Ack == nil:
			waiting++
			fallthrough
		default:
			open++
		}
	}
	text = "1 incident is open"
	if open != 1 {
		text = format.Count(open) + " incidents are open"
	}
	switch {
	case open == 0:
		return chart.OK(""), "No incident is open", warnings
	case waiting == 0:
		return chart.Wait(""), text + ", all acknowledged", warnings
	}
	return chart.Bad(""), text + ", " + format.Count(waiting) + " not acknowledged", warnings
}
