package app

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
)

// Every route that may change something refuses what a page of another site sends.
func TestEveryWriteRefusesOtherSites(t *testing.T) {
	a := guarded(t, "", "127.0.0.1:0")
	writes := 0
	for _, route := range a.routes.router.Routes() {
		if slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, route.Method) {
			continue
		}
		writes++
		for _, foreign := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"},
			{"Origin", "null"},
		} {
			// As a form, a script without a preflight, and with a type that needs one.
			for _, typ := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json"} {
				rec := request(a, route.Method, route.Path, "127.0.0.1:8080", `{"all":true}`,
					append(foreign, "Content-Type", typ)...)
				require.Equal(t, http.StatusForbidden, rec.Code, "%s %s %v %q: %s", route.Method, route.Path,
					foreign, typ, rec.Body)
			}
		}
	}
	require.GreaterOrEqual(t, writes, 6)
}

// A page whose name resolves to this machine must not read or write an engine that asks for
// no credentials.
func TestLoopbackServesLoopbackNamesOnly(t *testing.T) {
	const event = `{"id":"a","service":"shop","type":"order"}`
	paths := func(t *testing.T, a *app, host string, refused bool) {
		t.Helper()
		for _, path := range []string{"/", "/slo?id=shop/latency", "/engine", "/api/v1/slos", "/metrics", "/-/ready",
			"/-/healthy", "/openapi.json", "/public", "/nothing", "/static/x"} {
			rec := request(a, http.MethodGet, path, host, "")
			require.Equal(t, refused, rec.Code == http.StatusForbidden, "GET %s of %q: %d %s", path, host, rec.Code, rec.Body)
		}
		for _, path := range []string{"/api/v1/events", "/api/v1/dlq/replay", "/api/v1/dlq/purge"} {
			rec := request(a, http.MethodPost, path, host, event, "Content-Type", "application/json")
			require.Equal(t, refused, rec.Code == http.StatusForbidden, "POST %s of %q: %d %s", path, host, rec.Code, rec.Body)
		}
	}
	a := guarded(t, "", "127.0.0.1:8080")
	for _, host := range []string{"localhost", "localhost:8080", "LOCALHOST.", "127.0.0.1:8080", "127.1.2.3",
		"[::1]:8080", "[::1]", ""} {
		paths(t, a, host, false)
	}
	for _, host := range []string{"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
		"192.168.1.1", "slo.example.org", "[fe80::1]:80", "127.0.0.1:8080:80", "::1.evil"} {
		paths(t, a, host, true)
	}
	require.Contains(t, request(a, http.MethodGet, "/", "evil.example", "").Body.String(), "web.allowed_hosts")

	a = guarded(t, "web: {allowed_hosts: [Slo.Example.org], external_url: 'https://proxy.example/slo'}\n",
		"localhost:8080")
	paths(t, a, "slo.example.org:443", false)
	paths(t, a, "proxy.example", false)
	paths(t, a, "evil.example", true)

	// Beyond loopback names prove nothing, and with tokens a page would need one.
	paths(t, guarded(t, "", ":8080"), "evil.example", false)
	dir := t.TempDir()
	tokens := writeFile(t, dir, "tokens.yaml", "- {name: x, token_file: t, services: ['*'], allow: [send]}\n")
	writeFile(t, dir, "t", strings.Repeat("0123456789abcdef", 2))
	a = guarded(t, "auth: {tokens_file: '"+tokens+"'}\n", "127.0.0.1:8080")
	require.Equal(t, http.StatusOK, request(a, http.MethodGet, "/-/healthy", "evil.example", "").Code)
	require.Equal(t, http.StatusUnauthorized, request(a, http.MethodGet, "/", "evil.example", "").Code)
}

// A handler that ends without a word must not become a success.
func TestSilenceIsNoSuccess(t *testing.T) {
	a := guarded(t, "", "127.0.0.1:0")
	r := a.routes.router
	r.POST("/silent", func(*gin.Context) {})
	r.POST("/aborted", func(c *gin.Context) { c.Abort() })
	r.POST("/moved", func(c *gin.Context) { c.Status(http.StatusSeeOther) })
	for path, want := range map[string]int{"/silent": 500, "/aborted": 500, "/moved": 303} {
		rec := request(a, http.MethodPost, path, "localhost", "")
		require.Equal(t, want, rec.Code, path)
		require.Equal(t, want == 500, strings.Contains(rec.Body.String(), "handler sent no response"))
	}
}

// A response without a body is an answer for readers of some services, too.
func TestLimitedReadersGetEmptyResponses(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "t", strings.Repeat("0123456789abcdef", 2))
	writeFile(t, dir, "tokens.yaml", "- {name: x, token_file: t, services: [shop], allow: [read]}\n")
	a, _ := built(t, dir, "auth: {tokens_file: tokens.yaml}\n", "127.0.0.1:8080")
	for _, x := range []struct{ method, path string }{
		{http.MethodGet, "/metrics"}, {http.MethodHead, "/metrics"}, {http.MethodHead, "/"},
		{http.MethodHead, "/openapi.json"},
	} {
		req := httptest.NewRequest(x.method, x.path, nil)
		req.Header.Set("Authorization", "Bearer "+strings.Repeat("0123456789abcdef", 2))
		rec := httptest.NewRecorder()
		a.routes.router.ServeHTTP(rec, req)
		require.Equal(t, http.StatusOK, rec.Code, "%s %s: %s", x.method, x.path, rec.Body)
	}
}
