package notify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/prometheus/common/config"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/breaker"
)

func TestFiresAndResolves(t *testing.T) {
	f := newFake(t, nil)
	s := settingsFor(f.URL)
	s.ExternalLabels = map[string]string{"cluster": "eu-1", "service": "not this one", "empty": ""}
	s.Watchdog = alerts.Watchdog(options())
	n, _ := run(t, Options{Settings: s})
	w := newWorld(t, "MED", "AUTO")
	n.Update(w.tick())
	w.bad["MED"] = true
	n.Update(w.tick())
	testkit.Eventually(t, "it fires", func() bool { return len(f.all()) == 1 })
	a := f.all()[0]
	require.Equal(t, map[string]string{
		"alertname": "ErrorBudgetBurnPage", "severity": "page", "slo_impact": "high", "slo_kind": "error_rate",
		"slo_tier": "page-1h", "slo_long": "1h", "slo_short": "5m",
		"slo_id": "shop/availability", "service": "shop", "slo": "availability", "product": "MED", "cluster": "eu-1",
	}, a.Labels)
	require.Equal(t, "shop/availability (product=MED) burns its error budget fast", a.Annotations["summary"])
	require.Contains(t, a.Annotations["description"], "50% of the events of the last 1h were bad.")
	require.Equal(t, "http://slo.example:8080/slo?id=shop%2Favailability&group.product=MED", a.Annotations["page"])
	require.Equal(t, a.Annotations["page"], a.GeneratorURL)
	require.Contains(t, a.Annotations["dashboard"], "http://grafana.example/d/sloengine-slo?var-slo_id=")
	require.Contains(t, a.Annotations["runbook_url"], "/ErrorBudgetBurnPage.md")
	require.WithinDuration(t, time.Now().Add(4*time.Minute), a.EndsAt, time.Minute)
	require.True(t, a.StartsAt.Equal(w.machine.View().Active[0].FiredAt))
	testkit.Eventually(t, "the answer is read", func() bool { return n.Status()[0].Pending == 0 })

	looks(t, n, w)
	require.Len(t, f.all(), 1, "nothing is repeated before it is time")

	w.bad["MED"] = false
	n.Update(w.tick())
	testkit.Eventually(t, "it resolves", func() bool { return len(f.all()) == 2 })
	b := f.all()[1]
	require.Equal(t, a.Labels, b.Labels)
	require.True(t, b.EndsAt.Equal(w.machine.View().Resolved[0].ResolvedAt))
	require.NotEmpty(t, b.Annotations["summary"])

	w.bad["MED"] = true
	n.Update(w.tick())
	testkit.Eventually(t, "it fires again", func() bool { return len(f.all()) == 3 })
	require.True(t, f.all()[2].EndsAt.After(time.Now()))
	require.True(t, f.all()[2].StartsAt.After(a.StartsAt))
}

func TestRepeats(t *testing.T) {
	f := newFake(t, nil)
	s := settingsFor(f.URL)
	s.Resend, s.Watchdog = 100*time.Millisecond, alerts.Watchdog(options())
	n, _ := run(t, Options{Settings: s})
	w := newWorld(t, "MED")
	w.bad["MED"] = true
	watchdogs := func() (count int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, r := range f.requests {
			for _, a := range r {
				if a.Labels["alertname"] == "Watchdog" {
					count++
					require.Equal(t, map[string]string{"alertname": "Watchdog", "severity": "none", "slo_kind": "engine"}, a.Labels)
					require.Equal(t, "Alerting works", a.Annotations["summary"])
				}
			}
		}
		return count
	}
	testkit.Eventually(t, "both are repeated", func() bool {
		n.Update(w.tick())
		return len(f.all()) >= 4 && watchdogs() >= 4
	})
	f.mu.Lock()
	for i := 1; i < len(f.at); i++ {
		require.GreaterOrEqual(t, f.at[i].Sub(f.at[i-1]), s.Resend, "nothing is repeated before it is time")
	}
	f.mu.Unlock()

	testkit.Pause(500 * time.Millisecond) // no ticks: the watchdog ends, and what fires goes on
	before := f.count()
	// one may have been on its way
	testkit.Eventually(t, "alerts continue without ticks", func() bool { return f.count() >= before+2 })
	f.mu.Lock()
	last := f.requests[len(f.requests)-1]
	f.mu.Unlock()
	for _, a := range last {
		require.NotEqual(t, "Watchdog", a.Labels["alertname"], "an engine that evaluates nothing has no watchdog")
	}
}

