package receivers

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	amalert "github.com/prometheus/alertmanager/alert"
	amnotify "github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/common/model"

	"github.com/sloengine/sloengine/rules/series"
)

// IncidentState is an incident as it is now, for receivers of events.
type IncidentState struct {
	ID, Version string // each change gives it another version
	Service     string
	Severity    string // of alerts like it
	Resolved    bool
	At          time.Time // of the last change
	Document    func() json.RawMessage
}

// incidentsKey is the entry of all incidents in the queue of a lane. It is no key of a group.
const incidentsKey = "incidents"

// knownIncident is what a target was told of an incident: its version, and that it was resolved.
type knownIncident struct {
	Version  string `json:"version"`
	Resolved bool   `json:"resolved,omitempty"`
}

// readIncidents takes over the incidents as they are, and queues them for the targets of events.
func (d *Dispatcher) readIncidents() {
	if d.opt.Incidents == nil || d.news.Load() == nil {
		return
	}
	d.mu.Lock()
	wanted := slices.ContainsFunc(d.plan.all(), func(t *target) bool { return t.format != "" })
	d.mu.Unlock()
	if !wanted {
		return
	}
	all, ok := d.opt.Incidents()
	if !ok {
		return
	}
	ids := make(map[string]bool, len(all))
	for i := range all {
		ids[all[i].ID] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.incidents = all
	now := d.opt.Now()
	for _, t := range d.plan.all() {
		maps.DeleteFunc(d.told[t.name], func(id string, _ knownIncident) bool { return !ids[id] }) // they will not change
		if l := d.lanes[t.name]; t.format != "" && l.incident(now) != nil {
			l.addIncidents()
		}
	}
}

// addIncidents queues the incidents. The dispatcher's mutex is held.
func (l *lane) addIncidents() {
	if l.queued[incidentsKey] == nil {
		l.enqueue(&entry{key: incidentsKey})
	}
}

// incident is the first incident that the target has to be told of; nil without one. A target hears of those that
// alerts of the same service and severity would go to, and of one that it does not know only while it is not resolved.
// The dispatcher's mutex is held.
func (l *lane) incident(now time.Time) *IncidentState {
	if l.d.plan.root == nil {
		return nil
	}
	known := l.d.told[l.target.name]
	for i := range l.d.incidents {
		s := &l.d.incidents[i]
		was, ok := known[s.ID]
		if was.Version == s.Version || !ok && s.Resolved || now.Before(l.refused[s.ID]) ||
			l.target.receiver() != l.d.plan.root.Match(s.labels())[0].RouteOpts.Receiver {
			continue
		}
		return s
	}
	return nil
}

func (s *IncidentState) labels() model.LabelSet {
	return model.LabelSet{
		series.LabelService: model.LabelValue(s.Service), series.LabelSeverity: model.LabelValue(s.Severity),
	}
}

// receiver is the name of the receiver that the target belongs to.
func (t *target) receiver() string { return t.name[:strings.LastIndexByte(t.name, '/')] }

// incidentMessage is the event about an incident.
func (l *lane) incidentMessage(e *entry, s *IncidentState) *message {
	was, known := l.d.told[l.target.name][s.ID]
	change := "updated"
	switch {
	case !known:
		change = "opened"
	case s.Resolved && !was.Resolved:
		change = "closed"
	}
	event := newCloudEvent(l.target.base, s.Service)
	event.ID, event.Subject = fmt.Sprintf("%s-%s-%s", s.ID, change, s.Version), s.ID
	event.Type, event.Time = "sloengine.incident."+change, s.At.UTC()
	event.Data = s.Document()
	a := &amalert.Alert{UpdatedAt: l.now()} // for a template in the URL of the webhook
	a.Labels, a.StartsAt = s.labels(), s.At
	return &message{
		entry: e, key: incidentsKey, receiver: l.target.receiver(), labels: a.Labels, alerts: []*amalert.Alert{a},
		reason: amnotify.ReasonFirstNotification, only: s.ID, event: event,
		incident: knownIncident{s.Version, s.Resolved},
	}
}

// noteIncident remembers what a target was told. The mutex is held.
func (d *Dispatcher) noteIncident(target string, m *message) {
	if d.told[target] == nil {
		d.told[target] = map[string]knownIncident{}
	}
	d.told[target][m.only] = m.incident
	d.changes.all()
}
