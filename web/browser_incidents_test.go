package web

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
)

// A reader follows an incident from the list to its resolution, with and without scripts.
func TestBrowserWorksOnAnIncident(t *testing.T) {
	b := startBrowser(t)
	for _, scripts := range []bool{true, false} {
		x, book := withIncidents(t)
		someIncidents(book)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = x.web.Run(ctx) }()
		require.Eventually(t, func() bool { return x.web.streams.on() }, 60*time.Second, time.Millisecond)
		base := x.serve(t)
		b.scripts(t, scripts)
		b.prefers(t, "light", true)
		b.open(t, base+"/incidents", 1280, 900)
		b.requireFits(t, 1280)
		if scripts {
			b.axe(t)
			b.picture(t, "incidents.png", true)
		}
		b.open(t, base+"/incidents", 1280, 900)
		b.do(t, chromedp.Click(`.incidents tbody tr:first-child th a`), chromedp.WaitReady(`.acts`))
		if scripts {
			b.axe(t)
		}
		b.do(t, chromedp.SendKeys(`.acts form:nth-child(1) input[name=by]`, "Bob"), chromedp.Click(`button[value=ack]`),
			chromedp.WaitReady(`.done`))
		require.Equal(t, "Bob", book.View().Get("INC-2026-11-0001").Ack.By)
		b.do(t, chromedp.SendKeys(`textarea`, "We **fail over** to `db-8`."),
			chromedp.SendKeys(`.acts form:nth-child(1) input[name=by]`, "Bob"), chromedp.Click(`button[value=write]`),
			chromedp.WaitReady(`.prose`))
		require.Equal(t, "We **fail over** to `db-8`.", book.View().Get("INC-2026-11-0001").Notes[0].Text)
		if scripts {
			b.requireFits(t, 1280)
			b.axe(t)
			b.picture(t, "incident.png", true)
			for _, scheme := range []string{"light", "dark"} {
				b.prefers(t, scheme, true)
				for name, path := range map[string]string{"incidents": "/incidents", "incident": firstIncident,
					"incident-new": "/incidents/new"} {
					b.open(t, base+path, 390, 900)
					b.requireFits(t, 390)
					b.axe(t)
					b.picture(t, name+"-phone-"+scheme+".png", true)
				}
			}
			b.prefers(t, "light", true)
			b.open(t, base+firstIncident, 1280, 900)
		}
		b.do(t, chromedp.SendKeys(`.acts form:nth-child(2) input[name=by]`, "Cleo"), chromedp.Click(`button[value=resolve]`),
			chromedp.WaitReady(`.done`))
		require.Eventually(t, func() bool {
			return book.View().Get("INC-2026-11-0001").State == incident.Resolved
		}, 60*time.Second, 10*time.Millisecond)
		b.open(t, base+"/incidents/new", 1280, 900)
		b.do(t, chromedp.SendKeys(`input[name=title]`, "Phones ring"), chromedp.SendKeys(`input[name=by]`, "Ann"),
			chromedp.Click(`button[value=open]`), chromedp.WaitReady(`.done`))
		require.Equal(t, "Phones ring", book.View().Get("INC-2026-11-0005").Title)
		b.requireClean(t, base)
		b.do(t, chromedp.Navigate("about:blank")) // else the page asks for the stream again when it ends
		b.hosts = nil                             // the next round has another server
		cancel()
	}
}
