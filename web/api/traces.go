package api

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/site"
)

// failingTraces are those of the last bad events of a group.
func (api *Handler) failingTraces(r *sla.SLOReport, now time.Time) []v1.Trace {
	list := api.Traces(r.SLO.ID, r.Group, now)
	out := make([]v1.Trace, len(list))
	for i := range list {
		t := &list[i]
		out[i] = v1.Trace{ID: t.ID.String(), Time: t.Time.UTC(), Type: t.Type, Outcome: t.Outcome,
			URL: site.TraceURL(api.Opt.TraceURL, t.ID)}
		if t.Duration >= 0 {
			seconds := t.Duration.Seconds()
			out[i].Duration = &seconds
		}
	}
	return out
}
