package site

import (
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/traces"
)

// TracePlace stands for the id in the address of a trace.
const TracePlace = "{trace_id}"

// TracesAnchor is where the page of an SLO lists failing traces.
const TracesAnchor = "#traces"

// TraceURL is the address of a trace for a template; "" without one.
func TraceURL(template string, id traces.ID) string {
	return strings.Replace(template, TracePlace, id.String(), 1)
}

// Traces are those of the last bad events of a group of an SLO, the newest first.
func (site *Site) Traces(id slo.ID, group slo.Group, now time.Time) []traces.Trace {
	if site.Opt.Traces == nil {
		return nil
	}
	return site.Opt.Traces.Of(id, group, now)
}
