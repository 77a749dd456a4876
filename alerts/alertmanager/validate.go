package alertmanager

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// FieldError is something wrong with one field of Receivers. Path names it as the
// file does, such as receivers[0].slack[1].channel.
type FieldError struct {
	Path, Message string
}

func (e *FieldError) Error() string { return e.Path + ": " + e.Message }

// Validate reports everything that is wrong, joined; each error is a *FieldError.
func (r *Receivers) Validate() error {
	v := validation{names: map[string]bool{}}
	for i := range r.Receivers {
		x := &r.Receivers[i]
		at := fmt.Sprintf("receivers[%d]", i)
		switch {
		case x.Name == "":
			v.bad(at, "it has no name")
		case v.names[x.Name]:
			v.bad(at+".name", "duplicate receiver %s", x.Name)
		}
		v.names[x.Name] = true
		v.receiver(at, x)
		if len(x.Email) > 0 && r.SMTP == nil {
			v.bad(at+".email", "email receivers require smtp")
		}
	}
	if len(r.Receivers) == 0 {
		v.bad("receivers", "there must be at least one")
	}
	if r.Default == "" {
		v.bad("default", "name the receiver for alerts that match no route")
	} else {
		v.known("default", r.Default)
	}
	if r.Watchdog != "" {
		v.known("watchdog", r.Watchdog)
	}
	v.routes("routes", r.Routes)
	for _, s := range slices.Sorted(maps.Keys(r.Services)) {
		v.routes("services."+s, r.Services[s])
	}
	for _, c := range slices.Sorted(maps.Keys(r.Timing)) {
		at := "timing." + string(c)
		v.class(at, c)
		if t := r.Timing[c]; t.GroupInterval < 0 || t.RepeatInterval < 0 || t.GroupWait != nil && *t.GroupWait < 0 {
			v.bad(at, "a time is negative")
		}
	}
	if r.SMTP != nil {
		v.smtp(r.SMTP)
	}
	return errors.Join(v.errs...)
}

type validation struct {
	names map[string]bool
	errs  []error
}

func (v *validation) bad(path, format string, args ...any) {
	v.errs = append(v.errs, &FieldError{path, fmt.Sprintf(format, args...)})
}

func (v *validation) known(path, name string) {
	if !v.names[name] {
		v.bad(path, "unknown receiver %q", name)
	}
}

func (v *validation) routes(path string, m map[Class]string) {
	for _, c := range slices.Sorted(maps.Keys(m)) {
		at := path + "." + string(c)
		v.class(at, c)
		v.known(at, m[c])
	}
}

func (v *validation) class(path string, c Class) {
	if !slices.Contains(Classes, c) {
		v.bad(path, "unknown class %q; want critical, warning or recovery", c)
	}
}

var hostPort = regexp.MustCompile(`^([^\s:/]+|\[[0-9a-fA-F:]+\]):\d{1,5}$`)

func (v *validation) smtp(s *SMTP) {
	if !hostPort.MatchString(s.Smarthost) {
		v.bad("smtp.smarthost", "%q: want host:port", s.Smarthost)
	}
	v.address("smtp.from", s.From)
	if (s.Username == "") != (s.PasswordFile == "") {
		v.bad("smtp", "username and password_file must be set together")
	}
}

func (v *validation) address(path, s string) {
	if !strings.Contains(s, "@") {
		v.bad(path, "%q: want an e-mail address", s)
	}
}

var pagerDutySeverities = []string{"critical", "error", "warning", "info"}

func (v *validation) receiver(at string, x *Receiver) {
	if channels := len(x.Slack) + len(x.PagerDuty) + len(x.Webhook) + len(x.Email); channels == 0 && !x.Discard {
		v.bad(at, "it has no channel: add slack, pagerduty, webhook or email")
	}
	for i, s := range x.Slack {
		at := fmt.Sprintf("%s.slack[%d]", at, i)
		if s.Channel == "" {
			v.bad(at, "channel is missing")
		}
		v.file(at+".api_url_file", s.APIURLFile)
	}
	for i, p := range x.PagerDuty {
		at := fmt.Sprintf("%s.pagerduty[%d]", at, i)
		switch {
		case (p.RoutingKeyFile == "") == (p.ServiceKeyFile == ""):
			v.bad(at, "want one of routing_key_file and service_key_file")
		case p.RoutingKeyFile != "":
			v.file(at+".routing_key_file", p.RoutingKeyFile)
		default:
			v.file(at+".service_key_file", p.ServiceKeyFile)
		}
		if p.Severity != "" && !slices.Contains(pagerDutySeverities, p.Severity) {
			v.bad(at+".severity", "%q: want critical, error, warning or info", p.Severity)
		}
	}
	for i, w := range x.Webhook {
		v.webhook(fmt.Sprintf("%s.webhook[%d]", at, i), w)
	}
	for i, e := range x.Email {
		v.address(fmt.Sprintf("%s.email[%d].to", at, i), e.To)
	}
}

func (v *validation) webhook(at string, w Webhook) {
	u, err := url.Parse(w.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		v.bad(at+".url", "want a URL such as https://hooks.example.org/sla")
	case u.User != nil:
		v.bad(at+".url", "it contains a password (use username and password_file)")
	}
	if w.CredentialsFile != "" && w.PasswordFile != "" {
		v.bad(at, "want one of credentials_file and password_file")
	}
	if (w.Username == "") != (w.PasswordFile == "") {
		v.bad(at, "username and password_file must be set together")
	}
}

// file checks the path of a secret's file, and catches a secret that was written
// in its place.
func (v *validation) file(path, name string) {
	switch {
	case name == "":
		v.bad(path, "name the file that holds the secret")
	case strings.Contains(name, "://"):
		v.bad(path, "want the path of a file that holds the secret, not the secret")
	}
}
