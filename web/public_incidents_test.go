package web

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/reliability/subscription"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// publicForms are all answers about public incidents.
var publicForms = []string{"/public", "/public.json", "/public/incidents.atom", "/public/summary.json",
	"/public/incidents.json"}

// subscriptions asks for a subscription and for its end where there are none. TestPublicSubscriptions has the others.
func (k *contract) subscriptions(b *bench) {
	for path, body := range map[string]string{"": `{"url":"https://example.org/","secret":"1234567890123456"}`,
		"/delete": `{"token":"x"}`} {
		path = "/public/subscriptions" + path
		k.sent(b, path, body, 404)
		k.sent(b, path, body, 415, "Content-Type", "text/plain")
		k.sent(b, path, strings.Repeat(" ", site.MaxBody+1), 413)
	}
}

// public asks all that the public view has for programs, with incidents in every state.
func (k *contract) public(b *bench) {
	full, _ := withPublicIncidents(k.t)
	openapi3filter.RegisterBodyDecoder("application/atom+xml", openapi3filter.FileBodyDecoder)
	defer openapi3filter.UnregisterBodyDecoder("application/atom+xml")
	openapi3filter.RegisterBodyDecoder("image/svg+xml", openapi3filter.FileBodyDecoder)
	defer openapi3filter.UnregisterBodyDecoder("image/svg+xml")
	k.answer(full, http.MethodGet, "/badge/mdm/availability.svg", 200)
	documents := append([]string{"/public/components.json", "/public/scheduled-maintenances.json"}, publicForms[1:]...)
	for _, path := range documents {
		k.answer(b, http.MethodGet, path, 200) // nothing is public, and there are no incidents
		k.answer(full, http.MethodGet, path, 200)
	}
	full.rep = nil
	for _, path := range documents {
		k.answer(full, http.MethodGet, path, 503)
	}
}

// operate applies operations on an incident of a book, each a minute after the one before it.
func operate(t *testing.T, book *memoryBook, id string, list ...incident.Operation) {
	t.Helper()
	for _, o := range list {
		o.ID = id
		book.now = book.now.Add(time.Minute)
		_, err := book.Do(t.Context(), o)
		require.NoError(t, err)
	}
}

// withPublicIncidents publishes two services, an incident of each that an alert opened, one by hand that is over, and
// one without a service.
func withPublicIncidents(t *testing.T, change ...func(*site.Options)) (*bench, *memoryBook) {
	b, book := withIncidents(t, change...)
	published(b)
	someIncidents(book) // the first and the second are of services that are shown
	publishIt := incident.Operation{Kind: incident.Publish, Public: true}
	operate(t, book, "INC-2026-11-0001", publishIt,
		incident.Operation{Kind: incident.AddUpdate, By: "Bob", Text: "Orders are **delayed**. We fail over.", Public: true},
		incident.Operation{Kind: incident.AckIt, By: "Bob", Team: "ops", How: incident.ByPage},
		incident.Operation{Kind: incident.AddUpdate, By: "Bob", Text: "Half of them arrive.", Public: true})
	operate(t, book, "INC-2026-11-0002", publishIt)
	book.apply(incident.Batch{Operations: []incident.Operation{
		{Kind: incident.OpenByHand, Title: "Slow logins", Service: "mdm", Severity: incident.Warning, By: "Ann", Key: "k5",
			Onset: book.now.Add(-time.Hour), Public: true},
		{Kind: incident.OpenByHand, Title: "We move to another data centre", Severity: incident.Warning, By: "Ann",
			Key: "k6", Public: true},
	}})
	operate(t, book, "INC-2026-11-0005", incident.Operation{Kind: incident.AddUpdate, By: "Ann", Text: "It was the cache.",
		Public: true}, incident.Operation{Kind: incident.ResolveIt, By: "Ann"})
	b.now = book.now.Add(time.Minute)
	return b, book
}

