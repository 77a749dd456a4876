package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
	"github.com/stretchr/testify/require"
)

// busyEngine is an engine with something to see in every part.
func busyEngine(t *testing.T) status.Engine {
	s := readyStatus()
	s.Ingest.Limited, s.Ingest.Sampled, s.Ingest.DeadLettered = 9_310, 1_200, 44
	s.Disk.TotalBytes = 120 << 30
	s.Limits = append(s.Limits, status.LimitStatus{Layer: "type", Rule: "debug.*", PerSecond: 100, Current: 84.2, Hits: 3},
		status.LimitStatus{Layer: "context", Rule: "tenant", PerSecond: 50, Current: 12})
	s.Offenders = append(s.Offenders, status.OffenderStatus{Context: "tenant", Value: "(redacted) 0a1b2c3d", Hits: 309},
		status.OffenderStatus{Context: "user", Value: hostile[0], Hits: 12})
	s.Breakers = append(s.Breakers,
		status.BreakerStatus{Name: "webhook", State: status.BreakerOpen, Since: noon.Add(-4 * time.Minute),
			Reason: "5 failures in a row: connection refused", RetryAfterSeconds: 42},
		status.BreakerStatus{Name: "lake", State: status.BreakerHalfOpen, Since: noon.Add(-10 * time.Second),
			Reason: "time for a probe"})
	s.Bulkheads = append(s.Bulkheads, status.BulkheadStatus{Name: "webhook", Active: 4, Queued: 17, Concurrency: 4,
		Queue: 20, Rejected: 812}, status.BulkheadStatus{Name: "lake", Active: 1, Concurrency: 4, Queue: 20})
	s.Sinks = append(s.Sinks,
		status.SinkStatus{Name: "webhook", Kind: "http", LagRecords: 18_201, LagBytes: 640 << 20, MaxLagBytes: 1 << 30,
			OldestAgeSeconds: 412, Delivered: 1_700_312, Retries: 902, Dropped: 3,
			DeadLetters: map[string]uint64{"expired": 41, "rejected": 7}, LastDelivery: noon.Add(-5 * time.Minute),
			LastError:   "Post \"https://events.example.org/in\": dial tcp 10.0.0.7:443: connect: connection refused",
			LastErrorAt: noon.Add(-4 * time.Second), Breaker: status.BreakerOpen},
		status.SinkStatus{Name: "lake", Kind: "http", LagRecords: 912, LagBytes: 7 << 20, MaxLagBytes: 1 << 30,
			OldestAgeSeconds: 12, Delivered: 1_800_020, Recovering: true, LastDelivery: noon.Add(-time.Second),
			Breaker: status.BreakerHalfOpen, InFlight: 1})
	return s
}

// busyRates fills the ring with an hour that has a peak, a pause and a gap.
func busyRates(w *Web, s *status.IngestStatus) {
	n := *s
	for i := range 720 {
		at := noon.Add(3*time.Second - time.Hour + time.Duration(i)*rateEvery)
		if i > 300 && i < 330 {
			continue
		}
		k := uint64(400 + 12*(i%30))
		if i > 500 && i < 560 {
			k *= 3
			n.Rejected += k / 4 * 5
		}
		n.Accepted += k * 5
		n.Received = n.Accepted + n.Rejected
		w.engine.rates.Add(rateSample{At: at, Events: n})
	}
	*s = n
}

