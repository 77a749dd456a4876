package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// GrafanaOptions say where the alert rules of Grafana belong.
type GrafanaOptions struct {
	DataSource string // UID of the Prometheus with the recorded series
	Folder     string
}

// The parts of Grafana's provisioning file of alert rules that are written.
type (
	grafanaFile struct {
		Version int            `yaml:"apiVersion"`
		Groups  []grafanaGroup `yaml:"groups"`
	}
	grafanaGroup struct {
		Org      int           `yaml:"orgId"`
		Name     string        `yaml:"name"`
		Folder   string        `yaml:"folder"`
		Interval string        `yaml:"interval"`
		Rules    []grafanaRule `yaml:"rules"`
	}
	grafanaRule struct {
		UID         string            `yaml:"uid"`
		Title       string            `yaml:"title"`
		Condition   string            `yaml:"condition"`
		Data        []grafanaQuery    `yaml:"data"`
		NoData      string            `yaml:"noDataState"`
		Error       string            `yaml:"execErrState"`
		For         string            `yaml:"for"`
		Keep        string            `yaml:"keepFiringFor,omitempty"` // newer than Grafana 11
		Labels      map[string]string `yaml:"labels,omitempty"`
		Annotations map[string]string `yaml:"annotations,omitempty"`
	}
	grafanaQuery struct {
		Ref        string       `yaml:"refId"`
		Range      grafanaRange `yaml:"relativeTimeRange"`
		DataSource string       `yaml:"datasourceUid"`
		Model      grafanaModel `yaml:"model"`
	}
	grafanaRange struct {
		From int `yaml:"from"`
		To   int `yaml:"to"`
	}
	grafanaModel struct {
		Ref        string `yaml:"refId"`
		Expr       string `yaml:"expr,omitempty"`
		Instant    bool   `yaml:"instant,omitempty"`
		Type       string `yaml:"type,omitempty"`
		Expression string `yaml:"expression,omitempty"`
	}
)

const (
	// grafanaTick is the interval that those of all groups have to be a multiple of.
	grafanaTick = 10 * time.Second
	// anyValue is true for each series that the query returns, whatever its value, as it is in Prometheus.
	anyValue = "is_number($A) || is_nan($A) || is_inf($A)"
)

// GrafanaAlerts is a provisioning file of Grafana with the alerts of groups; nil without any. A query returns what the
// expression of the rule returns, so the alerts read the series that the other rules record in Prometheus.
func GrafanaAlerts(header string, groups []Group, o GrafanaOptions) []byte {
	file := grafanaFile{Version: 1}
	titles := map[string]int{}
	for i := range groups {
		in := &groups[i]
		every := max(cmp.Or(in.Interval, time.Minute), grafanaTick)
		g := grafanaGroup{Org: 1, Name: dollars(in.Name), Folder: dollars(o.Folder),
			Interval: dur(every.Truncate(grafanaTick))}
		for j := range in.Rules {
			if r := &in.Rules[j]; r.Alert != "" {
				g.Rules = append(g.Rules, grafanaAlert(r, o, titles))
			}
		}
		if len(g.Rules) > 0 {
			file.Groups = append(file.Groups, g)
		}
	}
	if file.Groups == nil {
		return nil
	}
	return yamlgen.Document(header, file)
}

func grafanaAlert(r *Rule, o GrafanaOptions, titles map[string]int) grafanaRule {
	title := r.Alert // which must be unique in a folder
	for _, label := range []string{series.LabelSLOID, series.LabelSlothID, series.LabelSLA, "slo_tier"} {
		if v := r.Labels[label]; v != "" && !strings.Contains(v, "{{") {
			title += " " + v
		}
	}
	if titles[title]++; titles[title] > 1 {
		title += fmt.Sprintf(" %d", titles[title])
	}
	sum := sha256.Sum256([]byte(title))
	out := grafanaRule{
		UID: "sloengine-" + hex.EncodeToString(sum[:10]), Title: dollars(title), Condition: "B",
		Data: []grafanaQuery{
			{Ref: "A", Range: grafanaRange{From: 600}, DataSource: o.DataSource,
				Model: grafanaModel{Ref: "A", Expr: r.Expr, Instant: true}},
			{Ref: "B", DataSource: "__expr__", Model: grafanaModel{Ref: "B", Type: "math", Expression: anyValue}},
		},
		NoData: "OK", Error: "Error", // without a series, the alert does not fire
		For: "0s", Labels: maps.Clone(r.Labels), Annotations: map[string]string{},
	}
	if r.For > 0 {
		out.For = dur(r.For)
	}
	if r.KeepFiringFor > 0 {
		out.Keep = dur(r.KeepFiringFor)
	}
	for _, name := range slices.Sorted(maps.Keys(out.Labels)) {
		out.Labels[name] = dollars(out.Labels[name])
	}
	for name, text := range r.Annotations {
		if strings.Contains(text, "| query }}") {
			continue // Grafana's templates cannot query
		}
		out.Annotations[name] = strings.ReplaceAll(text, "$value", "$values.A.Value")
	}
	return out
}

// dollars keeps Grafana from taking what follows a dollar sign for an environment variable, in all but annotations and
// queries.
func dollars(s string) string { return strings.ReplaceAll(s, "$", "$$") }
