package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/web/site"
)

// The list of alerts and the page of an alert of each name fit a screen and a phone, and axe-core finds nothing on
// them.
func TestBrowserAlerts(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	book := &memoryBook{Book: incident.NewBook()}
	book.now = noon
	x, _ := withSilences(t, func(o *site.Options) { o.Incidents = book })
	all := evaluated(t, x)
	x.alerts = nil
	names := map[string]bool{}
	for i := range all {
		if a := &all[i]; !names[a.Name] {
			names[a.Name] = true
			x.alerts = append(x.alerts, *a)
			book.apply(incident.Batch{Operations: []incident.Operation{{Kind: incident.Fire, Title: a.Name,
				Onset: noon.Add(-3 * time.Minute), OnsetBy: incident.OnsetByCounts, Alert: &incident.Alert{
					Fingerprint: a.Fingerprint, Name: a.Name, Service: a.Service, SLO: string(a.SLO), Group: a.Group,
					Severity: incident.Critical, Fired: noon}}}})
		}
	}
	require.Len(t, x.alerts, 3)
	go func() { _ = x.web.Run(t.Context()) }()
	require.Eventually(t, func() bool { return x.web.streams.on() }, testkit.Patience, time.Millisecond)
	base := x.serve(t)
	for _, scheme := range []string{"light", "dark"} {
		b.prefers(t, scheme, true)
		for _, width := range []int64{1280, 390} {
			paths := []string{"/alerts"}
			for i := range x.alerts {
				paths = append(paths, "/alert?id="+x.alerts[i].Fingerprint)
			}
			for _, path := range paths {
				b.Open(t, base+path, width, 900)
				require.NotEmpty(t, eval[string](t, b, `document.querySelector('h1').textContent`), path)
				b.requireFits(t, width)
				b.axe(t)
			}
		}
	}
	b.RequireClean(t, base)
}
