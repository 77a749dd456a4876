package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// withIncidents is a bench with a book of incidents.
func withIncidents(t *testing.T, change ...func(*site.Options)) (*bench, *memoryBook) {
	book := newMemoryBook()
	return newBench(t, append(change, func(o *site.Options) { o.Incidents = book })...), book
}

// someIncidents adds a resolved incident, an acknowledged one and a warning.
func someIncidents(book *memoryBook) {
	fire := func(name, service, slo string, severity incident.Severity, fired time.Time,
		group ...string) incident.Operation {
		return incident.Operation{Kind: incident.Fire, Title: name + " of " + slo, Onset: fired.Add(-3 * time.Minute),
			OnsetBy: incident.OnsetByAlert, Alert: &incident.Alert{
				Fingerprint: name + service, Name: name, Service: service, SLO: slo, Group: group, Severity: severity, Fired: fired,
				Labels: map[string]string{"severity": "page"},
			}}
	}
	book.now = noon.Add(-50 * time.Hour)
	book.apply(incident.Batch{Operations: []incident.Operation{
		fire("ErrorBudgetBurnPage", "mdm", "mdm/availability", incident.Critical, book.now)}})
	book.now = noon.Add(-49 * time.Hour)
	book.apply(incident.Batch{Operations: []incident.Operation{
		{Kind: incident.Clear, Alert: &incident.Alert{Fingerprint: "ErrorBudgetBurnPagemdm", Resolved: book.now}},
		{Kind: incident.Measured, ID: "INC-2026-11-0002",
			Spent: []incident.Spent{{SLO: "mdm/availability", Valid: 9_000, Bad: 812, Budget: 1.204}}},
	}})
	book.now = noon
	book.apply(incident.Batch{Operations: []incident.Operation{
		fire("ErrorBudgetBurnTicket", "insurance-paid", "insurance-paid/latency", incident.Warning, noon.Add(-time.Minute)),
		{Kind: incident.OpenByHand, Title: "Customers call about payments", Service: "payments", Severity: incident.Critical,
			By: "Ann", Key: "k", Onset: noon.Add(-40 * time.Minute), Team: "ops"},
		{Kind: incident.AckIt, ID: "INC-2026-11-0004", By: "Bob", Team: "ops", How: incident.ByPage},
	}})
}

const firstIncident = "/incident?id=INC-2026-11-0001"

func TestIncidentList(t *testing.T) {
	b, book := withIncidents(t)
	someIncidents(book)
	rec := b.get("/incidents")
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	page := text(check(t, rec.Body.String()))
	require.Contains(t, page, "2 incidents are open, 1 not acknowledged")
	require.Contains(t, page, "Open warnings: 1.")
	order := []string{"Orders fail", "Customers call about payments", "ErrorBudgetBurnPage of mdm/availability",
		"ErrorBudgetBurnTicket"}
	at := -1
	for _, name := range order {
		next := strings.Index(page, name)
		require.Greater(t, next, at, "open first, then acknowledged, then resolved, and warnings apart: %s", name)
		at = next
	}
	require.Contains(t, page, "120.4%")
	for query, want := range map[string][]string{
		"?state=resolved": {"INC-2026-11-0002"}, "?service=payments": {"INC-2026-11-0004"},
		"?state=unresolved&severity=critical": {"INC-2026-11-0004", "INC-2026-11-0001"},
		"?severity=warning":                   {"INC-2026-11-0003"}, "?service=nothing": {},
	} {
		body := b.get("/incidents" + query).Body.String()
		for n := 1; n <= 4; n++ {
			id := fmt.Sprintf("INC-2026-11-%04d", n)
			require.Equal(t, contains(want, id), strings.Contains(body, id), "%s %s", query, id)
		}
	}
	for _, query := range []string{"?state=odd", "?severity=odd", "?from=odd"} {
		require.Equal(t, http.StatusBadRequest, b.get("/incidents"+query).Code, query)
	}
	// The headline of the start page leads to it, and says all that the count of open incidents would.
	require.Contains(t, b.get("/").Body.String(), `/incident?id=INC-2026-11-000`)
	require.NotContains(t, text(check(t, b.get("/").Body.String())), "incidents are open")
	b.eng.State = status.Recovering
	require.Equal(t, http.StatusServiceUnavailable, b.get("/incidents").Code)
	require.NotContains(t, b.get("/").Body.String(), `/incident?id=INC`)
	b.web.Opt.Incidents = nil
	require.Equal(t, http.StatusNotImplemented, b.get("/incidents").Code)
	require.Equal(t, http.StatusNotImplemented, b.get(firstIncident).Code)
}

