package web

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// themes are what a reader may choose; the first follows the reader's system.
var themes = []string{"auto", "light", "dark"}

const (
	themeParam  = "theme"
	themeCookie = "theme"
	themeAge    = 365 * 24 * 3600 // seconds
)

// theme is the reader's choice, "light" or "dark"; "" follows the system.
func theme(c *gin.Context) string {
	v, err := c.Cookie(themeCookie)
	if err != nil || v != "light" && v != "dark" {
		return ""
	}
	return v
}

// chooseTheme takes ?theme= off the address of a page and into a cookie: the
// switch works without a script, and the address stays one to share.
func (w *Web) chooseTheme(c *gin.Context) {
	q := c.Request.URL.Query()
	if !q.Has(themeParam) || !paths[w.local(c.FullPath())] {
		return
	}
	cookie := http.Cookie{
		Name: themeCookie, Path: w.opt.ExternalPath + "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.Request.TLS != nil,
	}
	if v := q.Get(themeParam); v == "light" || v == "dark" {
		cookie.Value, cookie.MaxAge = v, themeAge
	}
	http.SetCookie(c.Writer, &cookie)
	q.Del(themeParam)
	c.Header("Cache-Control", "no-store")
	c.Redirect(http.StatusSeeOther, w.href(c.Request.URL.Path, q))
	c.Abort()
}
