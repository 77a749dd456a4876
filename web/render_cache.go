package web

import (
	"bytes"
	"errors"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzip"
)

// renderedPages is how many different pages are kept: the addresses that people
// look at between two reports.
const renderedPages = 32

// renderCache keeps pages as they are sent. When a report comes, all open tabs
// ask for the same few addresses at once; each is made once.
type renderCache struct {
	mu   sync.Mutex
	m    map[string]*rendered
	keys []string // oldest first
}

type rendered struct {
	once          sync.Once
	plain, zipped []byte
	err           error
}

var buffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}

func (r *renderCache) get(key string) *rendered {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.m[key]; ok {
		return p
	}
	if r.m == nil {
		r.m = map[string]*rendered{}
	}
	if len(r.keys) >= renderedPages {
		delete(r.m, r.keys[0])
		r.keys = r.keys[1:]
	}
	p := &rendered{}
	r.m[key], r.keys = p, append(r.keys, key)
	return p
}

// forget drops a page, so that the next request makes it anew.
func (r *renderCache) forget(key string, p *rendered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m[key] == p {
		r.m[key] = &rendered{}
	}
}

// cachedPage sends the page that the key stands for, and makes it from its data
// if nobody asked for it before. The key must say everything that the page
// depends on. A page that data calls incomplete is sent, but not kept.
func (w *Web) cachedPage(c *gin.Context, name, key string, data func() (page any, complete bool)) {
	p := w.rendered.get(key)
	p.once.Do(func() {
		page, complete := data()
		if !complete {
			w.rendered.forget(key, p)
		}
		buf := buffers.Get().(*bytes.Buffer)
		defer buffers.Put(buf)
		buf.Reset()
		if p.err = w.pages[name].ExecuteTemplate(buf, "layout", page); p.err != nil {
			w.rendered.forget(key, p)
			return
		}
		p.plain = bytes.Clone(buf.Bytes())
		z := gzips.Get().(*gzip.Writer)
		defer gzips.Put(z)
		buf.Reset()
		z.Reset(buf)
		_, err := z.Write(p.plain)
		if errors.Join(err, z.Close()) == nil { // memory takes every write
			p.zipped = bytes.Clone(buf.Bytes())
		}
	})
	if p.err != nil {
		w.noPage(c, name, p.err)
		return
	}
	c.Header("Content-Type", "text/html; charset=utf-8")
	body := p.plain
	if p.zipped != nil && acceptsGzip(c.GetHeader("Accept-Encoding")) {
		c.Header("Content-Encoding", "gzip")
		body = p.zipped
	}
	sendBody(c, http.StatusOK, body)
}
