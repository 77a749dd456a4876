package site

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/status"
)

// Layout is what every page shows around its content.
type Layout struct {
	Title          string
	Crumbs         []Link // what the page is part of, from the top
	Nav            string // which page of the navigation this is
	Base           string // prefix of every link
	KeepsIncidents bool   // the engine has a book of incidents
	Silences       bool   // and silences
	Fleet          bool   // this is a view of several engines
	Limited        bool   // the reader sees some services only, and no page of the engine
	State          status.State
	Health         chart.Mark
	Report         format.Stamp
	Stale          bool
	Banners        []banner
	Refresh        []Link
	Themes         []Link
	Theme          string // what the reader chose, "" follows the system
	Stream         string // address of the event stream; "" if the page does not refresh itself
	Key            string // of the view, as the event stream has it
	Search         Search
	Version        string
	Spec           string // hash of the spec in force
	Started        format.Stamp
	Warnings       []string
}

// Search is the field at the top of every page. On a list it belongs to the list's form, elsewhere to one of its own
// that leads to the service levels.
type Search struct {
	Text, What string
	Form       string // id of the list's form; "" without one
}

type banner struct {
	Class string // bad, risk, info
	Title string
	Text  string
	Items []string
	More  int // items left out
	Links []Link
}

// Notice is what a program that embeds the engine has to say above the list of SLOs. The addresses of its links are
// paths of the site.
type Notice struct {
	Title, Text string
	Links       []Link
}

func (site *Site) notice(now time.Time) (banner, bool) {
	if site.Opt.Notice == nil {
		return banner{}, false
	}
	n, ok := site.Opt.Notice(now)
	b := banner{Class: "info", Title: n.Title, Text: n.Text}
	for _, l := range n.Links {
		b.Links = append(b.Links, Link{Text: l.Text, Href: site.Opt.ExternalPath + l.Href})
	}
	return b, ok
}

type Link struct {
	Text string
	Href string
	On   bool
}

func engineMark(s status.State) chart.Mark {
	switch s {
	case status.Ready:
		return chart.OK("ready")
	case status.Stale:
		return chart.Risk("stale")
	case status.DiskLow:
		return chart.Bad("disk low")
	case status.ClockJump:
		return chart.Bad("clock jump")
	case status.Poisoned:
		return chart.Bad("not durable")
	case status.Failed:
		return chart.Bad("failed")
	case status.Recovering, status.Starting, status.Stopping:
		return chart.Wait(string(s))
	}
	return chart.None("unknown")
}

func (site *Site) Layout(c *gin.Context, v View, title, nav string) Layout {
	l := site.BareLayout(c, title)
	l.Nav, l.State, l.Health, l.Stale = nav, v.Eng.State, engineMark(v.Eng.State), v.Stale
	l.Spec = format.Safe(v.Eng.Spec.Hash, format.MaxName)
	l.Version, l.Started, l.Banners = format.Safe(site.Opt.Version.Version, format.MaxName),
		format.NewStamp(v.Eng.Started, v.Now), banners(v)
	if b, ok := site.notice(v.Now); ok && nav == "list" {
		l.Banners = append(l.Banners, b)
	}
	l.Search.What = "SLOs"
	l.Stream, l.Key = site.Opt.ExternalPath+"/events/stream", v.Key()
	if v.Rep != nil {
		l.Report = format.NewStamp(v.Rep.Time, v.Now)
		for _, s := range v.Rep.Warnings {
			l.Warnings = append(l.Warnings, format.Safe(s, format.MaxText))
		}
	}
	on := RefreshHeader(c)
	link := func(text string, n int) {
		q := c.Request.URL.Query()
		q.Del("refresh")
		if n > 0 {
			q.Set("refresh", strconv.Itoa(n))
		}
		l.Refresh = append(l.Refresh, Link{text, site.Href(c.Request.URL.Path, q), n == on})
	}
	link("off", 0)
	for _, n := range refreshes {
		link(slowly(n), n)
	}
	return l
}