// The list says who works on what and how far it is, and its headings sort it.
func TestIncidentListIsSorted(t *testing.T) {
	b, book := withIncidents(t)
	someIncidents(book)
	book.apply(incident.Batch{Operations: []incident.Operation{
		{Kind: incident.EditIt, ID: "INC-2026-11-0001", By: "Ann", Owner: "Cleo <b>"},
		{Kind: incident.AddUpdate, ID: "INC-2026-11-0004", By: "Bob", Text: "db-7", Status: incident.StatusIdentified},
	}})
	ids := func(query string) (out []string) {
		page := b.get("/incidents" + query).Body.String()
		check(t, page)
		require.Contains(t, page,
			`data-name="Owner"><bdi>Cleo &lt;b&gt;</bdi> <span class="note under">team <bdi>unpaid</bdi>`)
		require.Contains(t, page, `data-name="Status">identified<`)
		for _, part := range strings.Split(page, `"/incident?id=INC-2026-11-000`)[1:] {
			out = append(out, part[:1])
		}
		return out[:len(out)-1] // the last one is the only warning
	}
	for query, want := range map[string]string{
		"": "1 4 2", "?sort=odd": "1 4 2", "?sort=state&dir=desc": "2 4 1",
		"?sort=owner": "4 1 2", "?sort=owner&dir=desc": "1 4 2", // without an owner last
		"?sort=status": "1 4 2", "?sort=status&dir=desc": "2 4 1",
		"?sort=started": "1 4 2", "?sort=duration": "2 4 1", "?sort=detection": "4 1 2", "?sort=budget": "2 4 1",
		"?sort=title": "4 2 1", "?sort=service": "1 2 4", "?sort=response": "4 2 1",
	} {
		require.Equal(t, want, strings.Join(ids(query), " "), query)
	}
	page := b.get("/incidents?sort=owner&state=unresolved").Body.String()
	require.Contains(t, page,
		`aria-sort="ascending"><a href="/incidents?dir=desc&amp;sort=owner&amp;state=unresolved">Owner`)
	require.Contains(t, page, `<a href="/incidents?sort=status&amp;state=unresolved">Status`)
	require.Contains(t, page, `<input type="hidden" name="sort" value="owner">`)
	require.Contains(t, b.get("/api/v1/incidents.csv").Body.String(), "identified,Bob\r\n")
}

func TestIncidentTrend(t *testing.T) {
	b, book := withIncidents(t)
	someIncidents(book)
	page := b.get("/incidents").Body.String()
	check(t, page)
	// Three incidents, one of them by hand, detected after 3, 4 and 40 minutes, and one acknowledged at once.
	for name, want := range map[string]string{
		"Incidents": "3", "Opened by an alert": "66%", "Median detection": "4m", "p90 detection": "40m",
		"Longest detection": "40m", "Median response": "0s", "p90 response": "0s", "Longest response": "0s",
	} {
		require.Contains(t, page, `<th scope="row">November 2026</th>`)
		require.Contains(t, page, `data-name="`+name+`">`+want+`<`)
	}
	for _, want := range []string{"insurance-unpaid", "detection", "met"} {
		require.Contains(t, page[strings.Index(page, `id="baselines"`):], want)
	}
	b.web.Opt.Incidents = &memoryBook{Book: incident.NewBook(), now: noon}
	require.NotContains(t, b.get("/incidents").Body.String(), "By month")
}

