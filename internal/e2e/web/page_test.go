// Package web has the end-to-end tests of pages in a browser, the API, and the demo.
package web

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/internal/testkit/chromium"
	"github.com/stretchr/testify/require"
)

// quietSettings make one report and no other, so that page and API can be held
// against each other.
const quietSettings = "evaluator: {interval: 1h}\n"

// historyDays is the length of the history: what its two past incidents need, or a month for the README's pictures.
func historyDays() int {
	if os.Getenv("SLOENGINE_SCREENSHOTS") != "" {
		return 30
	}
	return 12
}

// demoHistory fills a folder with the demo's history and an incident, and leaves an engine on it that reports once.
func demoHistory(t *testing.T) *e2etest.Process {
	t.Helper()
	dir := t.TempDir()
	p, ok := e2etest.Start(t, nil, "demo", "--history", strconv.Itoa(historyDays())+"d",
		"--data-dir", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:0")
	require.True(t, ok, p.Log.String())
	testkit.Eventually(t, "the history is sent", func() bool {
		return strings.Contains(p.Log.String(), "live traffic continues")
	}, p.Log.String)
	sendOutage(t, p)
	workOnIncidents(t, p)
	p.Stop(t)
	// The demo's own spec, of which the public page shows all.
	spec, err := os.ReadFile("../../../testdata/specs/insurance.yaml")
	require.NoError(t, err)
	public := strings.Replace(string(spec), "labels: {team: unpaid}", `labels: {team: unpaid, public: "true"}`, 1)
	require.NotEqual(t, string(spec), public)
	p = e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "insurance.yaml", public), quietSettings)
	testkit.Eventually(t, "a report", func() bool { return e2etest.ListSLOs(t, p).Report.Version > 0 })
	return p
}

// sendOutage sends five minutes in which most calls of mdm failed, instead of waiting for those of the demo.
func sendOutage(t *testing.T, p *e2etest.Process) {
	t.Helper()
	var calls strings.Builder
	now := time.Now()
	for i, at := 0, now.Add(-5*time.Minute); at.Before(now); i, at = i+1, at.Add(250*time.Millisecond) {
		outcome := "failure"
		if i%10 == 0 {
			outcome = "success"
		}
		fmt.Fprintf(&calls, `{"id":"outage-%d","service":"insurance-unpaid","type":"integration","outcome":%q,"time":%d,`+
			`"severity":"critical","duration_ms":400,"attributes":{"integration":"mdm","error_type":"MDM_ERROR"}}`+"\n",
			i, outcome, at.UnixMilli())
	}
	status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", calls.String())
	require.Equal(t, http.StatusAccepted, status, answer)
}

// workOnIncidents waits for the incident that the outage opens, does with it what a team does, and opens another by
// hand.
func workOnIncidents(t *testing.T, p *e2etest.Process) {
	t.Helper()
	testkit.Eventually(t, "a page fires", func() bool { return len(e2etest.ListIncidents(t, p).Items) > 0 }, p.Log.String)
	do := func(args ...string) string {
		t.Helper()
		out, errs, code := e2etest.Command(t, append([]string{"incident", "--url", p.Base}, args...)...)
		require.Equal(t, cli.ExitOK, code, "%v: %s", args, errs)
		return out
	}
	id := e2etest.ListIncidents(t, p).Items[0].ID
	do("ack", id, "--by", "Ann", "--team", "unpaid")
	do("note", id,
		"`mdm-7` refuses connections, see [the runbook](https://wiki.example.org/mdm). **Bob** fails over to `mdm-8`.",
		"--by", "Ann")
	do("publish", id)
	do("update", id, "Some applications **fail** because a partner does not answer. We are failing over.",
		"--by", "Ann", "--public")
	other := regexp.MustCompile(`INC-[0-9-]+`).FindString(do("open", "Documents arrive late", "--by", "Bob", "--team",
		"unpaid", "--service", "insurance-unpaid", "--severity", "warning", "--onset", "50m"))
	do("publish", other)
	do("update", other, "Every document was delivered.", "--by", "Bob", "--public")
	do("resolve", other, "--by", "Bob")
}