// Subscribers hear of what people published, and not of new figures, notes and updates that are not public.
func TestPublicChanges(t *testing.T) {
	hooks, err := subscription.New(subscription.Options{File: filepath.Join(t.TempDir(), "subscriptions.json")})
	require.NoError(t, err)
	b, book := withPublicIncidents(t, func(o *site.Options) { o.Subscriptions = hooks })
	versions, bodies := map[string]string{}, map[string]string{}
	changed := func() (ids []string) {
		t.Helper()
		b.now = b.now.Add(2 * time.Minute)
		items, ok := b.web.PublicChanges(t.Context())
		require.True(t, ok)
		for _, x := range items {
			if versions[x.ID] != x.Version {
				ids = append(ids, x.ID)
			}
			versions[x.ID], bodies[x.ID] = x.Version, string(x.Body)
		}
		_, ok = b.web.PublicChanges(t.Context())
		require.False(t, ok, "nothing is made twice")
		return ids
	}
	require.Len(t, changed(), 4)
	before := maps.Clone(bodies)
	rep := *b.rep
	rep.Time = rep.Time.Add(time.Minute)
	b.rep = &rep
	require.Empty(t, changed())
	require.NotEqual(t, before, bodies, "the bodies have the newest figures")
	operate(t, book, "INC-2026-11-0001", incident.Operation{Kind: incident.AddNote, By: "Bob", Text: "inside"},
		incident.Operation{Kind: incident.AddUpdate, By: "Bob", Text: "inside"})
	require.Empty(t, changed())
	operate(t, book, "INC-2026-11-0001",
		incident.Operation{Kind: incident.AddUpdate, By: "Bob", Text: "All of them arrive.", Public: true})
	ids := changed()
	require.Len(t, ids, 1)
	require.Contains(t, bodies[ids[0]], "All of them arrive.")
	require.NotContains(t, fmt.Sprint(bodies), "inside")

	b.eng.State = status.Recovering
	b.now = b.now.Add(2 * time.Minute)
	_, ok := b.web.PublicChanges(t.Context())
	require.False(t, ok, "incidents are not known")
}

func TestPublicIncidents(t *testing.T) {
	b, _ := withPublicIncidents(t)
	p := publicDoc(t, b)
	var got []string
	for _, x := range p.Incidents {
		got = append(got, fmt.Sprintf("%s/%s/%s/%s/%d", x.Service, x.Title, x.State, x.Impact, len(x.Updates)))
	}
	require.Equal(t, []string{
		"/We move to another data centre/open/minor/1", "insurance-unpaid//acknowledged/major/4", // go on
		"mdm/Slow logins/resolved/minor/3", "mdm//resolved/major/2", // are over, the latest first
	}, got)
	x := p.Incidents[1]
	require.Equal(t, noon.Add(-5*time.Minute), x.Started.Add(time.Duration(noon.Nanosecond())), "the onset")
	var states []incident.State
	for _, u := range x.Updates {
		states = append(states, u.State)
	}
	require.Equal(t, []incident.State{incident.Acknowledged, incident.Acknowledged, incident.Open, incident.Open}, states,
		"of the incident at that time, latest first")
	require.Equal(t, x.Updates[0].Time, x.Updated)

	page := b.get("/public").Body.String()
	plain := text(check(t, page))
	for _, want := range []string{"2 incidents are open", "Incident affecting insurance-unpaid",
		"We move to another data centre", "Half of them arrive.", "Slow logins", "Incident affecting mdm",
		"It was the cache."} {
		require.Contains(t, plain, want)
	}
	require.Contains(t, page, "Orders are <strong>delayed</strong>.")
	require.Contains(
		t, page, `<link rel="alternate" type="application/atom+xml" title="Incidents" href="/public/incidents.atom">`)
	at := -1
	for _, part := range []string{"Current incidents", "data centre", "affecting insurance-unpaid",
		`<h2><bdi>insurance-unpaid`, "Recent incidents", "Slow logins", "affecting mdm"} {
		next := strings.Index(page, part)
		require.Greater(t, next, at, "%s in its order", part)
		at = next
	}

	// After 14 days they are gone, and the page says that nothing happened.
	b.now = noon.Add(30 * 24 * time.Hour)
	b.rep.Version++
	require.Len(t, publicDoc(t, b).Incidents, 2)
	require.Contains(t, b.get("/public").Body.String(), "No incident was resolved in the last 14 days.")
}

