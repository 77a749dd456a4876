package dashboards

import (
	"slices"
	"strings"

	"github.com/sloengine/sloengine/rules/series"
)

// ownVariables are names that no group label may take.
var ownVariables = []string{"datasource", "service", "sla", "slo", "slo_id", "job", "instance",
	"type", "process", "cost"}

// variableName is the variable of a group label.
func variableName(label string) string {
	if slices.Contains(ownVariables, label) || strings.HasPrefix(label, "slos_") || strings.HasPrefix(label, "__") {
		return "label_" + label
	}
	return label
}

// sourceVariable lets the reader pick the Prometheus that everything is read from.
func sourceVariable() variable {
	return variable{
		Name: "datasource", Label: "Prometheus", Type: "datasource", Query: "prometheus", Refresh: 1,
		Description: "The Prometheus that scrapes the engine and evaluates its rules.",
	}
}

// several is a variable over the values of a label, of which any number can be
// picked; all of them at first. The pattern for all also fits series without
// the label, so that SLOs which are not grouped by it stay in view.
func several(name, label, about, of, from string) variable {
	v := one(name, label, about, of, from)
	v.Multi, v.IncludeAll, v.AllValue = true, true, ".*"
	v.Current = current{Text: []string{"All"}, Value: []string{"$__all"}}
	return v
}

// one is a variable over the values of a label, of which one is picked.
func one(name, label, about, of, from string) variable {
	q := "label_values(" + from + ", " + of + ")"
	return variable{
		Name: name, Label: label, Description: about, Type: "query", DataSource: &prometheus,
		Definition: q, Query: labelQuery{q, "PrometheusVariableQueryEditor-VariableQuery"}, Refresh: 2, Sort: 1,
	}
}

// hidden is a variable that only saves queries from repeating a long list.
func hidden(name, value string) variable {
	return variable{Name: name, Type: "constant", Query: value, Hide: 2, Current: current{Text: value, Value: value}}
}

// text is a variable that the reader types in.
func textVariable(name, label, about, value string) variable {
	return variable{Name: name, Label: label, Description: about, Type: "textbox", Query: value,
		Current: current{Text: value, Value: value}}
}

// variables are those that a board has beside the ones that its file names.
func (x *scope) variables(uid string) []variable {
	switch uid {
	case "sloengine-overview", "sloengine-operational":
		return x.slaVariables()
	case uidSLO:
		return x.detailVariables()
	}
	return x.sloVariables(x.labels)
}

// detailVariables pick an SLO and its groups.
func (x *scope) detailVariables() []variable {
	out := []variable{sourceVariable(), one("slo_id", "SLO", "The SLO, as service/slo.", x.id, series.Objective)}
	if x.id != series.LabelSLOID { // the engine's own series have our labels, whatever the rules' are called
		for _, v := range []variable{one("service", "", "", x.service, of(x.one, series.Objective)),
			one("slo", "", "", x.name, of(x.one, series.Objective))} {
			v.Hide = 2
			out = append(out, v)
		}
	}
	for _, l := range x.labels {
		out = append(out, several(variableName(l), l, "Values of the group label "+l+", if the SLO is grouped by it.",
			l, x.groups(x.one)))
	}
	return out
}

// sloVariables pick services and the values of group labels.
func (g *generator) sloVariables(labels []string) []variable {
	out := []variable{
		sourceVariable(),
		several("service", "Service", "Services of the spec.", g.service, series.Objective),
	}
	for _, l := range labels {
		out = append(out, several(variableName(l), l,
			"Values of the group label "+l+". While values are selected, SLOs that are not grouped by this label are hidden.",
			l, g.groups(g.service+`=~"$service"`)))
	}
	return out
}

// slaVariables pick services, agreements and groups.
func (g *generator) slaVariables() []variable {
	out := g.sloVariables(g.labels)
	if g.agreements {
		out = slices.Insert(out, 2, several("sla", "Agreement", "Agreements (SLAs) of the service.", series.LabelSLA,
			series.ComponentWeight+`{`+series.LabelService+`=~"$service"}`))
	}
	// Labels that agreements have and no SLO: they are refused in a spec, but
	// every variable that a query uses must exist.
	for _, l := range g.slaLabels {
		if !slices.Contains(g.labels, l) {
			out = append(out, several(variableName(l), l, "Values of the group label "+l+".", l, series.RecordedCompositeScore))
		}
	}
	return out
}

// board begins a dashboard with what all of them share. It marks the times in which alerts fire: those of what is in
// view, which matcher selects.
func (g *generator) board(f *boardFile, matcher string) *board {
	b := &board{model: model{
		UID: f.UID, Title: f.Title, Description: f.About, Tags: []string{tag, "slo"}, SchemaVersion: schemaVersion,
		Version:  1,
		Editable: true, GraphTooltip: 1, Refresh: "1m", Time: timeRange{"now-24h", "now"}, Timezone: "browser",
		Annotations: annotations{List: []annotation{{
			Name: "Firing alerts", DataSource: prometheus, Enable: true, IconColor: "red", Step: "60s",
			Expr: `ALERTS{alertstate="firing",` + matcher + `}`, TitleFormat: "{{alertname}}",
			TagKeys:    "severity,slo_tier,slo_kind",
			TextFormat: "{{" + g.name + "}} {{instance}}",
		}}},
		Links: []link{
			{Title: "Dashboards", Type: "dashboards", Icon: "external link", Tags: []string{tag}, AsDropdown: true,
				IncludeVars: true, KeepTime: true, Tooltip: "The other dashboards of sloengine"},
			{Title: "Runbooks", Type: "link", Icon: "info", URL: g.o.RunbookURL, Tooltip: "What to do about each alert",
				TargetBlank: true},
		},
	}}
	if g.o.PageURL != "" {
		b.Links = slices.Insert(b.Links, 1, link{Title: "Status page", Type: "link", Icon: "doc", URL: g.o.PageURL + "/",
			Tooltip: "The engine's own page", TargetBlank: true})
	}
	return b
}

// detailLinks lead from a value to the SLO's own dashboard and to its page. field
// is how Grafana names the value's SLO.
func (g *generator) detailLinks(field string) []link {
	out := []link{{
		Title: "SLO detail", TargetBlank: false,
		URL: "/d/" + uidSLO + "?var-datasource=${datasource}&var-slo_id=${" + field + "}&${__url_time_range}",
	}}
	if g.id == series.LabelSLOID && g.o.PageURL != "" {
		out = append(out, link{Title: "Status page", URL: g.o.PageURL + "/slo?id=${" + field + "}", TargetBlank: true})
	}
	return out
}
