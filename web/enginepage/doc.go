// Package enginepage serves the page about the engine itself: what comes in, what is on disk, how its parts do, what
// was rejected, and in a view of several engines, each of them. It shows status.Engine and computes nothing but rates
// of the last hour, of which it keeps samples.
package enginepage

import (
	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/deadletters"
	"github.com/sloengine/sloengine/web/site"
)

// Handler serves the page.
type Handler struct {
	*site.Site
	dead  *deadletters.Handler
	Rates rateRing
}

// New makes a Handler without samples.
func New(s *site.Site, dead *deadletters.Handler) *Handler { return &Handler{Site: s, dead: dead} }

// Register mounts the page.
func (h *Handler) Register(get func(path string, h ...gin.HandlerFunc), read gin.HandlerFunc) {
	get("/engine", read, h.page)
}