func TestBrowserEngine(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	eng := busyEngine(t)
	x := newLiveBench(t, nil, func(o *site.Options) { o.Engine = func() status.Engine { return eng } })
	busyRates(x.web, &eng.Ingest)
	base := x.base
	for _, scheme := range []string{"light", "dark"} {
		b.prefers(t, scheme, true)
		b.Open(t, base+"/engine", 1280, 900)
		b.eventually(t, isLive, "the stream is open")
		b.requireFits(t, 1280)
		b.axe(t)
		b.picture(t, "engine-"+scheme+".png", true)
		b.Open(t, base+"/engine", 360, 900)
		b.requireFits(t, 360)
		b.axe(t)
		b.picture(t, "engine-phone-"+scheme+".png", true)
	}
	for _, width := range []int64{320, 600, 900, 1024} {
		b.Open(t, base+"/engine", width, 900)
		b.requireFits(t, width)
	}
	b.RequireClean(t, base)
	for name, prepare := range map[string]func(*bench){
		"bare":       bare,
		"recovering": func(x *bench) { x.rep, x.eng = nil, status.Engine{State: status.Recovering, Progress: 0.42} },
		"disk-low": func(x *bench) {
			x.eng.State, x.eng.Disk.FreeBytes, x.eng.Disk.TotalBytes = status.DiskLow, 700<<20, 20<<30
		},
	} {
		x := newBench(t)
		prepare(x)
		other := x.serve(t)
		for _, width := range []int64{1280, 360} {
			b.Open(t, other+"/engine", width, 900)
			b.requireFits(t, width)
			b.axe(t)
		}
		b.Open(t, other+"/engine", 1280, 900)
		b.picture(t, "engine-"+name+".png", true)
	}
}

func TestBrowserReplaysADeadLetter(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	entries := manyDeadLetters(60)
	entries[59].Error, entries[59].Class, entries[59].Attempts =
		"Post \"https://events.example.org/in\": 503 Service Unavailable", "transient", 4
	event, err := json.Marshal(map[string]any{"id": "pol-42", "service": "insurance-unpaid", "type": "application",
		"attributes": map[string]any{"product": hostile[1], "note": hostile[6], "long": fmt.Sprint(hostile[10][:400])}})
	require.NoError(t, err)
	entries[59].Event = event
	l := newDeadLetterStore(t, entries...)
	x := newBench(t, func(o *site.Options) { o.DLQ = l })
	base := x.serve(t)
	for _, scripts := range []bool{true, false} {
		b.scripts(t, scripts)
		b.prefers(t, "light", true)
		b.Open(t, base+site.DeadLetterListPath, 1280, 900)
		b.requireFits(t, 1280)
		if scripts {
			b.axe(t)
			b.picture(t, "engine-dead-letters.png", true)
			b.Open(t, base+site.DeadLetterListPath, 1280, 900)
		}
		before := len(l.taken)
		b.Do(t, chromedp.Click(`.dead-letters tbody tr:first-child th a`), chromedp.WaitReady(`.copy pre`))
		if scripts {
			b.axe(t)
			b.picture(t, "engine-dead-letter.png", true)
			for _, scheme := range []string{"light", "dark"} {
				b.prefers(t, scheme, true)
				for _, path := range []string{site.DeadLetterListPath, site.DeadLetterPath + "?id=" + entries[59].ID,
					site.DeadLetterConfirmPath + "?action=discard&sink=w"} {
					b.Open(t, base+path, 360, 900)
					b.requireFits(t, 360)
					b.axe(t)
				}
				b.Open(t, base+site.DeadLetterListPath, 360, 900)
				b.picture(t, "engine-dead-letters-phone-"+scheme+".png", true)
				b.Open(t, base+site.DeadLetterConfirmPath+"?action=discard&sink=w", 1280, 700)
				b.axe(t)
				b.picture(t, "engine-confirm-"+scheme+".png", true)
			}
			b.prefers(t, "light", true)
		}
		b.Open(t, base+site.DeadLetterListPath+"?sink=w", 1280, 900)
		b.Do(t, chromedp.Click(`.dead-letters tbody tr:nth-child(2) input`),
			chromedp.Click(`.dead-letters tbody tr:nth-child(3) input`), chromedp.Click(`.choose .do button[value=replay]`),
			chromedp.WaitReady(`form.do button.go`))
		require.Len(t, l.taken, before, "asked first")
		if scripts {
			require.Equal(t, "Replay 2 dead letters?", eval[string](t, b, `document.querySelector('h1').textContent`))
		}
		b.Do(t, chromedp.Click(`form.do button.go`), chromedp.WaitReady(`.done`))
		require.Len(t, l.taken, before+2)
	}
	b.scripts(t, true)
	b.Open(t, base+site.DeadLetterListPath+"?sink=w", 1280, 900)
	b.Do(t, chromedp.Click(`.bulk form:first-child button[value=discard]`), chromedp.WaitReady(`form.do button.danger`),
		chromedp.Click(`form.do button.danger`), chromedp.WaitReady(`.done`))
	require.Equal(t, "56 discarded.", eval[string](t, b, `document.querySelector('.done').textContent`))
	s, err := l.Stats(context.Background())
	require.NoError(t, err)
	require.Zero(t, s.Count)
	b.RequireClean(t, base)
}