// What a person does is on the next answer, and what is withdrawn is gone from it, without a new report.
func TestPublicIncidentsAreUpToDate(t *testing.T) {
	b, book := withPublicIncidents(t)
	tags := map[string]string{}
	for _, path := range publicForms {
		tags[path] = b.get(path).Header().Get("ETag")
		require.Equal(t, http.StatusNotModified, b.get(path, "If-None-Match", tags[path]).Code)
	}
	operate(t, book, "INC-2026-11-0001", incident.Operation{Kind: incident.AddNote, By: "Bob", Text: "inside"})
	for _, path := range publicForms {
		require.Equal(t, http.StatusNotModified, b.get(path, "If-None-Match", tags[path]).Code,
			"a note changes nothing of %s", path)
	}
	operate(t, book, "INC-2026-11-0001",
		incident.Operation{Kind: incident.AddUpdate, By: "Bob", Text: "Only the queue is left.", Public: true})
	for _, path := range publicForms {
		rec := b.get(path, "If-None-Match", tags[path])
		require.Equal(t, http.StatusOK, rec.Code, path)
		require.Contains(t, rec.Body.String(), "Only the queue is left.", path)
		tags[path] = rec.Header().Get("ETag")
	}
	feed := tags["/public/incidents.atom"]
	next := *b.rep
	next.Version, next.Time = next.Version+1, next.Time.Add(time.Second)
	b.rep = &next
	require.Equal(t, http.StatusNotModified, b.get("/public/incidents.atom", "If-None-Match", feed).Code,
		"the feed does not change with every report")

	operate(t, book, "INC-2026-11-0001", incident.Operation{Kind: incident.Publish})
	for _, path := range publicForms {
		body := b.get(path).Body.String()
		require.NotContains(t, body, "Only the queue is left.", path)
		require.NotContains(t, body, "affecting insurance-unpaid", path)
	}

	// While the book is not complete nothing is told of it.
	b.eng.State = status.Recovering
	for _, path := range publicForms {
		require.NotContains(t, b.get(path).Body.String(), "data centre", path)
	}
	require.Nil(t, publicDoc(t, b).Incidents)
	require.NotContains(t, b.get("/public").Body.String(), "Recent incidents")
}

// An incident that fires again was told as resolved.
func TestPublicIncidentOpensAgain(t *testing.T) {
	b, book := withIncidents(t)
	published(b)
	operate(t, book, "INC-2026-11-0001", incident.Operation{Kind: incident.Publish, Public: true})
	alert := book.View().Get("INC-2026-11-0001").Alerts[0]
	book.apply(incident.Batch{Operations: []incident.Operation{
		{Kind: incident.Clear, Alert: &incident.Alert{Fingerprint: alert.Fingerprint, Resolved: noon.Add(3 * time.Minute)}}}})
	b.now = noon.Add(5 * time.Minute)
	over := publicDoc(t, b).Incidents[0]
	require.Equal(t, incident.Resolved, over.State)
	alert.Fired = noon.Add(8 * time.Minute)
	book.apply(incident.Batch{Operations: []incident.Operation{{Kind: incident.Fire, Alert: &alert}}})
	require.Len(t, book.View().Get("INC-2026-11-0001").Alerts, 2)
	again := publicDoc(t, b).Incidents[0]
	require.Equal(t, over.ID, again.ID)
	require.Equal(t, incident.Open, again.State)
	require.True(t, again.Updated.After(over.Updated), "else readers of the feed keep what they know")
	require.Equal(t, incident.Open, again.Updates[0].State)
	seen := map[string]bool{}
	for _, u := range append(again.Updates, over.Updates[0]) {
		require.False(t, seen[u.ID], "each update has an id of its own")
		seen[u.ID] = true
	}
}