// TestMain ends the browser after the tests.
func TestMain(m *testing.M) { os.Exit(chromium.Main(m).Run()) }

// browser is a tab with what these tests do in it.
type browser struct{ *chromium.Tab }

func newBrowser(t *testing.T) *browser {
	t.Helper()
	return &browser{chromium.NewTab(t)}
}

// ask evaluates JavaScript and returns its value.
func ask[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	return chromium.Eval[T](t, b.Tab, expression)
}

// shown is one row of the list as a reader sees it.
type shown struct{ Name, Group, SLI, Left, State string }

const readRows = `[...document.querySelectorAll('table.levels tbody tr')].map(r => {
	const own = e => e ? [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.textContent).join('').trim() : '';
	return {
		Name: r.querySelector('th a').textContent.replace(/\s+/g, ''),
		Group: [...r.querySelectorAll('th .label')].map(l => l.querySelector('bdi[title]').textContent.trim()).join(','),
		SLI: own(r.querySelector('[data-name="SLI"]')),
		Left: r.querySelector('.left').textContent.trim(),
		State: r.querySelector('td.state').textContent.trim(),
	}})`

// tooWide names what sticks out of the screen on its right.
const tooWide = `[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
	.slice(-5).map(e => e.tagName + '.' + e.getAttribute('class') + ' ' + e.textContent.trim().slice(0, 40)).join('; ')`

// TestPage looks at the page of a real engine in a real browser.
func TestPage(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := demoHistory(t)
	api := e2etest.ListSLOs(t, p)
	require.Greater(t, api.Total, 20)

	b.Open(t, p.Base+"/?rows=groups", 1280, 900)
	rows := ask[[]shown](t, b, readRows)
	requireSameNumbers(t, api, rows)

	// Without JavaScript the same numbers are there.
	scripts := func(off bool) chromedp.Action[chromedp.Void] {
		return chromium.Quiet(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: off})
	}
	b.Do(t, scripts(true))
	b.Open(t, p.Base+"/?rows=groups", 1280, 900)
	plain := ask[[]shown](t, b, readRows)
	b.Do(t, scripts(false))
	require.Equal(t, rows, plain)

	detail := p.Base + "/slo?" + url.Values{"id": {"insurance-unpaid/availability"}, "group.product": {"MEDCARE"}}.Encode()
	latency := p.Base + "/slo?" + url.Values{"id": {"insurance-unpaid/latency"}, "group.product": {"MEDCARE"},
		"range": {"7d"}}.Encode()
	sla := p.Base + "/sla?" + url.Values{"service": {"insurance-unpaid"}, "sla": {"unpaid"},
		"group.product": {"MEDCARE"}}.Encode()
	month := p.Base + "/report?period=" + time.Now().UTC().AddDate(0, 0, -historyDays()/2).Format("2006-01")
	incident := ""
	for _, x := range e2etest.ListIncidents(t, p).Items {
		if x.Automated {
			incident = p.Base + "/incident?id=" + x.ID
		}
	}
	require.NotEmpty(t, incident)
	views := map[string]string{
		"incidents": p.Base + "/incidents", "incident": incident,
		"list": p.Base + "/", "detail": detail, "latency": latency, "slas": p.Base + "/slas", "sla": sla, "report": month,
		"engine": p.Base + "/engine", "public": p.Base + "/public",
	}
	for name, address := range views {
		b.screenshot(t, address, name+".png", 1280, "light")
	}
	b.screenshot(t, p.Base+"/", "list-dark.png", 1280, "dark")
	b.screenshot(t, latency, "latency-dark.png", 1280, "dark")
	b.screenshot(t, p.Base+"/", "list-phone.png", 360, "light")
	b.screenshot(t, detail, "detail-phone.png", 360, "light")
	b.screenshot(t, incident, "incident-phone.png", 360, "light")

	// A month of the demo's seventy groups is read without scrolling far.
	for width, most := range map[int64]int64{1280: 3000, 390: 7000} {
		b.Open(t, month, width, 900)
		require.Less(t, ask[int64](t, b, `document.scrollingElement.scrollHeight`), most, "the report at %d px", width)
	}

	// At phone width nothing is wider than the screen.
	for name, address := range views {
		b.Open(t, address, 360, 740)
		width := ask[int64](t, b, `document.scrollingElement.scrollWidth`)
		require.LessOrEqual(t, width, int64(360), "%s scrolls sideways on a phone, because of %s", name,
			ask[string](t, b, tooWide))
	}

	b.visitAll(t, p.Base)

	b.RequireClean(t, p.Base)
}

