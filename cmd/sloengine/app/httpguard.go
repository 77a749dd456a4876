package app

import (
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest"
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
		respond.Problem(c, http.StatusInternalServerError, "The handler sent no response. The request may or may not have taken effect.", nil)
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
