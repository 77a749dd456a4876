package alertmanager

import (
	"regexp"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// The parts of Alertmanager's configuration that are used, in the order in which
// they are written.

type document struct {
	Global        *global        `yaml:"global,omitempty"`
	Route         *route         `yaml:"route"`
	InhibitRules  []inhibitRule  `yaml:"inhibit_rules,omitempty"`
	TimeIntervals []timeInterval `yaml:"time_intervals,omitempty"`
	Receivers     []receiver     `yaml:"receivers"`
}

type global struct {
	SMTPSmarthost    string `yaml:"smtp_smarthost"`
	SMTPFrom         string `yaml:"smtp_from"`
	SMTPAuthUsername string `yaml:"smtp_auth_username,omitempty"`
	SMTPAuthPassFile string `yaml:"smtp_auth_password_file,omitempty"`
	SMTPRequireTLS   *bool  `yaml:"smtp_require_tls,omitempty"`
}

type route struct {
	Receiver       string   `yaml:"receiver,omitempty"`
	Matchers       []string `yaml:"matchers,omitempty"`
	GroupBy        []string `yaml:"group_by,omitempty,flow"`
	GroupWait      string   `yaml:"group_wait,omitempty"`
	GroupInterval  string   `yaml:"group_interval,omitempty"`
	RepeatInterval string   `yaml:"repeat_interval,omitempty"`
	Mute           []string `yaml:"mute_time_intervals,omitempty"`
	Routes         []route  `yaml:"routes,omitempty"`
}

type inhibitRule struct {
	Source []string `yaml:"source_matchers"`
	Target []string `yaml:"target_matchers"`
	Equal  []string `yaml:"equal,omitempty,flow"`
	cause  bool     // Source is a declared cause of Target
}

type timeInterval struct {
	Name      string     `yaml:"name"`
	Intervals []interval `yaml:"time_intervals"`
}

type interval struct {
	Times       []timeRange `yaml:"times,omitempty"`
	Weekdays    []string    `yaml:"weekdays,omitempty,flow"`
	DaysOfMonth []string    `yaml:"days_of_month,omitempty,flow"`
	Months      []string    `yaml:"months,omitempty,flow"`
	Years       []string    `yaml:"years,omitempty,flow"`
	Location    string      `yaml:"location,omitempty"`
}

type timeRange struct {
	Start string `yaml:"start_time"`
	End   string `yaml:"end_time"`
}

type receiver struct {
	Name      string          `yaml:"name"`
	Slack     []slackConfig   `yaml:"slack_configs,omitempty"`
	PagerDuty []pagerConfig   `yaml:"pagerduty_configs,omitempty"`
	Webhook   []webhookConfig `yaml:"webhook_configs,omitempty"`
	Email     []emailConfig   `yaml:"email_configs,omitempty"`
}

type slackConfig struct {
	SendResolved bool   `yaml:"send_resolved"`
	APIURLFile   string `yaml:"api_url_file"`
	Channel      string `yaml:"channel"`
	Title        string `yaml:"title"`
	TitleLink    string `yaml:"title_link"`
	Text         string `yaml:"text"`
	Color        string `yaml:"color"`
}

type pagerConfig struct {
	SendResolved   bool   `yaml:"send_resolved"`
	RoutingKeyFile string `yaml:"routing_key_file,omitempty"`
	ServiceKeyFile string `yaml:"service_key_file,omitempty"`
	Description    string `yaml:"description"`
	Severity       string `yaml:"severity"`
}

type webhookConfig struct {
	SendResolved bool        `yaml:"send_resolved"`
	URL          string      `yaml:"url"`
	HTTP         *httpConfig `yaml:"http_config,omitempty"`
}

type httpConfig struct {
	Authorization *authorization `yaml:"authorization,omitempty"`
	BasicAuth     *basicAuth     `yaml:"basic_auth,omitempty"`
}

type authorization struct {
	CredentialsFile string `yaml:"credentials_file"`
}

type basicAuth struct {
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"password_file"`
}

type emailConfig struct {
	SendResolved bool              `yaml:"send_resolved"`
	To           string            `yaml:"to"`
	Headers      map[string]string `yaml:"headers"`
}

// equal and oneOf are matchers in Alertmanager's own syntax, which is close to
// PromQL's; only backslash, quote and line feed are escaped.
func equal(name, value string) string { return name + `="` + escape(value) + `"` }

func present(name string) string { return name + `!=""` }

// oneOf matches any of the values as they are, not as patterns.
func oneOf[S ~string](name string, values []S) string {
	if len(values) == 1 {
		return equal(name, string(values[0]))
	}
	return name + `=~"` + alternatives(values) + `"`
}

// notOneOf matches what none of the values is.
func notOneOf[S ~string](name string, values []S) string {
	return name + `!~"` + alternatives(values) + `"`
}

func alternatives[S ~string](values []S) string { return escape(pattern(values)) }

// pattern is a regular expression that matches any of the values, without anchors.
func pattern[S ~string](values []S) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = regexp.QuoteMeta(string(v))
	}
	return strings.Join(quoted, "|")
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func escape(s string) string { return escapes.Replace(s) }

func seconds(d time.Duration) string { return slo.FormatDuration(d) }