func TestBrowserPublic(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	x, book := withPublicIncidents(t)
	for _, r := range site.RowsOf(x.rep, "mdm/availability") {
		r.SLO.Description = "Calls to the master data of customers."
	}
	wide := strings.Repeat("unbroken", 40)
	operate(t, book, "INC-2026-11-0001",
		incident.Operation{Kind: incident.AddUpdate, By: "Bob", Text: "since 10:00 UTC\n\n- one\n- `two`\n\n```\n" + wide +
			"\n```\n\n" + wide, Public: true})
	base := x.serve(t)
	const asOf = `document.querySelector('.pub-head time')`
	b.zone(t, "Asia/Tokyo")
	b.scripts(t, false)
	b.Open(t, base+"/public", 390, 900)
	require.Equal(t, "12:00:07 UTC", eval[string](t, b, asOf+`.textContent`))
	require.Contains(t, eval[string](t, b, `document.querySelector('footer').textContent`), "All times are UTC.")
	b.Do(t, chromedp.Click(`#recent details summary`))
	b.eventually(t, `document.querySelector('#recent details .prose').checkVisibility()`,
		"what happened is there without scripts")
	b.requireFits(t, 390)
	b.picture(t, "public-open-390.png", true)
	b.scripts(t, true)
	for _, scheme := range []string{"light", "dark"} {
		b.prefers(t, scheme, true)
		for _, width := range []int64{1280, 390} {
			b.Open(t, base+"/public", width, 900)
			b.requireFits(t, width)
			b.axe(t)
			b.picture(t, fmt.Sprintf("public-%s-%d.png", scheme, width), true)
		}
	}
	// Times are in the reader's zone with the moment on hover, except in what people wrote.
	require.Equal(t, "2026-11-20 21:00:07", eval[string](t, b, asOf+`.textContent`))
	require.Contains(t, eval[string](t, b, asOf+`.title`), "2026-11-20T12:00:07Z")
	require.Equal(t, "", eval[string](t, b,
		`[...document.querySelectorAll('main time')].filter(e => !e.title || e.textContent.includes('UTC')).map(e => `+
			`e.textContent).join('; ')`))
	require.Contains(t, eval[string](t, b, `document.querySelector('footer').textContent`), "Times are in Asia/Tokyo.")
	require.Contains(t, eval[string](t, b, `[...document.querySelectorAll('.prose')].map(e => e.textContent).join('; ')`),
		"since 10:00 UTC")
	require.Equal(t, 1, eval[int](t, b, `document.scripts.length`), "nothing but the zone")
	require.Equal(t, base+"/public/incidents.atom", eval[string](t, b, `[...document.links].map(a => a.href).join()`),
		"no way to the inside")
	b.RequireClean(t, base)

	x.rep = newBench(t).rep
	b.Open(t, base+"/public", 1100, 700)
	b.axe(t)
	x.rep = nil
	b.Open(t, base+"/public", 1100, 700) // the browser tells of the eng 503
	b.axe(t)

	// A badge in a page of another site.
	x.rep = insurance(t)
	publish(x.rep, withGroups, "insurance-unpaid/availability", "insurance-unpaid/throughput", "mdm/availability")
	other := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!doctype html><html lang="en"><title>x</title><main><p>`)
		for _, q := range []string{"mdm/availability.svg", "insurance-unpaid/availability.svg?group.product=TRVL10",
			"insurance-unpaid/availability.svg?group.product=SOMLT",
			"insurance-unpaid/throughput.svg?group.product=TRVL10", "no/no.svg"} {
			fmt.Fprintf(w, `<img src="%s/badge/%s" alt="badge"><br><br>`, base, q)
		}
		fmt.Fprint(w, `</main></html>`)
	}))
	b.Open(t, other, 400, 200)
	b.eventually(t, `[...document.images].every(i => i.complete && i.naturalWidth > 60)`,
		"every badge is shown, even that of nothing")
	b.picture(t, "badges.png", false)
}