// BareLayout is a layout that says nothing about the engine, for who may not read.
func (site *Site) BareLayout(c *gin.Context, title string) Layout {
	l := Layout{Title: title, Base: site.Opt.ExternalPath, Theme: respond.Theme(c),
		KeepsIncidents: site.Opt.Incidents != nil, Silences: site.Opt.Silences != nil, Fleet: site.Opt.Parts != nil,
		Limited: site.Opt.Scope != ""}
	for _, t := range themes {
		q := c.Request.URL.Query()
		q.Set(respond.ThemeParam, t)
		l.Themes = append(l.Themes, Link{t, site.Href(c.Request.URL.Path, q), t == cmp.Or(l.Theme, themes[0])})
	}
	return l
}

// ServicesPath is the page that says of each service how it is.
const ServicesPath = "/services"

// EventsPath is the page with events of an SLO.
const EventsPath = "/slo/events"

// TryPath is the page that tries another form of an SLO on the past.
const TryPath = "/slo/try"

// paths are the pages that links may lead to, so that a hostile request path
// never ends up in one.
var paths = map[string]bool{"/": true, "/slas": true, "/sla": true, "/report": true, ServicesPath: true, "/slo": true,
	"/engine": true, DeadLetterListPath: true, DeadLetterPath: true, IncidentListPath: true, IncidentPath: true,
	SilenceListPath: true, AlertPath: true, AlertListPath: true, EventsPath: true, TryPath: true}

func (site *Site) Href(path string, q url.Values) string {
	path = site.local(path)
	if !paths[path] {
		path = "/"
	}
	if enc := q.Encode(); enc != "" {
		return site.Opt.ExternalPath + path + "?" + enc
	}
	return site.Opt.ExternalPath + path
}

// local takes the prefix off a path: behind a proxy that keeps it, a request's
// path still has it.
func (site *Site) local(path string) string {
	if rest, ok := strings.CutPrefix(path, site.Opt.ExternalPath); ok && strings.HasPrefix(rest, "/") {
		return rest
	}
	return path
}

// shownProblems is how many problems of a spec a page lists.
const shownProblems = 20

// banners says what is wrong with the engine, worst first.
func banners(v View) []banner {
	var out []banner
	reason := format.Safe(v.Eng.Reason, format.MaxText)
	switch v.Eng.State {
	case status.Recovering:
		b := banner{Class: "info", Title: "Recovering: " + format.Percent(v.Eng.Progress, 0) + " of the log replayed",
			Text: status.StateText(status.Recovering)}
		if v.Rep != nil {
			b.Text += " Below is the last report before the restart."
		}
		out = append(out, b)
	case status.Starting, status.Stopping:
		out = append(out, banner{Class: "info", Title: status.StateText(v.Eng.State), Text: reason})
	case status.DiskLow, status.ClockJump, status.Poisoned, status.Failed:
		out = append(out, banner{Class: "bad", Title: status.StateText(v.Eng.State), Text: reason})
	}
	if v.Stale && v.Eng.State.Recovered() {
		out = append(out, banner{Class: "risk", Title: "These numbers are stale",
			Text: "They are from " + format.NewStamp(v.Rep.Time, v.Now).Text + ", " +
				format.Duration(v.Now.Sub(v.Rep.Time)) + " ago."})
	}
	if b, ok := fleetBanner(v); ok {
		out = append(out, b)
	}
	if v.Rep == nil && v.Eng.State.Recovered() {
		out = append(out, banner{Class: "info", Title: "Waiting for the first report",
			Text: "The engine is already counting. Budgets appear with the first report, in a few seconds."})
	}
	if s := v.Eng.Spec; !s.Failed.IsZero() {
		b := banner{Class: "bad", Title: "The last reload failed, and the previous spec is still in use",
			Text: "Attempted at " + format.NewStamp(s.Failed, v.Now).Text + "."}
		for i, p := range s.Problems {
			if i == shownProblems {
				b.More = len(s.Problems) - i
				break
			}
			b.Items = append(b.Items, problemText(p))
		}
		out = append(out, b)
	}
	return out
}

