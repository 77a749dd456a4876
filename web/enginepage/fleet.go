package enginepage

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// fleetPage is the engine page of a view of several engines.
type fleetPage struct {
	site.Layout
	Engines  []fleetRow
	Sections []section
}

// fleetRow is one engine.
type fleetRow struct {
	Name     string
	Mark     chart.Mark
	Note     string // what is wrong, or not complete
	Spec     string
	Other    bool // another spec than that of the view
	Answered format.Stamp
	Age      string
	Counted  format.Stamp // up to when
	Behind   string
	Took     string
	Events   string
	Stale    bool // the figures are those of its last answer
}

func (h *Handler) fleetPage(c *gin.Context, v site.View) {
	e := &v.Eng
	p := fleetPage{Layout: h.Layout(c, v, "Engines", "engine")}
	for i := range e.Fleet {
		p.Engines = append(p.Engines, newFleetRow(&e.Fleet[i], e.Spec.Hash, v.Now))
	}
	p.Sections = []section{{"Report", reportFacts(v)}, {"Spec and process", h.processFacts(v)}}
	p.Sections = append(p.Sections, forecastSection(v)...)
	h.Page(c, http.StatusOK, "engines", p)
}

func newFleetRow(f *status.FleetEngine, spec string, now time.Time) fleetRow {
	r := fleetRow{
		Name: format.Safe(f.Name, format.MaxTitle), Mark: fleetMark(f), Note: f.Text(now), Spec: format.Safe(f.Spec, format.MaxName), Other: f.Spec != "" && f.Spec != spec,
		Answered: format.NewStamp(f.Answered, now), Age: format.NoValue, Counted: format.NewStamp(f.Watermark, now), Behind: format.NoValue,
		Took: format.NoValue, Events: format.NoValue, Stale: f.Out(),
	}
	if !f.Answered.IsZero() {
		r.Age, r.Behind = format.Ago(f.Answered, now), format.Ago(f.Watermark, now)
		r.Took, r.Events = format.Seconds(f.TookSeconds).Round(time.Millisecond).String(), format.Count(f.Events)
	}
	return r
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
