package web

import (
	"fmt"

	"github.com/gin-gonic/gin"
	"github.com/sloengine/sloengine/web/site"
)

// UI serves the pages for those who may read.
type UI struct {
	*site.Site
	dead    *DeadLetters
	sparks  sparkCache
	sources sourceCache
	drawn   drawings
	rates   rateRing
}

// NewUI prepares the drawings that all lists share.
func NewUI(s *site.Site, dead *DeadLetters) (*UI, error) {
	ui := &UI{Site: s, dead: dead}
	if err := ui.draw(); err != nil {
		return nil, fmt.Errorf("draw the states: %w", err)
	}
	return ui, nil
}

// Register mounts the pages.
func (ui *UI) Register(get func(path string, h ...gin.HandlerFunc), read gin.HandlerFunc) {
	get("/", read, ui.listPage)
	get("/slo", read, ui.sloPage)
	get("/slas", read, ui.slasPage)
	get("/sla", read, ui.slaPage)
	get("/report", read, ui.reportPage)
	get("/engine", read, ui.enginePage)
}