func contains(list []string, s string) bool { return strings.Contains(strings.Join(list, " "), s) }

func TestIncidentListTurnsPages(t *testing.T) {
	b, book := withIncidents(t)
	var batch incident.Batch
	for n := range 119 {
		batch.Operations = append(batch.Operations,
			incident.Operation{Kind: incident.OpenByHand, Title: "t", Severity: incident.Critical,
				By: "Ann", Key: fmt.Sprint(n)})
		batch.Operations = append(batch.Operations,
			incident.Operation{Kind: incident.OpenByHand, Title: "t", Severity: incident.Warning, By: "Ann",
				Key: fmt.Sprint("w", n)})
	}
	book.apply(batch)
	seen := map[string]bool{}
	next, pages := "/incidents?severity=critical", 0
	for ; next != ""; pages++ {
		doc := check(t, b.get(next).Body.String())
		next = ""
		for n := range doc.Descendants() {
			for _, a := range n.Attr {
				if id, ok := strings.CutPrefix(a.Val, "/incident?id="); ok && a.Key == "href" {
					require.False(t, seen[id], "%s is listed twice", id)
					seen[id] = true
				}
				if a.Key == "rel" && a.Val == "next" {
					next = n.Attr[0].Val
				}
			}
		}
	}
	require.Equal(t, 3, pages)
	require.Len(t, seen, 120)
	require.Equal(t, 60, strings.Count(b.get("/incidents").Body.String(), "/incident?id="),
		"a page of incidents and ten warnings")
	require.Contains(t, b.get("/incidents").Body.String(), "All 119")
}

func TestIncidentPage(t *testing.T) {
	b, book := withIncidents(t)
	someIncidents(book)
	rec := b.get(firstIncident)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "same-origin", rec.Header().Get("Referrer-Policy"), "else browsers hide the origin of its forms")
	page := text(check(t, rec.Body.String()))
	for _, want := range []string{"Orders fail", "not acknowledged", "First alert: ErrorBudgetBurnPage",
		"first bad events", "First paging alert", "Owner: unassigned", "Good and bad of insurance-unpaid / availability",
		"MEDCARE",
		"Each bar begins when the alert fired", "Acknowledge"} {
		require.Contains(t, page, want)
	}
	require.Contains(t, rec.Body.String(), `class="b-incident"`)

	for _, o := range []incident.Operation{
		{Kind: incident.AddNote, By: "Bob", Text: "**db-7** is down, see [wiki](https://wiki.example.org)"},
		{Kind: incident.AddUpdate, By: "Bob", Text: "We know.", Public: true},
		{Kind: incident.AckIt, By: "Bob", Team: "ops", How: incident.ByLink},
		{Kind: incident.LinkPost, Text: "https://wiki.example.org/pm"}, {Kind: incident.ResolveIt, By: "Cleo"},
	} {
		o.ID = "INC-2026-11-0001"
		_, err := book.Do(t.Context(), o)
		require.NoError(t, err)
	}
	body := b.get(firstIncident).Body.String()
	wellFormed(t, strings.ReplaceAll(body, "<br />", ""))
	for _, want := range []string{"<strong>db-7</strong>",
		`href="https://wiki.example.org" rel="noopener noreferrer nofollow"`, "by the link in a notification", "(ops)",
		`href="https://wiki.example.org/pm"`, "Resolved</b> by <bdi>Cleo"} {
		require.Contains(t, body, want)
	}
	for _, gone := range []string{`value="ack"`, `value="resolve"`, `name="status"`} {
		require.NotContains(t, body, gone, "it is resolved")
	}
	for _, id := range []string{"", "x", "INC-2026-11-9999", "%3Cscript%3E"} {
		require.Equal(t, http.StatusNotFound, b.get("/incident?id="+id).Code, id)
	}
	// An incident of what the spec does not have any more.
	require.Equal(t, http.StatusOK, b.get("/incident?id=INC-2026-11-0003").Code)
	b.rep = nil
	require.Equal(t, http.StatusOK, b.get(firstIncident).Code)

	// The forms propose the name of the token.
	named, _ := withIncidents(t, func(o *site.Options) { o.Caller = func(*gin.Context) string { return `ops"<b>` } })
	require.Equal(t, 4, strings.Count(named.get(firstIncident).Body.String(),
		`autocomplete="name" value="ops&#34;&lt;b&gt;"`), "to acknowledge, write, resolve and edit")
	require.Contains(t, named.get("/incidents/new").Body.String(), `autocomplete="name" value="ops&#34;&lt;b&gt;"`)

	// Without the permission there is nothing to press.
	reader, _ := withIncidents(t, func(o *site.Options) {
		o.May = func(_ *gin.Context, p site.Permission) bool { return p == site.Read }
	})
	require.NotContains(t, reader.get(firstIncident).Body.String(), `method="post"`)
	require.NotContains(t, reader.get(firstIncident).Body.String(), "/incident/publish")
	require.NotContains(t, reader.get("/incidents").Body.String(), "/incidents/new")
}

