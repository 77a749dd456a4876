package web

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sloengine/sloengine/web/site"
	"github.com/stretchr/testify/require"
)

func TestAssetsByName(t *testing.T) {
	b := newBench(t)
	for plain, typ := range map[string]string{"style.css": "text/css; charset=utf-8",
		"app.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"} {
		rec := b.get(b.asset(plain))
		require.Equal(t, http.StatusOK, rec.Code)
		require.Equal(t, typ, rec.Header().Get("Content-Type"), "nosniff makes it count")
		require.Equal(t, "nosniff", rec.Header().Get("X-Content-Type-Options"))
		require.Equal(t, http.StatusNotFound, b.get("/static/"+plain).Code,
			"only the name with the hash, which may be kept for ever")
	}
	require.Contains(t, b.get("/").Body.String(), b.web.Assets["app.js"].Name)
}

func TestThemeIsKept(t *testing.T) {
	b := newBench(t, func(o *site.Options) { o.ExternalPath = "/status" })
	for choice, want := range map[string]string{
		"dark":  "theme=dark; Path=/status/; Max-Age=31536000; HttpOnly; SameSite=Lax",
		"light": "theme=light; Path=/status/; Max-Age=31536000; HttpOnly; SameSite=Lax",
		"auto":  "theme=; Path=/status/; Max-Age=0; HttpOnly; SameSite=Lax",
		"<b>":   "theme=; Path=/status/; Max-Age=0; HttpOnly; SameSite=Lax",
	} {
		rec := b.get("/?q=a&theme=" + choice + "&sort=name")
		require.Equal(t, http.StatusSeeOther, rec.Code)
		require.Equal(t, "/status/?q=a&sort=name", rec.Header().Get("Location"))
		require.Equal(t, want, rec.Header().Get("Set-Cookie"))
	}
	require.Equal(t, "/status/slo?id=a%2Fb", b.get("/slo?id=a/b&theme=dark").Header().Get("Location"))
	require.Equal(t, http.StatusOK, b.get("/api/v1/slos?theme=dark").Code, "no page, no theme")

	plain, dark := b.get("/"), b.get("/", "Cookie", "theme=dark")
	require.Contains(t, plain.Body.String(), `<html lang="en">`)
	require.Contains(t, dark.Body.String(), `<html lang="en" data-theme="dark">`)
	require.NotEqual(t, plain.Header().Get("ETag"), dark.Header().Get("ETag"))
	require.Equal(t, http.StatusOK, b.get("/", "Cookie", "theme=dark", "If-None-Match", plain.Header().Get("ETag")).Code)
	require.Contains(t, b.get("/", "Cookie", `theme="><script>`).Body.String(), `<html lang="en">`)
	require.NotEqual(t, b.get("/slas").Header().Get("ETag"), b.get("/slas", "Cookie", "theme=dark").Header().Get("ETag"))
}

// asset is the address of a static file, as pages have it.
func (b *bench) asset(plain string) string {
	name, ext, _ := strings.Cut(plain, ".")
	return regexp.MustCompile(`/static/` + name + `\.[0-9a-f]+\.` + ext).FindString(b.get("/").Body.String())
}
