package config

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	httpconfig "github.com/prometheus/common/config"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// notificationsConfig says who is told about the live alerts.
type notificationsConfig struct {
	Send           bool                 `yaml:"send"` // false where Prometheus sends the alerts
	Alertmanagers  []alertmanagerConfig `yaml:"alertmanagers"`
	ExternalLabels map[string]string    `yaml:"external_labels"`             // as in prometheus.yml
	Resend         time.Duration        `yaml:"resend" min:"1s" max:"1h"`    // of an alert that fires on
	Timeout        time.Duration        `yaml:"timeout" min:"10ms" max:"1m"` // of a request
	DashboardURL   string               `yaml:"dashboard_url"`               // of Grafana; "": no links
	RunbookURL     string               `yaml:"runbook_url"`                 // "": the project's own
	Job            string               `yaml:"job"`                         // label of alerts on the engine, as in prometheus.yml
	Instance       string               `yaml:"instance"`                    // the same; "": the listen address
}

// alertmanagerConfig is one Alertmanager.
type alertmanagerConfig struct {
	Name            string           `yaml:"name"` // "": host and port of the URL
	URL             string           `yaml:"url" is:"required"`
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

func defaultNotifications() notificationsConfig {
	return notificationsConfig{Send: true, Resend: time.Minute, Timeout: 10 * time.Second, Job: "sloengine"}
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func (n *notificationsConfig) check(f *yamldoc.Decoder) {
	const section = "notifications"
	if n.Timeout >= 4*n.Resend {
		f.Errorf(section+".timeout", "lower it, or raise resend", "must be less than four times resend, after which an alert ends that is not sent again")
	}
	for _, name := range slices.Sorted(maps.Keys(n.ExternalLabels)) {
		if !labelName.MatchString(name) || name == "alertname" || strings.HasPrefix(name, "__") {
			f.Errorf(section+".external_labels."+name, "letters, digits and underscore, as in prometheus.yml", "%q is not a name for an external label", name)
		}
	}
	if n.Job == "" {
		f.Errorf(section+".job", "the job_name of the scrape in prometheus.yml", "must not be empty")
	}
	checkURL(f, section+".dashboard_url", n.DashboardURL, false)
	checkURL(f, section+".runbook_url", n.RunbookURL, false)
	names := map[string]int{}
	for i := range n.Alertmanagers {
		a, path := &n.Alertmanagers[i], item(section+".alertmanagers", i)
		a.check(f, path)
		if name := a.peer().Name; name != "" {
			if first, twice := names[name]; twice {
				f.Errorf(path+".name", "give each a name", "alertmanagers[%d] is %s, too", first, name)
			}
			names[name] = i
		}
	}
}

func (a *alertmanagerConfig) check(f *yamldoc.Decoder, path string) {
	if !f.Broken(path + ".url") {
		if err := notify.CheckURL(a.URL); err != nil {
			f.Errorf(path+".url", "as in http://alertmanager.example:9093", "%s", strings.TrimPrefix(err.Error(), "url: "))
		}
	}
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

// peer is the Alertmanager as package notify takes it. Files are read again for each request.
func (a *alertmanagerConfig) peer() notify.Peer {
	p := notify.Peer{Name: a.Name, URL: a.URL}
	p.HTTP.EnableHTTP2 = true
	p.HTTP.ProxyFromEnvironment = true
	p.HTTP.TLSConfig = httpconfig.TLSConfig{
		CAFile: a.TLS.CAFile, CertFile: a.TLS.CertFile, KeyFile: a.TLS.KeyFile, ServerName: a.TLS.ServerName, InsecureSkipVerify: a.TLS.Insecure,
	}
	if b := a.BasicAuth; b != nil {
		p.HTTP.BasicAuth = &httpconfig.BasicAuth{Username: b.Username, PasswordFile: b.PasswordFile, Password: fromEnvironment(b.PasswordEnv)}
	}
	if a.BearerTokenFile+a.BearerTokenEnv != "" {
		p.HTTP.Authorization = &httpconfig.Authorization{Type: "Bearer", CredentialsFile: a.BearerTokenFile, Credentials: fromEnvironment(a.BearerTokenEnv)}
	}
	p.SetName()
	return p
}

func fromEnvironment(name string) httpconfig.Secret {
	if name == "" {
		return ""
	}
	return httpconfig.Secret(os.Getenv(name))
}

// NotifySettings are who is told, whether the engine sends alerts or not.
func (c *Config) NotifySettings() notify.Settings {
	n := &c.Notifications
	s := notify.Settings{ExternalLabels: n.ExternalLabels, Resend: n.Resend, Timeout: n.Timeout, Watchdog: alerts.Watchdog(c.AlertOptions())}
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
