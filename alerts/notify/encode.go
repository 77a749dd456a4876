package notify

import (
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/event"
)

// Bounds of one request.
const (
	maxAlerts = 500
	maxBytes  = 1 << 20 // a single alert may be longer
)

// message is one alert as a peer receives it.
type message struct {
	labels      []state.Label
	annotations []alerts.Annotation
	starts      time.Time
	ends        time.Time
}

// newMessage says of an alert that it fires until ends, or that it has resolved.
func newMessage(a *state.Alert, ends time.Time) message {
	m := message{labels: a.Labels, annotations: a.Annotations(), starts: a.FiredAt, ends: ends}
	if a.State == state.Resolved {
		m.ends = a.ResolvedAt
	}
	if m.ends.Before(m.starts) { // the clock was set back in between
		m.starts = m.ends
	}
	return m
}

// appendTo appends the message as Alertmanager's API reads it. external are labels to add, by name. An empty label is
// none, as in Prometheus.
func (m *message) appendTo(b []byte, external []state.Label) []byte {
	b = append(b, `{"labels":{`...)
	comma := false
	for _, l := range m.labels {
		if l.Value != "" {
			b = appendField(b, comma, l.Name, l.Value)
			comma = true
		}
	}
	for _, l := range external {
		i, found := slices.BinarySearchFunc(m.labels, l.Name, func(l state.Label, name string) int {
			return strings.Compare(l.Name, name)
		})
		if !found || m.labels[i].Value == "" {
			b = appendField(b, true, l.Name, l.Value) // every alert has a name
		}
	}
	b = append(b, `},"annotations":{`...)
	page := ""
	for i, a := range m.annotations {
		b = appendField(b, i > 0, a.Name, a.Value)
		if a.Name == "page" {
			page = a.Value
		}
	}
	b = append(b, `},"startsAt":"`...)
	b = m.starts.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","endsAt":"`...)
	b = m.ends.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	if page != "" {
		b = appendField(b, true, "generatorURL", page)
	}
	return append(b, '}')
}

// appendField appends a member. Values of groups come from events, so they may hold anything.
func appendField(b []byte, comma bool, name, value string) []byte {
	if comma {
		b = append(b, ',')
	}
	b = event.AppendJSONText(b, name)
	b = append(b, ':')
	return event.AppendJSONText(b, value)
}
