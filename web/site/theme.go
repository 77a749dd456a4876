package site

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/respond"
)

// themes are what a reader may choose; the first follows the reader's system.
var themes = []string{"auto", "light", "dark"}

// ChooseTheme takes ?theme= off the address of a page and into a cookie: the
// switch works without a script, and the address stays one to share.
func (site *Site) ChooseTheme(c *gin.Context) {
	q := c.Request.URL.Query()
	if !q.Has(respond.ThemeParam) || !paths[site.local(c.FullPath())] {
		return
	}
	cookie := http.Cookie{
		Name: respond.ThemeCookie, Path: site.Opt.ExternalPath + "/", MaxAge: -1, HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: c.Request.TLS != nil,
	}
	if v := q.Get(respond.ThemeParam); v == "light" || v == "dark" {
		cookie.Value, cookie.MaxAge = v, respond.ThemeAge
	}
	http.SetCookie(c.Writer, &cookie)
	q.Del(respond.ThemeParam)
	c.Header("Cache-Control", "no-store")
	c.Redirect(http.StatusSeeOther, site.Href(c.Request.URL.Path, q))
	c.Abort()
}
