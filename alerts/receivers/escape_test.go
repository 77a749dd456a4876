package receivers

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/config"
	amnotify "github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
)

// provider is a service that takes messages on loopback, whatever address a receiver has for it.
type provider struct {
	*httptest.Server

	mu     sync.Mutex
	bodies []string // of the messages, with the query
	answer func(w http.ResponseWriter, r *http.Request)
}

// good are the answers of each kind that mean success; the others take any.
var good = map[string]string{
	"slack": `{"ok":true}`, "rocketchat": `{"success":true}`,
	"telegram": `{"ok":true,"result":{"message_id":1,"chat":{"id":1}}}`,
	"wechat":   `{"errcode":0,"access_token":"t"}`, "jira": `{"issues":[]}`, "msteams": "1", "msteamsv2": "1",
}

func newProvider(t testing.TB, kind string) *provider {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		side := strings.HasSuffix(r.URL.Path, "/gettoken") || strings.Contains(r.URL.Path, "/search")
		p.mu.Lock()
		if !side {
			p.bodies = append(p.bodies, string(body)+"\n"+r.URL.Query().Get("title")+"\n"+r.URL.Query().Get("message"))
		}
		answer := p.answer
		p.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if answer != nil {
			answer(w, r)
			return
		}
		_, _ = io.WriteString(w, good[kind])
	}))
	t.Cleanup(func() { p.CloseClientConnections(); p.Close() })
	return p
}

func (p *provider) last(t testing.TB) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NotEmpty(t, p.bodies)
	return p.bodies[len(p.bodies)-1]
}

// RoundTrip implements http.RoundTripper: it leads every request to the provider.
func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := url.Parse(p.URL)
	if err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host = to.Scheme, to.Host, to.Host
	out.Close = true
	return http.DefaultTransport.RoundTrip(out)
}

// kinds are a target of each kind but email, whose requests go to a provider of its own.
func kinds(t testing.TB) map[string]*target {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s"), []byte("https://x.example/hush"), 0o600))
	sections, err := text(dir, everyKind)
	require.NoError(t, err)
	c, err := config.Load(sections)
	require.NoError(t, err)
	templates, err := newTemplates(nil, "", "https://slo.example.org")
	require.NoError(t, err)
	all, err := newTargets(c, templates)
	require.NoError(t, err)
	out := map[string]*target{}
	for _, x := range all["all"] {
		if x.kind != "email" {
			out[x.kind] = x
		}
	}
	return out
}

func lead(x *target, to http.RoundTripper) { x.client.Transport = &watcher{to} }

// about is a message of alerts whose sender chose the type of events.
func about(x *target, values ...string) *message {
	m := &message{key: "k", receiver: "all", labels: model.LabelSet{"service": "shop"}, repeat: time.Hour,
		reason: amnotify.ReasonFirstNotification}
	live := alerts.EngineAlerts(alerts.Options{})
	flood := live[slices.IndexFunc(live, func(l alerts.Live) bool { return l.Alert == "RateLimitTypeFlood" })]
	for _, value := range values {
		a := state.Alert{Engine: true, State: state.Firing, FiredAt: time.Now(),
			Labels: labelled(flood.Alert, "severity=warning", "instance=slo-1", "slo_impact=high", "type="+value)}
		it := &item{alert: a, labels: new(plan).labels(&a), texts: flood.Texts}
		m.alerts = append(m.alerts, it.message(x.show, Incident{AckURL: "https://slo.example.org/ack"}, true, time.Now()))
	}
	return m
}

// hostile are values of a group that a sender might choose.
var hostile = map[string]string{
	"slack":     "<!channel> <https://evil.example|Acknowledge>",
	"markdown":  "**x** [Acknowledge](https://evil.example) ![x](https://evil.example/x.png) `code` ~~no~~ ||spoiler||",
	"html":      "<a href=\"https://evil.example\">Acknowledge</a><script>x</script>&lt;b&gt;",
	"mentions":  "@everyone @here @channel @all <@123> <@&1> <spark-mention:personEmail:a@b.example>",
	"lines":     "x\nAcknowledge: https://evil.example\r\nRunbook: x\u2028Incident: y\u0085z\vw",
	"rtl":       "\u202egnp.exe\u2066\u05d0\u05d1",
	"nul":       "a\x00b\x1b[31mc\u200bd\xff",
	"braces":    "{{ .ExternalURL }} {{ template \"x\" }} {{",
	"huge":      strings.Repeat("a", 1024),
	"huge utf8": strings.Repeat("\U0001d54f", 256),
	"quotes":    strings.Repeat(`"`, 1024),
	"brackets":  strings.Repeat("<", 1024),
}

