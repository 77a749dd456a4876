// Package ui serves the pages for those who may read: service levels, agreements and reports.
//
// Pages need no script: they are html/template, links and forms, and charts are SVG made on the server. Everything that
// they show comes from one immutable sla.Report and from the counts that callers hand over. The package computes no
// budget: it formats, sorts, filters and pages. It does not know how events are stored, counted or authenticated.
package ui

import (
	"fmt"

	"github.com/gin-gonic/gin"
	"github.com/sloengine/sloengine/web/site"
)

// Handler serves the pages for those who may read.
type Handler struct {
	*site.Site
	sparks  sparkCache
	days    dayCache
	sources SourceCache
	blind   blindCache
	drawn   drawings
}

// New prepares the drawings that all lists share.
func New(s *site.Site) (*Handler, error) {
	ui := &Handler{Site: s}
	if err := ui.draw(); err != nil {
		return nil, fmt.Errorf("draw the states: %w", err)
	}
	return ui, nil
}

// Register mounts the pages.
func (ui *Handler) Register(get func(path string, h ...gin.HandlerFunc), read gin.HandlerFunc) {
	get("/", read, ui.listPage)
	get("/slo", read, ui.sloPage)
	get(site.EventsPath, read, ui.eventsPage)
	get("/slas", read, ui.slasPage)
	get("/sla", read, ui.slaPage)
	get("/report", read, ui.reportPage)
}
