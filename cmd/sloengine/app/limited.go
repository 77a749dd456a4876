package app

import (
	"net/http"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/web"
	"github.com/sloengine/sloengine/web/respond"
)

// maxLimited bounds the sites of limited readers that are held. Tokens of the same services share one.
const maxLimited = 64

// limitedReaders hands requests of tokens that may read some services only to a site that holds nothing else. Everything
// that is read is read by GET, and all other routes refuse such a token by themselves.
func limitedReaders(auth *ingest.Auth, all *web.Web) gin.HandlerFunc {
	var mu sync.Mutex
	sites := map[string]http.Handler{}
	of := func(services []string) (http.Handler, error) {
		mu.Lock()
		defer mu.Unlock()
		key := strings.Join(services, "\n")
		if h := sites[key]; h != nil {
			return h, nil
		}
		h, err := all.Limited(services, auth.RequireLimited(services), func(r *http.Request) bool { return auth.AllowsLimited(r, services) })
		if err != nil {
			return nil, err
		}
		if len(sites) >= maxLimited {
			clear(sites) // those of tokens that are gone
		}
		sites[key] = h
		return h, nil
	}
	return func(c *gin.Context) {
		if c.Request.Method != http.MethodGet && c.Request.Method != http.MethodHead {
			return
		}
		token := auth.Token(c.Request)
		if token == nil || !token.Limited() {
			return
		}
		c.Abort()
		h, err := of(token.Services())
		if err != nil {
			all.Opt.LogError("prepare the pages of some services", err)
			respond.Problem(c, http.StatusInternalServerError, "The pages of these services could not be prepared. The engine's log has the cause.", nil)
			return
		}
		h.ServeHTTP(c.Writer, c.Request)
		c.Writer.WriteHeaderNow() // a response without a body is one, too
	}
}
