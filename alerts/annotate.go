package alerts

import (
	"maps"
	"net/url"
	"strconv"
	"strings"

	"github.com/sloengine/sloengine/slo"
)

// UIDs of the dashboards that alerts link to.
const (
	DashboardSLO         = "sloengine-slo"
	DashboardSLA         = "sloengine-overview"
	DashboardReliability = "sloengine-reliability"
	DashboardIngest      = "sloengine-ingest"
	DashboardBrokers     = "sloengine-brokers"
	DashboardOutbox      = "sloengine-outbox"
)

// labelSeverity is a label of alerts; series.LabelSeverity is one of events.
const labelSeverity = "severity"

// LinkPrefix begins the annotations that hold the links of an SLO, but for its runbook.
const LinkPrefix = "link_"

// note is what an alert tells a person. Texts may hold Prometheus' templates.
type note struct {
	summary, description string
	dashboard            string   // UID
	variables            []string // name and value in turn, for the dashboard; values are templates or checked names
	page                 string   // path and query below the page's URL
	links                map[string]string
}

// annotations are the texts of an alert and its links. Page and dashboard are linked to
// only where their addresses are known: those of this machine work nowhere else.
func (g *generator) annotations(name string, n note) map[string]string {
	dash := strings.TrimSuffix(g.o.DashboardURL, "/") + "/d/" + n.dashboard
	sep := "?"
	for i := 0; i < len(n.variables); i += 2 {
		dash += sep + "var-" + n.variables[i] + "=" + n.variables[i+1]
		sep = "&"
	}
	out := map[string]string{
		"summary":     n.summary,
		"description": n.description,
		"runbook_url": strings.TrimSuffix(g.o.RunbookURL, "/") + "/" + name + ".md",
	}
	for name, link := range n.links {
		if name == "runbook" {
			out["runbook_url"] = link
		} else {
			out[LinkPrefix+name] = link
		}
	}
	if g.o.DashboardURL != "" {
		out["dashboard"] = dash
	}
	if g.o.PageURL != "" {
		out["page"] = strings.TrimSuffix(g.o.PageURL, "/") + n.page
	}
	return out
}

// sloNote fills in the links of an alert on an SLO.
func (g *generator) sloNote(s *slo.SLO, summary, description string) note {
	page := "/slo?id=" + url.QueryEscape(string(s.ID))
	vars := []string{"slo_id", g.dashboardID(s)}
	for i, l := range g.q.groups(s) {
		value := "{{ $labels." + l + " | urlquery }}"
		page += "&group." + url.QueryEscape(s.GroupBy[i]) + "=" + value
	}
	return note{summary: summary, description: description, dashboard: DashboardSLO, variables: vars, page: page,
		links: s.Links}
}

// dashboardID is how dashboards name an SLO, which follows the naming of series.
func (g *generator) dashboardID(s *slo.SLO) string {
	return url.QueryEscape(g.o.Identity(s)[0].Value)
}

// subject names an SLO with its group in the texts of an alert.
func (g *generator) subject(s *slo.SLO) string { return string(s.ID) + groupText(g.q.groups(s)) }

func groupText(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	parts := make([]string, len(labels))
	for i, l := range labels {
		parts[i] = l + "={{ $labels." + l + " }}"
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// number prints a float without rounding noise and without an exponent that a
// reader would stumble over.
func number(x float64) string {
	y := exact(x)
	if y != 0 && (y >= 1e15 || y <= -1e15 || y < 1e-9 && y > -1e-9) {
		return strconv.FormatFloat(y, 'g', 12, 64)
	}
	return strconv.FormatFloat(y, 'f', -1, 64)
}

func percent(ratio float64) string { return number(100*ratio) + " %" }

// merge adds what the user says to what an alert has; the user's wins. Labels and
// annotations may hold templates.
func merge(own, user map[string]string) map[string]string {
	maps.Copy(own, user)
	return own
}
