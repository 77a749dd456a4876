package public

import (
	"cmp"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"html"
	"strings"
	"time"

	"github.com/sloengine/sloengine/web/format"
)

// Addresses of the public view.
const (
	pagePath         = "/public"
	jsonPath         = "/public.json"
	feedPath         = "/public/incidents.atom"
	summaryPath      = "/public/summary.json"
	componentsPath   = "/public/components.json"
	incidentsPath    = "/public/incidents.json"
	maintenancesPath = "/public/scheduled-maintenances.json"
	logoPath         = "/public/logo"
	stylePath        = "/public/style.css"
)

// feedType is the media type of the feed.
const feedType = "application/atom+xml; charset=utf-8"

// The elements of Atom 1.0 (RFC 4287) that the feed has.
type (
	atomFeed struct {
		XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
		Lang    string      `xml:"xml:lang,attr"`
		ID      string      `xml:"id"`
		Title   string      `xml:"title"`
		Updated string      `xml:"updated"`
		Author  string      `xml:"author>name"`
		Links   []atomLink  `xml:"link"`
		Entries []atomEntry `xml:"entry"`
	}
	atomLink struct {
		Rel  string `xml:"rel,attr"`
		Type string `xml:"type,attr"`
		Href string `xml:"href,attr"`
	}
	atomEntry struct {
		ID        string   `xml:"id"`
		Title     string   `xml:"title"`
		Published string   `xml:"published"`
		Updated   string   `xml:"updated"`
		Link      atomLink `xml:"link"`
		Content   atomText `xml:"content"`
	}
	atomText struct {
		Type string `xml:"type,attr"`
		Body string `xml:",chardata"`
	}
)

// newFeed makes the feed of the public incidents, one entry each. It changes only with what it tells, and not with
// every report. Without incidents it was updated at the beginning of the day.
func (pub *Handler) newFeed(s *Status) ([]byte, error) {
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	page := pub.address(pagePath)
	name := pub.pageName()
	f := atomFeed{
		Lang: "en", ID: "urn:uuid:" + uuid(sha256.Sum256([]byte("incidents of "+pub.Opt.ExternalURL))),
		Title: "Incidents: " + name, Author: name,
		Links: []atomLink{{"self", "application/atom+xml", pub.address(feedPath)}, {"alternate", "text/html", page}},
	}
	updated := s.Time.Truncate(24 * time.Hour)
	for i := range s.Incidents {
		x := &s.Incidents[i]
		if i == 0 || x.Updated.After(updated) {
			updated = x.Updated
		}
		f.Entries = append(f.Entries, atomEntry{
			ID: "urn:uuid:" + x.ID, Title: x.name(), Published: stamp(x.Updates[len(x.Updates)-1].Time),
			Updated: stamp(x.Updated),
			Link:    atomLink{"alternate", "text/html", page + "#" + anchor(x)}, Content: atomText{"html", x.content()},
		})
	}
	f.Updated = stamp(updated)
	body, err := xml.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode the feed of incidents: %w", err)
	}
	return append(append([]byte(xml.Header), body...), '\n'), nil
}

// content is all that the feed tells of an incident, as HTML.
func (x *Incident) content() string {
	var b strings.Builder
	if x.Title != "" && x.Service != "" {
		fmt.Fprintf(&b, "<p>Service: %s</p>\n", html.EscapeString(format.Safe(x.Service, format.MaxName)))
	}
	for i := range x.Updates {
		u := &x.Updates[i]
		fmt.Fprintf(&b, "<p><strong>%s</strong>, %s</p>\n", u.Status, u.Time.Format("2006-01-02 15:04:05 UTC"))
		b.WriteString(cmp.Or(string(u.html), "<p>"+u.sentence()+"</p>\n"))
	}
	if x.More > 0 {
		fmt.Fprintf(&b, "<p>Older updates are left out: %d</p>\n", x.More)
	}
	fmt.Fprintf(&b, "<p>Started %s</p>\n", x.Started.Format("2006-01-02 15:04:05 UTC"))
	return b.String()
}

// address is the address of a page of the public view. Without web.external_url it has no host, since the view is the
// same for everybody and does not follow what a request calls the engine.
func (pub *Handler) address(path string) string {
	if pub.Opt.ExternalURL != "" {
		return strings.TrimRight(pub.Opt.ExternalURL, "/") + path
	}
	return pub.Opt.ExternalPath + path
}
