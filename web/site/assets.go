package site

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzip"

	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
)

//go:embed static templates
var files embed.FS

// asset is a file that never changes under its name, which holds a hash of it.
type asset struct {
	Name   string // such as style.1a2b3c4d.css
	typ    string
	body   []byte
	zipped []byte
}

var assetTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml"}

// bundles are the assets and what each is joined from: vendored files first,
// then every own file of some folders, by name.
var bundles = []struct {
	name   string
	vendor []string
	own    []string // folders
}{
	{"style.css", nil, []string{"css"}},
	{"app.js", []string{"vendor/htmx.min.js"}, []string{"zone", "js"}},
	{"public.js", nil, []string{"zone"}},
	{"icon.svg", []string{"icon.svg"}, nil},
}

// loadAssets joins, shrinks and compresses the embedded assets, by their plain name. All sites share the result.
var loadAssets = sync.OnceValues(func() (map[string]asset, error) {
	out := map[string]asset{}
	for _, b := range bundles {
		var body bytes.Buffer
		for _, name := range b.vendor {
			raw, err := files.ReadFile("static/" + name)
			if err != nil {
				return nil, err
			}
			body.Write(bytes.TrimSpace(raw))
			body.WriteByte('\n')
		}
		ext := path.Ext(b.name)
		for _, own := range b.own {
			list, err := files.ReadDir("static/" + own)
			if err != nil {
				return nil, err
			}
			for _, f := range list {
				if path.Ext(f.Name()) != ext {
					return nil, fmt.Errorf("static/%s/%s: want only *%s files here", own, f.Name(), ext)
				}
				raw, err := files.ReadFile("static/" + own + "/" + f.Name())
				if err != nil {
					return nil, err
				}
				if ext == ".css" {
					body.WriteString(shrinkCSS(string(raw)))
				} else {
					body.WriteString(shrinkJS(string(raw)))
				}
			}
		}
		a, err := newAsset(b.name, body.Bytes())
		if err != nil {
			return nil, err
		}
		out[b.name] = a
	}
	return out, nil
})

func newAsset(name string, body []byte) (asset, error) {
	ext := path.Ext(name)
	sum := sha256.Sum256(body)
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return asset{}, err
	}
	if _, err := z.Write(body); err != nil {
		return asset{}, fmt.Errorf("compress %s: %w", name, err)
	}
	if err := z.Close(); err != nil {
		return asset{}, fmt.Errorf("compress %s: %w", name, err)
	}
	return asset{
		Name: strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:4]) + ext,
		typ:  assetTypes[ext], body: body, zipped: buf.Bytes(),
	}, nil
}

var (
	cssComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	cssSpace   = regexp.MustCompile(`\s*([{};,])\s*`)
	cssColon   = regexp.MustCompile(`([{;][a-z-]+): `)
)

// shrinkCSS takes out comments and the white space that only people need. Own
// style sheets have no comment signs, braces or semicolons inside strings.
func shrinkCSS(s string) string {
	s = strings.Join(strings.Fields(cssComment.ReplaceAllString(s, "")), " ")
	s = cssSpace.ReplaceAllString(s, "$1")
	s = cssColon.ReplaceAllString(s, "$1:")
	return strings.ReplaceAll(s, ";}", "}") + "\n"
}

// shrinkJS takes out indentation and lines that are comments. Own scripts have
// no template literal over several lines.
func shrinkJS(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func (site *Site) Static(c *gin.Context) {
	a, ok := site.named[c.Param("name")]
	if !ok {
		site.NotFound(c)
		return
	}
	h := c.Writer.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("ETag", `"`+a.Name+`"`)
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(c.GetHeader("If-None-Match"), a.Name) {
		c.Status(http.StatusNotModified)
		c.Writer.WriteHeaderNow()
		return
	}
	body := a.body
	if respond.AcceptsGzip(c.GetHeader("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body = a.zipped
	}
	c.Data(http.StatusOK, a.typ, body)
}

// moment is a time and how long ago it was.
type moment struct {
	format.Stamp
	Age string
}

// maxSample is as long as a sample of a rejected event gets.
const maxSample = 520

// count prints any of the integers that statuses have.
func count(n any) (string, error) {
	switch n := n.(type) {
	case int:
		return format.Count(n), nil
	case uint64:
		return format.Count(n), nil
	}
	return "", fmt.Errorf("count of a %T", n)
}

// parsePages parses one template set per page: the layout, the shared parts,
// and the page's own content. All sites share the result.
var parsePages = sync.OnceValues(func() (map[string]*template.Template, error) {
	assets, err := loadAssets()
	if err != nil {
		return nil, err
	}
	funcs := template.FuncMap{
		"asset": func(name string) (string, error) {
			a, ok := assets[name]
			if !ok {
				return "", fmt.Errorf("no asset %s", name)
			}
			return "/static/" + a.Name, nil
		},
		"name":   func(s string) string { return format.Safe(s, format.MaxName) },
		"title":  func(s string) string { return format.Safe(s, format.MaxTitle) },
		"sample": func(s string) string { return format.Safe(s, maxSample) },
		"group":  format.GroupValue, "count": count, "bytes": format.Bytes[int64], "rate": format.Rate,
		"seconds": func(s float64) string { return format.Duration(format.Seconds(s)) },
		"took":    func(s float64) string { return format.Seconds(s).Round(time.Millisecond).String() },
		"stamp":   format.NewStamp,
		"labels":  Labels,
		"moment":  func(t, now time.Time) moment { return moment{format.NewStamp(t, now), format.Duration(now.Sub(t))} },
		"use":     chart.UseGauge, "float": func(n int) float64 { return float64(n) },
	}
	base, err := template.New("base").Funcs(funcs).Option("missingkey=error").ParseFS(files, "templates/layout.html",
		"templates/parts*.html")
	if err != nil {
		return nil, err
	}
	list, err := files.ReadDir("templates")
	if err != nil {
		return nil, err
	}
	out := map[string]*template.Template{}
	for _, f := range list {
		name, ok := strings.CutSuffix(f.Name(), ".html")
		if !ok || name == "layout" || strings.HasPrefix(name, "parts") {
			continue
		}
		t, err := base.Clone()
		if err != nil {
			return nil, err
		}
		if out[name], err = t.ParseFS(files, "templates/"+name+".html"); err != nil {
			return nil, err
		}
	}
	return out, nil
})
