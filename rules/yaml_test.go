package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/rules"
)

// file is what a YAML library of others reads.
type file struct {
	Groups []struct {
		Name        string            `yaml:"name"`
		Interval    string            `yaml:"interval"`
		QueryOffset string            `yaml:"query_offset"`
		Limit       int               `yaml:"limit"`
		Labels      map[string]string `yaml:"labels"`
		Rules       []struct {
			Record, Alert, Expr string
			For                 string `yaml:"for"`
			KeepFiringFor       string `yaml:"keep_firing_for"`
			Labels, Annotations map[string]string
		}
	}
}

// Whatever the text, a rule file and a manifest are read back as they were written.
func TestYAMLRoundTrip(t *testing.T) {
	maps := rapid.MapOfN(rapid.String(), rapid.String(), 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		g := rules.Group{Name: text.Draw(t, "name"), Limit: 3, Interval: 30 * time.Second, Labels: maps.Draw(t, "labels"),
			Rules: []rules.Rule{
				{Record: "x" + text.Draw(t, "record"), Expr: text.Draw(t, "expr"), For: time.Hour, Labels: maps.Draw(t, "l"),
					Annotations: maps.Draw(t, "a")},
				{Alert: text.Draw(t, "alert"), Expr: "1", For: time.Hour},
			}}
		header := text.Draw(t, "header")
		var manifest struct {
			Metadata struct{ Name, Namespace string }
			Spec     file
		}
		var f file
		require.NoError(t, yaml.Unmarshal(rules.File(header, []rules.Group{g}), &f))
		require.NoError(t, yaml.Unmarshal(rules.Manifest(header, "m", "n", nil, []rules.Group{g}), &manifest))
		require.Equal(t, f, manifest.Spec)
		require.Equal(t, "m", manifest.Metadata.Name)
		require.Equal(t, "n", manifest.Metadata.Namespace)
		require.Len(t, f.Groups, 1)
		require.Equal(t, g.Name, f.Groups[0].Name)
		require.Equal(t, g.Limit, f.Groups[0].Limit)
		require.Equal(t, g.Labels, f.Groups[0].Labels)
		require.Len(t, f.Groups[0].Rules, len(g.Rules))
		for i, r := range f.Groups[0].Rules {
			require.Equal(t, g.Rules[i].Record, r.Record)
			require.Equal(t, g.Rules[i].Alert, r.Alert)
			require.Equal(t, g.Rules[i].Expr, r.Expr)
			require.Equal(t, g.Rules[i].Labels, r.Labels)
			require.Equal(t, g.Rules[i].Annotations, r.Annotations)
			require.Equal(t, "1h", r.For)
		}
	})
}

func TestYAMLShape(t *testing.T) {
	doc := string(rules.File("two\nlines", []rules.Group{{
		Name: "g", Interval: 30 * time.Second,
		Rules: []rules.Rule{
			{Alert: "A", Expr: "a\n+ b", For: time.Minute, KeepFiringFor: time.Hour,
				Labels: map[string]string{"b": "1", "a": `"x"`}},
			{Record: "r", Expr: `m{a="b"} > 1`, Labels: map[string]string{"team": "}"}},
		},
	}, {Name: "empty"}}))
	require.Equal(t, `# two
# lines
groups:
- name: g
  interval: 30s
  rules:
  - alert: A
    expr: |-
      a
      + b
    for: 1m
    keep_firing_for: 1h
    labels:
      a: "\"x\""
      b: "1"
  - record: r
    expr: m{a="b"} > 1
    labels: {team: "}"}
- name: empty
  rules: []
`, doc)
	require.Equal(t, "groups: []\n", string(rules.File("", nil)))
	require.NotContains(t, doc, "\n---")
	require.False(t, strings.HasPrefix(doc, "---"))
}
