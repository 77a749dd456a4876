package receivers

import (
	"fmt"
	htmltemplate "html/template"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	texttemplate "text/template"

	"github.com/prometheus/alertmanager/template"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// templates take the place of Alertmanager's own of the same names, which list every label. A receiver or a file under
// templates may replace them in turn. The subject comes with the routing, which knows what is critical.
const templates = `
{{ define "__alertmanager" }}sloengine{{ end }}
{{ define "__alertmanagerURL" }}{{ with .CommonAnnotations }}{{ or .incident .alert .page $.ExternalURL }}` +
	`{{ else }}{{ $.ExternalURL }}{{ end }}{{ end }}

{{ define "__text_alert_list" }}{{ alertList 8000 . }}{{ end }}
{{ define "__text_alert_list_markdown" }}{{ alertList 8000 . }}{{ end }}

{{ define "slack.default.text" }}{{ template "__text_alert_list" .Alerts }}{{ end }}
{{ define "rocketchat.default.text" }}{{ template "__text_alert_list" .Alerts }}{{ end }}
{{ define "mattermost.default.text" }}{{ template "__text_alert_list_markdown" .Alerts }}{{ end }}
{{ define "webex.default.message" }}{{ template "__subject" . }}
{{ alertList 5500 .Alerts }}{{ end }}
{{ define "pushover.default.message" }}{{ alertList 950 .Alerts }}{{ end }}
{{ define "opsgenie.default.description" }}{{ template "__text_alert_list" .Alerts }}{{ end }}
{{ define "opsgenie.default.source" }}{{ template "__alertmanager" . }}{{ end }}
{{ define "victorops.default.state_message" }}{{ template "__text_alert_list" .Alerts }}{{ end }}
{{ define "discord.default.message" }}{{ alertList 3900 .Alerts }}{{ end }}
{{ define "wechat.default.message" }}{{ template "__subject" . }}
{{ alertList 900 .Alerts }}{{ end }}
{{ define "telegram.default.message" }}{{ template "__subject" . }}

{{ alertList 2600 .Alerts }}{{ end }}

{{ define "email.default.html" }}<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>{{ template "__subject" . }}</title></head>
<body style="font-family: sans-serif; max-width: 44em">
<h2>{{ template "__subject" . }}</h2>
{{ range .Alerts }}<h3>{{ if eq .Status "resolved" }}Resolved: {{ end }}` +
	`{{ or .Annotations.summary .Labels.alertname }}</h3>
{{ with .Annotations.description }}<p>{{ . }}</p>{{ end }}
{{ with .Labels.slo_impact }}<p>Impact: {{ . }}</p>{{ end }}
{{ with .Annotations.affected }}<p>Also affected: {{ . }}</p>{{ end }}
{{ with .Annotations.` + state.AnnotationWhy + ` }}<p>{{ . }}</p>{{ end }}
{{ with .Annotations.` + alerts.AnnotationForecast + ` }}<p>Forecast: {{ . }}</p>{{ end }}
<p>{{ if ne .Status "resolved" }}{{ with .Annotations.acknowledge }}<a href="{{ . }}"><b>Acknowledge</b></a> · ` +
	`{{ end }}{{ end }}
{{- with .Annotations.incident }}<a href="{{ . }}">Incident</a> · {{ end }}
{{- with .Annotations.runbook_url }}<a href="{{ . }}">Runbook</a> · {{ end }}
{{- with .Annotations.alert }}<a href="{{ . }}">Alert</a> · {{ end }}
{{- with .Annotations.page }}<a href="{{ . }}">Status page</a> · {{ end }}
{{- with .Annotations.dashboard }}<a href="{{ . }}">Dashboard</a> · {{ end }}
firing since {{ .StartsAt.UTC.Format "2006-01-02 15:04:05 UTC" }}{{ if eq .Status "resolved" }} until ` +
	`{{ .EndsAt.UTC.Format "2006-01-02 15:04:05 UTC" }}{{ end }}</p>
{{ if ne .Status "resolved" }}{{ with .Annotations.` + state.AnnotationTraces + ` }}<p>Failing traces:
{{- range fields . }} <a href="{{ . }}">trace</a>{{ end }}</p>
{{ end }}{{ end }}<p style="color: #666; font-size: 85%">{{ range .Labels.SortedPairs }}{{ .Name }}={{ .Value }} ` +
	`{{ end }}</p>
{{ end }}</body></html>{{ end }}
`

// headed begins the subject: what fails in the incident comes before the alerts that say so, while all of them page.
const headed = `{{ define "__subject" }}{{ if and (eq .Status "firing") .CommonAnnotations.` + headline +
	` }}CRITICAL: {{ .CommonAnnotations.` + headline + ` }}{{ else }}`

// CheckTemplates reads the files of templates. A name without a pattern must be that of a file.
func CheckTemplates(patterns []string) error {
	for _, p := range patterns {
		if strings.ContainsAny(p, "*?[") {
			continue
		}
		if _, err := os.Stat(p); err != nil {
			return err
		}
	}
	_, err := newTemplates(patterns, "", "")
	return err
}

// newTemplates reads the files of the patterns over the default templates. subject is the template of a message's
// title, "" for one without urgency.
func newTemplates(patterns []string, subject, external string) (*template.Template, error) {
	t, err := template.FromGlobs(nil, func(text *texttemplate.Template, html *htmltemplate.Template) {
		own := map[string]any{"alertList": alertList, "fields": strings.Fields}
		text.Funcs(own)
		html.Funcs(own)
	})
	if err != nil {
		return nil, fmt.Errorf("default templates: %w", err)
	}
	if subject == "" {
		subject =
			`{{ if eq .Status "resolved" }}Resolved: {{ end }}{{ or .CommonAnnotations.summary .CommonLabels.alertname }}`
	}
	if err := t.Parse(strings.NewReader(templates + headed + subject + `{{ end }}{{ end }}`)); err != nil {
		return nil, fmt.Errorf("default templates: %w", err)
	}
	for _, p := range patterns {
		if err := addTemplates(t, p); err != nil {
			return nil, fmt.Errorf("templates %s: %w", p, err)
		}
	}
	if t.ExternalURL, err = url.Parse(external); err != nil {
		return nil, fmt.Errorf("external URL: %w", err)
	}
	return t, nil
}

// addTemplates reads the files of a pattern, within bounds.
func addTemplates(t *template.Template, pattern string) error {
	names, err := filepath.Glob(pattern)
	for _, name := range names {
		if err == nil {
			err = fsys.CheckFile(name, maxFileBytes)
		}
	}
	if err != nil {
		return err
	}
	return t.FromGlob(pattern)
}
