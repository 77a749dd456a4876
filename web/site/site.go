package site

import (
	"bytes"
	"fmt"
	"hash"
	"hash/fnv"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/status"
)

// Site is what pages, API and public view share: the options, the view of the present report, links, layout, templates
// and static files.
type Site struct {
	Opt     Options
	pages   map[string]*template.Template
	Assets  map[string]asset // by plain name
	named   map[string]asset // by the name that holds the hash
	Reports report.Maker
}

// New checks the options and takes the templates and static files, which the first call prepares.
func New(opt Options) (*Site, error) {
	if err := opt.applyDefaults(); err != nil {
		return nil, err
	}
	site := &Site{Opt: opt, named: map[string]asset{}}
	var err error
	if site.Assets, err = loadAssets(); err != nil {
		return nil, fmt.Errorf("load assets: %w", err)
	}
	for _, a := range site.Assets {
		site.named[a.Name] = a
	}
	if site.pages, err = parsePages(); err != nil {
		return nil, fmt.Errorf("parse pages: %w", err)
	}
	return site, nil
}

// View is what one answer is made from: one report, one status, one time.
type View struct {
	Rep   *sla.Report
	Eng   status.Engine
	Now   time.Time
	Stale bool // the report does not show the present
	scope string
}

// View is the view of pages that show no more of the engine than Options.Brief.
func (site *Site) View() View { return site.view(site.Opt.Brief()) }

// EngineView is a view with the whole status of the engine.
func (site *Site) EngineView() View { return site.view(site.Opt.Engine()) }

func (site *Site) view(eng status.Engine) View {
	v := View{Rep: site.Opt.Report(), Eng: eng, Now: site.Opt.Now(), scope: site.Opt.Scope}
	if v.Rep != nil {
		v.Stale = !v.Eng.State.Recovered() || v.Eng.State == status.Stale || v.Now.Sub(v.Rep.Time) > site.Opt.StaleAfter
	}
	if v.Stale && v.Eng.State == status.Ready {
		v.Eng.State = status.Stale
		v.Eng.Reason = "the last report is " + format.Duration(v.Now.Sub(v.Rep.Time)) + " old"
	}
	return v
}

// hash begins a hash with the report of the view and, if it is stale, its age.
func (v View) hash() hash.Hash64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(v.scope)) // a hash takes every write
	if v.Rep != nil {
		fmt.Fprintf(h, "%d/%d/", v.Rep.Version, v.Rep.Time.UnixNano())
	}
	if v.Stale {
		fmt.Fprintf(h, "%d/", v.Now.Unix()/60) // the page says how old the report is
	}
	return h
}

// Tag is the entity tag of an answer that depends on the view and the request
// only. Reports of different processes differ by their time.
func (v View) Tag(parts ...string) string {
	h := v.hash()
	fmt.Fprintf(h, "%x/%t/%q", v.Eng.Digest(), v.Stale, parts)
	return `W/"` + strconv.FormatUint(h.Sum64(), 36) + `"`
}

// ReportTag is the tag of an answer that says nothing of the engine but its state: it does
// not change with every event.
func (v View) ReportTag(parts ...string) string {
	return `W/"` + respond.Hash(append(parts, v.Key())...) + `"`
}

// pageBuffers are what pages are written to. A page leaves a copy of its own size.
var pageBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooledPage is the capacity above which the buffer of a page is not used again.
const maxPooledPage = 2 << 20

// Render makes a page from its data.
func (site *Site) Render(name string, data any) ([]byte, error) {
	buf := pageBuffers.Get().(*bytes.Buffer)
	buf.Reset()
	err := site.pages[name].ExecuteTemplate(buf, "layout", data)
	body := bytes.Clone(buf.Bytes())
	if buf.Cap() <= maxPooledPage {
		pageBuffers.Put(buf)
	}
	return body, err
}

// Page renders a page from its data and sends it.
func (site *Site) Page(c *gin.Context, status int, name string, data any) {
	body, err := site.Render(name, data)
	if err != nil {
		site.NoPage(c, name, err)
		return
	}
	respond.Send(c, status, "text/html; charset=utf-8", body)
}

func (site *Site) NoPage(c *gin.Context, name string, err error) {
	site.Opt.LogError("render page "+name, err)
	c.Writer.Header().Del("ETag")
	c.Header("Cache-Control", "no-store")
	c.Data(http.StatusInternalServerError, "text/plain; charset=utf-8",
		[]byte("The page could not be rendered. The engine keeps running. See its log for the cause.\n"))
}

// Refresh intervals in seconds that a reader may ask for with ?refresh=.
var refreshes = []int{10, 60}

// RefreshHeader makes the browser load the page again after the seconds that the
// query asks for, and returns them; 0 if it asks for none. A plain reload of the
// same address keeps the scroll position and needs no script, and the reader
// turns it on and off with a link.
func RefreshHeader(c *gin.Context) int {
	n, err := strconv.Atoi(c.Query("refresh"))
	if err != nil || n < 5 || n > 3600 {
		return 0
	}
	c.Header("Refresh", strconv.Itoa(n))
	return n
}

// Key changes whenever a page that shows the view would say something new
// of the engine's state or of the report. Figures of ingest move with every
// event and do not count.
func (v View) Key() string {
	h := v.hash()
	fmt.Fprintf(h, "%s/%s/%s/%d/%t/%d", v.Eng.Spec.Hash, v.Eng.State, v.Eng.Reason, int(v.Eng.Progress*100), v.Stale,
		v.Eng.Spec.Failed.UnixNano())
	for i := range v.Eng.Fleet {
		f := &v.Eng.Fleet[i]
		fmt.Fprintf(h, "/%s/%s/%s", f.Name, f.State, f.Reason)
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// Fragment renders one of the shared parts by itself.
func (site *Site) Fragment(name string, data any) (template.HTML, error) {
	var b strings.Builder
	if err := site.pages["message"].ExecuteTemplate(&b, name, data); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil // a template has escaped it
}

// reportRowBytes is about what one SLO, group or agreement of a report takes while the report is made and written.
const reportRowBytes = 14 << 10

// BuildsReport charges the memory of a report for a period. If it reports false, there is no room, and the request is
// refused.
func (site *Site) BuildsReport(c *gin.Context, v View) bool {
	return respond.Building(c, int64(len(v.Rep.SLOs)+len(v.Rep.SLAs))*reportRowBytes)
}
