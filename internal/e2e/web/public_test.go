package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/remote"
)

// The settings of the public page decide its name, logo and colours in every form of it.
func TestPublicLook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const logo = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><circle r="4"/></svg>`
	e2etest.WriteFile(t, dir, "logo.svg", logo)
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "slo.yaml", readerSpec),
		`public: {name: 'Shop & "Sons" <b>', logo: logo.svg, color: "#0b5f75", color_dark: "#7cc7db"}`)
	e2etest.Reports(t, p, 1)
	page := string(e2etest.Get(t, p.Base+"/public"))
	require.Contains(t, page, `<title>Shop &amp; &#34;Sons&#34; &lt;b&gt;: `)
	require.Contains(t, page, `<bdi>Shop &amp; &#34;Sons&#34; &lt;b&gt;</bdi>`)
	for tag, want := range map[string]struct{ typ, body string }{
		`<img src="([^"]+)" alt="" height="40">`: {"image/svg+xml", logo},
		`<link rel="stylesheet" href="(/public/style.css\?[^"]+)">`: {"text/css; charset=utf-8",
			"--link: light-dark(#0b5f75, #7cc7db);"},
	} {
		found := regexp.MustCompile(tag).FindStringSubmatch(page)
		require.NotNil(t, found, "%s in %s", tag, page)
		res, err := http.Get(p.Base + found[1])
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want.typ, res.Header.Get("Content-Type"))
		require.Contains(t, string(body), want.body)
		require.Contains(t, res.Header.Get("Content-Security-Policy"), "default-src 'none'", "a logo runs no script")
	}
	require.Contains(t, string(e2etest.Get(t, p.Base+"/public/summary.json")),
		`"name":"Shop \u0026 \"Sons\" \u003cb\u003e"`)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/public/incidents.atom")), "Incidents: Shop &amp; ")

	plain := e2etest.Serve(t, t.TempDir(), e2etest.WriteFile(t, dir, "slo.yaml", readerSpec), "")
	e2etest.Reports(t, plain, 1)
	page = string(e2etest.Get(t, plain.Base+"/public"))
	require.True(t, strings.Contains(page, "<title>Status: ") && !strings.Contains(page, "/public/style.css"), page)
	for _, path := range []string{"/public/logo", "/public/style.css"} {
		res, err := http.Get(plain.Base + path)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusNotFound, res.StatusCode, path)
	}
}

