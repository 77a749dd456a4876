package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
)

// layout is what every page shows around its content.
type layout struct {
	Title    string
	Nav      string // which page of the navigation this is
	Base     string // prefix of every link
	State    EngineState
	Health   chart.Mark
	Report   format.Stamp
	Stale    bool
	Banners  []banner
	Refresh  []refreshLink
	Themes   []refreshLink
	Theme    string // what the reader chose, "" follows the system
	Stream   string // address of the event stream; "" if the page does not refresh itself
	Key      string // of the view, as the event stream has it
	Version  string
	Started  format.Stamp
	Warnings []string
}

type banner struct {
	Class string // bad, risk, info
	Title string
	Text  string
	Items []string
	More  int // items left out
}

type refreshLink struct {
	Text string
	Href string
	On   bool
}

func engineMark(s EngineState) chart.Mark {
	switch s {
	case Ready:
		return chart.OK("ready")
	case Stale:
		return chart.Risk("stale")
	case DiskLow:
		return chart.Bad("disk low")
	case Poisoned:
		return chart.Bad("not durable")
	case Failed:
		return chart.Bad("failed")
	case Recovering, Starting, Stopping:
		return chart.Wait(string(s))
	}
	return chart.None("unknown")
}

func (site *Site) layout(c *gin.Context, v view, title, nav string) layout {
	l := site.bareLayout(c, title)
	l.Nav, l.State, l.Health, l.Stale = nav, v.eng.State, engineMark(v.eng.State), v.stale
	l.Version, l.Started, l.Banners = format.Safe(site.opt.Version.Version, format.MaxName), format.NewStamp(v.eng.Started, v.now), banners(v)
	l.Stream, l.Key = site.opt.ExternalPath+"/events/stream", v.key()
	if v.rep != nil {
		l.Report = format.NewStamp(v.rep.Time, v.now)
		for _, s := range v.rep.Warnings {
			l.Warnings = append(l.Warnings, format.Safe(s, format.MaxText))
		}
	}
	on := refreshHeader(c)
	link := func(text string, n int) {
		q := c.Request.URL.Query()
		q.Del("refresh")
		if n > 0 {
			q.Set("refresh", strconv.Itoa(n))
		}
		l.Refresh = append(l.Refresh, refreshLink{text, site.href(c.Request.URL.Path, q), n == on})
	}
	link("off", 0)
	for _, n := range refreshes {
		link(slowly(n), n)
	}
	return l
}

// bareLayout is a layout that says nothing about the engine, for who may not read.
func (site *Site) bareLayout(c *gin.Context, title string) layout {
	l := layout{Title: title, Base: site.opt.ExternalPath, Theme: respond.Theme(c)}
	for _, t := range themes {
		q := c.Request.URL.Query()
		q.Set(respond.ThemeParam, t)
		l.Themes = append(l.Themes, refreshLink{t, site.href(c.Request.URL.Path, q), t == cmp.Or(l.Theme, themes[0])})
	}
	return l
}

// paths are the pages that links may lead to, so that a hostile request path
// never ends up in one.
var paths = map[string]bool{"/": true, "/slas": true, "/sla": true, "/report": true, "/slo": true, "/engine": true, letterListPath: true, letterPath: true}

func (site *Site) href(path string, q url.Values) string {
	path = site.local(path)
	if !paths[path] {
		path = "/"
	}
	if enc := q.Encode(); enc != "" {
		return site.opt.ExternalPath + path + "?" + enc
	}
	return site.opt.ExternalPath + path
}

// local takes the prefix off a path: behind a proxy that keeps it, a request's
// path still has it.
func (site *Site) local(path string) string {
	if rest, ok := strings.CutPrefix(path, site.opt.ExternalPath); ok && strings.HasPrefix(rest, "/") {
		return rest
	}
	return path
}

// shownProblems is how many problems of a spec a page lists.
const shownProblems = 20

// banners says what is wrong with the engine, worst first.
func banners(v view) []banner {
	var out []banner
	reason := format.Safe(v.eng.Reason, format.MaxText)
	switch v.eng.State {
	case Recovering:
		b := banner{Class: "info", Title: "Recovering: " + format.Percent(v.eng.Progress, 0) + " of the log replayed", Text: stateText(Recovering)}
		if v.rep != nil {
			b.Text += " What is shown below is the last report before it."
		}
		out = append(out, b)
	case Starting, Stopping:
		out = append(out, banner{Class: "info", Title: stateText(v.eng.State), Text: reason})
	case DiskLow, Poisoned, Failed:
		out = append(out, banner{Class: "bad", Title: stateText(v.eng.State), Text: reason})
	}
	if v.stale && v.eng.State.Recovered() {
		out = append(out, banner{Class: "risk", Title: "These numbers are stale", Text: "They are of " + format.NewStamp(v.rep.Time, v.now).Text + ", " + format.Duration(v.now.Sub(v.rep.Time)) + " ago."})
	}
	if v.rep == nil && v.eng.State.Recovered() {
		out = append(out, banner{Class: "info", Title: "The first report is on its way", Text: "The engine counts already; budgets appear with its next tick, a few seconds from now."})
	}
	if s := v.eng.Spec; !s.Failed.IsZero() {
		b := banner{Class: "bad", Title: "The last reload of the spec failed; the spec before it is still in force", Text: "Tried at " + format.NewStamp(s.Failed, v.now).Text + "."}
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

func problemText(p spec.Problem) string {
	s := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	if p.Suggestion != "" {
		s += " (" + p.Suggestion + ")"
	}
	return format.Safe(s, format.MaxText)
}

type messagePage struct {
	layout
	Text string
}

// message sends a page that says one thing. Unknown addresses get one without a token, so
// it says more only to who may read.
func (site *Site) message(c *gin.Context, status int, title, text string) {
	c.Header("Cache-Control", "no-store")
	p := messagePage{layout: site.bareLayout(c, title), Text: text}
	if site.opt.May(c, Read) {
		p.layout = site.layout(c, site.view(), title, "")
		p.Refresh, p.Stream = nil, ""
	}
	site.page(c, status, "message", p)
}

var plainHost = regexp.MustCompile(`^[A-Za-z0-9.\[\]:-]{1,255}$`)

// externalURL is the address that examples show.
func (site *Site) externalURL(r *http.Request) string {
	if site.opt.ExternalURL != "" {
		return site.opt.ExternalURL
	}
	host, scheme := r.Host, "http"
	if !plainHost.MatchString(host) {
		host = "127.0.0.1:8080"
	}
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + host + site.opt.ExternalPath
}

// sloHref links to the detail page of a report.
func (site *Site) sloHref(r *sla.SLOReport) string {
	q := groupQuery(r.SLO.GroupBy, r.Group)
	q.Set("id", string(r.SLO.ID))
	return site.href("/slo", q)
}

func slowly(seconds int) string {
	if seconds%60 == 0 {
		return strconv.Itoa(seconds/60) + " min"
	}
	return strconv.Itoa(seconds) + " s"
}
