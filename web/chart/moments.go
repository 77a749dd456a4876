package chart

import (
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Moment is a time that charts mark, and what happened then.
type Moment struct {
	At    time.Time
	Title string
}

// annotated is the class of moments.
const annotated = "annotation"

// maxMoments bounds the lines of a chart, which would hide it. The latest are drawn.
const maxMoments = 100

// MomentsIn are the latest of them that a chart of a time shows.
func MomentsIn(all []Moment, sp slo.Span) []Moment {
	var out []Moment
	for _, m := range all {
		if !m.At.Before(sp.From) && m.At.Before(sp.To) {
			out = append(out, m)
		}
	}
	return out[max(0, len(out)-maxMoments):]
}

// Marked adds moments, in the order of their times.
func (h Shades) Marked(moments []Moment) Shades {
	h.moments = moments
	return h
}

// moments are the lines of a chart.
func (t timeline) moments(all []Moment) []moment {
	var out []moment
	for _, m := range MomentsIn(all, t.Span) {
		out = append(out, moment{Coord(t.x(m.At)), m.Title})
	}
	return out
}

// Mark draws moments over the lanes.
func (a *AlertTimeline) Mark(all []Moment) {
	t := timeline{slo.Span{From: time.Unix(a.From, 0), To: time.Unix(a.To, 0)}}
	if a.Marks = t.moments(all); len(a.Marks) > 0 && len(a.Lanes) > 0 {
		a.Keys = append(a.Keys, key{annotated, "annotation"})
	}
}
