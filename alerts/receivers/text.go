package receivers

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/alertmanager/config"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// Parts are the sections of engine.yaml in Alertmanager's format. Any may be nil.
type Parts struct {
	Receivers, Global *yamldoc.Value
	Dir               string // that file names in the sections are relative to

	// Mail is the mail server of email_configs, unless they or the section global name one; nil: there is none.
	Mail *MailServer
}

// MailServer is a mail server, as it is written in email_configs.
type MailServer struct {
	Smarthost, From, Hello                string // hello "": the default
	Username, PasswordFile                string // "": none
	Password                              string // of an environment variable; "": none
	RequireTLS, ImplicitTLS               bool
	CAFile, CertFile, KeyFile, ServerName string
	Insecure                              bool
}

// fields are the fields of an item of email_configs, in the order in which they are written. Those of the credentials
// and of TLS are taken together or not at all.
func (m *MailServer) fields() [][2]string {
	text := func(key, value string) [2]string {
		if value == "" {
			return [2]string{}
		}
		return [2]string{key, quoted(value)}
	}
	out := [][2]string{
		text("smarthost", m.Smarthost), text("from", m.From), text("hello", m.Hello),
		text("auth_username", m.Username), text("auth_password_file", m.PasswordFile), text("auth_password", m.Password),
		{"require_tls", strconv.FormatBool(m.RequireTLS)}, {"force_implicit_tls", strconv.FormatBool(m.ImplicitTLS)},
	}
	var tls []string
	for _, f := range [][2]string{text("ca_file", m.CAFile), text("cert_file", m.CertFile), text("key_file", m.KeyFile),
		text("server_name", m.ServerName)} {
		if f[0] != "" {
			tls = append(tls, f[0]+": "+f[1])
		}
	}
	if m.Insecure {
		tls = append(tls, "insecure_skip_verify: true")
	}
	if tls != nil {
		out = append(out, [2]string{"tls_config", "{" + strings.Join(tls, ", ") + "}"})
	}
	return slices.DeleteFunc(out, func(f [2]string) bool { return f[0] == "" })
}

// newLines begins a text of the sections. A section global that names a mail server has one of its own: the credentials
// of another are never sent to it.
func (p *Parts) newLines(global *yamldoc.Value) *lines {
	l := &lines{dir: p.Dir}
	if m := p.Mail; m != nil && (global == nil || global.Peek("smtp_smarthost") == nil) {
		l.mail = m
		if m.Password != "" {
			l.secrets = append(l.secrets, m.Password)
		}
		for _, key := range globalKeys(global) {
			l.global = append(l.global, strings.TrimPrefix(key, "smtp_"))
		}
	}
	return l
}