func TestHostileIncidents(t *testing.T) {
	for i, bad := range hostile {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			b, book := withIncidents(t)
			clean := strings.Map(func(r rune) rune { // what people write is checked before it is stored
				if r < ' ' {
					return -1
				}
				return r
			}, strings.ToValidUTF8(bad, "?"))
			clean = strings.ToValidUTF8(clean[:min(len(clean), 90)], "")
			book.apply(incident.Batch{Operations: []incident.Operation{
				{Kind: incident.Fire, Title: bad, Team: bad, Onset: noon, Alert: &incident.Alert{
					Fingerprint: "f" + bad, Name: bad, Service: bad, SLO: bad + "/" + bad, Agreement: bad, Group: []string{bad},
					Labels: map[string]string{"severity": bad}, Severity: incident.Critical, Fired: noon, Runbook: bad,
				}},
				{Kind: incident.AckIt, ID: "INC-2026-11-0002", By: "x" + clean, Team: clean, How: incident.ByAPI},
				{Kind: incident.AddNote, ID: "INC-2026-11-0002", By: "x" + clean, Text: "x" + clean},
				{Kind: incident.EditIt, ID: "INC-2026-11-0002", By: "x" + clean, Title: "x" + clean, Owner: "x" + clean},
				{Kind: incident.Publish, ID: "INC-2026-11-0002", Title: "x" + clean},
				{Kind: incident.Measured, ID: "INC-2026-11-0002",
					Spent: []incident.Spent{{SLO: bad + "/" + bad, Group: []string{bad}}}},
			}})
			esc := url.QueryEscape(bad)
			for _, target := range []string{"/incidents", "/incident?id=INC-2026-11-0002",
				"/incident?id=INC-2026-11-0002&did=" + esc, "/incidents?service=" + esc + "&state=" + esc,
				"/incidents?service=" + esc, "/incidents/new", "/incident/publish?incident=INC-2026-11-0002&title=" + esc} {
				rec := b.get(target)
				require.Less(t, rec.Code, 500, target)
				wellFormed(t, rec.Body.String())
				for _, forbidden := range []string{"<img src=x", "<script>alert", "\u202e", "\u2066", "\u200f", "\x00",
					"\x1b", `href="javascript`} {
					require.NotContains(t, rec.Body.String(), forbidden, target)
				}
				require.Less(t, rec.Body.Len(), 250_000, target)
			}
		})
	}
}

// ownForm is what a browser sends with a form of the engine's pages.
var ownForm = []string{"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin"}

func (b *bench) form(values url.Values, header ...string) *httptest.ResponseRecorder {
	return b.send("/incident/do", values.Encode(), append(append([]string{}, ownForm...), header...)...)
}

