// Package alertpage serves the pages of alerts: the list of all of them, and the page of one with its texts, its
// condition in numbers, and the links to what a person does next. A third page tries other alerts of an SLO on the
// past. It evaluates no condition: it shows the numbers of the report beside the thresholds of the definition.
package alertpage

import (
	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/site"
)

// Handler serves the pages of alerts.
type Handler struct{ *site.Site }

// New makes the pages of a site.
func New(s *site.Site) *Handler { return &Handler{s} }

// Register mounts the pages.
func (h *Handler) Register(get func(path string, h ...gin.HandlerFunc), read gin.HandlerFunc) {
	get(site.AlertPath, read, h.detailPage)
	get(site.AlertListPath, read, h.listPage)
	get(site.TryPath, read, h.tryPage)
}
