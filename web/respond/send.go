package respond

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzip"
)

// JSON writes a value that can always be encoded.
func JSON(c *gin.Context, status int, typ string, v any) {
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(v); err != nil {
		// Only a float that is no number can get here; say so rather than send half a document.
		status = http.StatusInternalServerError
		typ = "application/problem+json"
		buf.Reset()
		buf.WriteString(
			`{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"The response could not be encoded."}` +
				"\n")
	}
	Send(c, status, typ, buf.Bytes())
}

// WantsProblem reports whether an error should be a problem document rather than a page.
func WantsProblem(c *gin.Context) bool {
	p := c.Request.URL.Path
	for _, prefix := range []string{"/api/", "/-/", "/metrics", "/openapi.json"} {
		if strings.Contains(p, prefix) {
			return true
		}
	}
	return c.Request.Method != http.MethodGet && c.Request.Method != http.MethodHead
}

func HasTag(header, tag string) bool {
	for have := range strings.SplitSeq(header, ",") {
		if have = strings.TrimPrefix(strings.TrimSpace(have), "W/"); have == "*" || have == tag {
			return true
		}
	}
	return false
}

// Partial says that something is missing in the response that the next reader may get.
func Partial(c *gin.Context) {
	c.Writer.Header().Del("ETag")
	c.Header("Cache-Control", "no-store")
	if cw, ok := c.Writer.(*capture); ok {
		cw.partial = true
	}
}

const (
	ThemeParam  = "theme"
	ThemeCookie = "theme"
	ThemeAge    = 365 * 24 * 3600 // seconds
)

// Theme is the reader's choice, "light" or "dark"; "" follows the system.
func Theme(c *gin.Context) string {
	v, err := c.Cookie(ThemeCookie)
	if err != nil || v != "light" && v != "dark" {
		return ""
	}
	return v
}

// Hash is a short text that differs if any of the parts does.
func Hash(parts ...string) string {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // a hash takes every write
		_, _ = h.Write([]byte{0xff})
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// NotModified reports true if the request is answered: with 304 if the client already has the
// tagged answer, or with that answer if it was made before.
func NotModified(c *gin.Context, tag string) bool {
	if t := Theme(c); t != "" {
		tag = strings.TrimSuffix(tag, `"`) + "-" + t + `"`
	}
	c.Header("ETag", tag)
	c.Header("Cache-Control", "private, no-cache")
	c.Writer.Header().Add("Vary", "Accept-Encoding")
	if HasTag(c.GetHeader("If-None-Match"), strings.TrimPrefix(tag, "W/")) {
		c.Status(http.StatusNotModified)
		c.Writer.WriteHeaderNow()
		return true
	}
	return Reuse(c, tag)
}

// Reuse reports whether a response with the tag is kept, which then answers the request.
func Reuse(c *gin.Context, tag string) bool {
	cw, ok := c.Writer.(*capture)
	return ok && cw.reuse(tag)
}

var Gzips = sync.Pool{New: func() any { z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed); return z }}

// Send writes a body, compressed if that is worth it and the client can take it.
func Send(c *gin.Context, status int, typ string, body []byte) {
	h := c.Writer.Header()
	h.Set("Content-Type", typ)
	if len(body) >= 1024 && AcceptsGzip(c.GetHeader("Accept-Encoding")) {
		var buf bytes.Buffer
		z := Gzips.Get().(*gzip.Writer)
		z.Reset(&buf)
		_, err := z.Write(body)
		if err = errors.Join(err, z.Close()); err == nil {
			h.Set("Content-Encoding", "gzip")
			body = buf.Bytes()
		}
		Gzips.Put(z)
	}
	Body(c, status, body)
}

// Body writes a body whose type and encoding are set.
func Body(c *gin.Context, status int, body []byte) {
	c.Header("Content-Length", strconv.Itoa(len(body)))
	c.Status(status)
	if c.Request.Method == http.MethodHead {
		c.Writer.WriteHeaderNow()
		return
	}
	_, _ = c.Writer.Write(body) // the client went away: nobody is left to tell
}

func AcceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, param, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q, found := strings.CutPrefix(strings.ReplaceAll(param, " ", ""), "q=")
			v, err := strconv.ParseFloat(q, 64)
			return !found || err == nil && v > 0
		}
	}
	return false
}
