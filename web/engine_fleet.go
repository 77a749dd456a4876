package web

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// fleetPage is the engine page of a view of several engines.
type fleetPage struct {
	site.Layout
	Now      time.Time
	Hash     string // of the spec of the view
	Engines  []fleetRow
	Sections []section
}

type fleetRow struct {
	*status.FleetEngine
	Mark chart.Mark
}

func (h *engineHandler) fleetPage(c *gin.Context, v site.View) {
	e := &v.Eng
	p := fleetPage{Layout: h.Layout(c, v, "Engines", "engine"), Now: v.Now, Hash: e.Spec.Hash}
	for i := range e.Fleet {
		p.Engines = append(p.Engines, fleetRow{&e.Fleet[i], fleetMark(&e.Fleet[i])})
	}
	p.Sections = []section{{"Report", reportFacts(v)}, {"Spec and process", h.processFacts(v)}}
	p.Sections = append(p.Sections, forecastSection(v)...)
	h.Page(c, http.StatusOK, "engines", p)
}

func fleetMark(f *status.FleetEngine) chart.Mark {
	switch {
	case f.State == status.FleetWaiting:
		return chart.Wait("waiting")
	case f.State == status.FleetOtherSpec:
		return chart.Bad("other spec")
	case f.Out():
		return chart.Bad("missing")
	case f.Reason != "":
		return chart.Risk("not complete")
	}
	return chart.OK("ok")
}
