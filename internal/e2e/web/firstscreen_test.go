package web

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	v1 "github.com/sloengine/sloengine/web/api/v1"
)

// firing reports whether a paging alert fires on an SLO.
func firing(t *testing.T, p *e2etest.Process, slo string) bool {
	var list v1.AlertList
	require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/alerts?state=firing&slo="+slo), &list))
	for _, a := range list.Items {
		if a.Severity == "page" {
			return true
		}
	}
	return false
}

// TestFirstScreenOfAnIncident plays the demo's outage in front of an open page, and reads what its first screen says
// within one tick of the alert: what fails, since when, what it affects, and where the runbook is.
func TestFirstScreenOfAnIncident(t *testing.T) {
	t.Parallel()
	const culprit, tick = "insurance-unpaid/integration-availability", 10 * time.Second
	b := newBrowser(t)
	p := startDemo(t, time.Minute, 20*time.Second)
	b.Open(t, p.Base+"/", 1280, 900)
	require.Eventually(t, func() bool { return firing(t, p, culprit) }, 2*testkit.Patience,
		200*time.Millisecond,
		"no alert fires:\n%s", p.Log)
	fired := time.Now()

	const said = `document.querySelector('.say h1').textContent.trim()`
	var sentence string
	require.Eventually(t, func() bool {
		sentence = ask[string](t, b, said)
		return strings.HasPrefix(sentence, "mdm")
	}, e2etest.Patience*(tick+2*time.Second), 100*time.Millisecond, "the page says: %s", sentence)
	t.Logf("%s after the alert: %s", time.Since(fired).Round(100*time.Millisecond), sentence)
	require.Regexp(t, `^mdm(/availability)? failing since \d\d:\d\d(:\d\d)?( UTC)? \(\d+% of events in \d+[mh]\)`,
		sentence)
	require.Contains(t, sentence, "Not acknowledged")

	// All of it stands on the first screen, and every link leads somewhere.
	require.True(t, ask[bool](t, b, `document.querySelector('.say').getBoundingClientRect().bottom < 900`))
	links := ask[map[string]string](t, b,
		`Object.fromEntries([...document.querySelectorAll('.say a')].map(a => [a.textContent.trim(), a.href]))`)
	require.Contains(t, links["Runbook"], "runbooks")
	for text, href := range links {
		if strings.HasPrefix(href, p.Base) {
			require.NotEmpty(t, e2etest.Get(t, href), text)
		}
	}
	require.NotContains(t, ask[string](t, b, `document.querySelector('.levels tbody tr td.state').textContent`), "ok",
		"the first row")

	// A group without its attribute has no budget left, which is the widest row.
	var bad strings.Builder
	for k := range 100 {
		bad.WriteString(`{"id":"wide-` + strconv.Itoa(k) +
			`","service":"insurance-unpaid","type":"application","outcome":"failure"}` + "\n")
	}
	status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", bad.String())
	require.Equal(t, 202, status, answer)
	require.Eventually(t, func() bool {
		b.Open(t, p.Base+"/", 1280, 900)
		return strings.Contains(ask[string](t, b, `document.querySelector('main').textContent`), "−99,900")
	}, testkit.Patience, 500*time.Millisecond)
	for width, most := range map[int64]int64{1280: 2300, 820: 3000, 390: 4500} {
		for _, theme := range []string{"light", "dark"} {
			b.screenshot(t, p.Base+"/", "first-screen-"+theme+"-"+strconv.FormatInt(width, 10)+".png", width, theme)
		}
		height := ask[int64](t, b, `document.scrollingElement.scrollHeight`)
		t.Logf("%d px wide: %d px high", width, height)
		assert.Less(t, height, most, "at %d px", width)
		assert.Empty(t, ask[string](t, b, `innerWidth < 700 ? '' : [...document.querySelectorAll('.levels tbody th')].
			filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent).join('; ')`), "a group is cut off")
		assert.LessOrEqual(t, ask[int64](t, b, `document.scrollingElement.scrollWidth`), width, ask[string](t, b, tooWide))
		assert.Empty(t, ask[string](t, b, `[...document.querySelectorAll('main table')].filter(e =>
			e.getBoundingClientRect().right > e.closest('section').getBoundingClientRect().right + 1).
			map(e => e.className).join('; ')`), "a table is wider than its place at %d px", width)
	}
	p.Stop(t)
}
