package alertmanager

import (
	"reflect"
	"strings"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
)

// described are the keys of a file of receivers: an example, whether one is required, and the text.
var described = map[string]struct {
	example  string
	required bool
	text     string
}{
	"version":   {FileVersion, true, "The format."},
	"receivers": {"[{name: team, email: {to: team@example.org}}]", true, "The receivers, at least one. Each has any number of channels."},
	"default":   {"team", true, "The receiver of alerts that no route takes."},
	"routes":    {"{critical: oncall, warning: team}", false, "The receiver of each class of alerts: `critical`, `warning` or `recovery`. A class without one takes `default`."},
	"services":  {"{checkout: {critical: oncall}}", false, "Routes of single services, which take precedence over `routes`."},
	"watchdog":  {"switch", false, "The receiver of the alert that always fires, for a dead man's switch. Without it, nobody is told about this alert."},
	"timing":    {"{recovery: {group_wait: 1m}}", false, "The timing of each class of alerts."},
	"smtp":      {"{smarthost: mail.example.org:587, from: slo@example.org}", false, "The mail server. Receivers with `email` require it."},

	"timing.group_wait":      {"30s", false, "The wait before the first message about a group of alerts. `0s` is at once."},
	"timing.group_interval":  {"5m", false, "The wait before a message about new alerts of the group."},
	"timing.repeat_interval": {"4h", false, "The wait before the same message is sent again."},

	"receivers.name":      {"team", true, "The name, by which routes refer to the receiver."},
	"receivers.slack":     {"{api_url_file: /etc/alertmanager/slack-url, channel: \"#sla\"}", false, "Channels of Slack."},
	"receivers.pagerduty": {"{routing_key_file: /etc/alertmanager/pagerduty-key}", false, "Services of PagerDuty."},
	"receivers.webhook":   {"{url: https://hooks.example.org/in}", false, "Services that take Alertmanager's JSON."},
	"receivers.email":     {"{to: team@example.org}", false, "Recipients of mail."},

	"receivers.slack.api_url_file":         {"/etc/alertmanager/slack-url", true, "The file with the URL of the incoming webhook, which is a secret."},
	"receivers.slack.channel":              {"\"#sla\"", true, "The channel."},
	"receivers.pagerduty.routing_key_file": {"/etc/alertmanager/pagerduty-key", false, "The file with the key of the events API 2. This or `service_key_file` is required."},
	"receivers.pagerduty.service_key_file": {"/etc/alertmanager/pagerduty-key", false, "The file with the key of the older events API."},
	"receivers.pagerduty.severity":         {"error", false, "The severity at PagerDuty."},
	"receivers.webhook.url":                {"https://hooks.example.org/in", true, "The URL. It must not hold a secret."},
	"receivers.webhook.credentials_file":   {"/etc/alertmanager/token", false, "The file with a bearer token."},
	"receivers.webhook.username":           {"alertmanager", false, "The user name of basic auth, with `password_file`."},
	"receivers.webhook.password_file":      {"/etc/alertmanager/password", false, "The file with the password of basic auth."},
	"receivers.email.to":                   {"team@example.org", true, "The recipient, or several with commas between them."},

	"smtp.smarthost":     {"mail.example.org:587", true, "Host and port of the mail server."},
	"smtp.from":          {"slo@example.org", true, "The sender of the mails."},
	"smtp.username":      {"sloengine", false, "The user name, with `password_file`."},
	"smtp.password_file": {"/etc/alertmanager/smtp-password", false, "The file with the password."},
	"smtp.tls":           {"false", false, "Whether TLS is required."},
}

// describedDefaults are the defaults that are no value of the file.
var describedDefaults = map[string]string{
	"timing.group_wait": "that of the class", "timing.group_interval": "that of the class", "timing.repeat_interval": "that of the class",
	"receivers.pagerduty.severity": "that of the class", "smtp.tls": "true",
}

// Shape describes the file that ReadReceivers reads. Names of files are those of the machine on which Alertmanager runs.
func Shape() shape.Shape {
	d := yamldoc.Describer{Duration: slo.FormatDuration, StrictText: true, Each: func(path string, _ reflect.Value, k *shape.Key) {
		about := described[path]
		k.Example, k.Required, k.Text = about.example, about.required, about.text
		if text, ok := describedDefaults[path]; ok {
			k.Default = text
		}
		class := "^(" + string(Critical) + "|" + string(Warning) + "|" + string(Recovery) + ")$"
		switch path {
		case "version":
			k.Words = []string{FileVersion}
		case "routes", "timing":
			k.Shape.Pattern = class
		case "receivers.pagerduty.severity":
			k.Words = pagerDutySeverities
		case "services":
			k.Of.Pattern = class
		}
		if strings.HasSuffix(path, "_file") {
			k.Note = "file name"
		}
	}}
	var f receiversFile
	s, _ := d.Describe("", &f, "")
	return s
}