// TestBadPeers holds a good peer beside peers of every bad kind.
func TestBadPeers(t *testing.T) {
	good := newFake(t, nil)
	hang := make(chan struct{})
	defer close(hang)
	other := newFake(t, nil)
	peers := map[string]func(w http.ResponseWriter, r *http.Request, got []posted){
		"hanging": func(_ http.ResponseWriter, r *http.Request, _ []posted) { wait(r, hang) },
		"redirecting": func(w http.ResponseWriter, r *http.Request, _ []posted) {
			http.Redirect(w, r, other.URL+alertsPath, 307)
		},
		"denying":  func(w http.ResponseWriter, _ *http.Request, _ []posted) { http.Error(w, "who are you?", 401) },
		"broken":   func(w http.ResponseWriter, _ *http.Request, _ []posted) { http.Error(w, "out of\x1b[31m memory", 500) },
		"refusing": func(w http.ResponseWriter, _ *http.Request, _ []posted) { http.Error(w, `"no"`, 400) },
		"endless": func(w http.ResponseWriter, r *http.Request, _ []posted) {
			w.WriteHeader(http.StatusServiceUnavailable)
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<16)); err != nil {
					return
				}
			}
		},
		"dropping": func(w http.ResponseWriter, _ *http.Request, _ []posted) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				c.Close()
			}
		},
	}
	s := settingsFor(good.URL)
	for name, answer := range peers {
		s.Peers = append(s.Peers, Peer{Name: name, URL: newFake(t, answer).URL})
	}
	s.Timeout = 5 * time.Second
	var out testkit.Buffer
	set := metrics.NewSet()
	n, _ := run(t, Options{Settings: s, Metrics: NewMetrics(set), Logger: slog.New(slog.NewTextHandler(&out, nil))})
	w := newWorld(t, "MED", "AUTO")
	w.bad["MED"] = true
	began := time.Now()
	n.Update(w.tick())
	testkit.Eventually(t, "the good peer has it", func() bool { return len(good.all()) == 1 })
	require.Less(t, time.Since(began), s.Timeout, "the others cost it nothing")
	status := map[string]Status{}
	testkit.Eventually(t, "all others fail", func() bool {
		for _, p := range n.Status() {
			status[p.Name] = p
			if p.Name == "am0" && p.Sent == 0 || p.Name != "am0" && p.Name != "refusing" && p.FailingSince.IsZero() {
				return false
			}
		}
		return true
	})
	for name, want := range map[string]string{
		"hanging": "no answer in time", "redirecting": "307 Temporary Redirect", "denying": "401 Unauthorized",
		"broken":  "500 Internal Server Error",
		"endless": "503 Service Unavailable", "dropping": "no connection",
	} {
		require.Equal(t, want, status[name].Brief, name)
		require.Equal(t, 1, status[name].Pending, name)
	}
	require.Contains(t, status["redirecting"].Cause, "redirects are not followed")
	require.Contains(t, status["redirecting"].Cause, other.URL)
	require.Contains(t, status["broken"].Cause, "out of [31m memory")
	require.Zero(t, other.count())
	require.True(t, status["am0"].FailingSince.IsZero())
	require.Equal(t, uint64(1), status["am0"].Sent)

	// An alert that is refused is given up, once, and does not make its peer fail.
	testkit.Eventually(t, "the refused alert is given up", func() bool {
		return strings.Contains(out.String(), "alertmanager refused alert")
	})
	require.Equal(t, 1, strings.Count(out.String(), "alertmanager refused alert"))
	require.Equal(t, 1, strings.Count(out.String(), `alertmanager=denying`),
		"one line for a failure, however often it is tried")
	var b bytes.Buffer
	set.WritePrometheus(&b)
	require.Contains(t, b.String(), `sloengine_notify_dropped_total{target="refusing",reason="refused"} 1`)
	require.Contains(t, b.String(), `sloengine_notify_failing{target="denying"} 1`)
	require.Contains(t, b.String(), `sloengine_notify_failing{target="am0"} 0`)
	require.Regexp(t, `sloengine_notify_failures_total{target="denying",reason="blocked"} [1-9]`, b.String())
	require.Regexp(t, `sloengine_notify_failures_total{target="hanging",reason="timeout"} [1-9]`, b.String())
}

