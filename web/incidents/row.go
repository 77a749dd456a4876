package incidents

import (
	"net/url"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// row is an incident in a list.
type row struct {
	ID, Href  string
	Mark      chart.Mark
	Title     string
	Service   string
	Status    incident.Status
	Owner     string // "" if unassigned
	Team      string
	Public    bool
	ByHand    bool
	Onset     format.Stamp
	Detection string
	Response  string // format.NoValue until it is acknowledged
	Duration  string // until now if it goes on
	Spent     string // the largest share of an error budget; format.NoValue if it is not known
	Over      bool   // more than the whole budget
}

// mark shows the state of an incident.
func mark(inc *incident.Incident) chart.Mark {
	switch {
	case inc.IsResolved():
		return chart.OK("resolved")
	case inc.Ack != nil:
		return chart.Wait("acknowledged")
	case inc.Severity == incident.Critical:
		return chart.Bad("open")
	}
	return chart.Risk("open")
}

// href is the address of an incident's page.
func (h *Handler) href(id string) string {
	return h.Href(site.IncidentPath, url.Values{"id": {id}})
}

func (h *Handler) newRow(inc *incident.Incident, now time.Time) row {
	r := row{
		ID: inc.ID, Href: h.href(inc.ID), Mark: mark(inc), Title: format.Safe(inc.Title, format.MaxTitle),
		Service: format.Safe(inc.Service, format.MaxName), Status: inc.CurrentStatus(false).Status,
		Owner: format.Safe(inc.ResponseOwner(), format.MaxName), Team: format.Safe(inc.ResponseTeam(), format.MaxName),
		Public: inc.Public, ByHand: !inc.Automated, Onset: format.NewStamp(inc.Onset, now),
		Detection: format.Duration(inc.Detection()), Response: format.NoValue,
		Duration: format.Duration(inc.End(now).Sub(inc.Onset)),
	}
	if d, ok := inc.Response(); ok {
		r.Response = format.Duration(d)
	}
	r.Spent, r.Over = mostSpent(h.Opt.Incidents.Spent(inc))
	return r
}

// mostSpent is the largest share of an error budget that was spent.
func mostSpent(all []incident.Spent) (text string, over bool) {
	most, ok := largest(all)
	if !ok {
		return format.NoValue, false
	}
	return budgetShare(most), most > 1
}

// largest is the largest share of an error budget. ok is false if none is known.
func largest(all []incident.Spent) (most float64, ok bool) {
	for i := range all {
		most = max(most, all[i].Budget)
	}
	return most, len(all) > 0
}

// budgetShare prints a share of an error budget. What is more than nothing is never shown as nothing.
func budgetShare(x float64) string {
	switch {
	case !format.Finite(x):
		return format.NoValue
	case x > 0 && x < 0.001:
		return "<0.1%"
	}
	return format.Percent(x, 1)
}
