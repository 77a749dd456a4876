package receivers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	amalert "github.com/prometheus/alertmanager/alert"
	amnotify "github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/notify/webhook"
	"github.com/prometheus/common/model"

	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/rules/series"
)

// formats of a webhook beside Alertmanager's own: CloudEvents 1.0 in the structured and in the binary mode.
var formats = []string{formatStructured, formatBinary}

const (
	formatStructured = "cloudevents"
	formatBinary     = "cloudevents_binary"
)

// formatKey is the key of a webhook that names its format. Alertmanager's library does not know it, so the text for it
// has the format as a payload, which the library does not read.
const (
	formatKey     = "format"
	formatPayload = "format of sloengine: "
)

// takeFormat removes the format from the settings of a webhook; "" is that of Alertmanager.
func takeFormat(c any) string {
	hook, ok := c.(*webhook.WebhookConfig)
	if !ok {
		return ""
	}
	payload, _ := hook.Payload.(string)
	format, ok := strings.CutPrefix(payload, formatPayload)
	if !ok {
		return ""
	}
	hook.Payload = nil
	return format
}

// cloudEvent is one change of an alert or an incident, in the JSON format of CloudEvents.
type cloudEvent struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"` // the same whenever the same change is sent
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject,omitempty"`
	Time        time.Time       `json:"time"`
	ContentType string          `json:"datacontenttype"`
	Data        json.RawMessage `json:"data"` // nil: the first alert of the message
}

func newCloudEvent(base, service string) *cloudEvent {
	source := strings.TrimRight(base, "/") + "/"
	if service != "" {
		source += "?service=" + url.QueryEscape(service)
	}
	return &cloudEvent{SpecVersion: "1.0", Source: source, ContentType: "application/json"}
}

// alertEvent is the event of an alert. Receivers drop one whose source and id they know, so again is "" unless the
// alert is repeated on purpose.
func alertEvent(base string, a *amalert.Alert, again string) *cloudEvent {
	label := func(name string) string { return string(a.Labels[model.LabelName(name)]) }
	e := newCloudEvent(base, label(series.LabelService))
	change, at := "firing", a.StartsAt
	if !a.EndsAt.IsZero() {
		change, at = "resolved", a.EndsAt
	}
	e.Type, e.Time = "sloengine.alert."+change, at.UTC()
	e.ID = fmt.Sprintf("%s-%s-%d%s", a.Fingerprint(), change, at.UnixNano(), again)
	promise := cmp.Or(label(series.LabelSLO), label(series.LabelSLA))
	if e.Subject = label(series.LabelSLOID); e.Subject == "" && promise != "" {
		e.Subject = label(series.LabelService) + "/" + promise
	}
	e.Subject = remote.OneLine(e.Subject)
	return e
}

// body replaces the body that Alertmanager's library made.
func (e *cloudEvent) body(h http.Header, made []byte, format string) ([]byte, error) {
	if e.Data == nil {
		var message struct {
			Alerts []json.RawMessage `json:"alerts"`
		}
		if err := json.Unmarshal(made, &message); err != nil {
			return nil, fmt.Errorf("read message: %w", err)
		}
		if len(message.Alerts) == 0 {
			return nil, fmt.Errorf("event %s has no alert", e.ID)
		}
		e.Data = message.Alerts[0]
	}
	if format == formatStructured {
		h.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
		return json.Marshal(e)
	}
	h.Set("Content-Type", e.ContentType)
	for _, a := range [][2]string{
		{"specversion", e.SpecVersion}, {"id", e.ID}, {"source", e.Source}, {"type", e.Type}, {"subject", e.Subject},
		{"time", e.Time.Format(time.RFC3339Nano)},
	} {
		if a[1] != "" {
			h.Set("Ce-"+a[0], attribute(a[1]))
		}
	}
	return e.Data, nil
}

// attribute is a value as a header (CloudEvents 1.0, HTTP protocol binding, 3.1.3.2).
func attribute(value string) string {
	var out strings.Builder
	for _, c := range []byte(value) {
		if c <= ' ' || c > '~' || c == '"' || c == '%' {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

type eventKey struct{}

// envelope makes the client of a webhook send the event in the context of a request.
type envelope struct {
	http.RoundTripper
	format string
}

// RoundTrip implements http.RoundTripper.
func (t *envelope) RoundTrip(r *http.Request) (*http.Response, error) {
	e, ok := r.Context().Value(eventKey{}).(*cloudEvent)
	if !ok || r.Body == nil {
		return t.RoundTripper.RoundTrip(r)
	}
	made, err := io.ReadAll(r.Body) // our own message
	if cerr := r.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	body, err := e.body(r.Header, made, t.format)
	if err != nil {
		return nil, err
	}
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	return t.RoundTripper.RoundTrip(r)
}

// withEvent gives the envelope the event of a message, if the target takes events.
func (t *target) withEvent(ctx context.Context, m *message) context.Context {
	if t.format == "" {
		return ctx
	}
	return context.WithValue(ctx, eventKey{}, cmp.Or(m.event, alertEvent(t.base, m.alerts[0], m.again)))
}

// pick is the first alert of which a target was not told as it is; nil without one. A target of events gets each change
// once, in a message of its own. Only the watchdog is repeated, which would be useless otherwise.
func (l *lane) pick(t *telling, s *sent, reason amnotify.NotifyReason, now time.Time) (it *item, again string) {
	for _, it := range t.items {
		id := it.alert.Fingerprint
		if now.Before(l.refused[id]) {
			continue
		}
		switch {
		case it.firing() && !s.firing(id), !it.firing() && l.target.resolved && !s.resolvedOf(id):
			return it, ""
		case id == watchdogID && reason == amnotify.ReasonRepeatIntervalElapsed:
			return it, fmt.Sprintf("-%d", s.At.UnixNano())
		}
	}
	return nil, ""
}

// refusedFor is how long a target is not offered an event again that it refused.
const refusedFor = 5 * time.Minute

// refuse lets the other events go on.
func (l *lane) refuse(id string, now time.Time) {
	for id, until := range l.refused {
		if now.After(until) {
			delete(l.refused, id)
		}
	}
	l.refused[id] = now.Add(refusedFor)
}

// and is s, and an alert as it is.
func (s *sent) and(it *item) *sent {
	out := &sent{}
	if s != nil {
		out.Firing, out.Resolved = slices.Clone(s.Firing), slices.Clone(s.Resolved)
	}
	id := it.alert.Fingerprint
	from, to := &out.Resolved, &out.Firing
	if !it.firing() {
		from, to = to, from
	}
	if i, ok := slices.BinarySearch(*from, id); ok {
		*from = slices.Delete(*from, i, i+1)
	}
	if i, ok := slices.BinarySearch(*to, id); !ok {
		*to = slices.Insert(*to, i, id)
	}
	return out
}
