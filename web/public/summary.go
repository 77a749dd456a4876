package public

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/internal/order"
)

// The documents that Statuspage serves as /api/v2/summary.json, components.json, incidents.json and
// scheduled-maintenances.json, as far as programs that read them look at them. Fields that Statuspage always has and
// the engine does not know are null.
type (
	// ComponentList is components.json.
	ComponentList struct {
		Page       SummaryPage `json:"page"`
		Components []Component `json:"components"`
	}
	// IncidentList is incidents.json: also those that are resolved, latest first.
	IncidentList struct {
		Page      SummaryPage       `json:"page"`
		Incidents []SummaryIncident `json:"incidents"`
	}
	// MaintenanceList is scheduled-maintenances.json: also those that are completed, latest first.
	MaintenanceList struct {
		Page        SummaryPage          `json:"page"`
		Maintenance []SummaryMaintenance `json:"scheduled_maintenances"`
	}
	// Summary is summary.json.
	Summary struct {
		Page        SummaryPage          `json:"page"`
		Status      SummaryStatus        `json:"status"`
		Components  []Component          `json:"components"`
		Incidents   []SummaryIncident    `json:"incidents"`              // that are not resolved
		Maintenance []SummaryMaintenance `json:"scheduled_maintenances"` // that are not completed
	}
	SummaryPage struct {
		ID      string    `json:"id"`
		Name    string    `json:"name"`
		URL     string    `json:"url"`
		Zone    string    `json:"time_zone"`
		Updated time.Time `json:"updated_at"`
	}
	SummaryStatus struct {
		Indicator   string `json:"indicator"`
		Description string `json:"description"`
	}
	Component struct {
		ID          string      `json:"id"`
		Name        string      `json:"name"`
		Status      string      `json:"status"`
		State       PublicState `json:"state"` // in this engine's words, which tell no data apart
		Created     *time.Time  `json:"created_at"`
		Updated     time.Time   `json:"updated_at"`
		Position    int         `json:"position"`
		Description *string     `json:"description"`
		Showcase    bool        `json:"showcase"`
		StartDate   *string     `json:"start_date"`
		GroupID     *string     `json:"group_id"`
		PageID      string      `json:"page_id"`
		Group       bool        `json:"group"`
		IfDegraded  bool        `json:"only_show_if_degraded"`
	}
	SummaryIncident struct {
		ID         string      `json:"id"`
		Name       string      `json:"name"`
		Status     string      `json:"status"`
		Impact     string      `json:"impact"`
		Created    time.Time   `json:"created_at"`
		Updated    time.Time   `json:"updated_at"`
		Started    time.Time   `json:"started_at"`
		Monitoring *time.Time  `json:"monitoring_at"`
		Resolved   *time.Time  `json:"resolved_at"`
		Link       string      `json:"shortlink"`
		PageID     string      `json:"page_id"`
		Updates    []Update    `json:"incident_updates"` // latest first, never empty
		Components []Component `json:"components"`
	}
	Update struct {
		ID         string    `json:"id"`
		IncidentID string    `json:"incident_id"`
		Status     string    `json:"status"`
		Body       string    `json:"body"` // Markdown
		Created    time.Time `json:"created_at"`
		Updated    time.Time `json:"updated_at"`
		Display    time.Time `json:"display_at"`
		Affected   []any     `json:"affected_components"`
	}
	SummaryMaintenance struct {
		SummaryIncident
		From  time.Time `json:"scheduled_for"`
		Until time.Time `json:"scheduled_until"`
	}
)

// pageID is what the document calls the page.
const pageID = "public"

// componentStatus are the states of services in Statuspage's words. It has none for no data, which is never told as
// good.
var componentStatus = map[PublicState]string{
	Operational: "operational", DegradedNow: "degraded_performance", Outage: "major_outage",
	UnknownNow: "degraded_performance",
}

// indicators are the states of the page in Statuspage's words, in ascending order.
var indicators = []string{"none", "minor", "major", "critical"}

// current is a summary without what is over.
func (s Summary) current() Summary {
	s.Incidents = slices.DeleteFunc(slices.Clone(s.Incidents), func(x SummaryIncident) bool { return x.Resolved != nil })
	s.Maintenance = slices.DeleteFunc(slices.Clone(s.Maintenance),
		func(x SummaryMaintenance) bool { return x.Resolved != nil })
	return s
}

