package ui

import (
	"cmp"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// thresholdRow is one event threshold with its violations.
type thresholdRow struct {
	Service, Name, Match string
	Warning, Critical    string
	Day, Month           [2]site.Figure // warning, critical
	Within               string
	Last                 format.Stamp
	LastAgo              string

	Group string // of a row of one group, which follows that of its threshold
}

// mostThresholdGroups is how many groups of an event threshold the pages show: those with most violations. The API has
// all.
const mostThresholdGroups = 10

// newThresholdRows are the event thresholds of a service; of all if it is "".
func newThresholdRows(rep *sla.Report, now time.Time, service string) []thresholdRow {
	var out []thresholdRow
	for _, l := range rep.Thresholds {
		if service != "" && l.Threshold.Service != service {
			continue
		}
		r := thresholdRow{
			Service: format.Safe(l.Threshold.Service, format.MaxName), Name: format.Safe(l.Threshold.Name, format.MaxName),
			Match:  format.Safe(l.Threshold.Match.String(), format.MaxTitle),
			Within: format.Compact(l.Month.Within), Last: format.NewStamp(l.LastEvent, now),
			LastAgo: format.Ago(l.LastEvent, now),
		}
		var warns, crits bool
		r.Warning, r.Critical, warns, crits = thresholdTexts(l.Threshold)
		count := func(r *thresholdRow, day, month sla.Violations) {
			for to, v := range map[*[2]site.Figure]sla.Violations{&r.Day: day, &r.Month: month} {
				to[0], to[1] = violations(v.Warning, warns), violations(v.Critical, crits)
			}
		}
		count(&r, l.Day, l.Month)
		out = append(out, r)
		for _, g := range l.Worst(mostThresholdGroups) {
			of := r
			of.Group = thresholdGroup(l.Threshold.GroupBy, g.Group)
			of.Within, of.Last, of.LastAgo = format.Compact(g.Month.Within), format.NewStamp(g.LastEvent, now),
				format.Ago(g.LastEvent, now)
			count(&of, g.Day, g.Month)
			out = append(out, of)
		}
	}
	return out
}

// thresholdGroup is a group as text, such as product MEDCARE.
func thresholdGroup(by []string, g slo.Group) string {
	var parts []string
	for i, name := range by {
		if i < len(g) {
			parts = append(parts, format.Safe(name, format.MaxName)+" "+cmp.Or(format.Safe(g[i], format.MaxName), "(none)"))
		}
	}
	return strings.Join(parts, ", ")
}

// thresholdTexts are the durations of an event threshold, and which severities it has.
func thresholdTexts(l *slo.Threshold) (warning, critical string, warns, crits bool) {
	warning, critical = format.NoValue, format.NoValue
	warns, crits = l.Warning > 0, l.Critical > 0
	if warns {
		warning = slo.FormatDuration(l.Warning)
	}
	if crits {
		critical = slo.FormatDuration(l.Critical)
	}
	switch l.Each {
	case "warning":
		warning, warns = "every one", true
	case "critical":
		critical, crits = "every one", true
	}
	return warning, critical, warns, crits
}

func violations(n uint64, exists bool) site.Figure {
	if !exists {
		return site.Figure{Value: format.NoValue}
	}
	return site.Figure{Value: format.Compact(n), Title: format.Count(n), Bad: n > 0}
}
