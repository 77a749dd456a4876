package config

import (
	"errors"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	httpconfig "github.com/prometheus/common/config"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/alertmanager"
	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/alerts/receivers"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// notificationsConfig says who is notified of the live alerts.
type notificationsConfig struct {
	Send           bool                 `yaml:"send"` // false where Prometheus sends the alerts
	Alertmanagers  []alertmanagerConfig `yaml:"alertmanagers"`
	ExternalLabels map[string]string    `yaml:"external_labels"`             // as in prometheus.yml
	Resend         time.Duration        `yaml:"resend" min:"1s" max:"1h"`    // of an alert that fires on
	Timeout        time.Duration        `yaml:"timeout" min:"10ms" max:"1m"` // of a request
	DashboardURL   string               `yaml:"dashboard_url"`               // of Grafana; "": no links
	RunbookURL     string               `yaml:"runbook_url"`                 // "": the project's own
	// label of alerts on the engine, as in prometheus.yml
	Job      string `yaml:"job"`
	Instance string `yaml:"instance"` // the same; "": the listen address

	// Without an Alertmanager. The first three are in its own format.
	Receivers  amSection                                  `yaml:"receivers"`
	Global     amSection                                  `yaml:"global"`
	Templates  []string                                   `yaml:"templates" is:"file"`
	Preview    bool                                       `yaml:"preview"` // messages are shown at /silences, too
	Default    string                                     `yaml:"default"` // receiver of what no route takes
	Routes     map[alertmanager.Class]string              `yaml:"routes"`
	Services   map[string]map[alertmanager.Class]string   `yaml:"services"`
	Watchdog   string                                     `yaml:"watchdog"` // receiver of the alert that always fires
	Timing     map[alertmanager.Class]alertmanager.Timing `yaml:"timing"`
	Escalation map[alertmanager.Class][]receivers.Step    `yaml:"escalation"`
}

// amSection is a section in Alertmanager's format, which its library reads: the path, and for the receivers, once they
// are checked, all of it as one configuration.
type amSection string

// DecodeYAML implements yamldoc.Unmarshaler.
func (s *amSection) DecodeYAML(_ *yamldoc.Decoder, v *yamldoc.Value, _ reflect.StructTag) {
	*s = amSection(v.Path)
}

type alertmanagerConfig struct {
	Name       string `yaml:"name"` // "": host and port of the URL
	httpServer `yaml:",inline"`
}

// httpServer is a server that is asked over HTTP, such as Prometheus or an Alertmanager.
type httpServer struct {
	URL        string `yaml:"url"`
	httpAccess `yaml:",inline"`
}

// httpAccess is how a server is reached.
type httpAccess struct {
	BasicAuth       *basicAuthConfig `yaml:"basic_auth"`
	BearerTokenFile string           `yaml:"bearer_token_file" is:"file"`
	BearerTokenEnv  string           `yaml:"bearer_token_env"` // name of an environment variable
	TLS             tlsConfig        `yaml:"tls"`
}

type basicAuthConfig struct {
	Username     string `yaml:"username" is:"required"`
	PasswordFile string `yaml:"password_file" is:"file"`
	PasswordEnv  string `yaml:"password_env"` // name of an environment variable
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (n *notificationsConfig) check(f *yamldoc.Decoder, server *smtpConfig) {
	const section = "notifications"
	if n.Timeout >= 4*n.Resend {
		f.Errorf(section+".timeout", "lower it, or raise resend",
			"must be less than four times resend, after which an alert ends that is not sent again")
	}
	for _, name := range slices.Sorted(maps.Keys(n.ExternalLabels)) {
		if !labelName.MatchString(name) || name == "alertname" || strings.HasPrefix(name, "__") {
			f.Errorf(section+".external_labels."+name, "letters, digits and underscore, as in prometheus.yml",
				"%q is not a name for an external label", name)
		}
	}
	if n.Job == "" {
		f.Errorf(section+".job", "the job_name of the scrape in prometheus.yml", "must not be empty")
	}
	checkURL(f, section+".dashboard_url", n.DashboardURL, "", false)
	checkURL(f, section+".runbook_url", n.RunbookURL, "", false)
	n.checkReceivers(f, server)
	names := map[string]int{}
	for i := range n.Alertmanagers {
		a, path := &n.Alertmanagers[i], item(section+".alertmanagers", i)
		a.check(f, path, "http://alertmanager.example:9093")
		if name := a.peer().Name; name != "" {
			if first, twice := names[name]; twice {
				f.Errorf(path+".name", "give each a name", "alertmanagers[%d] is %s, too", first, name)
			}
			names[name] = i
		}
	}
}

// checkReceivers checks what is sent without an Alertmanager, and makes it one configuration in its format.
func (n *notificationsConfig) checkReceivers(f *yamldoc.Decoder, server *smtpConfig) {
	const section = "notifications"
	at := func(s amSection) *yamldoc.Value {
		if s == "" {
			return nil
		}
		return f.At(string(s))
	}
	parts := receivers.Parts{Receivers: at(n.Receivers), Global: at(n.Global), Dir: f.Dir, Mail: server.receivers()}
	if parts.Receivers == nil {
		for _, x := range []struct {
			key string
			set bool
		}{
			{"global", n.Global != ""}, {"templates", len(n.Templates) > 0}, {"preview", n.Preview},
			{"default", n.Default != ""},
			{"routes", len(n.Routes) > 0},
			{"services", len(n.Services) > 0}, {"watchdog", n.Watchdog != ""}, {"timing", len(n.Timing) > 0},
			{"escalation", len(n.Escalation) > 0},
		} {
			if x.set {
				f.Errorf(section+"."+x.key, "add them, or remove the key", "there are no receivers")
			}
		}
		return
	}
	if n.Receivers = amSection(parts.Text()); n.Receivers == "" {
		return // reported
	}
	if err := receivers.CheckTemplates(n.Templates); err != nil {
		f.Errorf(section+".templates", "", "%v", err)
	}
	known := n.routing()
	for _, err := range split(known.Validate()) {
		if field, ok := errors.AsType[*alertmanager.FieldError](err); ok {
			f.Errorf(section+"."+field.Path, "", "%s", field.Message)
		}
	}
	for class, steps := range n.Escalation {
		if !slices.Contains(alertmanager.Classes, class) {
			f.Errorf(section+".escalation."+string(class), "want critical, warning or recovery", "unknown class %q", class)
		}
		for i, s := range steps {
			path := item(section+".escalation."+string(class), i)
			if !slices.ContainsFunc(known.Receivers, func(r alertmanager.Receiver) bool { return r.Name == s.Receiver }) {
				f.Errorf(path+".receiver", "", "unknown receiver %q", s.Receiver)
			}
			if i > 0 && s.After <= steps[i-1].After {
				f.Errorf(path+".after", "", "must be later than the step before it")
			}
		}
	}
}

// routing says which receiver is notified, in the terms of generated configurations.
func (n *notificationsConfig) routing() alertmanager.Receivers {
	r := alertmanager.Receivers{Default: n.Default, Routes: n.Routes, Services: n.Services,
		Watchdog: n.Watchdog, Timing: n.Timing}
	for _, name := range receivers.Names(string(n.Receivers)) {
		r.Receivers = append(r.Receivers, alertmanager.Receiver{Name: name, Discard: true})
	}
	return r
}

// ReceiverSettings are who is notified without an Alertmanager, whether the engine sends alerts or not. in is the spec,
// whose maintenance until the given time mutes alerts.
func (c *Config) ReceiverSettings(in rules.Spec, from, until time.Time) (receivers.Settings, error) {
	n := &c.Notifications
	s := receivers.Settings{
		Text: string(n.Receivers), Templates: n.Templates, Preview: n.Preview, Escalation: n.Escalation,
		ExternalLabels: n.ExternalLabels, Timeout: n.Timeout,
		Watchdog: alerts.Watchdog(c.AlertOptions()), ExternalURL: c.Web.ExternalURL,
	}
	if s.Text == "" {
		return s, nil
	}
	var err error
	s.Routing, err = alertmanager.NewRouting(in, alertmanager.Options{Receivers: n.routing(), From: from, Until: until})
	return s, err
}

func (a *httpServer) check(f *yamldoc.Decoder, path, example string) {
	switch {
	case f.Broken(path + ".url"):
	case a.URL == "":
		f.Errorf(path+".url", "as in "+example, "missing")
	default:
		checkServerURL(f, path+".url", a.URL, example)
	}
	a.checkAccess(f, path)
}

func checkServerURL(f *yamldoc.Decoder, path, url, example string) {
	if err := notify.CheckURL(url); err != nil {
		f.Errorf(path, "as in "+example, "%s", strings.TrimPrefix(err.Error(), "url: "))
	}
}

// checkAccess checks everything but the URL.
func (a *httpAccess) checkAccess(f *yamldoc.Decoder, path string) {
	a.TLS.check(f, path+".tls")
	checkSource(f, path+".bearer_token", a.BearerTokenFile, a.BearerTokenEnv, false)
	if b := a.BasicAuth; b != nil {
		checkSource(f, path+".basic_auth.password", b.PasswordFile, b.PasswordEnv, true)
		if a.BearerTokenFile+a.BearerTokenEnv != "" {
			f.Errorf(path+".basic_auth", "leave one of them out", "basic_auth and a bearer token exclude each other")
		}
	}
}

// checkSource checks where a secret comes from: path_file or path_env.
func checkSource(f *yamldoc.Decoder, path, file, env string, required bool) {
	switch {
	case f.Broken(path+"_file") || f.Broken(path+"_env"):
	case file != "" && env != "":
		f.Errorf(path+"_env", "leave one of them out", "the secret is named as a file, too")
	case file != "":
		if _, err := readSecret(file, 1); err != nil {
			f.Errorf(path+"_file", "", "%v", err)
		}
	case env != "":
		if os.Getenv(env) == "" {
			f.Errorf(path+"_env", "set it for the engine", "the environment variable %s is empty", env)
		}
	case required:
		f.Errorf(path+"_file", "or set password_env", "missing")
	}
}

// AlertSending says whether an alert of the engine and that of a rule can be one for Alertmanager.
func (c *Config) AlertSending() state.Sending {
	n := &c.Notifications
	s := state.Sending{ExternalLabels: n.ExternalLabels}
	if len(n.Alertmanagers) == 0 || n.Receivers != "" {
		s.NotBoth = "without an Alertmanager that gets the alerts of both, nothing deduplicates them"
	}
	return s
}

// peer is the Alertmanager as package notify takes it.
func (a *alertmanagerConfig) peer() notify.Peer {
	p := notify.Peer{Name: a.Name, URL: a.URL, HTTP: a.client()}
	p.SetName()
	return p
}

// client says how the server is reached. Files are read again for each request.
func (a *httpAccess) client() (c httpconfig.HTTPClientConfig) {
	c.EnableHTTP2 = true
	c.ProxyFromEnvironment = true
	c.TLSConfig = httpconfig.TLSConfig{
		CAFile: a.TLS.CAFile, CertFile: a.TLS.CertFile, KeyFile: a.TLS.KeyFile, ServerName: a.TLS.ServerName,
		InsecureSkipVerify: a.TLS.Insecure,
	}
	if b := a.BasicAuth; b != nil {
		c.BasicAuth = &httpconfig.BasicAuth{Username: b.Username, PasswordFile: b.PasswordFile,
			Password: fromEnvironment(b.PasswordEnv)}
	}
	if a.BearerTokenFile+a.BearerTokenEnv != "" {
		c.Authorization = &httpconfig.Authorization{Type: "Bearer", CredentialsFile: a.BearerTokenFile,
			Credentials: fromEnvironment(a.BearerTokenEnv)}
	}
	return c
}

func fromEnvironment(name string) httpconfig.Secret {
	if name == "" {
		return ""
	}
	return httpconfig.Secret(os.Getenv(name))
}

// NotifySettings are who is notified, whether the engine sends alerts or not.
func (c *Config) NotifySettings() notify.Settings {
	n := &c.Notifications
	s := notify.Settings{ExternalLabels: n.ExternalLabels, Resend: n.Resend, Timeout: n.Timeout,
		Watchdog: alerts.Watchdog(c.AlertOptions())}
	for i := range n.Alertmanagers {
		s.Peers = append(s.Peers, n.Alertmanagers[i].peer())
	}
	return s
}

// AlertOptions are those of generated rules and live alerts alike, as far as engine.yaml has them.
func (c *Config) AlertOptions() alerts.Options {
	o := alerts.Options{Engine: c.Alerts}
	o.PageURL, o.DashboardURL, o.RunbookURL = c.Web.ExternalURL, c.Notifications.DashboardURL, c.Notifications.RunbookURL
	return o
}
