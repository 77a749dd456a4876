package app

import (
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest"
	"github.com/sloengine/sloengine/web"
	"github.com/sloengine/sloengine/web/respond"
)

// answered turns the silence of a handler into an error. The router would send 200, and who
// posted something would take that for success.
func answered(log *slog.Logger) gin.HandlerFunc {
	return func(c *gin.Context) {
		c.Next()
		if c.Writer.Written() || c.Writer.Status() != http.StatusOK {
			return
		}
		log.Error("handler sent no response", "method", c.Request.Method, "path", c.FullPath())
		respond.Problem(c, http.StatusInternalServerError,
			"The handler sent no response. The request may or may not have taken effect.", nil)
	}
}

// hostCheck says which host names requests may be for as long as no credentials are asked
// for; nil is all. Beyond loopback a name proves nothing.
func hostCheck(c *config.Config, listen string) func(name string) bool {
	// It was read before. With a certificate or a password, a page under another name cannot get through.
	if w, _ := config.ReadWebConfig(c.Web.ConfigFile); !loopback(listen) || w.TLS != nil || len(w.Users) > 0 {
		return nil
	}
	allowed := make([]string, 0, len(c.Web.AllowedHosts)+1)
	for _, name := range c.Web.AllowedHosts {
		allowed = append(allowed, strings.ToLower(name))
	}
	if u, err := url.Parse(c.Web.ExternalURL); err == nil && u.Host != "" {
		allowed = append(allowed, strings.ToLower(u.Hostname()))
	}
	return func(name string) bool { return ingest.LoopbackHost(name) || slices.Contains(allowed, name) }
}

// loopback reports whether only this machine reaches the address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && host != "" && ingest.LoopbackHost(host)
}

// maxLimited bounds the sites of limited readers that are held. Tokens of the same services share one.
const maxLimited = 64

// limitedReaders hands requests of tokens that may read some services only to a site that holds nothing else.
// Everything that is read is read by GET, and all other routes refuse such a token by themselves.
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
		h, err := all.Limited(services, auth.RequireLimited(services), func(r *http.Request) bool {
			return auth.AllowsLimited(r, services)
		})
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
			respond.Problem(c, http.StatusInternalServerError,
				"The pages of these services could not be prepared. The engine's log has the cause.", nil)
			return
		}
		h.ServeHTTP(c.Writer, c.Request)
		c.Writer.WriteHeaderNow() // a response without a body is one, too
	}
}
