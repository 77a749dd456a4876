package public

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzip"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/reliability/subscription"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// Handler serves what anybody may see: the public view and the badges. It never asks for a permission, so a proxy that
// asks for one in front of the engine must let its addresses through.
type Handler struct {
	*site.Site
	published publicCache
}

// New makes the public view of a site.
func New(s *site.Site) *Handler { return &Handler{Site: s} }

// Register mounts the public view, its subscriptions and the badges.
func (pub *Handler) Register(r gin.IRouter, get func(path string, h ...gin.HandlerFunc)) {
	r.POST(SubscriptionsPath, site.Secure, pub.subscribe)
	r.POST(SubscriptionsPath+"/delete", site.Secure, pub.unsubscribe)
	get(pagePath, pub.publicPage)
	get(jsonPath, pub.document("application/json", func(b *publicBodies) *publicBody { return &b.json }))
	get(summaryPath, pub.document("application/json", func(b *publicBodies) *publicBody { return &b.summary }))
	get(componentsPath, pub.document("application/json", func(b *publicBodies) *publicBody { return &b.components }))
	get(incidentsPath, pub.document("application/json", func(b *publicBodies) *publicBody { return &b.incidents }))
	get(maintenancesPath, pub.document("application/json", func(b *publicBodies) *publicBody { return &b.maintenances }))
	get(feedPath, pub.document(feedType, func(b *publicBodies) *publicBody { return &b.feed }))
	get("/badge/:service/:slo", pub.badge)
	get(logoPath, pub.file(pub.Opt.Look.LogoType, pub.Opt.Look.Logo))
	get(stylePath, pub.file("text/css; charset=utf-8", style(pub.Opt.Look)))
}

// PublicAge is for how long a proxy may keep what is public, in the words of HTTP.
const PublicAge = "public, max-age=30"

// publicCache keeps the public view as it is sent. Whoever asks, and however often, it
// is made once for each report and change of an incident, and the days once a minute.
type publicCache struct {
	mu   sync.Mutex
	key  string
	book *incident.View // that the bodies are of; every change of an incident makes a new one
	publicBodies
	rendered map[string]template.HTML // of the updates that the bodies show, by their Markdown

	daysAt time.Time // of the report that they are of
	daysOf string    // which SLOs and groups they are of
	days   [][]Day

	sentBook *incident.View // that subscribers have
	sentAt   time.Time

	badgeKey string // of the view that the badges are of
	badges   map[slo.ID]badgeText
}

// badgeOf keeps the badges of whole SLOs, which may have many groups to add up.
func (p *publicCache) badgeOf(key string, id slo.ID, make func() badgeText) badgeText {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.badgeKey != key || p.badges == nil {
		p.badgeKey, p.badges = key, map[slo.ID]badgeText{}
	}
	b, ok := p.badges[id]
	if !ok {
		b = make()
		p.badges[id] = b
	}
	return b
}

// publicBodies is the view in every form.
type publicBodies struct {
	page, json, feed, summary, components, incidents, maintenances publicBody

	changes []subscription.Item // without subscriptions: none
}

// publicBody is an answer as it is sent.
type publicBody struct {
	tag           string
	plain, zipped []byte
}

func newPublicBody(body []byte) publicBody {
	b := publicBody{tag: `"` + respond.Hash(string(body)) + `"`, plain: body}
	var buf bytes.Buffer
	z := respond.Gzips.Get().(*gzip.Writer)
	defer respond.Gzips.Put(z)
	z.Reset(&buf)
	_, err := z.Write(body)
	if errors.Join(err, z.Close()) == nil { // memory takes every write
		b.zipped = buf.Bytes()
	}
	return b
}

