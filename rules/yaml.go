package rules

import (
	"strconv"
	"time"

	"github.com/sloengine/sloengine/slo/yamlgen"
)

// File is a Prometheus rule file with the groups. The header, if there is one, becomes a comment.
func File(header string, groups []Group) []byte {
	return yamlgen.Document(header, groupsNode(groups))
}

// Manifest is the same as a PrometheusRule of the Prometheus operator. The namespace and the labels may be empty.
func Manifest(header, name, namespace string, labels map[string]string, groups []Group) []byte {
	var m, meta yamlgen.Map
	m.Text("apiVersion", "monitoring.coreos.com/v1")
	m.Text("kind", "PrometheusRule")
	meta.Set("name", yamlgen.Quoted(name))
	if namespace != "" {
		meta.Set("namespace", yamlgen.Quoted(namespace))
	}
	quoted(&meta, "labels", labels)
	m.Set("metadata", meta.Node())
	m.Set("spec", groupsNode(groups))
	return yamlgen.Document(header, m.Node())
}

func groupsNode(groups []Group) *yamlgen.Node {
	var m yamlgen.Map
	all := make([]*yamlgen.Node, len(groups))
	for i := range groups {
		all[i] = yamlgen.Above(groups[i].node(), groups[i].Comment)
	}
	m.Set("groups", yamlgen.List(all...))
	return m.Node()
}

func (g *Group) node() *yamlgen.Node {
	var m yamlgen.Map
	m.Set("name", yamlgen.Text(g.Name))
	duration(&m, "interval", g.Interval)
	duration(&m, "query_offset", g.QueryOffset)
	if g.Limit > 0 {
		m.Plain("limit", strconv.Itoa(g.Limit))
	}
	quoted(&m, "labels", g.Labels)
	all := make([]*yamlgen.Node, len(g.Rules))
	for i := range g.Rules {
		all[i] = g.Rules[i].node()
	}
	m.Set("rules", yamlgen.List(all...))
	return m.Node()
}

func (r *Rule) node() *yamlgen.Node {
	var m yamlgen.Map
	if r.Record != "" {
		m.Text("record", r.Record)
	} else {
		m.Set("alert", yamlgen.Text(r.Alert))
	}
	m.Set("expr", yamlgen.Text(r.Expr))
	duration(&m, "for", r.For)
	duration(&m, "keep_firing_for", r.KeepFiringFor)
	quoted(&m, "labels", r.Labels)
	quoted(&m, "annotations", r.Annotations)
	return m.Node()
}

func duration(m *yamlgen.Map, key string, d time.Duration) {
	if d > 0 {
		m.Plain(key, dur(d))
	}
}

func quoted(m *yamlgen.Map, key string, set map[string]string) {
	if len(set) > 0 {
		m.Set(key, yamlgen.Strings(set, yamlgen.Quoted))
	}
}
