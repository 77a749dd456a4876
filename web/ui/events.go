package ui

import (
	"errors"
	"maps"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// eventsPage has the latest bad events of a group of an SLO, good ones beside them, and what is different.
type eventsPage struct {
	site.Layout
	SLO     string // address of the SLO
	Problem string

	Spans  []site.Link
	Hidden [][2]string // of the form
	Where  string

	Text        string // what is different about the bad events
	Differences []differenceRow
	Lists       []eventList
	Shown       string // the time that was asked for
	Unread      string
}

type differenceRow struct {
	Name, OfBad, OfGood, Lift, Without string
}

type eventList struct {
	ID, Name string
	Rows     []eventRow
}

type eventRow struct {
	At, Received            format.Stamp
	Type, Outcome, Duration string
	Count, Trace, Href      string // Count is "" for a single event
	Attributes              []format.Label
	More                    int // attributes that are left out
}

// Bounds of the page. The API has the rest.
const (
	shownBad        = 25
	shownGood       = 10
	shownAttributes = 12
)

// eventSpans are the times to choose from, the first by default.
var eventSpans = []string{"15m", "1h", "6h", "24h"}

func (ui *Handler) eventsPage(c *gin.Context) {
	v := ui.View()
	c.Header("Cache-Control", "no-store")
	q := c.Request.URL.Query()
	id := slo.ID(q.Get("id"))
	r, exists := site.FindGroup(v.Rep, id, q)
	switch {
	case r == nil && exists:
		c.Redirect(http.StatusFound, ui.Href("/", url.Values{"slo": {string(id)}}))
		return
	case r == nil:
		ui.Message(c, http.StatusNotFound, "No such SLO",
			"The current spec has no SLO with this name. It may have been renamed or removed.")
		return
	case ui.Opt.Events == nil:
		ui.Message(c, http.StatusNotImplemented, "No events", "The events are in the log of another engine.")
		return
	}
	if !q.Has("last") && !q.Has("from") {
		q.Set("last", eventSpans[0])
	}
	p := eventsPage{Layout: ui.Layout(c, v, "Events of "+site.Title(string(id), r.SLO.GroupBy, r.Group), "slo"),
		SLO: ui.SLOHref(r), Where: format.Safe(q.Get("where"), format.MaxText)}
	p.Crumbs = append(ui.GroupCrumbs(site.Link{Text: "SLOs", Href: "/"}, id.Service(), id.Name(),
		url.Values{"slo": {string(id)}}, r.SLO.GroupBy, r.Group), site.Link{Text: "Events"})
	base := maps.Clone(q)
	for _, name := range []string{"last", "from", "to"} {
		delete(base, name)
	}
	for _, span := range eventSpans {
		to := maps.Clone(base)
		to.Set("last", span)
		p.Spans = append(p.Spans, site.Link{Text: span, Href: ui.Href(site.EventsPath, to), On: q.Get("last") == span})
	}
	form := maps.Clone(q)
	delete(form, "where")
	p.Hidden = site.Hidden(form)

	ask := counting.EventQuery{SLO: id, Group: r.Group}
	status := http.StatusOK
	if err := api.ReadEventQuery(&ask, q, v.Now); err != nil {
		status, p.Problem = http.StatusBadRequest, format.Safe(err.Error(), format.MaxText)
	} else {
		ask.Bad, ask.Good, ask.Compare = shownBad, shownGood, true
		switch found, err := ui.Opt.Events(c.Request.Context(), &ask); {
		case err == nil:
			p.fill(ui, r, &ask, found)
		case errors.Is(err, fold.ErrNotJudged):
			p.Problem = format.Safe(err.Error(), format.MaxText)
		default:
			ui.Opt.LogError("read events of "+string(id), err)
			status, p.Problem = http.StatusServiceUnavailable, "The log cannot be read now."
		}
	}
	ui.Page(c, status, "events", p)
}

func (p *eventsPage) fill(ui *Handler, r *sla.SLOReport, ask *counting.EventQuery, found *counting.EventAnswer) {
	budget := r.SLO.Objective.Budget()
	until := ask.To
	if now := ui.Opt.Now(); until.After(now) { // events ahead of the clock are found, too
		until = now
	}
	p.Shown = format.Span(slo.Span{From: ask.From, To: until})
	p.Unread = format.Safe(found.Unread, format.MaxText)
	switch {
	case found.BadSum > 0:
		p.Text = format.Safe(found.Text(budget), format.MaxText)
	case found.Unread == "":
		p.Text = "No bad event."
	}
	for i := range found.Differences {
		d := &found.Differences[i]
		p.Differences = append(p.Differences, differenceRow{Name: format.Safe(d.Name(), format.MaxTitle),
			OfBad: format.Percent(d.OfBad, 1), OfGood: format.Percent(d.OfGood, 1), Lift: format.BurnRate(d.Lift),
			Without: format.BurnRate(d.Without / budget)})
	}
	p.Lists = []eventList{ui.eventList("bad", "Bad events", found.Bad), ui.eventList("good", "Good events", found.Good)}
}

func (ui *Handler) eventList(id, name string, list []counting.FoundEvent) eventList {
	now := ui.Opt.Now()
	out := eventList{ID: id, Name: name}
	for i := range list {
		e := &list[i]
		row := eventRow{At: format.NewStamp(e.Time, now), Received: format.NewStamp(e.Received, now),
			Type: format.Safe(e.Type, format.MaxName), Outcome: e.Outcome.String(), Duration: format.NoValue}
		if e.HasDuration {
			row.Duration = format.Took(e.Duration)
		}
		if n := uint64(e.Count) * uint64(e.Weight); n > 1 {
			row.Count = format.Count(n)
		}
		if e.Trace != (traces.ID{}) {
			row.Trace, row.Href = e.Trace.String(), site.TraceURL(ui.Opt.TraceURL, e.Trace)
		}
		for _, a := range e.Attributes {
			switch {
			case a.Value == row.Trace: // it is shown as such
			case len(row.Attributes) == shownAttributes:
				row.More++
			default:
				row.Attributes = append(row.Attributes, format.Labels([]string{a.Name}, []string{a.Value})...)
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}
