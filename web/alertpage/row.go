package alertpage

import (
	"net/url"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// Row is one alert in a list.
type Row struct {
	Mark      chart.Mark
	Name      string
	Page      string // address of the page of the alert
	Windows   string // of a burn-rate tier
	Severity  string
	Service   string
	About     string // the SLO, the agreement, or nothing
	Href      string // what it is about; "" if no page shows that
	Group     []format.Label
	Since     format.Stamp
	Lasted    string // until now, or until it was over
	Detection string // from the first bad event to firing
	Resolved  format.Stamp
	Removed   bool
	Do        Actions
}

// Actions are what a reader of a row can do about its alert.
type Actions struct {
	Runbook  string // address; "" if there is none
	Silences string // address of the silence that mutes it; "" if it is not silenced
	Silence  string // address of the form that silences it; "" if it is silenced, or if the reader may not
}

// Rows makes the rows of one answer.
type Rows struct {
	*site.Site
	now        time.Time
	silences   func(*state.Alert) []string
	maySilence bool
}

// NewRows prepares the rows of an answer.
func NewRows(s *site.Site, c *gin.Context, now time.Time) Rows {
	return Rows{s, now, s.Silencing(), MaySilence(s, c)}
}

// MaySilence reports whether the reader may silence alerts, and that would have an effect.
func MaySilence(s *site.Site, c *gin.Context) bool {
	return s.Opt.Silences != nil && s.Opt.Silences.HasReceivers() && s.Opt.May(c, site.Operate)
}

// Row makes the row of an alert.
func (rows *Rows) Row(a *state.Alert) Row {
	now := rows.now
	r := Row{
		Mark: chart.AlertMark(a), Name: format.Safe(a.Name, format.MaxName), Page: rows.AlertHref(a.Fingerprint),
		Severity: format.Safe(a.Severity, format.MaxName), Service: format.Safe(a.Service, format.MaxName),
		Since: format.NewStamp(a.ActiveSince, now), Resolved: format.NewStamp(a.ResolvedAt, now), Removed: a.Removed,
		Do: rows.actions(a),
	}
	end := now
	if !a.ResolvedAt.IsZero() {
		end = a.ResolvedAt
	}
	r.Lasted = format.Duration(end.Sub(a.ActiveSince))
	if !a.FiredAt.IsZero() {
		r.Detection = format.Duration(a.Detection())
	}
	r.Windows, r.Group = format.Safe(chart.AlertWindows(a), format.MaxName), format.Labels(a.GroupBy, a.Group)
	r.About, r.Href = about(rows.Site, a)
	if a.Engine {
		r.Service = "engine"
	}
	return r
}

func (rows *Rows) actions(a *state.Alert) (do Actions) {
	do.Runbook = site.Runbook(a)
	if ids := rows.silences(a); len(ids) > 0 {
		do.Silences = rows.Href(site.SilenceListPath, nil) + "#" + url.PathEscape(ids[0])
	} else if rows.maySilence && a.State == state.Firing {
		do.Silence = rows.SilenceHref(a)
	}
	return do
}

// about names what an alert is about within its service, and the page of that.
func about(s *site.Site, a *state.Alert) (name, href string) {
	q := site.GroupQuery(a.GroupBy, a.Group)
	switch {
	case a.SLO != "":
		q.Set("id", string(a.SLO))
		return format.Safe(a.SLO.Name(), format.MaxName), s.Href("/slo", q) // without a group, it leads to all of them
	case a.Agreement != "":
		q.Set("service", a.Service)
		q.Set("sla", a.Agreement)
		return format.Safe(a.Agreement, format.MaxName), s.Href("/sla", q)
	case a.Engine:
		return "", s.Href("/engine", nil)
	case a.Service != "":
		return "", s.Href("/", url.Values{"service": {a.Service}})
	}
	return "", ""
}
