package web

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/public"
	"github.com/sloengine/sloengine/web/site"
)

// feed is Atom 1.0 as a reader decodes it.
type feed struct {
	XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string   `xml:"http://www.w3.org/2005/Atom id"`
	Title   string   `xml:"http://www.w3.org/2005/Atom title"`
	Updated string   `xml:"http://www.w3.org/2005/Atom updated"`
	Author  string   `xml:"http://www.w3.org/2005/Atom author>name"`
	Links   []struct {
		Rel  string `xml:"rel,attr"`
		Href string `xml:"href,attr"`
	} `xml:"http://www.w3.org/2005/Atom link"`
	Entries []struct {
		ID        string `xml:"http://www.w3.org/2005/Atom id"`
		Title     string `xml:"http://www.w3.org/2005/Atom title"`
		Published string `xml:"http://www.w3.org/2005/Atom published"`
		Updated   string `xml:"http://www.w3.org/2005/Atom updated"`
		Link      struct {
			Href string `xml:"href,attr"`
		} `xml:"http://www.w3.org/2005/Atom link"`
		Content struct {
			Type string `xml:"type,attr"`
			Body string `xml:",chardata"`
		} `xml:"http://www.w3.org/2005/Atom content"`
	} `xml:"http://www.w3.org/2005/Atom entry"`
}

var urn = regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// readFeed holds the feed to the rules of RFC 4287.
func readFeed(t *testing.T, b *bench) (f feed) {
	t.Helper()
	rec := b.get("/public/incidents.atom")
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "application/atom+xml; charset=utf-8", rec.Header().Get("Content-Type"))
	wellFormedXML(t, rec.Body.String())
	require.NoError(t, xml.Unmarshal(rec.Body.Bytes(), &f))
	require.Regexp(t, urn, f.ID)
	require.NotEmpty(t, f.Title)
	require.NotEmpty(t, f.Author, "needed unless every entry has one")
	latest, err := time.Parse(time.RFC3339, f.Updated)
	require.NoError(t, err)
	rels := map[string]string{}
	for _, l := range f.Links {
		require.NotContains(t, rels, l.Rel)
		rels[l.Rel] = l.Href
	}
	require.Contains(t, rels["self"], "/public/incidents.atom")
	seen := map[string]bool{f.ID: true}
	page := b.get("/public").Body.String()
	for _, e := range f.Entries {
		require.Regexp(t, urn, e.ID)
		require.False(t, seen[e.ID], "twice")
		seen[e.ID] = true
		require.NotEmpty(t, strings.TrimSpace(e.Title))
		published, err := time.Parse(time.RFC3339, e.Published)
		require.NoError(t, err)
		updated, err := time.Parse(time.RFC3339, e.Updated)
		require.NoError(t, err)
		require.False(t, updated.Before(published))
		require.False(t, updated.After(latest), "the feed is as new as its newest entry")
		require.Equal(t, "html", e.Content.Type)
		nodes, err := html.ParseFragment(strings.NewReader(e.Content.Body), nil)
		require.NoError(t, err)
		require.NotEmpty(t, nodes)
		_, anchor, ok := strings.Cut(e.Link.Href, "#")
		require.True(t, ok)
		require.Contains(t, page, `id="`+anchor+`"`, "the link leads to the incident")
	}
	return f
}

func TestPublicFeed(t *testing.T) {
	b, book := withPublicIncidents(t)
	f := readFeed(t, b)
	require.Len(t, f.Entries, 4)
	require.Equal(t, "/public/incidents.atom", f.Links[0].Href)
	e := f.Entries[1]
	require.Equal(t, "Incident affecting insurance-unpaid", e.Title)
	require.Contains(t, e.Content.Body, "Orders are <strong>delayed</strong>.")
	require.Contains(t, b.get("/public/incidents.atom").Body.String(), "&lt;strong&gt;delayed", "HTML is escaped in XML")

	// A new update changes the time and the text and keeps the ids.
	operate(
		t, book, "INC-2026-11-0001", incident.Operation{Kind: incident.AddUpdate, By: "Bob", Text: "Fixed?", Public: true})
	after := readFeed(t, b)
	require.Equal(t, f.ID, after.ID)
	for i := range f.Entries {
		require.Equal(t, f.Entries[i].ID, after.Entries[i].ID)
	}
	require.Greater(t, after.Entries[1].Updated, e.Updated)
	require.Equal(t, after.Entries[1].Updated, after.Updated)
	require.Equal(t, e.Published, after.Entries[1].Published)

	// The ids are those of the book and not of this process.
	parts := &memoryBook{Book: incident.NewBook(), now: book.now}
	for _, part := range book.Parts() {
		require.NoError(t, parts.RestorePart(part.Name, part.Encode(nil)))
	}
	require.NoError(t, parts.FinishRestore())
	b.web.Opt.Incidents = parts
	again := readFeed(t, b)
	require.Equal(t, after, again)

	empty := readFeed(t, newBench(t, func(o *site.Options) {
		o.Incidents = &memoryBook{Book: incident.NewBook(), now: noon}
	}))
	require.Empty(t, empty.Entries)
	require.Equal(t, "2026-11-20T00:00:00Z", empty.Updated)

	abroad, _ := withPublicIncidents(t, func(o *site.Options) {
		o.ExternalURL, o.ExternalPath = "https://status.example.org/slo/", "/slo"
	})
	f = readFeed(t, abroad)
	require.Equal(t, "https://status.example.org/slo/public/incidents.atom", f.Links[0].Href)
	require.Equal(t, "Incidents: status.example.org", f.Title)
	require.NotEqual(t, after.ID, f.ID, "another engine, another feed")
	require.Contains(t, abroad.get("/public").Body.String(), `href="/slo/public/incidents.atom"`)
}

