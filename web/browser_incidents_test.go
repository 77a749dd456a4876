package web

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/site"
)

// A reader follows an incident from the list to its resolution, with and without scripts.
func TestBrowserWorksOnAnIncident(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	for _, scripts := range []bool{true, false} {
		book := newMemoryBook()
		someIncidents(book)
		x := newLiveBench(t, nil, func(o *site.Options) { o.Incidents = book })
		base := x.base
		b.scripts(t, scripts)
		b.prefers(t, "light", true)
		b.Open(t, base+"/incidents", 1280, 900)
		b.requireFits(t, 1280)
		if scripts {
			b.axe(t)
			b.picture(t, "incidents.png", true)
		}
		b.Open(t, base+"/incidents", 1280, 900)
		b.Do(t, chromedp.Click(`.incidents tbody tr:first-child th a`), chromedp.WaitReady(`.acts`))
		if scripts {
			b.axe(t)
		}
		// What the first minutes need is on the first screen.
		require.Less(t, eval[float64](t, b, `document.querySelector('button[value=ack]').getBoundingClientRect().bottom`),
			450.0)
		b.Do(t, chromedp.SendKeys(`#ack input[name=by]`, "Bob"), chromedp.Click(`button[value=ack]`),
			chromedp.WaitReady(`.done`))
		require.Equal(t, "Bob", book.View().Get("INC-2026-11-0001").Ack.By)
		b.Do(t, chromedp.Click(`#do-write summary`), chromedp.SendKeys(`textarea`, "We **fail over** to `db-8`."))
		if scripts {
			require.Equal(t, "Bob", eval[string](t, b, `document.querySelector('#do-write input[name=by]').value`),
				"the browser remembers the name")
			require.Equal(t, "?id=INC-2026-11-0001", eval[string](t, b, `location.search`), "what was done is said once")
			// Somebody else changes the incident. The page follows, and what is being written stays.
			_, err := book.Do(t.Context(), incident.Operation{Kind: incident.EditIt, ID: "INC-2026-11-0001", By: "Cleo",
				Title: "Queue of db-7 is full"})
			require.NoError(t, err)
			x.publish(func(*sla.Report) {})
			b.eventually(t, `document.querySelector('h1').textContent === 'Queue of db-7 is full'`, "the page is live")
			require.Equal(t, "We **fail over** to `db-8`.", eval[string](t, b, `document.querySelector('textarea').value`))
			require.True(t, eval[bool](t, b, `document.querySelector('#do-write').open`))
		} else {
			b.Do(t, chromedp.SendKeys(`#do-write input[name=by]`, "Bob"))
		}
		b.Do(t, chromedp.Click(`button[value=write]`), chromedp.WaitReady(`.prose`))
		require.Equal(t, "We **fail over** to `db-8`.", book.View().Get("INC-2026-11-0001").Notes[0].Text)
		if scripts {
			b.requireFits(t, 1280)
			b.axe(t)
			b.picture(t, "incident.png", true)
			for _, scheme := range []string{"light", "dark"} {
				b.prefers(t, scheme, true)
				for name, path := range map[string]string{"incidents": "/incidents", "incident": firstIncident,
					"incident-new": "/incidents/new", "incident-publish": "/incident/publish?incident=INC-2026-11-0001"} {
					b.Open(t, base+path, 390, 900)
					b.requireFits(t, 390)
					b.axe(t)
					b.picture(t, name+"-phone-"+scheme+".png", true)
				}
			}
			b.prefers(t, "light", true)
			b.Open(t, base+firstIncident, 1280, 900)
		}
		b.Do(t, chromedp.Click(`#do-resolve summary`), chromedp.SendKeys(`#do-resolve input[name=by]`, "Cleo"),
			chromedp.Click(`button[value=resolve]`), chromedp.WaitReady(`.done`))
		require.Eventually(t, func() bool {
			return book.View().Get("INC-2026-11-0001").State == incident.Resolved
		}, testkit.Patience, 10*time.Millisecond)
		b.Open(t, base+"/incidents/new", 1280, 900)
		b.Do(t, chromedp.SendKeys(`input[name=title]`, "Phones ring"), chromedp.SendKeys(`input[name=by]`, "Ann"),
			chromedp.Click(`button[value=open]`), chromedp.WaitReady(`.done`))
		require.Equal(t, "Phones ring", book.View().Get("INC-2026-11-0005").Title)
		b.RequireClean(t, base)
		b.Do(t, chromedp.Navigate("about:blank")) // else the page asks for the stream again when it ends
		b.ForgetHosts()                           // the next round has another server
	}
}