// fleetBanner names the engines of a view whose events are not in the numbers.
func fleetBanner(v View) (banner, bool) {
	b := banner{Class: "risk",
		Text: "Their events are not in the numbers below, and coverage is lower for it. Other views show " +
			"their last answer."}
	for i := range v.Eng.Fleet {
		if f := &v.Eng.Fleet[i]; f.Out() && f.State != status.FleetWaiting {
			b.Items = append(b.Items, format.Safe(f.Name, format.MaxTitle)+": "+f.Text(v.Now))
		}
	}
	if n := len(b.Items); n > 1 {
		b.Title = fmt.Sprintf("%d of %d engines are missing", n, len(v.Eng.Fleet))
	} else if n == 1 {
		b.Title, b.Text = fmt.Sprintf("1 of %d engines is missing", len(v.Eng.Fleet)),
			"Its events are not in the numbers below, and coverage is lower for it. Other views show its last "+
				"answer."
	}
	return b, len(b.Items) > 0
}

func problemText(p spec.Problem) string {
	s := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	if p.Suggestion != "" {
		s += " (" + p.Suggestion + ")"
	}
	return format.Safe(s, format.MaxText)
}

type messagePage struct {
	Layout
	Text string
}

// Message sends a page that says one thing. Unknown addresses get one without a token, so
// it says more only to who may read.
func (site *Site) Message(c *gin.Context, status int, title, text string) {
	c.Header("Cache-Control", "no-store")
	p := messagePage{Layout: site.BareLayout(c, title), Text: text}
	if site.Opt.May(c, Read) {
		p.Layout = site.Layout(c, site.View(), title, "")
		p.Refresh, p.Stream = nil, ""
	}
	site.Page(c, status, "message", p)
}

// Undone sends a page that says why nothing was done.
func (site *Site) Undone(c *gin.Context, status int, text string) {
	site.Message(c, status, "Nothing was done", text)
}

var plainHost = regexp.MustCompile(`^[A-Za-z0-9.\[\]:-]{1,255}$`)

// ExternalURL is the address that examples show.
func (site *Site) ExternalURL(r *http.Request) string {
	if site.Opt.ExternalURL != "" {
		return site.Opt.ExternalURL
	}
	host, scheme := r.Host, "http"
	if !plainHost.MatchString(host) {
		host = "127.0.0.1:8080"
	}
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + host + site.Opt.ExternalPath
}

// SLOHref links to the detail page of a report.
func (site *Site) SLOHref(r *sla.SLOReport) string {
	q := GroupQuery(r.SLO.GroupBy, r.Group)
	q.Set("id", string(r.SLO.ID))
	return site.Href("/slo", q)
}

// EventsHref is the address of the events of a group of an SLO since a time, or lately; "" without a log.
func (site *Site) EventsHref(id slo.ID, groupBy []string, g slo.Group, since time.Time) string {
	if site.Opt.Events == nil {
		return ""
	}
	q := GroupQuery(groupBy, g)
	q.Set("id", string(id))
	if !since.IsZero() {
		q.Set("from", strconv.FormatInt(since.Unix(), 10))
	}
	return site.Href(EventsPath, q)
}

// TryHref is the address of the page that tries another form of an SLO; "" if it cannot.
func (site *Site) TryHref(s *slo.SLO) string {
	if site.Opt.Try == nil || s.Indicator.RulesOnly() {
		return ""
	}
	return site.Href(TryPath, url.Values{"id": {string(s.ID)}})
}

func slowly(seconds int) string {
	if seconds%60 == 0 {
		return strconv.Itoa(seconds/60) + " min"
	}
	return strconv.Itoa(seconds) + " s"
}
