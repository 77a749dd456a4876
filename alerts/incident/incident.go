package incident

import (
	"cmp"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Severity says how urgent an incident is.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // a page fired
	Warning  Severity = "warning"  // only tickets and warnings of the catalogue fired
)

// State is where an incident is in its life.
type State string

// The states.
const (
	Open         State = "open"
	Acknowledged State = "acknowledged"
	Resolved     State = "resolved"
)

// Bounds of the book. What an operation would take beyond them is refused, or counted where alerts are concerned.
const (
	Retention    = 400 * 24 * time.Hour // after the resolution
	MaxIncidents = 5000                 // beyond it the one that was resolved first is removed
	MaxOpen      = 500                  // not resolved; an alert beyond it opens none
	MaxAlerts    = 1000                 // of one incident; further ones are only counted
	MaxNotes     = 200                  // of one incident, as many updates, and as many edits
	MaxText      = 16 << 10             // characters of a note or an update
	MaxTitle     = 200                  // characters
	MaxName      = 100                  // characters of a person, a team or a service
	// bytes of notes and updates of all incidents that are not resolved, which are never removed
	MaxOpenTexts = 4 << 20
	MaxURL       = 2000 // characters
	// of all incidents, approximately; beyond it the one that was resolved first is removed
	MaxBytes = 16 << 20
)

// JoinWithin is how long after the last alert of an incident another alert of the same service joins it.
const JoinWithin = 10 * time.Minute

// EngineService is the service of incidents of the engine itself.
const EngineService = "sloengine"

// Incident is one incident. It is immutable once it is published. Times are UTC.
type Incident struct {
	ID       string   `json:"id"`            // such as INC-2026-11-0007: the month in which it was opened, and a number
	Key      string   `json:"key,omitempty"` // of the request that opened it by hand
	Service  string   `json:"service"`       // EngineService for the engine itself; "" if opened by hand without one
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	State    State    `json:"state"`

	// Onset is when the failure began, by the counts where they show it. It is never after Detected.
	Onset time.Time `json:"onset"`
	// OnsetBy is OnsetByCounts, OnsetByAlert or OnsetByHand.
	OnsetBy string `json:"onset_by"`
	// Detected is when the first alert fired, or when a person opened the incident.
	Detected time.Time `json:"detected"`
	// Raised is when a page joined an incident of severity warning; zero if none did.
	Raised time.Time `json:"raised,omitzero"`
	// Automated means that an alert opened it.
	Automated bool      `json:"automated"`
	OpenedBy  string    `json:"opened_by,omitempty"` // a person
	Opened    time.Time `json:"opened"`              // when the operation was stored
	Team      string    `json:"team,omitempty"`      // that the service level belongs to: the label team

	Ack      *Ack        `json:"ack,omitempty"`
	Resolved *Resolution `json:"resolved,omitempty"`

	Spent     []Spent  `json:"spent,omitempty"` // of each SLO's error budget, from the onset to the resolution
	SpentDone bool     `json:"spent_done,omitempty"`
	Alerts    []Alert  `json:"alerts,omitempty"` // in the order in which they fired
	More      int      `json:"more_alerts,omitempty"`
	Notes     []Note   `json:"notes,omitempty"`   // for the team
	Updates   []Update `json:"updates,omitempty"` // for those concerned

	Public bool `json:"public"` // shown on the public page, with its public updates
	// PublicTitle is what the public page calls the incident; "" for the title of one that a person opened, and for the
	// service of one that an alert opened.
	PublicTitle string `json:"public_title,omitempty"`
	PostMortem  string `json:"post_mortem,omitempty"`

	Owner string `json:"owner,omitempty"` // as last edited; "": whoever acknowledged, see ResponseOwner
	Edits []Edit `json:"edits,omitempty"` // of title, severity and owner, oldest first
}

// How the onset was found.
const (
	OnsetByCounts = "counts" // see Onset
	OnsetByAlert  = "alert"  // the alert's own estimate
	OnsetByHand   = "hand"
)

// Ack is the acknowledgement.
type Ack struct {
	Time time.Time `json:"time"`
	By   string    `json:"by"`
	Team string    `json:"team,omitempty"`
	How  string    `json:"how"` // ByLink, ByAPI or ByPage
}