// Nothing of the inside is in any form, whatever an incident holds.
func TestPublicIncidentsLeakNothing(t *testing.T) {
	b, book := withIncidents(t)
	publish(b.rep, justPublic, "mdm/availability")
	book.now = noon.Add(-time.Hour)
	fire := func(service string) incident.Operation {
		return incident.Operation{Kind: incident.Fire, Title: "secret-title of secret-group", Team: "secret-team",
			Onset: noon.Add(-time.Hour), OnsetBy: incident.OnsetByCounts, Alert: &incident.Alert{
				Fingerprint: "secret-fingerprint" + service, Name: "secret-alert", Service: service, SLO: service + "/secret-slo",
				Agreement: "secret-agreement", Group: []string{"secret-group"},
				Labels: map[string]string{"secret-label": "secret-value"}, Severity: incident.Critical, Fired: noon.Add(-time.Hour),
			}}
	}
	book.apply(incident.Batch{Operations: []incident.Operation{
		fire("mdm"), fire("insurance-unpaid"), fire(incident.EngineService),
		{Kind: incident.OpenByHand, Title: "secret-unpublished", Service: "mdm", Severity: incident.Critical,
			By: "secret-person", Key: "secret-key1"},
		{Kind: incident.OpenByHand, Title: "secret-service-title", Service: "secret-service", Severity: incident.Critical,
			By: "secret-person", Key: "secret-key2", Public: true},
		{Kind: incident.OpenByHand, Title: "Told by hand", Service: "mdm", Severity: incident.Critical, By: "secret-person",
			Team: "secret-team", Key: "secret-key3", Public: true},
	}})
	all := []incident.Operation{
		{Kind: incident.Publish, Public: true},
		{Kind: incident.AddNote, By: "secret-person", Text: "secret-note"},
		{Kind: incident.AddUpdate, By: "secret-person", Text: "secret-update"},
		{Kind: incident.AddUpdate, By: "secret-person",
			Text: "We know. [x](/incident?id=secret-link) <b>secret-markup</b>", Public: true},
		{Kind: incident.AckIt, By: "secret-person", Team: "secret-team", How: incident.ByLink},
		{Kind: incident.LinkPost, Text: "https://secret-wiki.example.org/pm"},
		{Kind: incident.Measured, Spent: []incident.Spent{
			{SLO: "mdm/secret-slo", Group: []string{"secret-group"}, Valid: 123456, Bad: 98765, Budget: 0.4321}}},
		{Kind: incident.ResolveIt, By: "secret-person"},
	}
	look := func(forms ...string) {
		t.Helper()
		for _, path := range forms {
			body := b.get(path).Body.String()
			require.Contains(t, body, "Told by hand", path)
			require.Contains(t, body, "We know.", path)
			// a person published it
			body = strings.ReplaceAll(body, "(/incident?id=secret-link) \\u003cb\\u003esecret-markup\\u003c/b\\u003e", "")
			body = strings.ReplaceAll(body, "secret-markup", "")
			for _, inside := range []string{"secret", "INC-", "/incident?", "insurance-unpaid", "sloengine", "123456", "98765",
				"0.4321", "team", "post-mortem", "severity"} {
				require.NotContains(t, body, inside, path)
			}
		}
	}
	for _, id := range []string{"INC-2026-11-0002", "INC-2026-11-0003", "INC-2026-11-0004",
		"INC-2026-11-0006", "INC-2026-11-0007"} {
		operate(t, book, id, all[:len(all)-1]...)
	}
	b.now = book.now
	look(publicForms...)
	require.Len(t, publicDoc(t, b).Incidents, 2)
	for _, id := range []string{"INC-2026-11-0002", "INC-2026-11-0007"} {
		operate(t, book, id, all[len(all)-1])
	}
	b.now = book.now
	look("/public", "/public.json", "/public/incidents.atom", "/public/incidents.json")
	require.Empty(t, summaryOf(t, b).Incidents, "they are over")
	over := statuspageOf(t, b, "incidents")
	require.Len(t, over.Incidents, 2)
	for _, x := range over.Incidents {
		require.Equal(t, "resolved", x.Status)
		require.NotNil(t, x.ResolvedAt)
	}
	require.NotContains(t, b.get("/public/summary.json").Body.String(), "secret")
}

