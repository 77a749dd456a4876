package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/internal/testkit/chromium"
)

// tab is a tab with what these tests do in it.
type tab struct{ *chromium.Tab }

// TestMain ends the browser after the tests.
func TestMain(m *testing.M) { os.Exit(chromium.Main(m).Run()) }

func startBrowser(t *testing.T) *tab {
	t.Helper()
	return &tab{chromium.NewTab(t)}
}

// eval evaluates JavaScript in the page and returns its value. A promise is not
// waited for; see eventually.
func eval[T any](t *testing.T, b *tab, expression string) T {
	t.Helper()
	return chromium.Eval[T](t, b.Tab, expression)
}

// eventually waits until a JavaScript expression is true.
func (b *tab) eventually(t *testing.T, expression, why string) {
	t.Helper()
	require.Eventually(t, func() bool {
		v, err := chromedp.Run(b.Ctx, chromedp.Evaluate[bool](expression))
		return err == nil && v
	}, testkit.Patience, 30*time.Millisecond, "%s: never true: %s", why, expression)
}

// prefers sets the scheme that the reader's system prefers, "light" or "dark",
// and whether it wants little motion.
func (b *tab) prefers(t *testing.T, scheme string, reducedMotion bool) {
	t.Helper()
	motion := "no-preference"
	if reducedMotion {
		motion = "reduce"
	}
	b.Do(t, chromium.Quiet(emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
		}}))
}

// scripts switches JavaScript on or off, from the next page on.
func (b *tab) scripts(t *testing.T, on bool) {
	t.Helper()
	b.Do(t, chromium.Quiet(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on}))
}

// zone puts the reader into a time zone, such as "Asia/Tokyo".
func (b *tab) zone(t *testing.T, name string) {
	t.Helper()
	b.Do(t, chromium.Quiet(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name}))
}

// requireFits fails if the page that is open scrolls sideways.
func (b *tab) requireFits(t *testing.T, width int64) {
	t.Helper()
	const wide = `[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
		.slice(-5).map(e => e.tagName + '.' + e.getAttribute('class') + ' ' + e.textContent.trim().slice(0, 40)).join('; ')`
	require.LessOrEqual(t, eval[int64](t, b, `document.scrollingElement.scrollWidth`), width,
		"scrolls sideways because of %s", eval[string](t, b, wide))
}

// picture takes a screenshot of the page that is open, whole if full is set. It
// is kept in the folder that SLOENGINE_WEB_SCREENSHOTS names, if that is set.
func (b *tab) picture(t *testing.T, name string, full bool) {
	t.Helper()
	shot := chromedp.CaptureScreenshot()
	if full {
		width := eval[int64](t, b, `innerWidth`)
		height := eval[int64](t, b, `Math.ceil(document.scrollingElement.scrollHeight)`)
		b.Do(t, chromedp.EmulateViewport(width, height))
	}
	png, err := chromedp.Run(b.Ctx, shot)
	require.NoError(t, err)
	require.Greater(t, len(png), 2_000)
	if dir := os.Getenv("SLOENGINE_WEB_SCREENSHOTS"); dir != "" {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), png, 0o644))
	}
}

// axe loads an address in a tab of its own and fails on every violation that
// axe-core finds against WCAG 2.2 A and AA and its best practices.
func axe(t *testing.T, address string) {
	t.Helper()
	b := startBrowser(t)
	b.Open(t, address, 1280, 900)
	b.axe(t)
}

// axe is the function axe for the page that is open, as it is.
func (b *tab) axe(t *testing.T) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", "axe", "axe.min.js"))
	require.NoError(t, err)
	// The protocol's evaluation is not subject to the page's policy.
	eval[bool](t, b, string(source)+"\n;true")
	eval[bool](t, b,
		`window.axeDone = undefined, axe.run(document, {resultTypes: ['violations']}).then(r => { window.axeDone = r }, e `+
			`=> { window.axeDone = {failed: String(e)} }), true`)
	b.eventually(t, `window.axeDone !== undefined`, "axe-core has an answer")
	type finding struct{ ID, Impact, Help, Nodes string }
	found := eval[[]finding](t, b, `axeDone.failed ? [{ID: 'failed', Impact: '', Help: axeDone.failed, Nodes: ''}] :
		axeDone.violations.map(v => ({ID: v.id, Impact: String(v.impact), Help: v.help,
			Nodes: v.nodes.slice(0, 6).map(n => n.html.slice(0, 200) + ' ' + (n.failureSummary || '')).join('\n')}))`)
	var lines []string
	for _, f := range found {
		lines = append(lines, fmt.Sprintf("%s (%s): %s\n%s", f.ID, f.Impact, f.Help, f.Nodes))
	}
	require.Empty(t, lines, "axe-core:\n%s", strings.Join(lines, "\n"))
	require.Greater(t, eval[int](t, b, `axeDone.passes.length`), 10, "axe-core has looked at the page")
}

// serve listens with the bench's router until the test ends, and returns its address.
func (b *bench) serve(t *testing.T) string {
	t.Helper()
	return serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.router.ServeHTTP(w, r) }))
}

func serveHandler(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func TestBrowserHelpers(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(`<!doctype html><html lang="en"><title>x</title><main><h1>Hello</h1></main></html>`))
	}))
	t.Cleanup(s.Close)
	b.Open(t, s.URL, 360, 600)
	b.requireFits(t, 360)
	require.Equal(t, "Hello", eval[string](t, b, `document.querySelector('h1').textContent`))
}
