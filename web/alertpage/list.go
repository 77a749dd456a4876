package alertpage

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// listPage lists the alerts that a filter picks.
type listPage struct {
	site.Layout
	Total    string
	Rows     []Row
	More     int
	Hidden   [][2]string // fields of the filter that it does not show
	Selects  []site.Choice
	Filtered bool
	Clear    string
	API      string
}

// shown is how many alerts the page lists.
const shown = 200

func (h *Handler) listPage(c *gin.Context) {
	q := c.Request.URL.Query()
	f := site.NewAlertFilter(q)
	if f.State != "" && !slices.Contains(site.AlertStates, f.State) {
		f.State = ""
	}
	v := h.View()
	list, digest := h.Alerts(f)
	site.RefreshHeader(c)
	if respond.NotModified(c, v.ReportTag("alerts", c.Request.URL.RawQuery, digest, h.AlertStep(), respond.Theme(c))) {
		return
	}
	p := listPage{Layout: h.Layout(c, v, "Alerts", "alerts"), Total: format.Plural(len(list), "alert"),
		More: max(0, len(list)-shown), Clear: h.Href(site.AlertListPath, nil), API: h.Opt.ExternalPath + "/api/v1/alerts"}
	rows := NewRows(h.Site, c, v.Now)
	for _, a := range list[:len(list)-p.More] {
		p.Rows = append(p.Rows, rows.Row(a))
	}
	p.Search = site.Search{Text: format.Safe(q.Get("q"), format.MaxTitle), What: "alerts", Form: "filter"}
	h.fillFilter(&p, f, q)
	h.Page(c, http.StatusOK, "alerts", p)
}

// fillFilter offers the values that the alerts have, whatever is picked.
func (h *Handler) fillFilter(p *listPage, f site.AlertFilter, q url.Values) {
	services, severities, groups := map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}
	all, _ := h.Alerts(site.AlertFilter{})
	for _, a := range all {
		services[a.Service], severities[a.Severity] = true, true
		if a.Engine {
			continue // its group is the labels of a metric
		}
		for i, name := range a.GroupBy {
			if i < len(a.Group) {
				if groups[name] == nil {
					groups[name] = map[string]bool{}
				}
				groups[name][a.Group[i]] = true
			}
		}
	}
	states := map[string]bool{}
	for _, s := range site.AlertStates {
		states[string(s)] = true
	}
	add := func(name, label, any, picked string, values map[string]bool) {
		p.Selects = append(p.Selects, site.Choice{Name: name, Label: label, Any: any,
			Options: site.SelectOptions(values, picked)})
	}
	add("state", "State", "Any state", string(f.State), states)
	add("service", "Service", "All services", f.Service, services)
	add("severity", "Severity", "Any severity", f.Severity, severities)
	offered := map[string]bool{"state": true, "service": true, "severity": true, "q": true}
	for _, name := range groupNames(all) {
		param := site.GroupParam + name
		offered[param] = true
		add(param, format.Safe(name, format.MaxName), "Any "+format.Safe(name, format.MaxName), f.Group[name], groups[name])
	}
	rest := url.Values{}
	for k, v := range q {
		p.Filtered = p.Filtered || k != "refresh" && k != respond.ThemeParam && len(v) > 0 && v[0] != ""
		if !offered[k] && k != respond.ThemeParam {
			rest[k] = v
		}
	}
	p.Hidden = site.Hidden(rest)
}

// mostGroupNames bounds the selects of the filter. More can be had by address.
const mostGroupNames = 3

// groupNames are the attributes that most alerts are grouped by.
func groupNames(all []*state.Alert) []string {
	n := map[string]int{}
	for _, a := range all {
		for _, name := range a.GroupBy {
			if !a.Engine {
				n[name]++
			}
		}
	}
	var out []string
	for name := range n {
		out = append(out, name)
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(n[b]-n[a], strings.Compare(a, b)) })
	return out[:min(len(out), mostGroupNames)]
}
