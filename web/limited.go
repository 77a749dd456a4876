package web

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// ofEngine are the addresses that show the engine as a whole. A reader of some services gets 403.
var ofEngine = map[string]bool{"/engine": true, "/api/v1/engine": true, "/api/v1/rejects": true,
	"/api/v1/seen": true, "/api/v1/annotations": true}

// Limited serves readers who may see some services only, at the same addresses. Everything is made from sources that
// hold nothing of other services, so what an address does not show to them is 404, and what is about the engine as a
// whole is 403. It shares the bounds of memory and streams. read lets readers of these services pass, and may reports
// whether it would.
func (w *Web) Limited(services []string, read gin.HandlerFunc, may func(*http.Request) bool) (http.Handler, error) {
	opt := newScope(services).restrict(w.Opt)
	opt.May = func(c *gin.Context, p site.Permission) bool { return p == site.Read && may(c.Request) }
	limited := &Web{responses: w.responses, streams: w.streams, streamStats: w.streamStats}
	opt.Allow = func(p site.Permission) gin.HandlerFunc {
		if p == site.Read {
			return read
		}
		return limited.limited
	}
	var err error
	if limited.Site, err = site.New(opt); err != nil {
		return nil, err
	}
	if err := limited.assemble(); err != nil {
		return nil, err
	}
	r := gin.New()
	r.RedirectTrailingSlash, r.ContextWithFallback = false, true
	limited.Register(r)
	r.NoRoute(site.Secure, limited.limited) // an address of the engine, or none
	return r, nil
}

// limited refuses what is about all services.
func (w *Web) limited(c *gin.Context) {
	const text = "This address shows or changes all services, and your token is limited to some."
	c.Abort()
	if respond.WantsProblem(c) {
		respond.Problem(c, http.StatusForbidden, text, nil)
		return
	}
	w.Message(c, http.StatusForbidden, "Not for this token", text)
}