// Ways to acknowledge.
const (
	ByLink = "link"
	ByAPI  = "api"
	ByPage = "page"
)

// Resolution is the end of an incident.
type Resolution struct {
	Time      time.Time `json:"time"`
	By        string    `json:"by,omitempty"` // "" if automated
	Automated bool      `json:"automated"`    // its alerts were resolved
}

// Spent is what an incident cost of one SLO's error budget in one group.
type Spent struct {
	SLO   string   `json:"slo"`
	Group []string `json:"group,omitempty"`
	Valid uint64   `json:"valid"`
	Bad   uint64   `json:"bad"`
	// Budget is the share of the error budget of the SLO's window that was spent. 1 is all of it.
	Budget float64 `json:"budget"`
	Cost   *Cost   `json:"cost,omitempty"` // in money, if the spec stated one
}

// Cost is what the bad events or slices of an incident cost, by the price at that time.
type Cost struct {
	Amount   slo.Amount `json:"amount"`
	Currency string     `json:"currency"`
	Basis    string     `json:"basis"`             // such as 12.50 EUR per bad event
	Minutes  float64    `json:"minutes,omitempty"` // of violation, if these have a price
	Coverage float64    `json:"coverage"`          // share of the time of the incident that was observed, in [0,1]
	Sampled  bool       `json:"sampled,omitempty"` // rate limits sampled events of the SLO's window
	// Shared are the SLOs before it in the same list, with a cost in the same currency, that can count the same events or
	// time.
	Shared []string `json:"shared,omitempty"`
}

