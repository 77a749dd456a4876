package alertmanager

import (
	"strconv"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
)

// Templates of messages, in Alertmanager's template language. They use only the
// annotations that every generated alert has, and alert of live alerts.
const (
	text = `{{ range .Alerts }}{{ if eq .Status "resolved" }}Over: {{ end }}*{{ .Annotations.summary` + slackText + ` }}*
{{ .Annotations.description` + slackText + ` }}
{{ with .Labels.slo_impact }}Impact: {{ . }}
{{ end }}{{ with .Annotations.runbook_url }}<{{ . }}|Runbook>{{ end }}{{ with .Annotations.alert }} <{{ . }}|Alert>` +
		`{{ end }}{{ with .Annotations.dashboard }} <{{ . }}|Dashboard>{{ end }}{{ with .Annotations.page }} <` +
		`{{ . }}|Status page>{{ end }}
{{ end }}`

	// Values of events are in these texts. A sender must not add lines, or markup of Slack. Alertmanager writes a subject
	// into one line, and mail servers refuse lines beyond 998 bytes: 40 characters of four bytes take half of that.
	oneLine   = ` | reReplaceAll "[[:cntrl:]\u2028\u2029]+" " "`
	short     = oneLine + ` | reReplaceAll "^(.{200}).+$" "${1}…"`
	encoded   = ` | reReplaceAll "^(.{140}).+$" "${1}…" | reReplaceAll "^((?:[[:ascii:]]*[^[:ascii:]]){40}).+$" "${1}…"`
	entities  = ` | reReplaceAll "&" "&amp;" | reReplaceAll "<" "&lt;" | reReplaceAll ">" "&gt;"`
	slackText = oneLine + entities

	titleLink = `{{ with .CommonAnnotations }}{{ or .alert .page .runbook_url }}{{ end }}`
)

// messages are the templates that depend on which severities are critical and
// which are good news.
type messages struct{ title, slackTitle, subject, color, urgency string }

func (g *generator) messages() messages {
	severity := ".CommonLabels." + series.LabelSeverity
	if g.opt.Names == rules.Sloth {
		severity = "(or .CommonLabels." + series.LabelSlothSeverity + " " + severity + ")"
	}
	return newMessages(severity, g.class[Critical], g.class[Recovery])
}

func newMessages(severity string, critical, good []string) messages {
	is := func(severities []string) string {
		return "match " + strconv.Quote("^(?:"+pattern(severities)+")$") + " " + severity
	}
	choose := func(resolved, forCritical, forGood, other string) string {
		first := `{{ if `
		if resolved != "" {
			first = `{{ if eq .Status "resolved" }}` + resolved + `{{ else if `
		}
		return first + is(critical) + ` }}` + forCritical + `{{ else if ` + is(good) + ` }}` + forGood +
			`{{ else }}` + other + `{{ end }}`
	}
	// A group of several alerts has its service and count.
	title := func(escape string) string {
		return choose("Resolved", "CRITICAL", "Good news", "Warning") +
			`: {{ with .CommonAnnotations.summary }}{{ .` + short + escape +
			` }}{{ else }}{{ .Alerts | len }} alerts of {{ .GroupLabels.service }}{{ end }}`
	}
	return messages{
		title:      title(""),
		slackTitle: title(entities),
		subject:    title(encoded),
		color:      choose("good", "danger", "good", "warning"),
		urgency:    choose("", "critical", "info", "warning"),
	}
}

// newReceiver turns a receiver into Alertmanager's form. Its channels tell when an
// alert is over, but for those that only hear good news.
func newReceiver(r Receiver, m messages, resolved bool) receiver {
	out := receiver{Name: r.Name}
	for _, s := range r.Slack {
		out.Slack = append(out.Slack, slackConfig{
			SendResolved: resolved, APIURLFile: s.APIURLFile, Channel: s.Channel, Title: m.slackTitle, TitleLink: titleLink,
			Text: text, Color: m.color,
		})
	}
	for _, p := range r.PagerDuty {
		c := pagerConfig{SendResolved: resolved, RoutingKeyFile: p.RoutingKeyFile, ServiceKeyFile: p.ServiceKeyFile,
			Description: m.title, Severity: m.urgency}
		if p.Severity != "" {
			c.Severity = p.Severity
		}
		out.PagerDuty = append(out.PagerDuty, c)
	}
	for _, w := range r.Webhook {
		c := webhookConfig{SendResolved: resolved, URL: w.URL}
		switch {
		case w.CredentialsFile != "":
			c.HTTP = &httpConfig{Authorization: &authorization{w.CredentialsFile}}
		case w.Username != "":
			c.HTTP = &httpConfig{BasicAuth: &basicAuth{w.Username, w.PasswordFile}}
		}
		out.Webhook = append(out.Webhook, c)
	}
	for _, e := range r.Email {
		out.Email = append(
			out.Email, emailConfig{SendResolved: resolved, To: e.To, Headers: map[string]string{"Subject": m.subject}})
	}
	return out
}
