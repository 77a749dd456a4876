package receivers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/internal/testkit"
)

// consumer is a consumer of CloudEvents. It reads both modes as the HTTP protocol binding says.
type consumer struct {
	*httptest.Server

	mu     sync.Mutex
	got    []cloudEvent
	answer func(e *cloudEvent) int // nil: 204
}

func newConsumer(t testing.TB) *consumer {
	t.Helper()
	c := &consumer{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, err := readEvent(r)
		c.mu.Lock()
		defer c.mu.Unlock()
		status := http.StatusNoContent
		if err != nil {
			t.Error(err)
		} else if c.got = append(c.got, e); c.answer != nil {
			status = c.answer(&e)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(c.Close)
	return c
}

func readEvent(r *http.Request) (e cloudEvent, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return e, err
	}
	switch media := r.Header.Get("Content-Type"); media {
	case "application/cloudevents+json; charset=utf-8":
		if len(r.Header.Values("Ce-Id")) > 0 {
			return e, fmt.Errorf("attributes in headers and body")
		}
		err = json.Unmarshal(body, &e)
	case "application/json":
		attribute := map[string]string{}
		for name, values := range r.Header {
			if name, ok := strings.CutPrefix(name, "Ce-"); ok {
				if len(values) != 1 || strings.ContainsAny(values[0], "\" \t") {
					return e, fmt.Errorf("header %s is %q", name, values)
				}
				if attribute[strings.ToLower(name)], err = url.PathUnescape(values[0]); err != nil {
					return e, err
				}
			}
		}
		e = cloudEvent{SpecVersion: attribute["specversion"], ID: attribute["id"], Source: attribute["source"],
			Type: attribute["type"], Subject: attribute["subject"], ContentType: media, Data: body}
		e.Time, err = time.Parse(time.RFC3339, attribute["time"])
	default:
		return e, fmt.Errorf("content type %q", media)
	}
	if err == nil && (e.SpecVersion != "1.0" || e.ID == "" || e.Source == "" || e.Type == "" || !json.Valid(e.Data)) {
		err = fmt.Errorf("a required attribute is missing: %+v", e)
	}
	if _, uerr := url.Parse(e.Source); err == nil {
		err = uerr
	}
	return e, err
}

func (c *consumer) events() []cloudEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// told are the events in short.
func (c *consumer) told() (out []string) {
	for _, e := range c.events() {
		out = append(out, e.Subject+" "+e.Type)
	}
	return out
}

func (c *consumer) settings(t testing.TB, format string) Settings {
	return Settings{ExternalURL: "https://slo.example.org/x/", Routing: routing(quick), Text: mustText(t, fmt.Sprintf(
		"receivers: [{name: r0, webhook_configs: [{url: %q, format: %s}]}]", c.URL+"/in", format))}
}

// TestCloudEvents follows two alerts in both modes.
func TestCloudEvents(t *testing.T) {
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			c := newConsumer(t)
			file := filepath.Join(t.TempDir(), "notifications.json")
			o := Options{File: file, Settings: c.settings(t, format)}
			d, stop := run(t, o)
			var a alarms
			d.Update(a.fire("A", "service=shop", "slo=orders", "slo_id=shop/orders", "severity=page").now())
			d.Update(a.fire("B", "service=shop", "sla=gold", "severity=page").now())
			d.Update(a.fire("C", "severity=page").now())
			testkit.Eventually(t, "firing", func() bool { return len(c.events()) == 3 })
			d.Update(a.fire("D", "service=shop", "slo_id=shop/d", "severity=page").now())
			testkit.Eventually(t, "the new one", func() bool { return len(c.events()) == 4 })
			d.Update(a.end("A").now())
			testkit.Eventually(t, "resolved", func() bool { return len(c.events()) == 5 })
			stop()

			d, _ = run(t, o)
			d.Update(a.now())
			d.Update(a.end("B").end("C").end("D").now())
			testkit.Eventually(t, "all resolved", func() bool { return len(c.events()) == 8 })
			flushes(t, d)
			got := c.told()
			slices.Sort(got)
			require.Equal(t, []string{
				" sloengine.alert.firing", " sloengine.alert.resolved",
				"shop/d sloengine.alert.firing", "shop/d sloengine.alert.resolved",
				"shop/gold sloengine.alert.firing", "shop/gold sloengine.alert.resolved",
				"shop/orders sloengine.alert.firing", "shop/orders sloengine.alert.resolved",
			}, got, "each change once, over a restart, too")
			ids := map[string]bool{}
			for _, e := range c.events() {
				ids[e.ID] = true
				want := "https://slo.example.org/x/"
				if e.Subject != "" {
					want += "?service=shop"
				}
				require.Equal(t, want, e.Source)
			}
			require.Len(t, ids, 8)
			i := slices.IndexFunc(c.events(), func(e cloudEvent) bool { return e.Subject == "shop/orders" })
			e := c.events()[i]
			require.WithinDuration(t, time.Now(), e.Time, time.Minute)
			var data struct {
				Status, Fingerprint string
				Labels              map[string]string
				StartsAt            time.Time
			}
			require.NoError(t, json.Unmarshal(e.Data, &data))
			require.Equal(t, "firing", data.Status)
			require.Equal(t, "A", data.Labels["alertname"])
			require.True(t, strings.HasPrefix(e.ID, data.Fingerprint+"-firing-"))
			require.True(t, data.StartsAt.Equal(e.Time))
		})
	}
}

