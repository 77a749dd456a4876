package web

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
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
		`<img src="([^"]+)" alt="" height="40">`:                    {"image/svg+xml", logo},
		`<link rel="stylesheet" href="(/public/style.css\?[^"]+)">`: {"text/css; charset=utf-8", "--link: light-dark(#0b5f75, #7cc7db);"},
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
	require.Contains(t, string(e2etest.Get(t, p.Base+"/public/summary.json")), `"name":"Shop \u0026 \"Sons\" \u003cb\u003e"`)
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