func wait(r *http.Request, until chan struct{}) {
	select {
	case <-until:
	case <-r.Context().Done():
	}
}

// TestRefusedAlertIsFound has one alert among many that the peer refuses.
func TestRefusedAlertIsFound(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request, got []posted) {
		for _, a := range got {
			if a.Labels["product"] == "product-00123" {
				http.Error(w, "bad label", 400)
				return
			}
		}
	})
	set := metrics.NewSet()
	n, _ := run(t, Options{Settings: settingsFor(f.URL), Metrics: NewMetrics(set)})
	w := newWorld(t, products(300)...)
	for _, g := range w.groups {
		w.bad[g] = true
	}
	n.Update(w.tick())
	testkit.Eventually(t, "all but one are accepted", func() bool { return n.Status()[0].Sent == 299 })
	require.True(t, n.Status()[0].FailingSince.IsZero())
	require.Less(t, f.count(), 30)
}

// TestManyRefusedAlerts delays none of the others: among 300 alerts, a peer refuses 90.
func TestManyRefusedAlerts(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request, got []posted) {
		for _, a := range got {
			if strings.HasSuffix(a.Labels["product"], "7") || strings.HasSuffix(a.Labels["product"], "3") ||
				strings.HasSuffix(a.Labels["product"], "0") {
				http.Error(w, "bad label", 400)
				return
			}
		}
	})
	n, _ := run(t, Options{Settings: settingsFor(f.URL)})
	w := newWorld(t, products(300)...)
	for _, g := range w.groups {
		w.bad[g] = true
	}
	began := time.Now()
	n.Update(w.tick())
	testkit.Eventually(t, "the others are accepted", func() bool {
		return n.Status()[0].Sent == 210 && n.Status()[0].Pending == 0
	})
	require.Less(t, time.Since(began), 10*time.Second)
	require.True(t, n.Status()[0].FailingSince.IsZero())
}

// TestNothingLeft ends the failure of a peer that nothing is left to be told.
func TestNothingLeft(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request, _ []posted) { w.WriteHeader(503) })
	n, _ := run(t, Options{Settings: settingsFor(f.URL)})
	w := newWorld(t, "A")
	w.bad["A"] = true
	v := w.tick()
	n.Update(v)
	testkit.Eventually(t, "it fails", func() bool { return !n.Status()[0].FailingSince.IsZero() })
	n.Update(&state.View{Time: v.Time.Add(time.Second)})
	testkit.Eventually(t, "nothing is left", func() bool { return n.Status()[0].FailingSince.IsZero() })
	require.Zero(t, n.Status()[0].Sent)
}

// TestOutage is a peer that is down while alerts fire and resolve, and an engine that is killed meanwhile.
func TestOutage(t *testing.T) {
	f := newFake(t, nil)
	down := func(w http.ResponseWriter, _ *http.Request, _ []posted) { w.WriteHeader(503) }
	var out testkit.Buffer
	o := Options{Settings: settingsFor(f.URL), Logger: slog.New(slog.NewTextHandler(&out, nil))}
	n, stop := run(t, o)
	w := newWorld(t, "A", "B", "C", "D")
	w.bad["A"], w.bad["B"] = true, true
	n.Update(w.tick())
	testkit.Eventually(t, "two fire", func() bool { return len(f.latest()) == 2 })
	first := f.latest()

	f.set(down)
	w.bad["A"], w.bad["C"], w.bad["D"] = false, true, true
	n.Update(w.tick())
	testkit.Eventually(t, "it fails", func() bool { return !n.Status()[0].FailingSince.IsZero() })
	w.bad["D"] = false // fires and resolves unseen
	n.Update(w.tick())
	stop() // kill -9
	w.restart()
	f.mu.Lock()
	f.requests = nil
	f.mu.Unlock()
	n, _ = run(t, o)
	n.Update(w.tick())
	testkit.Eventually(t, "it fails again", func() bool { return !n.Status()[0].FailingSince.IsZero() })
	f.set(nil)
	testkit.Eventually(t, "it is notified", func() bool {
		s := n.Status()[0]
		return s.FailingSince.IsZero() && s.Pending == 0 && s.Sent > 0
	})
	got := f.latest()
	require.Len(t, got, 4)
	for product, resolved := range map[string]bool{"A": true, "B": false, "C": false, "D": true} {
		a := got[product]
		require.Equal(t, resolved, a.resolved(), product)
		require.NotEmpty(t, a.Annotations["summary"], "%s: the restarted engine knows the texts", product)
	}
	require.True(t, first["B"].StartsAt.Equal(got["B"].StartsAt), "Alertmanager takes it for the same")
	require.True(t, first["A"].StartsAt.Equal(got["A"].StartsAt))
	require.Contains(t, out.String(), "alertmanager accepts alerts again")
}