func TestIncidentForms(t *testing.T) {
	var audits []string
	b, book := withIncidents(t, func(o *site.Options) {
		o.Audit = func(_ *gin.Context, action, detail string, err error) {
			audits = append(audits, auditLine(action, detail, err))
		}
	})
	const id = "INC-2026-11-0001"
	get := func() *incident.Incident { return book.View().Get(id) }
	done := func(values url.Values) {
		t.Helper()
		rec := b.form(values)
		require.Equal(t, http.StatusSeeOther, rec.Code, rec.Body)
		require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
		to := rec.Header().Get("Location")
		require.True(t, strings.HasPrefix(to, "/incident?"), to)
		require.Contains(t, b.get(to).Body.String(), `class="done"`)
	}
	done(url.Values{"do": {"ack"}, "incident": {id}, "by": {" Bob "}, "team": {"ops"}})
	require.Equal(t, incident.Ack{Time: noon, By: "Bob", Team: "ops", How: incident.ByPage}, *get().Ack)
	done(url.Values{"do": {"write"}, "kind": {"note"}, "incident": {id}, "by": {"Bob"}, "text": {"a\r\n\r\nb"}})
	require.Equal(t, "a\n\nb", get().Notes[0].Text)
	done(url.Values{"do": {"write"}, "kind": {"update"}, "incident": {id}, "by": {"Bob"}, "text": {"inside"}})
	done(url.Values{"do": {"write"}, "kind": {"public"}, "incident": {id}, "by": {"Bob"}, "text": {"outside"}})
	require.False(t, get().Updates[0].Public)
	require.True(t, get().Updates[1].Public)
	require.False(t, get().Public, "a public update alone publishes nothing")
	done(url.Values{"do": {"write"}, "kind": {"note"}, "incident": {id}, "by": {"Bob"}, "status": {"identified"}})
	require.Equal(t, incident.Update{Time: noon, By: "Bob", Status: incident.StatusIdentified}, get().Updates[2],
		"a status is an update, and not a public one unless it is asked for")
	done(url.Values{"do": {"edit"}, "incident": {id}, "by": {"Bob"}, "title": {"db-7 is full"}, "severity": {"warning"},
		"owner": {"Cleo"}})
	require.Equal(t, []incident.Edit{{Time: noon, By: "Bob", Title: "db-7 is full", Severity: incident.Warning,
		Owner: "Cleo"}}, get().Edits)
	page := text(check(t, b.get(firstIncident).Body.String()))
	for _, want := range []string{"investigating since", "identified since", "Owner: Cleo", "Severity: warning",
		"Changed: title db-7 is full, severity warning, owner Cleo by Bob"} {
		require.Contains(t, page, want)
	}
	done(url.Values{"do": {"publish"}, "incident": {id}, "title": {"Orders are delayed"}})
	require.True(t, get().Public)
	require.Equal(t, "Orders are delayed", get().PublicTitle)
	done(url.Values{"do": {"hide"}, "incident": {id}})
	require.False(t, get().Public)
	done(url.Values{"do": {"post-mortem"}, "incident": {id}, "url": {"https://wiki.example.org/7"}})
	require.Equal(t, "https://wiki.example.org/7", get().PostMortem)
	done(url.Values{"do": {"resolve"}, "incident": {id}, "by": {"Bob"}})
	require.True(t, get().IsResolved())
	done(url.Values{"do": {"open"}, "key": {"k1"}, "title": {"By phone"}, "service": {"shop"}, "severity": {"critical"},
		"by": {"Ann"}, "onset": {"2026-11-20T11:00"}, "public": {"true"}})
	opened := book.View().ByKey("k1")
	require.Equal(t, time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC), opened.Onset)
	require.True(t, opened.Public)
	require.Len(t, audits, 11)
	require.Equal(t,
		`incident.edit incident="INC-2026-11-0001" by="Bob" title="db-7 is full" severity=warning owner="Cleo"`,
		audits[5])
	require.Equal(t, `incident.publish incident="INC-2026-11-0001" public=true title="Orders are delayed"`, audits[6])
	require.Equal(t, `incident.ack incident="INC-2026-11-0001" by="Bob" team="ops" how=page`, audits[0])

	for name, values := range map[string]url.Values{
		"no name":    {"do": {"resolve"}, "incident": {opened.ID}},
		"no text":    {"do": {"write"}, "kind": {"note"}, "incident": {opened.ID}, "by": {"a"}},
		"which kind": {"do": {"write"}, "incident": {opened.ID}, "by": {"a"}, "text": {"x"}},
		"what":       {"incident": {opened.ID}}, "odd": {"do": {"explode"}, "incident": {opened.ID}},
		"no id":  {"do": {"publish"}},
		"script": {"do": {"post-mortem"}, "incident": {opened.ID}, "url": {"javascript:alert(1)"}},
		"when":   {"do": {"open"}, "title": {"t"}, "by": {"a"}, "severity": {"critical"}, "key": {"k"}, "onset": {"now"}},
		"twice":  {"do": {"publish", "hide"}, "incident": {opened.ID}},
		"large": {"do": {"write"}, "kind": {"note"}, "incident": {opened.ID}, "by": {"a"},
			"text": {strings.Repeat("x", 60<<10)}},
		"huge": {"do": {"write"}, "kind": {"note"}, "incident": {opened.ID}, "by": {"a"},
			"text": {strings.Repeat("x", 300<<10)}},
	} {
		rec := b.form(values)
		require.Equal(t, http.StatusBadRequest, rec.Code, name)
		check(t, rec.Body.String())
	}
	longest := strings.Repeat("🚨", incident.MaxText)
	done(url.Values{"do": {"write"}, "kind": {"note"}, "incident": {opened.ID}, "by": {"Ann"}, "text": {longest}})
	require.Equal(t, longest, book.View().Get(opened.ID).Notes[0].Text)
	require.Equal(t, http.StatusConflict, b.form(url.Values{"do": {"ack"}, "incident": {id}, "by": {"Eve"}}).Code)
	require.Equal(t, http.StatusNotFound, b.form(url.Values{"do": {"publish"}, "incident": {"INC-2026-11-0099"}}).Code)
	ack := url.Values{"do": {"ack"}, "incident": {opened.ID}, "by": {"Eve"}}
	require.Equal(t, http.StatusBadRequest, b.form(ack, "Content-Type", "text/plain").Code)
	require.Equal(t, http.StatusForbidden, b.form(ack, "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, http.StatusForbidden, b.form(ack, "Sec-Fetch-Site", "").Code, "neither Sec-Fetch-Site nor Origin")
	require.Equal(t, http.StatusForbidden, b.form(ack, "Sec-Fetch-Site", "", "Origin", "null").Code)
	book.failure = errors.New("busy")
	require.Equal(t, http.StatusServiceUnavailable, b.form(ack).Code)
	require.Nil(t, book.View().Get(opened.ID).Ack)
	require.NotEqual(t, http.StatusOK, b.get("/incident/do?do=ack&incident="+opened.ID+"&by=Eve").Code,
		"a link does nothing")
}

// The page relates an incident to what changed before it, to runbooks and to earlier incidents of the same SLOs.
func TestIncidentPageSaysWhereToLook(t *testing.T) {
	at := noon.Add(30 * time.Minute)
	note := func(before time.Duration, kind annotation.Kind, service, text string) annotation.Annotation {
		return annotation.Annotation{At: at.Add(-before), Kind: kind, Service: service, Text: text, Author: "ci"}
	}
	b, book := withIncidents(t, func(o *site.Options) {
		o.Annotations = fixedNotes{note(70*time.Minute, annotation.Deployment, "insurance-unpaid", "too early"),
			note(12*time.Minute, annotation.Deployment, "insurance-unpaid", "v1.4 rolled out"),
			note(8*time.Minute, annotation.Spec, "mdm", "objective of mdm"),
			note(-time.Minute, annotation.Note, "", "in the incident")}
	})
	const id = "INC-2026-11-0001"
	again := book.View().Get(id).Alerts[0]
	operate(t, book, id, incident.Operation{Kind: incident.AddNote, By: "Bob", Text: "db-7 was full"},
		incident.Operation{Kind: incident.LinkPost, Text: "https://wiki.example.org/pm"},
		incident.Operation{Kind: incident.ResolveIt, By: "Bob"})
	again.Fingerprint, again.Fired, again.Runbook = "2", at, "https://runbooks.example.org/burn.md"
	other := again
	other.Fingerprint, other.Service, other.SLO, other.Runbook = "3", "mdm", "mdm/availability", "javascript:alert(1)"
	book.apply(incident.Batch{Operations: []incident.Operation{
		{Kind: incident.Fire, Title: "again", Onset: at, OnsetBy: incident.OnsetByCounts, Alert: &again},
		{Kind: incident.Fire, Title: "other", Onset: at, OnsetBy: incident.OnsetByCounts, Alert: &other}}})
	b.now = at.Add(time.Minute)
	body := b.get("/incident?id=INC-2026-11-0002").Body.String()
	wellFormed(t, body)
	section := func(id string) string {
		_, rest, _ := strings.Cut(body, `<h2 id="`+id+`">`)
		rest, _, _ = strings.Cut(rest, "</section>")
		return rest
	}
	changes := section("before")
	for _, want := range []string{"v1.4 rolled out", "12m before", "deployment", "by <bdi>ci</bdi>", "1 of other services",
		"objective of mdm"} {
		require.Contains(t, changes, want)
	}
	require.NotContains(t, changes, "too early")
	require.NotContains(t, changes, "in the incident")
	require.Less(t, strings.Index(body, `id="before"`), strings.Index(body, `class="figures"`), "right under the headline")
	require.Contains(t, section("runbooks"), `href="https://runbooks.example.org/burn.md"`)
	similar := section("similar")
	for _, want := range []string{"id=" + id, "Orders fail", "availability", "db-7 was full",
		`href="https://wiki.example.org/pm"`, "8m"} {
		require.Contains(t, similar, want)
	}
	require.Equal(t, 1, strings.Count(similar, "<tr><th scope=\"row\""), "the one of mdm has nothing in common")
	body = b.get("/incident?id=INC-2026-11-0003").Body.String()
	require.NotContains(t, body, `id="similar"`)
	require.NotContains(t, body, "javascript:", "only links that lead to a page")
	require.Contains(t, section("before"), "objective of mdm")
}

// Publishing shows what everybody will see, and asks once.
func TestPublishingShowsAPreview(t *testing.T) {
	b, book := withPublicIncidents(t)
	operate(t, book, "INC-2026-11-0001", incident.Operation{Kind: incident.Publish},
		incident.Operation{Kind: incident.AddUpdate, By: "Bob", Text: "inside", Status: incident.StatusIdentified})
	require.Contains(t, b.get(firstIncident).Body.String(), `href="/incident/publish?incident=INC-2026-11-0001"`)
	const page = "/incident/publish?incident=INC-2026-11-0001"
	rec := b.get(page)
	require.Equal(t, "same-origin", rec.Header().Get("Referrer-Policy"), "else browsers hide the origin of the form")
	shown := text(check(t, rec.Body.String()))
	for _, want := range []string{"Publish this incident?", "Incident affecting insurance-unpaid",
		"Half of them arrive."} {
		require.Contains(t, shown, want)
	}
	for _, never := range []string{"inside", "identified", "Bob", "Orders fail", "shows no SLO"} {
		require.NotContains(t, shown, never)
	}
	require.Contains(t, text(check(t, b.get(page+"&title=Orders+wait").Body.String())), "Orders wait")
	require.False(t, book.View().Get("INC-2026-11-0001").Public, "a look publishes nothing")
	require.Equal(t, http.StatusNotFound, b.get("/incident/publish?incident=x").Code)

	// A service without a public SLO.
	require.Contains(t, text(check(t, b.get("/incident/publish?incident=INC-2026-11-0003").Body.String())),
		"The public page shows no SLO of insurance-paid")
	require.Equal(t, http.StatusSeeOther, b.form(url.Values{"do": {"publish"}, "incident": {"INC-2026-11-0001"},
		"title": {"Orders wait"}}).Code)
	require.Contains(t, text(check(t, b.get("/public").Body.String())), "Orders wait")
	require.Contains(t, text(check(t, b.get(page).Body.String())), "Change the public title")
}

// brief adds the n-th incident, which has these alerts of one SLO and is resolved at once.
func brief(book *memoryBook, n int, alerts ...string) (id string) {
	book.now = noon.Add(time.Duration(n-incident.MaxIncidents) * time.Minute)
	id = fmt.Sprintf("INC-%s-%04d", book.now.Format("2006-01"), n)
	var list []incident.Operation
	for _, name := range alerts {
		list = append(list, incident.Operation{Kind: incident.Fire, Title: "Orders fail", Onset: book.now,
			OnsetBy: incident.OnsetByAlert, Alert: &incident.Alert{Fingerprint: name + id, Name: name,
				Service: "insurance-unpaid", SLO: "insurance-unpaid/availability", Group: []string{"MEDCARE"},
				Severity: incident.Critical, Fired: book.now}})
	}
	book.apply(incident.Batch{Operations: append(list, incident.Operation{Kind: incident.ResolveIt, ID: id, By: "Bob"})})
	return id
}

// Those that share the most alerts come first, and of these the latest.
func TestSimilarIncidentsAreInOrder(t *testing.T) {
	b, book := withIncidents(t)
	number := map[string]int{}
	ids := []string{""}
	for i, alerts := range []string{"Fast", "Fast Slow", "Slow", "Other", "Fast Slow Other", "Fast", "Fast", "Fast Slow",
		"Fast", "Fast Slow Other"} {
		id := brief(book, i+1, strings.Fields(alerts)...)
		number[id], ids = i+1, append(ids, id)
	}
	require.NotNil(t, book.View().Get(ids[10]))
	for of, want := range map[int][]int{1: nil, 2: {1}, 4: {3, 2, 1}, 7: {6, 5, 2, 1, 4}, 8: {5, 2, 7, 6, 3},
		9: {8, 7, 6, 5, 2}, 10: {5, 8, 2, 9, 7}} {
		_, section, _ := strings.Cut(b.get("/incident?id="+ids[of]).Body.String(), `<h2 id="similar">`)
		section, _, _ = strings.Cut(section, "</section>")
		var got []int
		for _, m := range regexp.MustCompile(`<span class="note">(INC-[0-9-]+)</span>`).FindAllStringSubmatch(section, -1) {
			got = append(got, number[m[1]])
		}
		require.Equal(t, want, got, "of incident %d", of)
	}
}

// BenchmarkIncidentPage is the page of the latest incident of a full store. All have two alerts of the same SLO, and
// the latest has one that no other has, so that all are compared.
func BenchmarkIncidentPage(b *testing.B) {
	book := newMemoryBook()
	x := newBench(b, func(o *site.Options) { o.Incidents = book })
	for n := range incident.MaxIncidents - 1 {
		brief(book, n+1, "Fast", "Slow")
	}
	target := "/incident?id=" + brief(book, incident.MaxIncidents, "Fast", "Slow", "Own")
	require.Contains(b, x.get(target).Body.String(), `id="similar"`)
	before := cpuTime()
	for b.Loop() {
		x.rep.Version++
		require.Equal(b, http.StatusOK, x.get(target).Code)
	}
	b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
