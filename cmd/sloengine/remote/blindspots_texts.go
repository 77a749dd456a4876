package remote

import (
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts/blindspot"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo"
)

// noteworthy is how much longer an outage must last than one that pages with many events, for check to report an hour.
const noteworthy = 30 * time.Minute

const hint = "send synthetic events, or count groups together; sloengine blindspots prints all hours"

// BlindSpot is an SLO with an hour in which long outages are invisible.
type BlindSpot struct {
	SLO           slo.ID
	Message, Hint string
}

// BlindSpots gives one for each SLO that has such an hour, about the group in which it is worst.
func BlindSpots(groups []TrafficGroup, now time.Time) []BlindSpot {
	type worst struct {
		group  *TrafficGroup
		span   *blindspot.Span
		zone   string
		groups int
	}
	var order []slo.ID
	all := map[slo.ID]*worst{}
	for i := range groups {
		g := &groups[i]
		spans, zone := g.Spans(now, nil)
		x := blindspot.Worst(spans)
		if x == nil || x.Hidden() < noteworthy+busy(g.SLO) {
			continue
		}
		w := all[g.SLO.ID]
		if w == nil {
			w = &worst{}
			all[g.SLO.ID], order = w, append(order, g.SLO.ID)
		}
		if w.groups++; w.span == nil || x.Hidden() > w.span.Hidden() {
			w.group, w.span, w.zone = g, x, zone
		}
	}
	var out []BlindSpot
	for _, id := range order {
		w := all[id]
		of := ""
		if len(w.group.Labels) > 0 {
			of = " in group " + cli.GroupText(w.group.Labels)
		}
		text := fmt.Sprintf("blind spot%s, %s (%s): %s", of, w.span.When(), w.zone, w.span.Hides())
		if w.groups > 1 {
			text += fmt.Sprintf("; %s like this one", cli.Plural(w.groups-1, "more group"))
		}
		out = append(out, BlindSpot{id, text, hint})
	}
	return out
}

// busy is the shortest outage of an SLO that pages however many events come.
func busy(s *slo.SLO) time.Duration {
	hours, why := blindspot.Find(s, blindspot.Flat(1e6))
	if why != "" {
		return 0
	}
	return hours[0].Outage
}

// ExplainBlindSpots is the line of explain: at a traffic, or if that is 0 at some.
func ExplainBlindSpots(s *slo.SLO, perSecond float64) string {
	if perSecond > 0 {
		hours, why := blindspot.Find(s, blindspot.Flat(perSecond*3600))
		if why != "" {
			return ""
		}
		return "  blind      " + blindspot.Spans(hours, 0)[0].Hides() + "\n"
	}
	var parts []string
	for _, perHour := range []float64{5, 30, 1000} {
		hours, why := blindspot.Find(s, blindspot.Flat(perHour))
		if why != "" {
			return ""
		}
		hidden := "any length"
		if hours[0].Outage > 0 {
			hidden = blindspot.Short(hours[0].Outage)
		}
		parts = append(parts, fmt.Sprintf("%s at %g events an hour", hidden, perHour))
	}
	return "  blind      a full outage is invisible to pages under " + strings.Join(parts, ", ") + "\n"
}