// TestCloudEventRetry sends the same id again, and a refused event delays no other.
func TestCloudEventRetry(t *testing.T) {
	c := newConsumer(t)
	c.answer = func(e *cloudEvent) int {
		switch {
		case e.Subject == "shop/bad":
			return http.StatusBadRequest
		case len(c.got) < 3:
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	d, _ := run(t, Options{Settings: c.settings(t, formatBinary)})
	var a alarms
	for _, name := range []string{"bad", "b", "c"} {
		a.fire(name, "service=shop", "slo_id=shop/"+name, "severity=page")
	}
	d.Update(a.now())
	testkit.Eventually(t, "the good ones", func() bool { return status(t, d, "r0/webhook[0]").Sent == 2 })
	ids := map[string]string{}
	for _, e := range c.events() {
		if id, ok := ids[e.Subject]; ok {
			require.Equal(t, id, e.ID)
		}
		ids[e.Subject] = e.ID
	}
	require.Len(t, ids, 3)
	flushes(t, d)
	bad := 0
	for _, e := range c.events() {
		if e.Subject == "shop/bad" {
			bad++
		}
	}
	require.LessOrEqual(t, bad, 3, "twice because of 503 at most, and once refused")
}

// TestCloudEventTexts puts what senders of events wrote into attributes.
func TestCloudEventTexts(t *testing.T) {
	hostile := "a\"b%0d\r\nX-Evil: 1 \u202eé\u2028?&#/../\u00a0中"
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			c := newConsumer(t)
			d, _ := run(t, Options{Settings: c.settings(t, format)})
			var a alarms
			d.Update(a.fire("A", "service="+hostile, "slo_id="+hostile+"/x", "severity=page").now())
			testkit.Eventually(t, "it is told", func() bool { return len(c.events()) == 1 })
			e := c.events()[0]
			require.Equal(t, "a\"b%0d  X-Evil: 1  é ?&#/../\u00a0中/x", e.Subject)
			u, err := url.Parse(e.Source)
			require.NoError(t, err)
			require.Equal(t, "slo.example.org", u.Host)
			require.Equal(t, hostile, u.Query().Get("service"))
			require.NotContains(t, e.ID, "%")
		})
	}
}

// TestCloudEventWatchdog repeats the alert that always fires, each time under another id.
func TestCloudEventWatchdog(t *testing.T) {
	c := newConsumer(t)
	s := c.settings(t, formatStructured)
	s.Watchdog = alerts.Live{Alert: "Watchdog", Texts: &alerts.Texts{}}
	s.Routing = routing(strings.ReplaceAll(quick, "repeat_interval: 1h", "repeat_interval: 50ms"))
	d, _ := run(t, Options{Settings: s})
	var a alarms
	d.Update(a.fire("A", "service=shop", "severity=page").now())
	testkit.Eventually(t, "it is repeated", func() bool { return len(c.events()) >= 4 })
	ids := map[string]bool{}
	for _, e := range c.events() {
		require.False(t, ids[e.ID], e.ID)
		ids[e.ID] = true
	}
}

func TestFormatErrors(t *testing.T) {
	for sections, want := range map[string]string{
		"receivers: [{name: r0, webhook_configs: [{url: http://x, format: xml}]}]": `1:66: invalid format "xml" ` +
			`(want cloudevents or cloudevents_binary, or leave it out for Alertmanager's)`,
		"receivers: [{name: r0, webhook_configs: [{url: http://x, format: cloudevents, payload: {a: b}}]}]": "payload",

		"receivers: [{name: r0, slack_configs: [{channel: x, format: cloudevents}]}]":        `unknown key "format"`,
		"receivers: [{name: r0, webhook_configs: [{url: http://x, format: [cloudevents]}]}]": "invalid format",
	} {
		_, err := text(t.TempDir(), sections)
		require.ErrorContains(t, err, want)
	}
}

