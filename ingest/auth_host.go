package ingest

import (
	"net"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

// CheckHost is a middleware that refuses a request for a host name that is not the engine's,
// unless tokens are active. Who reaches an engine on loopback is on the same machine, or is a page
// in a browser whose own name was made to resolve to it (DNS rebinding). For the browser such a
// page has the engine's origin, and may read and write everything.
func (a *Auth) CheckHost(c *gin.Context) {
	if a.host == nil || a.Enabled() || a.host(hostName(c.Request.Host)) {
		return
	}
	a.metrics.authFailures[authHost].Inc()
	r := &refusal{status: http.StatusForbidden, code: problemForeignHost, closeConn: true,
		detail: "the Host header names an unknown host (use localhost, or add the name to web.allowed_hosts in engine.yaml)"}
	id := requestID(c.Request.Header)
	c.Writer.Header().Set(headerRequestID, id)
	a.log.warn("request denied", "request_id", id, "status", r.status, "reason", "unknown host name",
		"host", c.Request.Host, "remote", c.Request.RemoteAddr, "path", c.Request.URL.Path)
	r.abort(c, id)
}

// hostName is the name in a Host header: lower case, without port, brackets and final dot.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// LoopbackHost reports whether a name, as CheckHost hands it out, can only mean the machine
// itself. The empty one is that of HTTP/1.0, which no browser speaks.
func LoopbackHost(name string) bool {
	ip := net.ParseIP(name)
	return name == "" || name == "localhost" || ip != nil && ip.IsLoopback()
}