// TestTickNeverWaits updates a notifier whose peers all hang.
func TestTickNeverWaits(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	f := newFake(t, func(_ http.ResponseWriter, r *http.Request, _ []posted) { wait(r, hang) })
	n, stop := run(t, Options{Settings: settingsFor(f.URL, f.URL, f.URL)})
	w := newWorld(t, "MED")
	w.bad["MED"] = true
	n.Update(w.tick())
	testkit.Eventually(t, "they hang", func() bool { return f.count() == 3 })
	v := w.tick()
	began := time.Now()
	for range 1000 {
		n.Update(v)
	}
	require.Less(t, time.Since(began), 5*time.Second)
	began = time.Now()
	stop()
	require.Less(t, time.Since(began), 5*time.Second, "requests in flight are cancelled")
}

func TestReload(t *testing.T) {
	a, b := newFake(t, nil), newFake(t, nil)
	set := metrics.NewSet()
	n, _ := run(t, Options{Settings: settingsFor(a.URL), Metrics: NewMetrics(set), Breakers: breaker.NewMetrics(set)})
	w := newWorld(t, "MED")
	w.bad["MED"] = true
	n.Update(w.tick())
	testkit.Eventually(t, "a has it", func() bool { return len(a.all()) == 1 })

	apply, err := n.Prepare(settingsFor(a.URL, b.URL))
	require.NoError(t, err)
	require.Len(t, n.Status(), 1, "nothing has changed yet")
	apply()
	testkit.Eventually(t, "b has it", func() bool { return len(b.all()) == 1 })
	require.Len(t, a.all(), 1, "a goes on")

	for what, bad := range map[string]Settings{
		"url: must begin": settingsFor("ftp://x"),
		"duplicate name":  {Peers: []Peer{{Name: "x", URL: a.URL}, {Name: "x", URL: b.URL}}},
		"no such file": {
			Peers: []Peer{{URL: a.URL, HTTP: config.HTTPClientConfig{TLSConfig: config.TLSConfig{CAFile: "/nowhere"}}}}},
	} {
		_, err = n.Prepare(bad)
		require.ErrorContains(t, err, what)
	}
	require.Len(t, n.Status(), 2)

	apply, err = n.Prepare(Settings{Peers: []Peer{{Name: "am1", URL: b.URL}}})
	require.NoError(t, err)
	apply()
	testkit.Eventually(t, "a is gone", func() bool {
		var out bytes.Buffer
		set.WritePrometheus(&out)
		return !strings.Contains(out.String(), `target="am0"`) && !strings.Contains(out.String(), "alertmanager am0") &&
			strings.Contains(out.String(), `target="am1"`)
	})
	labelled := settingsFor(a.URL, b.URL)
	labelled.ExternalLabels = map[string]string{"dc": "1"}
	apply, err = n.Prepare(labelled)
	require.NoError(t, err)
	apply()
	testkit.Eventually(t, "both hear of it with the new label", func() bool {
		return a.latest()["MED"].Labels["dc"] == "1" && b.latest()["MED"].Labels["dc"] == "1"
	})
}