// visitAll opens every page that a reader reaches by links, one of each kind and a few more, so that none of them has
// an error in the console. The errors name the page.
func (b *browser) visitAll(t *testing.T, base string) {
	t.Helper()
	todo, seen, kinds := []string{base + "/"}, map[string]bool{}, map[string]int{}
	for len(todo) > 0 {
		address := todo[0]
		todo = todo[1:]
		before := len(b.Errors())
		b.Open(t, address, 1280, 900)
		for _, e := range b.Errors()[before:] {
			t.Errorf("%s: %s", address, e)
		}
		for _, href := range ask[[]string](t, b, `[...document.querySelectorAll('a[href]')].map(a => a.href)`) {
			u, err := url.Parse(href)
			if err != nil || !strings.HasPrefix(href, base) {
				continue
			}
			u.Fragment = ""
			q := u.Query()
			q.Del("theme")
			q.Del("refresh")
			u.RawQuery = q.Encode()
			isPage := regexp.MustCompile(
				`^/($|slas?$|slo$|alerts?$|services$|report$|incidents?$|silences|engine|public$)`).MatchString(u.Path)
			if !isPage || u.Query().Get("format") != "" || seen[u.String()] || kinds[u.Path] == 3 {
				continue
			}
			seen[u.String()], kinds[u.Path] = true, kinds[u.Path]+1
			todo = append(todo, u.String())
		}
	}
	for _, path := range []string{"/", "/slo", "/alerts", "/slas", "/sla", "/services", "/report", "/incidents",
		"/incident", "/silences", "/engine", "/public"} {
		require.NotZero(t, kinds[path], "no link leads to %s", path)
	}
}

// requireSameNumbers holds every row of the page against the API's.
func requireSameNumbers(t *testing.T, api e2etest.SLOList, rows []shown) {
	t.Helper()
	require.Len(t, rows, api.Total)
	byName := map[string]shown{}
	for _, r := range rows {
		byName[r.Name+"|"+r.Group] = r
	}
	for _, item := range api.Items {
		var group []string
		for _, v := range item.Group {
			group = append(group, v)
		}
		r, ok := byName[item.ID+"|"+strings.Join(group, ",")]
		require.True(t, ok, "%s %v is not on the page", item.ID, item.Group)
		if item.Budget.SLI == nil {
			require.Equal(t, "–", r.SLI)
			continue
		}
		requireRounded(t, *item.Budget.SLI, r.SLI)
		requireRounded(t, *item.Budget.Remaining, r.Left)
	}
}

// requireRounded wants text to be the ratio as a percentage, rounded down to the
// decimals that it shows.
func requireRounded(t *testing.T, ratio float64, text string) {
	t.Helper()
	num := strings.NewReplacer("−", "-", ",", "", "%", "").Replace(strings.Fields(text)[0])
	got, err := strconv.ParseFloat(num, 64)
	require.NoError(t, err, text)
	_, frac, _ := strings.Cut(num, ".")
	step := math.Pow(10, -float64(len(frac)))
	require.InDelta(t, ratio*100, got, step*1.001, text)
}

// screenshot looks at a view and keeps the picture if it is asked for.
func (b *browser) screenshot(t *testing.T, address, name string, width int64, scheme string) {
	t.Helper()
	height := int64(1100)
	if width < 500 {
		height = 740
	}
	b.Do(t, chromium.Quiet(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}))
	b.Open(t, address, width, height)
	png, err := chromedp.Run(b.Ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	require.Greater(t, len(png), 5_000)
	if dir := os.Getenv("SLOENGINE_SCREENSHOTS"); dir != "" {
		dir = filepath.Join("..", "..", "..", dir)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), png, 0o644))
	}
}
