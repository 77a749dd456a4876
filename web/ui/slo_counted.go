package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// counted are the facts of a ratio, an apdex or a volume: what its counts are made of, and how far its present period
// is.
func counted(r *sla.SLOReport, now time.Time) []site.Fact {
	var fs []site.Fact
	if r.Parts != nil {
		for i, name := range r.SLO.Indicator.Kind.PartNames() {
			if i < len(r.Parts.Period) {
				fs = append(fs, site.Fact{Name: strings.ToUpper(name[:1]) + name[1:] + " in the period",
					Value: format.Count(r.Parts.Period[i])})
			}
		}
	}
	v := r.Volume
	if v == nil {
		return fs
	}
	name := "Present " + string(r.SLO.Indicator.Calendar)
	if !now.Before(v.To) {
		name = "Last " + string(r.SLO.Indicator.Calendar)
	}
	note := fmt.Sprintf("%s expected by now", format.Count(uint64(v.Expected)))
	if v.Usual == 0 {
		note += ", by the time that is over"
	}
	if v.Events >= v.Target {
		note = "reached"
	} else if !now.Before(v.To) {
		note = "missed"
	}
	fs = append(fs, site.Fact{
		Name: name, Value: fmt.Sprintf("%s of %s events", format.Count(v.Events), format.Count(v.Target)), Note: note})
	if !v.Missed.From.IsZero() {
		fs = append(fs, site.Fact{Name: "Last missed", Value: v.Missed.From.In(r.SLO.Indicator.Location).Format("2006-01-02"),
			Note: fmt.Sprintf("%s events", format.Count(v.MissedEvents))})
	}
	return fs
}
