package web

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
)

// Site is what pages, API and public view share: the options, the view of the present report, links, layout, templates
// and static files.
type Site struct {
	opt     Options
	pages   map[string]*template.Template
	assets  map[string]asset // by plain name
	named   map[string]asset // by the name that holds the hash
	reports report.Maker
}

// NewSite checks the options, parses the templates and prepares the static files.
func NewSite(opt Options) (*Site, error) {
	if err := opt.applyDefaults(); err != nil {
		return nil, err
	}
	site := &Site{opt: opt, named: map[string]asset{}}
	var err error
	if site.assets, err = loadAssets(); err != nil {
		return nil, fmt.Errorf("load assets: %w", err)
	}
	for _, a := range site.assets {
		site.named[a.name] = a
	}
	if site.pages, err = parsePages(site.assets); err != nil {
		return nil, fmt.Errorf("parse pages: %w", err)
	}
	return site, nil
}

// view is what one answer is made from: one report, one status, one time.
type view struct {
	rep   *sla.Report
	eng   EngineStatus
	now   time.Time
	stale bool // the report does not show the present
}

func (site *Site) view() view {
	v := view{rep: site.opt.Report(), eng: site.opt.Engine(), now: site.opt.Now()}
	if v.rep != nil {
		v.stale = !v.eng.State.Recovered() || v.eng.State == Stale || v.now.Sub(v.rep.Time) > site.opt.StaleAfter
	}
	if v.stale && v.eng.State == Ready {
		v.eng.State = Stale
		v.eng.Reason = "the last report is " + format.Duration(v.now.Sub(v.rep.Time)) + " old"
	}
	return v
}

// tag is the entity tag of an answer that depends on the view and the request
// only. Reports of different processes differ by their time.
func (v view) tag(parts ...string) string {
	h := fnv.New64a()
	if v.rep != nil {
		fmt.Fprintf(h, "%d/%d/", v.rep.Version, v.rep.Time.UnixNano())
	}
	if v.stale {
		fmt.Fprintf(h, "%d/", v.now.Unix()/60) // the page says how old the report is
	}
	fmt.Fprintf(h, "%x/%t/%q", v.eng.digest(), v.stale, parts)
	return `W/"` + strconv.FormatUint(h.Sum64(), 36) + `"`
}

// reportTag is the tag of an answer that says nothing of the engine but its state: it does
// not change with every event.
func (v view) reportTag(parts ...string) string {
	return `W/"` + respond.Hash(append(parts, v.key())...) + `"`
}

// page renders a page from its data and sends it.
func (site *Site) page(c *gin.Context, status int, name string, data any) {
	var buf bytes.Buffer
	if err := site.pages[name].ExecuteTemplate(&buf, "layout", data); err != nil {
		site.noPage(c, name, err)
		return
	}
	respond.Send(c, status, "text/html; charset=utf-8", buf.Bytes())
}

func (site *Site) noPage(c *gin.Context, name string, err error) {
	site.opt.LogError("render page "+name, err)
	c.Writer.Header().Del("ETag")
	c.Header("Cache-Control", "no-store")
	c.Data(http.StatusInternalServerError, "text/plain; charset=utf-8", []byte("The page could not be made. The engine itself goes on; its log says more.\n"))
}

// Refresh intervals in seconds that a reader may ask for with ?refresh=.
var refreshes = []int{10, 60}

// refreshHeader makes the browser load the page again after the seconds that the
// query asks for, and returns them; 0 if it asks for none. A plain reload of the
// same address keeps the scroll position and needs no script, and the reader
// turns it on and off with a link.
func refreshHeader(c *gin.Context) int {
	n, err := strconv.Atoi(c.Query("refresh"))
	if err != nil || n < 5 || n > 3600 {
		return 0
	}
	c.Header("Refresh", strconv.Itoa(n))
	return n
}

// key changes whenever a page that shows the view would say something new
// of the engine's state or of the report. Figures of ingest move with every
// event and do not count.
func (v view) key() string {
	h := fnv.New64a()
	if v.rep != nil {
		fmt.Fprintf(h, "%d/%d/", v.rep.Version, v.rep.Time.UnixNano())
	}
	if v.stale {
		fmt.Fprintf(h, "%d/", v.now.Unix()/60) // the page says how old the report is
	}
	fmt.Fprintf(h, "%s/%s/%d/%t/%d", v.eng.State, v.eng.Reason, int(v.eng.Progress*100), v.stale, v.eng.Spec.Failed.UnixNano())
	return strconv.FormatUint(h.Sum64(), 36)
}

// fragment renders one of the shared parts by itself.
func (site *Site) fragment(name string, data any) (template.HTML, error) {
	var b strings.Builder
	if err := site.pages["message"].ExecuteTemplate(&b, name, data); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil // a template has escaped it
}