func (b *publicBody) send(c *gin.Context, typ string) {
	h := c.Writer.Header()
	h.Set("Cache-Control", PublicAge)
	h.Set("ETag", b.tag)
	h.Set("Vary", "Accept-Encoding")
	if respond.HasTag(c.GetHeader("If-None-Match"), b.tag) {
		c.Status(http.StatusNotModified)
		c.Writer.WriteHeaderNow()
		return
	}
	if respond.Reuse(c, b.tag) {
		return
	}
	h.Set("Content-Type", typ)
	body := b.plain
	if b.zipped != nil && respond.AcceptsGzip(c.GetHeader("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body = b.zipped
	}
	respond.Body(c, http.StatusOK, body)
}

// public returns the bodies of the present view, made again if need be.
func (pub *Handler) public(ctx context.Context, v site.View) (publicBodies, error) {
	p := &pub.published
	p.mu.Lock()
	defer p.mu.Unlock()
	key, book := v.Key(), pub.book(v)
	if p.key == key && p.book == book {
		return p.publicBodies, nil
	}
	status, lists := pub.newPublicStatus(v, book)
	var ids strings.Builder
	for _, rows := range lists {
		fmt.Fprintf(&ids, "%q/%q/%d/%d/%s;", rows[0].SLO.ID, rows[0].Group, len(rows), rows[0].Generation,
			rows[0].SLO.Objective.Percent())
	}
	complete := true
	if of := ids.String(); p.days == nil || p.daysOf != of || v.Rep.Time.Before(p.daysAt) ||
		v.Rep.Time.Sub(p.daysAt) >= publicDaysAge {
		days, err := pub.publicDays(ctx, v.Rep, lists)
		if err != nil {
			complete = false
			if ctx.Err() == nil { // else the caller went away
				pub.Opt.LogError("read the days of the public view", err)
			}
		}
		p.days, p.daysOf, p.daysAt = days, of, v.Rep.Time
	}
	status.addDays(p.days)
	p.render(status.Incidents)
	bodies, err := pub.newBodies(status, v)
	switch {
	case err != nil:
		return bodies, err
	case complete:
		p.key, p.book, p.publicBodies = key, book, bodies
	default:
		p.days = nil
	}
	return bodies, nil
}

// newBodies makes every form of the view.
func (pub *Handler) newBodies(status *Status, v site.View) (b publicBodies, err error) {
	all := pub.newSummary(status)
	for _, d := range []struct {
		path string
		to   *publicBody
		of   any
	}{
		{jsonPath, &b.json, status},
		{summaryPath, &b.summary, all.current()},
		{componentsPath, &b.components, ComponentList{all.Page, all.Components}},
		{incidentsPath, &b.incidents, IncidentList{all.Page, latest(all.Incidents)}},
		{maintenancesPath, &b.maintenances, MaintenanceList{all.Page, all.Maintenance}},
	} {
		body, err := json.Marshal(d.of)
		if err != nil {
			return b, fmt.Errorf("encode %s: %w", d.path, err)
		}
		*d.to = newPublicBody(append(body, '\n'))
	}
	if pub.Opt.Subscriptions != nil {
		if b.changes, err = newChanges(&all); err != nil {
			return b, err
		}
	}
	feed, err := pub.newFeed(status)
	if err != nil {
		return b, err
	}
	html, err := pub.Render("public", pub.newPublicView(status, v))
	if err != nil {
		return b, fmt.Errorf("render the public view: %w", err)
	}
	b.feed, b.page = newPublicBody(feed), newPublicBody(html)
	return b, nil
}

// publicNotYet says when to ask again before the first report.
func (pub *Handler) publicNotYet(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	c.Header("Retry-After", "5")
}

func (pub *Handler) publicPage(c *gin.Context) {
	v := pub.View()
	if v.Rep == nil {
		pub.publicNotYet(c)
		pub.Page(c, http.StatusServiceUnavailable, "public",
			publicView{Base: pub.Opt.ExternalPath, Feed: feedPath, Brand: newBrand(pub.Opt.Look),
				Head: "The status is not available yet",
				Text: "The page is being prepared. Reload it in a moment.", Mark: chart.Wait("")})
		return
	}
	b, err := pub.public(c.Request.Context(), v)
	if err != nil {
		pub.NoPage(c, "public", err)
		return
	}
	b.page.send(c, "text/html; charset=utf-8")
}

// document serves one of the forms that programs read.
func (pub *Handler) document(typ string, form func(b *publicBodies) *publicBody) gin.HandlerFunc {
	return func(c *gin.Context) {
		openToAll(c)
		v := pub.View()
		if v.Rep == nil {
			pub.publicNotYet(c)
			respond.Problem(c, http.StatusServiceUnavailable, "The status is being prepared. Try again in a moment.", nil)
			return
		}
		b, err := pub.public(c.Request.Context(), v)
		if err != nil {
			pub.Opt.LogError("make "+c.FullPath(), err)
			respond.Problem(c, http.StatusInternalServerError,
				"The document could not be made. See the log of the engine for the cause.", nil)
			return
		}
		form(&b).send(c, typ)
	}
}

// brand is the look of the page as its template reads it.
type brand struct {
	Name, Logo, Style string // addresses; "" without
}

func newBrand(l site.Look) (b brand) {
	b.Name = format.Safe(l.Name, format.MaxTitle)
	if len(l.Logo) > 0 {
		b.Logo = logoPath + "?" + respond.Hash(string(l.Logo))
	}
	if css := style(l); len(css) > 0 {
		b.Style = stylePath + "?" + respond.Hash(string(css))
	}
	return b
}

// style is a style sheet with the colours, since the policy of the pages lets no element have a style of its own.
func style(l site.Look) []byte {
	if l.Color == "" {
		return nil
	}
	return []byte(".public { --link: light-dark(" + l.Color + ", " + l.Dark + "); border-top: 4px solid var(--link); }\n")
}

// file serves a file of the look, which is the same for as long as the engine runs.
func (pub *Handler) file(typ string, body []byte) gin.HandlerFunc {
	if len(body) == 0 {
		return pub.NotFound
	}
	b := newPublicBody(body)
	return func(c *gin.Context) {
		openToAll(c)
		b.send(c, typ)
	}
}

// openToAll lets pages of other sites show an answer that anybody may have.
func openToAll(c *gin.Context) {
	c.Header("Access-Control-Allow-Origin", "*")
	c.Header("Cross-Origin-Resource-Policy", "cross-origin")
}