// TestSecretsStayInside sends credentials, and finds them nowhere else.
func TestSecretsStayInside(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request, _ []posted) { w.WriteHeader(403) })
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("one-secret\n"), 0o600))
	s := settingsFor(f.URL, f.URL, f.URL)
	s.Peers[0].HTTP.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: file}
	s.Peers[1].HTTP.BasicAuth = &config.BasicAuth{Username: "am", Password: "two-secret"}
	s.Peers[2].HTTP.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: file + ".missing"}
	var out testkit.Buffer
	n, _ := run(t, Options{Settings: s, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	w := newWorld(t, "MED")
	w.bad["MED"] = true
	n.Update(w.tick())
	testkit.Eventually(t, "all fail", func() bool {
		for _, p := range n.Status() {
			if p.FailingSince.IsZero() {
				return false
			}
		}
		return true
	})
	require.Equal(t, "its credentials cannot be read", n.Status()[2].Brief)
	var sent []string
	f.mu.Lock()
	for _, h := range f.headers {
		sent = append(sent, h.Get("Authorization"))
		require.Equal(t, "sloengine", h.Get("User-Agent"))
	}
	f.mu.Unlock()
	require.Contains(t, sent, "Bearer one-secret")
	require.Contains(t, strings.Join(sent, " "), "Basic ")
	require.NotContains(t, out.String()+fmt.Sprintf("%+v", n.Status()), "-secret")
}

func TestCheckURL(t *testing.T) {
	for url, want := range map[string]string{
		"http://am:9093": "", "https://am.example/alertmanager/": "", "am:9093": "must begin with",
		"http://u:p@am":  "must not contain credentials",
		"http://am/?x=1": "query", "http://am/#x": "fragment", "http://am/api/v2/alerts": "must end before /api",
		"http://[": "not a URL",
	} {
		if err := CheckURL(url); want == "" {
			require.NoError(t, err, url)
		} else {
			require.ErrorContains(t, err, want, url)
		}
	}
}

func TestSendOnce(t *testing.T) {
	good, bad := newFake(t, nil), newFake(t, func(w http.ResponseWriter, _ *http.Request, _ []posted) {
		w.WriteHeader(404)
	})
	s := settingsFor(good.URL, bad.URL)
	s.ExternalLabels = map[string]string{"cluster": "eu"}
	now := time.Now()
	got, err := SendOnce(t.Context(), Options{Settings: s}, map[string]string{"alertname": "Test"},
		map[string]string{"summary": "hello"}, now, now.Add(time.Minute))
	require.NoError(t, err)
	require.NoError(t, got[0].Err)
	require.EqualError(t, got[1].Err, "404 Not Found")
	require.Equal(t, map[string]string{"alertname": "Test", "cluster": "eu"}, good.all()[0].Labels)
	require.Equal(t, map[string]string{"summary": "hello"}, good.all()[0].Annotations)
}

// FuzzString is about what hostile events may put into labels.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", `a"b\c`, "\x00\x1f\x7f", "tab\tline\n", "МЕД 🚨", "broken \xff\xc3(",
		"</script>\u2028", strings.Repeat("é", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		require.NoError(t, err)
		var a, b string
		require.NoError(t, json.Unmarshal(want, &a))
		require.NoError(t, json.Unmarshal(event.AppendJSONText(nil, s), &b))
		require.Equal(t, a, b)
	})
}

// TestBatches keeps requests within their bounds.
func TestBatches(t *testing.T) {
	f := newFake(t, nil)
	n, _ := run(t, Options{Settings: settingsFor(f.URL)})
	var v state.View
	v.Time = time.Now()
	for i := range 1200 {
		a := state.Alert{Name: "X", State: state.Firing, FiredAt: v.Time, Fingerprint: fmt.Sprintf("%016x", i)}
		a.Labels = []state.Label{{Name: "alertname", Value: "X"}, {Name: "i", Value: fmt.Sprint(i)}}
		if i >= 1190 {
			a.Labels = append(a.Labels, state.Label{Name: "slo_long", Value: strings.Repeat("x", 300<<10)})
		}
		v.Active = append(v.Active, a)
	}
	n.Update(&v)
	testkit.Eventually(t, "all are sent", func() bool { return n.Status()[0].Sent == 1200 })
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Equal(t, maxAlerts, len(f.requests[0]))
	for i, r := range f.requests {
		size := 0
		for _, a := range r {
			size += len(a.Labels["slo_long"])
		}
		require.LessOrEqual(t, size, maxBytes, "request %d", i)
	}
}