// globalKeys are those of the section that are about mail.
func globalKeys(global *yamldoc.Value) (keys []string) {
	if global == nil || !global.IsMapping() {
		return nil
	}
	if o := global.Open(); o != nil {
		for _, key := range o.Keys {
			if strings.HasPrefix(key, "smtp_") {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// defaults writes the fields of the mail server that an item of email_configs lacks. own are the keys that it has.
func (l *lines) defaults(own []string) {
	if l.mail == nil || slices.Contains(own, "smarthost") {
		return
	}
	set := append(slices.Clone(own), l.global...)
	auth := func(key string) bool { return strings.HasPrefix(key, "auth_") }
	tls := func(key string) bool { return strings.Contains(key, "tls") }
	for _, f := range l.mail.fields() {
		if slices.Contains(set, f[0]) || auth(f[0]) && slices.ContainsFunc(set, auth) ||
			tls(f[0]) && slices.ContainsFunc(set, tls) {
			continue
		}
		l.raw(", " + f[0] + ": " + f[1])
	}
}

// Text is the sections as one configuration of Alertmanager, with the secrets of environment variables in it. It is
// empty without receivers. Whatever is wrong is reported where it is written.
func (p *Parts) Text() string {
	if p.Receivers == nil {
		return ""
	}
	before := p.Receivers.Errors()
	list, ok := p.Receivers.List()
	if !ok {
		return ""
	}
	global := p.global()
	var names []string
	for _, r := range list {
		if !r.IsMapping() {
			r.Errorf("write {name: oncall, webhook_configs: [..]}", "%s: want a mapping, got %s", r.What, r.Shape())
			continue
		}
		name := r.Peek("name")
		if name == nil || name.Raw() == "" {
			r.Errorf("", "%s.name: missing", p.Receivers.Path)
			continue
		}
		names = append(names, name.Raw())
		p.checkReceiver(r, name.Raw(), global)
	}
	if p.Receivers.Errors() > before {
		return ""
	}
	if len(names) == 0 {
		p.Receivers.Errorf("add one, or leave out the section", "%s: there are no receivers", p.Receivers.Path)
		return ""
	}
	all := p.newLines(global)
	all.document(global, names[0], func() { all.value(p.Receivers, place{}) })
	text := all.String() + "}\n"
	c, err := config.Load(text)
	if err == nil {
		_, err = newTargets(c, nil)
	}
	if err != nil {
		p.Receivers.Errorf("", "%s: %s", p.Receivers.Path, all.clean(err.Error()))
		return ""
	}
	return text
}

// Names lists the receivers of a text, in its order.
func Names(text string) (names []string) {
	c, err := config.Load(text)
	if err != nil {
		return nil
	}
	for i := range c.Receivers {
		names = append(names, c.Receivers[i].Name)
	}
	return names
}

// global checks the section on its own, so that its problems are reported once.
func (p *Parts) global() *yamldoc.Value {
	if p.Global == nil {
		return nil
	}
	before := p.Global.Errors()
	l := &lines{dir: p.Dir}
	l.document(p.Global, "nobody", func() { l.raw(`[{"name": "nobody"}]`) })
	if p.Global.Errors() == before {
		l.check(p.Global, l.String()+"}")
	}
	if p.Global.Errors() > before {
		return nil
	}
	return p.Global
}

// checkReceiver reads each integration of a receiver alone, since Alertmanager's library stops at the first problem and
// does not tell where it is.
func (p *Parts) checkReceiver(r *yamldoc.Value, name string, global *yamldoc.Value) {
	o := r.Open()
	if o == nil {
		return
	}
	for _, key := range o.Keys {
		v := o.Field(key)
		if key == "name" {
			continue
		}
		if reason, ok := unsupported[key]; ok {
			r.ErrorfAt(o.KeyAt(key), reason, "%s: the engine does not support this kind of receiver", key)
			continue
		}
		items := []*yamldoc.Value{nil}
		if v.IsList() {
			items, _ = v.List()
		}
		for _, item := range items {
			l, at, before := p.newLines(global), o.KeyAt(key), v.Errors()
			l.document(global, name, func() {
				l.raw(`[{"name": ` + quoted(name) + `,`)
				l.line(quoted(key)+":", v, at)
				if item == nil {
					l.value(v, place{})
				} else {
					l.raw("[")
					l.value(item, place{section: key})
					l.raw("]")
				}
				l.raw("}]")
			})
			if item == nil {
				item = v
			}
			if v.Errors() == before {
				l.check(item, l.String()+"}")
			}
		}
	}
}

// unsupported are kinds of receivers that the engine leaves out, with what to do instead.
var unsupported = map[string]string{
	"sns_configs": "use webhook_configs, or an Alertmanager: Amazon's library would be a large part of the program",
}

// literal are keys whose values are secrets. Slack's address is one, too.
var literal = map[string]bool{
	"password": true, "credentials": true, "client_secret": true, "bearer_token": true, "secrets": true, "secret": true,
	"smtp_auth_password": true, "smtp_auth_secret": true, "auth_password": true, "auth_secret": true,
	"slack_api_url": true, "slack_app_token": true, "app_token": true, "routing_key": true, "service_key": true,
	"opsgenie_api_key": true, "victorops_api_key": true, "api_key": true, "wechat_api_secret": true, "api_secret": true,
	"telegram_bot_token": true, "bot_token": true, "rocketchat_token": true, "rocketchat_token_id": true, "token": true,
	"token_id": true, "user_key": true, "mattermost_webhook_url": true, "webhook_url": true, "alert_source_token": true,
}

// place is where in a section a value stands.
type place struct{ section, key string }

func (p place) secret() bool {
	switch p.section + " " + p.key {
	case "slack_configs api_url":
		return true
	case "victorops_configs routing_key": // the name of a team
		return false
	}
	return literal[p.key]
}

// lines is YAML with each key and each single value on a line of its own, so that the number of a line in an error
// leads back to where it is written.
type lines struct {
	dir     string
	mail    *MailServer // of email_configs that have none
	global  []string    // fields of email_configs that the section global sets
	b       strings.Builder
	at      []source // by line, from 0
	secrets []string // values of environment variables
}

type source struct {
	v  *yamldoc.Value
	at yamldoc.Position
}

func (l *lines) String() string { return l.b.String() }

// document begins a configuration whose alerts all go to one receiver. The caller ends it.
func (l *lines) document(global *yamldoc.Value, receiver string, receivers func()) {
	l.raw("{")
	if global != nil {
		l.raw(`"global":`)
		l.value(global, place{section: "global"})
		l.raw(",")
	}
	l.raw(`"route": {"receiver": ` + quoted(receiver) + `}, "receivers":`)
	receivers()
}

func (l *lines) raw(s string) { l.line(s, nil, yamldoc.Position{}) }

func (l *lines) line(s string, v *yamldoc.Value, at yamldoc.Position) {
	l.b.WriteString(s)
	l.b.WriteByte('\n')
	l.at = append(l.at, source{v, at})
}

func (l *lines) value(v *yamldoc.Value, in place) {
	switch {
	case v.IsList():
		l.line("[", v, v.At())
		for i := range v.Len() {
			if i > 0 {
				l.raw(",")
			}
			l.value(v.Item(i), in)
		}
		l.raw("]")
	case v.IsMapping():
		l.line("{", v, v.At())
		if o := v.Open(); o != nil {
			for i, key := range o.Keys {
				if i > 0 {
					l.raw(",")
				}
				l.field(o, key, in)
			}
			if in.section == "email_configs" && (in.key == "" || in.key == in.section) && len(o.Keys) > 0 {
				l.defaults(o.Keys)
			}
		}
		l.raw("}")
	default:
		l.single(v, in)
	}
}

func (l *lines) field(o *yamldoc.Object, key string, in place) {
	v := o.Field(key)
	if strings.HasSuffix(key, "_configs") {
		in.section = key
	}
	if name, ok := strings.CutSuffix(key, "_env"); ok && v.IsScalar() {
		text := os.Getenv(v.Raw())
		if text == "" {
			v.Errorf("set it for the engine", "%s: the environment variable %s is empty", key, v.Raw())
		}
		l.secrets = append(l.secrets, text)
		l.line(quoted(name)+":", v, o.KeyAt(key))
		l.line(quoted(text), v, v.At())
		return
	}
	if key == formatKey && in.section == "webhook_configs" && (in.key == "" || in.key == in.section) {
		if !slices.Contains(formats, v.Raw()) {
			v.Errorf("want "+strings.Join(formats, " or ")+", or leave it out for Alertmanager's", "invalid format %q", v.Raw())
		}
		l.line(`"payload":`, v, o.KeyAt(key))
		l.line(quoted(formatPayload+v.Raw()), v, v.At())
		return
	}
	l.line(quoted(key)+":", v, o.KeyAt(key))
	in.key = key
	l.value(v, in)
}

func (l *lines) single(v *yamldoc.Value, in place) {
	text := v.Raw()
	switch {
	case v.IsNull():
		text = "null"
	case in.secret():
		v.Errorf("write "+in.key+"_file or "+in.key+"_env instead", "%s: a secret must not be written in engine.yaml", in.key)
		text = quoted("secret")
	case v.Tag() == "!!str":
		switch {
		case strings.HasSuffix(in.key, "_file") || in.key == "files":
			text = l.file(v)
		case strings.HasSuffix(in.key, "url") && hasCredentials(text):
			hint := "set http_config with basic_auth and its password_file, or write " + in.key + "_env instead"
			if in.key == "proxy_url" {
				hint = "set proxy_from_environment and the variable HTTPS_PROXY instead"
			}
			v.Errorf(hint, "%s: must not contain credentials", in.key)
		}
		text = quoted(text)
	}
	l.line(text, v, v.At())
}

// hasCredentials reports whether a text is a URL with a user name or a password.
func hasCredentials(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.User != nil
}

// maxFileBytes bounds files with secrets, certificates and templates.
const maxFileBytes = 1 << 20

// file is the name of a file with a secret or a certificate, which must be there.
func (l *lines) file(v *yamldoc.Value) string {
	name := v.Raw()
	if !filepath.IsAbs(name) {
		name = filepath.Join(l.dir, name)
	}
	data, err := fsys.ReadFile(name, maxFileBytes)
	if err == nil && len(data) == 0 {
		err = errors.New(name + " is empty")
	}
	if err != nil {
		v.Errorf("", "%s: %v", v.What, err)
	}
	return name
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(b)
}

var (
	lineError  = regexp.MustCompile(`line (\d+): ([^\n]*)`)
	unknownKey = regexp.MustCompile(`field (\S+) (?:not found|already set) in type \S+`)
)

// check reports what Alertmanager's library finds, where it is written, or with around if it does not tell.
func (l *lines) check(around *yamldoc.Value, text string) {
	_, err := config.Load(text)
	if err == nil {
		return
	}
	found := lineError.FindAllStringSubmatch(err.Error(), -1)
	for _, m := range found {
		n, err := strconv.Atoi(m[1])
		if err != nil || n < 1 || n > len(l.at) || l.at[n-1].v == nil {
			around.Errorf("", "%s: %s", around.What, l.clean(m[2]))
			continue
		}
		at := l.at[n-1]
		at.v.ErrorfAt(at.at, "", "%s: %s", around.What, l.clean(m[2]))
	}
	if len(found) == 0 {
		around.Errorf("", "%s: %s", around.What, l.clean(err.Error()))
	}
}

// clean makes an error of the library one of ours, without the secrets.
func (l *lines) clean(msg string) string {
	for _, s := range l.secrets {
		if s != "" {
			msg = strings.ReplaceAll(msg, s, "***")
		}
	}
	msg = unknownKey.ReplaceAllString(msg, `unknown key "$1"`)
	return strings.TrimPrefix(msg, "yaml: ")
}
