package chart

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// AlertTimeline draws when alerts were pending and firing.
type AlertTimeline struct {
	Lanes []lane
	X     []tick
	From  int64
	To    int64
	Keys  []key
	Marks []moment
	Note  string

	Caption string // what a bar stands for
}

// lane is one alert's past: rectangles in permille across and a height of 16.
type lane struct {
	Name, Windows string
	Whole         bool // it is about all groups
	Spans         []Bar
	Now           string // the state now; "" if it is over
	Mark          Mark
	Label         string
}

const (
	laneH     = 16
	mostLanes = 20
)

// NewAlertTimeline draws the alerts of a list that touch a range. The list is sorted, the worst first.
func NewAlertTimeline(r *sla.SLOReport, list []*state.Alert, sp slo.Span, now time.Time,
	kept time.Duration) *AlertTimeline {
	t := timeline{sp}
	out := &AlertTimeline{X: t.xTicks(time.UTC), From: sp.From.Unix(), To: sp.To.Unix(),
		Caption: "Each bar begins when the condition first held (pending) and ends when the alert resolved."}
	index := map[string]int{}
	seen := map[string]bool{}
	for _, a := range list {
		if len(a.Group) > 0 && !slices.Equal(a.Group, r.Group) {
			continue
		}
		end := now
		if !a.ResolvedAt.IsZero() {
			end = a.ResolvedAt
		}
		if !end.After(sp.From) || a.ActiveSince.After(sp.To) {
			continue
		}
		row := AlertWindows(a)
		k := a.Name + "\x00" + row
		i, ok := index[k]
		if !ok {
			i = len(out.Lanes)
			index[k] = i
			out.Lanes = append(out.Lanes, lane{Name: format.Safe(a.Name, format.MaxName),
				Windows: format.Safe(row, format.MaxName), Whole: len(a.Group) == 0 && len(r.Group) > 0})
		}
		l := &out.Lanes[i]
		fired := end
		if !a.FiredAt.IsZero() {
			fired = a.FiredAt
		}
		add := func(part slo.Span, class, word string) {
			part = part.Intersect(sp)
			if part.Duration() == 0 {
				return
			}
			left := t.x(part.From)
			b := NewBar(left, 2, max(3, t.x(part.To)-left), laneH-4, class)
			b.Title = word + " from " + format.NewStamp(part.From, time.Time{}).Text + ", " + format.Duration(part.Duration())
			l.Spans = append(l.Spans, b)
			seen[class] = true
			if l.Label != "" {
				l.Label += "; "
			}
			l.Label += b.Title
		}
		add(slo.Span{From: a.ActiveSince, To: fired}, "pending", "pending")
		if !a.FiredAt.IsZero() {
			class := "firing"
			if a.Urgent {
				class = "urgent"
			}
			add(slo.Span{From: a.FiredAt, To: end}, class, "firing")
		}
		if a.State != state.Resolved {
			l.Mark, l.Now = AlertMark(a), string(a.State)
		}
	}
	out.Lanes = out.Lanes[:min(len(out.Lanes), mostLanes)]
	for _, k := range []key{{"pending", "pending"}, {"firing", "firing: ticket or warning"},
		{"urgent", "firing: page or critical"}} {
		if seen[k.Class] {
			out.Keys = append(out.Keys, k)
		}
	}
	if kept > 0 && sp.From.Before(now.Add(-kept)) {
		out.Note = "Resolved alerts are retained for " + slo.FormatDuration(kept) + ". Earlier ones are not shown."
	}
	return out
}

func AlertWindows(a *state.Alert) string {
	if long, short := a.Label(series.LabelLong), a.Label(series.LabelShort); long != "" && short != "" {
		return long + " and " + short
	}
	return ""
}
