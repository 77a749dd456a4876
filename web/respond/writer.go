package respond

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

const (
	// writeChunk bytes must find room at the reader's within writeWait: a slow reader is
	// served to the end, one who takes nothing is cut off.
	writeChunk = 16 << 10
	writeWait  = 60 * time.Second
)

var errNoRoom = errors.New("too many bytes of responses are in flight")

// capture takes what a handler writes into memory that counts. The handler is done, and
// what it holds is free, before the reader gets the first byte.
type capture struct {
	gin.ResponseWriter
	r       *Cache
	key     string
	status  int
	wrote   bool
	decided bool // the handler gave a status
	body    []byte
	charged int64
	built   int64     // charged for what the handler builds besides the body
	tag     string    // of the response, if the state of the engine is in it
	found   *response // of another request, that is as good
	partial bool
	err     error
}

func (c *capture) WriteHeader(status int) {
	if !c.wrote && status > 0 {
		c.status, c.decided = status, true
	}
}

func (c *capture) WriteHeaderNow() { c.wrote = true }

func (c *capture) Write(p []byte) (int, error) {
	c.wrote = true
	if c.err != nil {
		return 0, c.err
	}
	if !c.r.reserve(int64(len(p)), c.charged+c.built) {
		c.err = errNoRoom
		return 0, c.err
	}
	c.charged += int64(len(p))
	if c.body == nil {
		c.body = slices.Clone(p)
	} else {
		c.body = append(c.body, p...)
	}
	return len(p), nil
}

func (c *capture) WriteString(s string) (int, error) { return c.Write([]byte(s)) }
func (c *capture) Status() int                       { return c.status }
func (c *capture) Size() int                         { return len(c.body) }
func (c *capture) Written() bool                     { return c.wrote }
func (c *capture) Flush()                            {}

// response is what was captured, with one reader. Its bytes are charged already.
func (c *capture) response() *response {
	c.charged = 0
	return &response{status: c.status, header: c.Header().Clone(), body: c.body, made: c.r.now(), refs: 1}
}

// tagKey is the key of a response with an entity tag: everybody who asks the same may have
// it, as long as the state of the engine has that tag.
func (c *capture) tagKey(tag string) string { return c.key + "\x00" + tag }

// reuse reports whether a response with the tag is kept, which then answers the request.
func (c *capture) reuse(tag string) bool {
	c.tag = tag
	c.found = c.r.find(c.tagKey(tag))
	return c.found != nil
}

// Bounded runs the handler into memory, shares the response with all who ask the same, and
// sends it. Only so many are made at a time, but for those that unlimited says. Readers of
// different scopes, which see different things at the same address, share nothing.
func (r *Cache) Bounded(unlimited bool, scope string) gin.HandlerFunc {
	return func(c *gin.Context) {
		key := scope + "\x00" + requestKey(c.Request)
		out := r.findRecent(key)
		if out == nil {
			if !unlimited {
				if !r.enter(c.Request) {
					r.refuse(c)
					return
				}
			}
			out = r.run(c, key, unlimited)
		} else {
			r.metrics.shared.Inc()
		}
		c.Abort() // the handler ran, or need not
		if out == nil {
			r.refuse(c)
			return
		}
		defer r.release(out)
		r.send(c, out)
	}
}

// enter waits for a place among those whose response is made.
func (r *Cache) enter(req *http.Request) bool {
	select {
	case r.renders <- struct{}{}:
		return true
	default:
	}
	t := time.NewTimer(renderWait)
	defer t.Stop()
	select {
	case r.renders <- struct{}{}:
		return true
	case <-t.C:
	case <-req.Context().Done():
	}
	return false
}