// statuspage is summary.json as programs read it that know Statuspage.
type statuspage struct {
	Page struct {
		ID, Name, URL string
		Updated       time.Time `json:"updated_at"`
	}
	Status struct{ Indicator, Description string }

	Components []struct{ ID, Name, Status, State string }
	Incidents  []struct {
		ID, Name, Status, Impact, Shortlink string
		IncidentUpdates                     []struct {
			ID, Status, Body string
			DisplayAt        time.Time `json:"display_at"`
		} `json:"incident_updates"`
		Components []struct{ Name string }
		ResolvedAt *time.Time `json:"resolved_at"`
	}
	Maintenance []struct {
		Name, Status string
		Created      time.Time `json:"created_at"`
		From         time.Time `json:"scheduled_for"`
		Until        time.Time `json:"scheduled_until"`
	} `json:"scheduled_maintenances"`
}

func summaryOf(t *testing.T, b *bench) statuspage { return statuspageOf(t, b, "summary") }

// statuspageOf is one of the documents of Statuspage.
func statuspageOf(t *testing.T, b *bench, name string) (s statuspage) {
	t.Helper()
	rec := b.get("/public/" + name + ".json")
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
	require.Equal(t, "*", rec.Header().Get("Access-Control-Allow-Origin"))
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &s))
	return s
}

func TestPublicSummary(t *testing.T) {
	b, _ := withPublicIncidents(t)
	s := summaryOf(t, b)
	require.Equal(t, "/public", s.Page.URL)
	require.Equal(t, []string{"insurance-unpaid", "mdm"}, []string{s.Components[0].Name, s.Components[1].Name})
	require.Len(t, s.Incidents, 2, "those that go on")
	x := s.Incidents[1]
	require.Equal(t, "Incident affecting insurance-unpaid", x.Name)
	require.Equal(t, "investigating", x.Status)
	require.Equal(t, "major", x.Impact)
	require.Equal(t, "insurance-unpaid", x.Components[0].Name)
	require.Nil(t, x.ResolvedAt)
	require.Equal(t, "Half of them arrive.", x.IncidentUpdates[0].Body)
	require.Equal(t, "The incident is being investigated.", x.IncidentUpdates[3].Body)
	require.True(t, x.IncidentUpdates[0].DisplayAt.After(x.IncidentUpdates[3].DisplayAt))
	require.Empty(t, s.Incidents[0].Components)

	for _, r := range site.RowsOf(b.rep, "mdm/availability") {
		r.SLO.Corrections = []slo.Correction{{Name: "secret", Start: noon.Add(time.Hour), Duration: time.Hour},
			{Name: "secret", Start: noon.Add(-time.Hour), Duration: 2 * time.Hour},
			{Name: "secret", Start: noon.Add(-48 * time.Hour), Duration: time.Hour}}
	}
	b.rep.Version++
	s = summaryOf(t, b)
	require.Len(t, s.Maintenance, 2)
	all := statuspageOf(t, b, "scheduled-maintenances")
	require.Equal(t, s.Page, all.Page)
	require.Equal(t, s.Maintenance, all.Maintenance[:2])
	require.Contains(t, fmt.Sprint(all.Maintenance[2:]),
		fmt.Sprint("completed ", noon.Add(-47*time.Hour).Truncate(time.Second)))
	require.Equal(t, s.Components, statuspageOf(t, b, "components").Components)
	require.Equal(t, "in_progress scheduled", s.Maintenance[0].Status+" "+s.Maintenance[1].Status)
	require.Equal(t, noon.Add(time.Hour).Truncate(time.Second), s.Maintenance[1].From)
	require.Equal(t, noon.Add(2*time.Hour).Truncate(time.Second), s.Maintenance[1].Until)
	require.False(t, s.Maintenance[1].Created.After(s.Page.Updated), "planned ones are known already")
	require.NotContains(t, b.get("/public/summary.json").Body.String(), "secret")

	// The words for each state.
	for state, want := range map[public.PublicState]string{
		public.Operational: "operational none", public.DegradedNow: "degraded_performance minor",
		public.Outage: "major_outage critical", public.UnknownNow: "degraded_performance minor",
	} {
		b := newBench(t)
		publish(b.rep, justPublic, "mdm/availability")
		for _, r := range site.RowsOf(b.rep, "mdm/availability") {
			counts := map[public.PublicState]slo.Counts{public.Operational: {Good: 1_000_000},
				public.DegradedNow: {Good: 950_000, Bad: 50_000}, public.Outage: {Good: 1, Bad: 1_000_000}}
			for k := range r.Burns {
				r.Burns[k] = slo.NewBurn(r.Burns[k].Window, slo.NewBudget(r.SLO.Objective, counts[state]))
			}
		}
		s := summaryOf(t, b)
		require.Equal(t, string(state), s.Components[0].State)
		require.Equal(t, want, s.Components[0].Status+" "+s.Status.Indicator)
		b.now = b.now.Add(time.Hour)
		s = summaryOf(t, b)
		require.NotEqual(t, "none", s.Status.Indicator, "nobody knows how things are")
		require.Contains(t, s.Status.Description, "(out of date)")
	}
}
