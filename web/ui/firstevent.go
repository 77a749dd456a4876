package ui

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// firstEvent is the command that an empty page offers.
type firstEvent struct {
	Command string
	SLO     string // the service level that it counts for
}

// firstEvent returns a command that sends an event which the first SLO counts,
// or nil if there are events already.
func (ui *Handler) firstEvent(r *http.Request, rep *sla.Report) *firstEvent {
	if len(rep.SLOs) == 0 || len(rep.Traffic) > 0 || slices.ContainsFunc(rep.SLOs, func(r sla.SLOReport) bool {
		return r.Total.Valid() > 0 || r.Budget.HasData
	}) {
		return nil
	}
	of := rep.SLOs[0].SLO
	for i := range rep.SLOs {
		if k := rep.SLOs[i].SLO.Indicator.Kind; k == slo.KindEvents || k == slo.KindLatency || k == slo.KindApdex {
			of = rep.SLOs[i].SLO
			break
		}
	}
	cmd := "curl " + quote(ui.ExternalURL(r)+"/api/v1/events") + " \\\n  -H 'Content-Type: application/json'"
	if ui.Opt.TokenNeeded {
		cmd += " \\\n  -H \"Authorization: Bearer $TOKEN\""
	}
	return &firstEvent{cmd + " \\\n  -d " + quote(exampleEvent(of)), format.Safe(string(of.ID), format.MaxTitle)}
}

// exampleEvent is an event that the SLO counts, as far as its matchers name what
// they want.
func exampleEvent(s *slo.SLO) string {
	e := struct {
		Service    string            `json:"service"`
		Type       string            `json:"type"`
		Outcome    string            `json:"outcome,omitempty"`
		Severity   string            `json:"severity,omitempty"`
		DurationMS int               `json:"duration_ms"`
		Attributes map[string]string `json:"attributes,omitempty"`
	}{Service: s.ID.Service(), Type: "request", Outcome: "success", DurationMS: 120, Attributes: map[string]string{}}
	set := func(name, value string) {
		switch name {
		case "service":
		case "type":
			e.Type = value
		case "outcome":
			e.Outcome = value
		case "severity":
			e.Severity = value
		default:
			e.Attributes[name] = value
		}
	}
	for i, name := range s.GroupBy {
		value := "example"
		if len(s.Expect) > 0 && i < len(s.Expect[0]) {
			value = s.Expect[0][i]
		}
		set(name, value)
	}
	for _, m := range s.Indicator.Counted() {
		switch first, _, _ := strings.Cut(m.Value, "|"); {
		case m.Op == slo.OpEqual:
			set(m.Name, m.Value)
		case m.Op == slo.OpRegexp && regexp.QuoteMeta(first) == first && first != "":
			set(m.Name, first) // the first of a list of plain alternatives
		}
	}
	if s.Indicator.Kind == slo.KindCompletion {
		set(s.Indicator.Completion.Key, "example")
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(e) // strings and a number always encode
	return strings.TrimSpace(buf.String())
}

// quote makes one word of s for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