// Whatever people and alerts write, every form is well formed, harmless and bounded.
func TestHostilePublicIncidents(t *testing.T) {
	for i, bad := range hostile {
		b, book := withIncidents(t)
		publish(b.rep, justPublic, "mdm/availability")
		clean := strings.ToValidUTF8(strings.Map(func(r rune) rune { // what people write is checked before it is stored
			if r < ' ' {
				return -1
			}
			return r
		}, strings.ToValidUTF8(bad, "?")), "")
		clean = "x" + strings.ToValidUTF8(clean[:min(len(clean), 80)], "")
		book.apply(incident.Batch{Operations: []incident.Operation{
			{Kind: incident.OpenByHand, Title: clean, Service: "mdm", Severity: incident.Critical, By: "a",
				Key: "h", Public: true},
			{Kind: incident.OpenByHand, Title: clean, Severity: incident.Critical, By: "a", Key: "h2", Public: true},
			{Kind: incident.AddUpdate, ID: "INC-2026-11-0002", By: "a", Text: clean, Public: true},
			{Kind: incident.AddUpdate, ID: "INC-2026-11-0002", By: "a",
				Text: "![x](https://e.example.org/" + url.PathEscape(clean) + ") <img src=x onerror=alert(1)>", Public: true},
		}})
		wellFormed(t, b.get("/public").Body.String())
		for _, e := range readFeed(t, b).Entries {
			for _, forbidden := range []string{"<img", "<script", `href="javascript:`, "\u202e", "\u2066", "\u200f"} {
				require.NotContains(t, e.Content.Body, forbidden, "%d", i)
			}
			for _, forbidden := range []string{"\u202e", "\u2066", "\u200f"} { // the title is plain text
				require.NotContains(t, e.Title, forbidden, "%d", i)
			}
		}
		require.Len(t, summaryOf(t, b).Incidents, 2)
	}
}

func TestPublicIncidentsAreBounded(t *testing.T) {
	b, book := withIncidents(t)
	published(b)
	long := strings.Repeat("a & b. ", incident.MaxText/7)
	var batch incident.Batch
	for n := range 60 {
		batch.Operations = append(batch.Operations, incident.Operation{Kind: incident.OpenByHand, Title: "t", Service: "mdm",
			Severity: incident.Critical, By: "a", Key: fmt.Sprint(n), Public: true})
	}
	book.apply(batch)
	batch.Operations = nil
	for n := range 60 {
		id := fmt.Sprintf("INC-2026-11-%04d", n+2)
		for range 4 {
			batch.Operations = append(
				batch.Operations, incident.Operation{Kind: incident.AddUpdate, ID: id, By: "a", Text: long, Public: true})
		}
		if n >= 30 {
			batch.Operations = append(batch.Operations, incident.Operation{Kind: incident.ResolveIt, ID: id, By: "a"})
		}
	}
	book.apply(batch)
	p := publicDoc(t, b)
	require.Equal(t, 20+20, len(p.Incidents))
	require.Equal(t, 10, p.MoreIncidents)
	require.Equal(t, 2, p.Incidents[0].More)
	page := text(check(t, b.get("/public").Body.String()))
	require.Contains(t, page, "and 10 more")
	require.Contains(t, page, "30 incidents are open")
	require.Contains(t, page, "Older updates are left out: 2")
	for _, path := range publicForms {
		rec := b.get(path)
		require.Equal(t, http.StatusOK, rec.Code)
		require.Less(t, rec.Body.Len(), 16<<20, path)
		require.Less(t, b.get(path, "Accept-Encoding", "gzip").Body.Len(), 300<<10, path)
	}
	require.Len(t, readFeed(t, b).Entries, 40)
	for n := range 30 {
		operate(t, book, "INC-2026-11-0061",
			incident.Operation{Kind: incident.AddUpdate, By: "a", Text: fmt.Sprint("update ", n), Public: true})
	}
	require.Equal(t, 10+4, publicDoc(t, b).Incidents[20].More)
}