// latest sorts incidents by when they became public, the latest first.
func latest(all []SummaryIncident) []SummaryIncident {
	all = slices.Clone(all)
	order.By(all, func(a, b *SummaryIncident) int { return b.Created.Compare(a.Created) })
	return all
}

// newSummary has all of the page in Statuspage's form, also what is over.
func (pub *Handler) newSummary(s *Status) Summary {
	out := Summary{
		Page: SummaryPage{ID: pageID, Name: pub.pageName(), URL: pub.address(pagePath),
			Zone: "Etc/UTC", Updated: s.Time},
		Components: []Component{}, Incidents: []SummaryIncident{}, Maintenance: []SummaryMaintenance{},
	}
	of := map[string][]Component{}
	for i := range s.Services {
		x := &s.Services[i]
		c := Component{ID: x.Service, Name: x.Service, Status: componentStatus[x.State], State: x.State, Updated: s.Time,
			Position: i + 1, PageID: pageID}
		out.Components = append(out.Components, c)
		of[x.Service] = []Component{c}
	}
	affected := func(service string) []Component { return append([]Component{}, of[service]...) }
	for i := range s.Incidents {
		x := &s.Incidents[i]
		y := SummaryIncident{
			ID: x.ID, Name: x.name(), Status: string(x.Status), Impact: x.Impact,
			Created: x.Updates[len(x.Updates)-1].Time, Updated: x.Updated, Started: x.Started,
			Resolved: x.Resolved,
			Link:     pub.address(pagePath) + "#" + anchor(x), PageID: pageID, Components: affected(x.Service),
		}
		for k := range x.Updates {
			u := &x.Updates[k]
			if at := u.Time; u.Status == incident.StatusMonitoring {
				y.Monitoring = &at // of the updates, which are latest first, the first one stays
			}
			y.Updates = append(y.Updates, Update{
				ID: u.ID, IncidentID: x.ID, Status: string(u.Status), Body: cmp.Or(u.Text, u.sentence()), Created: u.Time,
				Updated: u.Time, Display: u.Time,
			})
		}
		out.Incidents = append(out.Incidents, y)
	}
	for i := range s.Maintenance {
		m := &s.Maintenance[i]
		out.Maintenance = append(out.Maintenance, pub.newSummaryMaintenance(m, s.Time, affected(m.Service)))
	}
	_, out.Status.Description, _ = s.headline()
	out.Status.Indicator = s.indicator()
	if s.Stale {
		out.Status.Description += " (out of date)"
	}
	return out
}

func (pub *Handler) newSummaryMaintenance(m *Maintenance, now time.Time, of []Component) SummaryMaintenance {
	status, known := "scheduled", now // when it was planned is not known
	var over *time.Time
	switch m.When {
	case "ongoing":
		status, known = "in_progress", m.Start
	case "over":
		status, known, over = "completed", m.End, &m.End
	}
	return SummaryMaintenance{SummaryIncident{
		ID: maintenanceID(m), Name: "Planned maintenance of " + m.Service, Status: status, Impact: "maintenance",
		Created: known, Updated: known, Started: m.Start, Resolved: over,
		Link: pub.address(pagePath), PageID: pageID, Updates: []Update{}, Components: of,
	}, m.Start, m.End}
}

// indicator is how bad things are: the worst of what is measured and of the incidents that go on. What is not known is
// minor.
func (s *Status) indicator() string {
	out, rank := len(s.Services) > 0, 0
	for i := range s.Services {
		out = out && s.Services[i].State == Outage
	}
	switch s.State {
	case Outage:
		if rank = 2; out {
			rank = 3
		}
	case DegradedNow, UnknownNow:
		rank = 1
	}
	if s.Stale {
		rank = max(rank, 1)
	}
	for i := range s.Incidents {
		if x := &s.Incidents[i]; x.State != incident.Resolved {
			rank = max(rank, 1)
			if x.Impact == impactMajor {
				rank = max(rank, 2)
			}
		}
	}
	return indicators[rank]
}

// pageName is what readers of many pages call this one.
func (pub *Handler) pageName() string {
	if name := pub.Opt.Look.Name; name != "" {
		return name
	}
	if u, err := url.Parse(pub.Opt.ExternalURL); err == nil && u.Host != "" {
		return u.Host
	}
	return "Status"
}
