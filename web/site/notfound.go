package site

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/respond"
)

// NotFound answers what no route serves: a problem below /api, else a small page.
func (site *Site) NotFound(c *gin.Context) {
	if respond.WantsProblem(c) {
		respond.Problem(c, http.StatusNotFound, "There is nothing at this address. /openapi.json lists what there is.", nil)
		return
	}
	site.Message(c, http.StatusNotFound, "Nothing here", "There is no page at this address.")
}

// MethodNotAllowed answers a known address asked with an unknown method. The
// router has set the header Allow.
func (site *Site) MethodNotAllowed(c *gin.Context) {
	if respond.WantsProblem(c) {
		respond.Problem(c, http.StatusMethodNotAllowed, "This address does not take "+c.Request.Method+"; the header Allow says what it takes.", nil)
		return
	}
	site.Message(c, http.StatusMethodNotAllowed, "Not possible", "This page can only be read.")
}