// Building charges the bytes that a handler is about to need besides its response, until it is done. Where there is no
// room it waits, and then reports false: the handler returns, and the request is refused. What has nothing beside it
// may be larger than the budget, so that large responses are made one after the other.
func Building(c *gin.Context, n int64) bool {
	cw, ok := c.Writer.(*capture)
	if !ok {
		return true
	}
	wait := time.NewTimer(renderWait)
	defer wait.Stop()
	again := time.NewTicker(roomCheck)
	defer again.Stop()
	for !cw.r.reserve(n, cw.charged+cw.built) {
		select {
		case <-again.C:
			continue
		case <-wait.C:
		case <-c.Request.Context().Done():
		}
		cw.err = errNoRoom
		return false
	}
	cw.built += n
	return true
}

// roomCheck is how often a handler that waits for room looks for it.
const roomCheck = 20 * time.Millisecond

// makeTime bounds the making of a response.
const makeTime = 30 * time.Second

// run lets the handler write its response. It returns nil if there is no room for it. The
// reader may close its half of the connection after the request and still wait for the answer:
// net/http ends the context then, as if the reader had gone.
func (r *Cache) run(c *gin.Context, key string, unlimited bool) *response {
	writer := c.Writer
	cw := &capture{ResponseWriter: writer, r: r, key: key, status: http.StatusOK}
	req := c.Request
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), makeTime)
	defer cancel()
	c.Writer, c.Request = cw, req.WithContext(ctx)
	defer func() { // also after a panic
		c.Writer, c.Request = writer, req
		if !unlimited {
			<-r.renders
		}
		r.give(cw.charged + cw.built)
	}()
	c.Next()
	switch {
	case cw.found != nil:
		r.metrics.shared.Inc()
		return cw.found
	case cw.err != nil:
		return nil
	case !cw.wrote && !cw.decided:
		cw.status = http.StatusInternalServerError // a handler that said nothing must not look well
	}
	r.metrics.made.Inc()
	out := cw.response()
	if out.status == http.StatusOK && c.Request.Method == http.MethodGet && !cw.partial &&
		c.Request.Context().Err() == nil {
		keys := []string{key}
		if cw.tag != "" && out.header.Get("ETag") == cw.tag &&
			!strings.Contains(out.header.Get("Cache-Control"), "no-store") {
			keys = append(keys, cw.tagKey(cw.tag))
		}
		r.keep(out, keys...)
	}
	return out
}

// refuse answers that there is no room now.
func (r *Cache) refuse(c *gin.Context) {
	r.metrics.refused.Inc()
	h := c.Writer.Header()
	for _, name := range []string{"ETag", "Content-Type", "Content-Encoding", "Content-Length",
		"Content-Disposition", "Refresh"} {
		h.Del(name)
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Retry-After", "5")
	c.Abort()
	if WantsProblem(c) {
		h.Set("Content-Type", "application/problem+json")
		c.Writer.WriteHeader(http.StatusServiceUnavailable)
		_, _ = c.Writer.WriteString(
			`{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"Too many responses are in flight. Try ` +
				`again later."}` + "\n")
		return
	}
	c.Data(http.StatusServiceUnavailable, "text/plain; charset=utf-8",
		[]byte("Too many responses are in flight. Reload the page later.\n"))
}

// send writes a response piece by piece, each within its time.
func (r *Cache) send(c *gin.Context, p *response) {
	h := c.Writer.Header()
	maps.Copy(h, p.header) // values are never changed in place
	if len(p.body) > 0 && h.Get("Content-Length") == "" {
		h.Set("Content-Length", strconv.Itoa(len(p.body)))
	}
	c.Writer.WriteHeader(p.status)
	ctl := http.NewResponseController(c.Writer)
	// Not every http.ResponseWriter can do this; the one of a real server can.
	more := func() { _ = ctl.SetWriteDeadline(time.Now().Add(r.wait)) }
	for body := p.body; len(body) > 0; {
		more()
		n, err := c.Writer.Write(body[:min(len(body), writeChunk)])
		if err != nil {
			r.metrics.cut.Inc()
			return
		}
		body = body[n:]
	}
	more() // for what the server still has to write
	c.Writer.WriteHeaderNow()
	if srv, ok := c.Request.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.WriteTimeout == 0 {
		_ = ctl.Flush()
		_ = ctl.SetWriteDeadline(time.Time{}) // it would hold for the next request, too
	}
}