// Alert is one alert of an incident.
type Alert struct {
	Fingerprint string            `json:"fingerprint"`
	Name        string            `json:"name"`
	Service     string            `json:"service,omitempty"`
	SLO         string            `json:"slo,omitempty"`
	Agreement   string            `json:"agreement,omitempty"`
	Group       []string          `json:"group,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Severity    Severity          `json:"severity"`
	Proactive   bool              `json:"proactive,omitempty"` // it warns before an agreement is violated
	// Onset is when the failure began, by the counts where they show it. It is zero for alerts that joined under
	// version 0.2.0.
	Onset    time.Time `json:"onset,omitzero"`
	Fired    time.Time `json:"fired"`
	Resolved time.Time `json:"resolved,omitzero"`
	// Runbook is a URL; "" of alerts that 0.2.0 and earlier stored.
	Runbook string `json:"runbook,omitempty"`
}

// Note is a remark in Markdown.
type Note struct {
	Time time.Time `json:"time"`
	By   string    `json:"by,omitempty"`
	Text string    `json:"text"`
}

// Update tells those concerned how things are, in Markdown.
type Update struct {
	Time   time.Time `json:"time"`
	By     string    `json:"by,omitempty"`
	Text   string    `json:"text"`
	Public bool      `json:"public"`
	Status Status    `json:"status,omitempty"` // that the update sets; "" leaves it
}

// Edit is a change of title, severity or owner by a person. Fields that did not change are empty.
type Edit struct {
	Time     time.Time `json:"time"`
	By       string    `json:"by,omitempty"`
	Title    string    `json:"title,omitempty"`
	Severity Severity  `json:"severity,omitempty"`
	Owner    string    `json:"owner,omitempty"`
}

// OnsetOf is when the failure behind one of the alerts began, or the incident if the alert has no onset of its own.
func (i *Incident) OnsetOf(fingerprint string) time.Time {
	for k := range i.Alerts {
		if a := &i.Alerts[k]; a.Fingerprint == fingerprint && a.Resolved.IsZero() {
			return cmp.Or(a.Onset, i.Onset)
		}
	}
	return i.Onset
}

// Detection is the time from the onset to the detection.
func (i *Incident) Detection() time.Duration { return max(0, i.Detected.Sub(i.Onset)) }

// Paged is when the first page of the incident fired. ok is false if none did.
func (i *Incident) Paged() (at time.Time, ok bool) {
	for k := range i.Alerts {
		if a := &i.Alerts[k]; a.Severity == Critical && (!ok || a.Fired.Before(at)) {
			at, ok = a.Fired, true
		}
	}
	return at, ok
}

// Response is the time from the detection, or from the page that made the incident critical, to the acknowledgement. ok
// is false for an unacknowledged incident.
func (i *Incident) Response() (d time.Duration, ok bool) {
	if i.Ack == nil {
		return 0, false
	}
	from := i.Detected
	if i.Raised.After(from) {
		from = i.Raised
	}
	return max(0, i.Ack.Time.Sub(from)), true
}

// ResponseTeam is the team that the response counts for: the one that acknowledged, or else the one of the service
// level.
func (i *Incident) ResponseTeam() string {
	if i.Ack != nil && i.Ack.Team != "" {
		return i.Ack.Team
	}
	return i.Team
}

// IsResolved reports whether the incident is over.
func (i *Incident) IsResolved() bool { return i.State == Resolved }

// End is when the incident was resolved, or now.
func (i *Incident) End(now time.Time) time.Time {
	if i.Resolved != nil {
		return i.Resolved.Time
	}
	return now
}

// Engine reports whether the incident is of the engine itself.
func (i *Incident) Engine() bool { return i.Service == EngineService }

// Affected is an SLO or an agreement in one group that an alert of the incident was about.
type Affected struct {
	SLO       string   `json:"slo,omitempty"`
	Agreement string   `json:"agreement,omitempty"`
	Group     []string `json:"group,omitempty"`
}

// Affected lists what the alerts of the incident were about, each once, in the order in which they fired.
func (i *Incident) Affected() []Affected {
	var out []Affected
	for k := range i.Alerts {
		a := &i.Alerts[k]
		x := Affected{SLO: a.SLO, Agreement: a.Agreement, Group: a.Group}
		if x.SLO != "" {
			x.Agreement = ""
		}
		if x.SLO == "" && x.Agreement == "" {
			continue
		}
		if !slices.ContainsFunc(out, func(y Affected) bool {
			return x.SLO == y.SLO && x.Agreement == y.Agreement && slices.Equal(x.Group, y.Group)
		}) {
			out = append(out, x)
		}
	}
	return out
}

// alert finds an alert by its fingerprint, the last one that fired; nil if it is not one of the incident's.
func (i *Incident) alert(fingerprint string) *Alert {
	for k := len(i.Alerts) - 1; k >= 0; k-- {
		if i.Alerts[k].Fingerprint == fingerprint {
			return &i.Alerts[k]
		}
	}
	return nil
}

// lastFired is when the last alert fired, or the incident was detected.
func (i *Incident) lastFired() time.Time {
	last := i.Detected
	for k := range i.Alerts {
		if i.Alerts[k].Fired.After(last) {
			last = i.Alerts[k].Fired
		}
	}
	return last
}

// ResponseOwner is who works on the incident: the owner that a person named, or else who acknowledged; "" if neither.
func (i *Incident) ResponseOwner() string {
	if i.Owner == "" && i.Ack != nil {
		return i.Ack.By
	}
	return i.Owner
}

// urgent returns the alerts of the highest severity that the incident has. A person may give it another severity.
func (i *Incident) urgent() func(*Alert) bool {
	critical := slices.ContainsFunc(i.Alerts, func(a Alert) bool { return a.Severity == Critical })
	return func(a *Alert) bool { return !critical || a.Severity == Critical }
}

// firing reports whether an alert of the incident's highest severity fires.
func (i *Incident) firing() bool {
	urgent := i.urgent()
	return slices.ContainsFunc(i.Alerts, func(a Alert) bool { return a.Resolved.IsZero() && urgent(&a) })
}

// bytes is about how much memory the incident takes, from the lengths of its texts.
func (i *Incident) bytes() int {
	n := 600 + len(i.Title) + len(i.PublicTitle) + len(i.PostMortem) + 100*len(i.Spent)
	for k := range i.Alerts {
		a := &i.Alerts[k]
		n += 300 + len(a.Runbook)
		for name, value := range a.Labels {
			n += 32 + len(name) + len(value)
		}
		for _, value := range a.Group {
			n += 16 + len(value)
		}
	}
	return n + i.texts()
}

// texts is about how many bytes the notes and updates take.
func (i *Incident) texts() int {
	n := 0
	for k := range i.Notes {
		n += 100 + len(i.Notes[k].Text)
	}
	for k := range i.Updates {
		n += 100 + len(i.Updates[k].Text)
	}
	for k := range i.Edits {
		n += 150 + len(i.Edits[k].Title)
	}
	return n
}
