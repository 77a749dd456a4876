package public

import (
	"crypto/sha256"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/web/markdown"
	"github.com/sloengine/sloengine/web/site"
)

// Incident is what anybody may know of an incident that a person published. An alert's title, team, people, notes,
// groups and cost stay inside.
type Incident struct {
	ID string `json:"id"` // a UUID that tells nothing of the id inside
	// one that the view shows; absent if it was opened by hand without one
	Service string `json:"service,omitempty"`
	// absent if an alert opened it and it has no public title: titles of alerts name groups and SLOs
	Title    string           `json:"title,omitempty"`
	State    incident.State   `json:"state"`
	Status   incident.Status  `json:"status"` // by its public updates
	Impact   string           `json:"impact"` // impactMinor or impactMajor
	Started  time.Time        `json:"started"`
	Updated  time.Time        `json:"updated"`
	Resolved *time.Time       `json:"resolved,omitempty"`
	Updates  []IncidentUpdate `json:"updates"`                // latest first
	More     int              `json:"more_updates,omitempty"` // older ones that are left out
}

// IncidentUpdate is news of an incident, or a change of its state.
type IncidentUpdate struct {
	ID     string          `json:"id"`
	Time   time.Time       `json:"time"`
	State  incident.State  `json:"state"`          // of the incident at that time
	Status incident.Status `json:"status"`         // of the incident at that time
	Text   string          `json:"text,omitempty"` // Markdown; absent if only the state or the status changed

	html template.HTML // of Text
}

// Impacts, in Statuspage's words.
const (
	impactMinor = "minor" // of severity warning
	impactMajor = "major" // of severity critical
)

// Bounds of what the view tells of incidents.
const (
	incidentsBefore = 14 * 24 * time.Hour // since the resolution
	shownCurrent    = 20
	shownRecent     = 20
	shownUpdates    = 20       // of one incident
	shownText       = 32 << 10 // bytes of these; one has at most incident.MaxText
)

// incidents lists the public incidents of the services that the view shows: those that are not resolved, the one that
// was opened last first, and then those that were resolved recently, latest first. more is how many that are not
// resolved are left out. The list is nil if incidents are not known.
func incidents(book *incident.View, now time.Time, services []Service) (out []Incident, more int) {
	if book == nil {
		return nil, 0
	}
	shown := map[string]bool{}
	for i := range services {
		shown[services[i].name] = true
	}
	var recent []*incident.Incident
	out = []Incident{}
	for inc := range book.All() {
		about := shown[inc.Service] || inc.Service == "" && !inc.Automated
		switch {
		case !inc.Public || !about:
		case inc.IsResolved():
			if now.Sub(inc.Resolved.Time) <= incidentsBefore {
				recent = append(recent, inc)
			}
		case len(out) == shownCurrent:
			more++
		default:
			out = append(out, newIncident(inc))
		}
	}
	slices.SortStableFunc(recent, func(a, b *incident.Incident) int { return b.Resolved.Time.Compare(a.Resolved.Time) })
	for _, inc := range recent[:min(len(recent), shownRecent)] {
		out = append(out, newIncident(inc))
	}
	return out, more
}

// book is the book of incidents; nil if there is none, or if it is not complete yet.
func (pub *Handler) book(v site.View) *incident.View {
	if pub.Opt.Incidents == nil || !v.Eng.State.Recovered() {
		return nil
	}
	return pub.Opt.Incidents.View()
}

func newIncident(inc *incident.Incident) Incident {
	second := func(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
	x := Incident{
		ID: publicID(inc, "incident"), Service: jsonText(inc.Service), State: inc.State, Impact: impactMinor,
		Started: second(inc.Onset),
	}
	if inc.Severity == incident.Critical {
		x.Impact = impactMajor
	}
	switch {
	case inc.PublicTitle != "":
		x.Title = jsonText(inc.PublicTitle)
	case !inc.Automated:
		x.Title = jsonText(inc.Title)
	}
	all := []IncidentUpdate{{ID: publicID(inc, "open"), Time: inc.Detected, State: incident.Open}}
	if inc.Ack != nil {
		all = append(all, IncidentUpdate{ID: publicID(inc, "acknowledged"), Time: inc.Ack.Time, State: incident.Acknowledged})
	}
	if inc.Resolved != nil {
		end := second(inc.Resolved.Time)
		x.Resolved = &end
		if !slices.ContainsFunc(inc.Updates, func(u incident.Update) bool { // else the update says so
			return u.Public && u.Status == incident.StatusResolved && u.Time.Equal(inc.Resolved.Time)
		}) {
			all = append(all, IncidentUpdate{ID: publicID(inc, "resolved", inc.Resolved.Time.String()),
				Time: inc.Resolved.Time, State: incident.Resolved})
		}
	}
	if again := inc.Reopened(); !again.IsZero() {
		all = append(all, IncidentUpdate{ID: publicID(inc, "open", again.String()), Time: again, State: stateAt(inc, again)})
	}
	texts, size := 0, 0
	for k := range slices.Backward(inc.Updates) {
		u := &inc.Updates[k]
		if !u.Public {
			continue
		}
		if size += len(u.Text); texts == shownUpdates || size > shownText {
			x.More++
			continue
		}
		texts++
		all = append(all, IncidentUpdate{ID: publicID(inc, "update", strconv.Itoa(k)), Time: u.Time,
			State: stateAt(inc, u.Time), Text: jsonText(u.Text)})
	}
	// Of two at the same time the change of state came first.
	order.By(all, func(a, b *IncidentUpdate) int { return a.Time.Compare(b.Time) })
	slices.Reverse(all)
	for k := range all {
		all[k].Status, all[k].Time = inc.StatusAt(all[k].Time, true), second(all[k].Time)
	}
	x.Updates, x.Updated, x.Status = all, all[0].Time, all[0].Status
	return x
}

// render makes HTML of all updates. Texts that were rendered for the view before are not rendered again: a text may
// take tens of milliseconds, and the view is made again for each report.
func (p *publicCache) render(list []Incident) {
	next := map[string]template.HTML{}
	for i := range list {
		for k := range list[i].Updates {
			u := &list[i].Updates[k]
			if u.Text == "" {
				continue
			}
			h, ok := p.rendered[u.Text]
			if !ok {
				h = markdown.Render(u.Text)
			}
			u.html, next[u.Text] = h, h
		}
	}
	p.rendered = next
}

// stateAt is the state of an incident at a time after its detection.
func stateAt(inc *incident.Incident, t time.Time) incident.State {
	switch {
	case inc.Resolved != nil && !t.Before(inc.Resolved.Time):
		return incident.Resolved
	case inc.Ack != nil && !t.Before(inc.Ack.Time):
		return incident.Acknowledged
	}
	return incident.Open
}

// publicID is a name that stays the same over restarts. Ids inside count the incidents of a month, and most of those
// are not public. The hash also covers the time at which the incident was stored, which no page shows as exactly.
func publicID(inc *incident.Incident, of ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q", inc.ID, inc.Opened.UnixNano(), of))
	return uuid(sum)
}

// maintenanceID is the name of a planned maintenance.
func maintenanceID(m *Maintenance) string {
	return uuid(sha256.Sum256(fmt.Appendf(nil, "maintenance %q %d %d", m.Service, m.Start.Unix(), m.End.Unix())))
}

// uuid is a UUID of version 8 (RFC 9562) from a hash.
func uuid(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
