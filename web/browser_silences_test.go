package web

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/web/site"
)

// A reader silences an alert from the list and expires the silence, with and without scripts.
func TestBrowserSilencesAnAlert(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	for _, scripts := range []bool{true, false} {
		x, d := withSilences(t, func(o *site.Options) { o.Incidents = newMemoryBook() })
		_, err := d.AddSilence(silence.Silence{Matchers: `service=~"insurance-.+",team!="a"`, Starts: x.now.Add(time.Hour),
			Ends: x.now.Add(9 * time.Hour), Author: "Cleo", Comment: "planned move of the database to the other data centre"})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = x.web.Run(ctx) }()
		require.Eventually(t, func() bool { return x.web.streams.on() }, testkit.Patience, time.Millisecond)
		base := x.serve(t)
		b.scripts(t, scripts)
		b.prefers(t, "light", true)
		b.Open(t, base+"/", 1280, 900)
		b.Do(t, chromedp.Click(`.alerts .hush`), chromedp.WaitReady(`textarea`))
		b.requireFits(t, 1280)
		if scripts {
			b.axe(t)
			b.picture(t, "silence-new.png", true)
		}
		b.Do(t, chromedp.SendKeys(`input[name=author]`, "Ann"), chromedp.SendKeys(`input[name=comment]`, "known, SHOP-12"),
			chromedp.Click(`button[value=add]`), chromedp.WaitReady(`.done`))
		require.Len(t, d.Silences(), 2)
		require.Contains(t, d.Silences()[0].Matchers, `alertname="ErrorBudgetBurnPage",product="TRVL10"`)
		if scripts {
			b.requireFits(t, 1280)
			b.axe(t)
			b.picture(t, "silences.png", true)
			for _, scheme := range []string{"light", "dark"} {
				b.prefers(t, scheme, true)
				for name, path := range map[string]string{
					"silences": "/silences", "silence-new": "/silences/new?alert=" + burningAlert, "silenced": "/"} {
					b.Open(t, base+path, 390, 900)
					b.requireFits(t, 390)
					b.axe(t)
					b.picture(t, name+"-phone-"+scheme+".png", true)
				}
			}
			b.prefers(t, "light", true)
			b.Open(t, base+"/", 1280, 900)
			b.picture(t, "silenced.png", true)
		}
		b.Open(t, base+"/silences", 1280, 900)
		b.Do(t, chromedp.Click(`.silences tbody tr:first-child button[value=expire]`), chromedp.WaitReady(`.done`))
		require.Equal(t, silence.Expired, new(d.Silences()[0]).State(x.now))
		b.RequireClean(t, base)
		b.Do(t, chromedp.Navigate("about:blank")) // else the page asks for the stream again when it ends
		b.ForgetHosts()                           // the next round has another server
		cancel()
	}
}
