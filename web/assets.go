package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzip"
)

//go:embed static templates
var files embed.FS

// asset is a file that never changes under its name, which holds a hash of it.
type asset struct {
	name   string // such as style.1a2b3c4d.css
	typ    string
	body   []byte
	zipped []byte
}

var assetTypes = map[string]string{".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// loadAssets reads the embedded assets, by their plain name.
func loadAssets() (map[string]asset, error) {
	list, err := files.ReadDir("static")
	if err != nil {
		return nil, err
	}
	out := map[string]asset{}
	for _, f := range list {
		body, err := files.ReadFile("static/" + f.Name())
		if err != nil {
			return nil, err
		}
		ext := path.Ext(f.Name())
		sum := sha256.Sum256(body)
		var buf bytes.Buffer
		z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		if _, err := z.Write(body); err != nil {
			return nil, fmt.Errorf("compress %s: %w", f.Name(), err)
		}
		if err := z.Close(); err != nil {
			return nil, fmt.Errorf("compress %s: %w", f.Name(), err)
		}
		out[f.Name()] = asset{
			name: strings.TrimSuffix(f.Name(), ext) + "." + hex.EncodeToString(sum[:4]) + ext,
			typ:  assetTypes[ext], body: body, zipped: buf.Bytes(),
		}
	}
	return out, nil
}

func (w *Web) static(c *gin.Context) {
	for _, a := range w.assets {
		if a.name != c.Param("name") {
			continue
		}
		h := c.Writer.Header()
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("ETag", `"`+a.name+`"`)
		h.Set("Vary", "Accept-Encoding")
		if strings.Contains(c.GetHeader("If-None-Match"), a.name) {
			c.Status(http.StatusNotModified)
			c.Writer.WriteHeaderNow()
			return
		}
		body := a.body
		if acceptsGzip(c.GetHeader("Accept-Encoding")) {
			h.Set("Content-Encoding", "gzip")
			body = a.zipped
		}
		c.Data(http.StatusOK, a.typ, body)
		return
	}
	w.NotFound(c)
}

// parsePages parses one template set per page: the layout, the shared parts,
// and the page's own content.
func parsePages(assets map[string]asset) (map[string]*template.Template, error) {
	funcs := template.FuncMap{
		"asset": func(name string) (string, error) {
			a, ok := assets[name]
			if !ok {
				return "", fmt.Errorf("no asset %s", name)
			}
			return "/static/" + a.name, nil
		},
	}
	base, err := template.New("base").Funcs(funcs).Option("missingkey=error").ParseFS(files, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return nil, err
	}
	out := map[string]*template.Template{}
	for _, name := range []string{"list", "slas", "slo", "engine", "message"} {
		t, err := base.Clone()
		if err != nil {
			return nil, err
		}
		if out[name], err = t.ParseFS(files, "templates/"+name+".html"); err != nil {
			return nil, err
		}
	}
	return out, nil
}