// TestHostileValues sends such values to every kind of receiver, alone and in a group of many alerts.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	for kind, x := range kinds(t) {
		if kind == "webhook" { // a program gets the values as they are
			continue
		}
		p := newProvider(t, kind)
		lead(x, p)
		for name, value := range hostile {
			for _, n := range []int{1, 25} {
				values := make([]string, n)
				for i := range values {
					values[i] = value
				}
				require.NoError(t, x.send(t.Context(), about(x, values...), time.Now()), "%s %s", kind, name)
				got := p.last(t)
				if kind != "pushover" {
					var decoded any
					require.NoError(t, json.Unmarshal([]byte(strings.TrimSpace(got)), &decoded), kind)
					got = strings.Join(texts(decoded), "\n")
				}
				for _, line := range regexp.MustCompile("(?im)^ *acknowledge:.*").FindAllString(got, -1) {
					require.Equal(t, "Acknowledge: https://slo.example.org/ack", line, "%s %s", kind, name)
				}
				if n == 1 && name == "mentions" && (kind == "telegram" || kind == "discord") {
					require.Contains(t, got, "\nImpact: high\n", "%s %s", kind, name)
				}
				require.NotContains(t, got, "<!channel>", "%s %s", kind, name)
				require.NotContains(t, got, "<https://evil", "%s %s", kind, name)
				require.NotContains(t, got, "](https://evil", "%s %s", kind, name)
				require.NotContains(t, got, "<a href", "%s %s", kind, name)
				require.NotContains(t, got, "<script", "%s %s", kind, name)
				require.NotContains(t, got, "<@", "%s %s", kind, name)
				require.NotContains(t, got, "<spark", "%s %s", kind, name)
				require.NotContains(t, got, "@everyone", "%s %s", kind, name)
				require.NotContains(t, got, "@channel", "%s %s", kind, name)
				require.NotContains(t, got, "@here", "%s %s", kind, name)
				require.NotRegexp(t, "[\x00-\x08\x0b-\x1f\u2028\u2029\u202e\u0085]", got, "%s %s", kind, name)
				if most := mostText[kind]; most > 0 {
					for _, s := range strings.Split(got, "\x01") {
						require.LessOrEqual(t, len([]rune(s)), most, "%s %s", kind, name)
					}
				}
				require.NotContains(t, got, "could not be sent", "%s %s", kind, name)
			}
		}
	}
}

// mostText is what the services take in all, in characters, and a little for the other fields.
var mostText = map[string]int{
	"telegram": 4096 + 40, "discord": 6000, "opsgenie": 15_000 + 130 + 8000, "webex": 7439,
	"pushover": 1024 + 250 + 40, "slack": 40_000,
	"mattermost": 16_383, "msteams": 28 << 10, "msteamsv2": 28 << 10, "victorops": 20_480 + 2000,
	"wechat": 2048 + 40, "jira": 32_767 + 255,
}

// texts lists the strings of a JSON document.
func texts(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, x := range v {
			out = append(out, texts(x)...)
		}
	case map[string]any:
		for _, x := range v {
			out = append(out, texts(x)...)
		}
	}
	return out
}

// TestOnlyForeignValuesAreEscaped leaves the labels of the spec as they are, which routes and templates compare.
func TestOnlyForeignValuesAreEscaped(t *testing.T) {
	a := state.Alert{Group: []string{"a_b<c>"}, Labels: labelled("Burn", "country=a_b<c>", "team=my_team")}
	it := &item{alert: a, labels: new(plan).labels(&a)}
	got := it.message(escapeFor("mattermost", nil), Incident{}, false, time.Now()).Labels
	require.Equal(t, model.LabelSet{"alertname": "Burn", "country": `a\_b‹c›`, "team": "my_team"}, got)
	require.Equal(t, it.labels, it.message(escapeFor("webhook", nil), Incident{}, false, time.Now()).Labels)
	require.Equal(t, model.LabelValue("a_b<c>"), it.labels["country"], "the dispatcher compares the value itself")
}

// TestMarkdownIsEscaped: each character that means something is shown as it is.
func TestMarkdownIsEscaped(t *testing.T) {
	e := escapeFor("discord", nil)
	for _, c := range "\\`*_~|[]" {
		require.Equal(t, `a\`+string(c)+"b", e("a"+string(c)+"b"))
	}
	require.Equal(t, "‹a› @\u200bb c:\u200b//d", e("<a> @b c://d"))
}