// A webhook that subscribed receives each change of a public incident once, also after a crash, and nothing else.
func TestPublicSubscriptions(t *testing.T) {
	t.Parallel()
	const secret = "the secret of a subscriber"
	type message struct {
		Challenge string
		Page      struct{ Name string }
		Incident  struct {
			Name, Status, Shortlink string
			Updates                 []struct{ Body string } `json:"incident_updates"`
		}
	}
	got := make(chan message, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m message
		if err != nil || json.Unmarshal(body, &m) != nil ||
			remote.Verify([]byte(secret), body, r.Header.Get(remote.SignatureHeader), time.Now(), time.Minute) != nil {
			http.Error(w, "not signed", http.StatusForbidden)
			return
		}
		if m.Challenge != "" {
			_, _ = io.WriteString(w, m.Challenge)
			return
		}
		got <- m
	}))
	t.Cleanup(hook.Close)
	dir := t.TempDir()
	file := e2etest.WriteFile(t, dir, "slo.yaml", readerSpec)
	const settings = "web: {external_url: 'https://status.example.org'}\npublic: {name: Shop, subscriptions: true"
	data := t.TempDir()
	p := e2etest.Serve(t, data, file, settings+", private_webhooks: true}")
	post := func(path, body string, want int) (answer struct{ ID, Token, Detail string }) {
		t.Helper()
		status, text := postJSON(t, p.Base+path, body)
		require.Equal(t, want, status, text)
		if text != "" {
			require.NoError(t, json.Unmarshal([]byte(text), &answer), text)
		}
		return answer
	}
	subscribe := func(to string, want int) (token, detail string) {
		t.Helper()
		var answer struct{ ID, Token, Detail string }
		require.Eventually(t, func() bool { // before the incidents are known the engine answers 503
			status, text := postJSON(t, p.Base+"/public/subscriptions", fmt.Sprintf(`{"url":%q,"secret":%q}`, to, secret))
			require.NoError(t, json.Unmarshal([]byte(text), &answer), text)
			return status == want
		}, testkit.Patience, 100*time.Millisecond)
		return answer.Token, answer.Detail
	}
	next := func(status string, updates ...string) {
		t.Helper()
		select {
		case m := <-got:
			require.Equal(t, status, m.Incident.Status)
			require.Equal(t, "Checkout fails", m.Incident.Name)
			require.Equal(t, "Shop", m.Page.Name)
			require.Contains(t, m.Incident.Shortlink, "https://status.example.org/public#incident-")
			var texts []string
			for _, u := range m.Incident.Updates {
				texts = append(texts, u.Body)
			}
			require.Equal(t, updates, texts)
		case <-time.After(testkit.Patience):
			require.Fail(t, "no message")
		}
	}
	const opened, found, fixed = "The incident is being investigated.", "A disk is full.", "The incident is resolved."
	post("/api/v1/incidents", `{"title":"Old","public":true,"by":"ann"}`, http.StatusCreated)
	saved(t, data, `"last":1`)
	token, _ := subscribe(hook.URL, http.StatusCreated)
	id := post("/api/v1/incidents", `{"title":"Checkout fails","public":true,"by":"ann"}`, http.StatusCreated).ID
	next("investigating", opened)
	post("/api/v1/incidents", `{"title":"Inside","by":"ann"}`, http.StatusCreated)
	post("/api/v1/incidents/"+id+"/note", `{"text":"inside","by":"ann"}`, http.StatusOK)
	post("/api/v1/incidents/"+id+"/update", `{"text":"A disk is full.","status":"identified","public":true,"by":"ann"}`,
		http.StatusOK)
	next("identified", found, opened)
	saved(t, data, `"sent":3`)
	p.Kill()

	p = e2etest.Serve(t, data, file, settings+", private_webhooks: true}")
	post("/api/v1/incidents/"+id+"/resolve", `{"by":"ann"}`, http.StatusOK)
	next("resolved", fixed, found, opened)
	saved(t, data, `"sent":4`)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/metrics")),
		`sloengine_subscription_deliveries_total{result="sent"} 1`)
	post("/public/subscriptions/delete", `{"token":"x"}`, http.StatusNotFound)
	post("/public/subscriptions/delete", fmt.Sprintf(`{"token":%q}`, token), http.StatusNoContent)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/metrics")), "sloengine_subscriptions 0")
	require.Contains(t, post("/public/subscriptions", `{"url":"x","secret":"y"}`, http.StatusBadRequest).Detail,
		"url: must begin")
	require.Contains(t, post("/public/subscriptions", `{"urls":"x"}`, http.StatusBadRequest).Detail, "urls: unknown field")
	p.Stop(t)
	require.Empty(t, got)

	p = e2etest.Serve(t, data, file, settings+"}")
	_, detail := subscribe(strings.Replace(hook.URL, "http:", "https:", 1), http.StatusUnprocessableEntity)
	require.Equal(t, "the address did not confirm: its address is not public", detail)
	p.Stop(t)
	p = e2etest.Serve(t, data, file, "")
	post("/public/subscriptions", `{"url":"https://example.org/","secret":"1234567890123456"}`, http.StatusNotFound)
}

func postJSON(t *testing.T, address, body string) (status int, answer string) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	return e2etest.Exchange(t, req)
}

// saved waits until the subscriptions are on disk with a text.
func saved(t *testing.T, dir, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(filepath.Join(dir, "data", "subscriptions.json"))
		return err == nil && strings.Contains(string(data), text)
	}, testkit.Patience, 10*time.Millisecond)
}