// book is a list of incidents that a test changes.
type book struct {
	mu      sync.Mutex
	unknown bool
	all     []IncidentState
}

func (b *book) set(id, version string, resolved bool, service, severity string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = slices.DeleteFunc(b.all, func(s IncidentState) bool { return s.ID == id })
	b.all = append(b.all, IncidentState{ID: id, Version: version, Resolved: resolved, Service: service,
		Severity: severity, At: time.Now(),
		Document: func() json.RawMessage { return json.RawMessage(`{"v":"` + version + `"}`) }})
}

func (b *book) list() ([]IncidentState, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all), !b.unknown
}

// TestCloudEventIncidents follows incidents over a restart.
func TestCloudEventIncidents(t *testing.T) {
	c, others := newConsumer(t), newConsumer(t)
	s := Settings{ExternalURL: "https://slo.example.org", Routing: routing(`
route:
  receiver: r0
  group_wait: 10ms
  routes: [{receiver: r1, matchers: ['service="other"']}]
receivers: [{name: r0}, {name: r1}]
`), Text: mustText(t, fmt.Sprintf(`
receivers:
  - {name: r0, webhook_configs: [{url: %q, format: cloudevents}]}
  - {name: r1, webhook_configs: [{url: %q, format: cloudevents_binary}]}`, c.URL, others.URL))}
	var b book
	o := Options{File: filepath.Join(t.TempDir(), "notifications.json"), Settings: s, Incidents: b.list}
	d, stop := run(t, o)
	var a alarms
	d.Update(a.now())
	b.set("INC-1", "v1", false, "shop", "page")
	b.set("INC-2", "v1", true, "shop", "page") // was over before it was known
	b.set("INC-3", "v1", false, "other", "ticket")
	d.Update(a.now())
	testkit.Eventually(t, "opened", func() bool { return len(c.events())+len(others.events()) == 2 })
	b.set("INC-1", "v2", false, "shop", "page")
	looks(t, d)
	testkit.Eventually(t, "updated", func() bool { return len(c.events()) == 2 })
	stop()

	c.answer = func(*cloudEvent) int {
		if len(c.got) == 3 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	b.set("INC-1", "v3", true, "shop", "page")
	b.set("INC-4", "v1", false, "", "page") // by hand, without a service
	b.unknown = true
	d, stop = run(t, o)
	d.Update(a.now())
	looks(t, d)
	require.Len(t, c.events(), 2, "nothing before the incidents are known")
	b.mu.Lock()
	b.unknown = false
	b.mu.Unlock()
	looks(t, d)
	testkit.Eventually(t, "closed", func() bool { return len(c.events()) == 5 })
	b.set("INC-1", "v4", true, "shop", "page")
	looks(t, d)
	testkit.Eventually(t, "its costs", func() bool { return len(c.events()) == 6 })
	stop()

	d, _ = run(t, o)
	d.Update(a.now())
	looks(t, d)
	require.Equal(t, []string{
		"INC-1 sloengine.incident.opened", "INC-1 sloengine.incident.updated", "INC-1 sloengine.incident.closed",
		"INC-1 sloengine.incident.closed", "INC-4 sloengine.incident.opened", "INC-1 sloengine.incident.updated",
	}, c.told())
	got := c.events()
	require.Equal(t, "INC-1-closed-v3", got[2].ID)
	require.Equal(t, got[2].ID, got[3].ID, "a retry is the same event")
	require.Equal(t, "https://slo.example.org/?service=shop", got[2].Source)
	require.Equal(t, "https://slo.example.org/", got[4].Source)
	require.JSONEq(t, `{"v":"v3"}`, string(got[2].Data))
	require.Equal(t, []string{"INC-3 sloengine.incident.opened"}, others.told())
}

// TestCloudEventIncidentRefused offers a refused event again later, and the others at once.
func TestCloudEventIncidentRefused(t *testing.T) {
	c := newConsumer(t)
	c.answer = func(e *cloudEvent) int {
		if e.Subject == "INC-1" {
			return http.StatusBadRequest
		}
		return http.StatusOK
	}
	var b book
	b.set("INC-1", "v1", false, "shop", "page")
	b.set("INC-2", "v1", false, "shop", "page")
	d, _ := run(t, Options{Settings: c.settings(t, formatStructured), Incidents: b.list})
	var a alarms
	d.Update(a.now())
	testkit.Eventually(t, "both are offered", func() bool { return len(c.events()) == 2 })
	looks(t, d)
	testkit.Eventually(t, "nothing waits", func() bool { return status(t, d, "r0/webhook[0]").Pending == 0 })
	require.Equal(t, []string{"INC-1 sloengine.incident.opened", "INC-2 sloengine.incident.opened"}, c.told())
}
