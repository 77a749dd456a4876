package site

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/respond"
)

// NotFound answers what no route serves: a problem below /api, else a small page.
func (site *Site) NotFound(c *gin.Context) {
	if respond.WantsProblem(c) {
		respond.Problem(c, http.StatusNotFound, "No such path. See /openapi.json for all paths.", nil)
		return
	}
	site.Message(c, http.StatusNotFound, "Page not found", "There is no page at this address.")
}

// MethodNotAllowed answers a known address asked with an unknown method. The
// router has set the header Allow.
func (site *Site) MethodNotAllowed(c *gin.Context) {
	if respond.WantsProblem(c) {
		respond.Problem(c, http.StatusMethodNotAllowed,
			"This path does not support "+c.Request.Method+". The header Allow lists the methods that it supports.", nil)
		return
	}
	site.Message(c, http.StatusMethodNotAllowed, "Method not allowed", "This page is read-only.")
}
