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

// Whatever the text, it is read back as it was written.
func TestYAMLRoundTrip(t *testing.T) {
	odd := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"", "yes", "On", "null", "~", "1", "0x1F", "1e3", "2026-01-01", "a: b", "a:", ": ", "- a", " a", "a ", "a #b", "#", "a\nb", "a\n\n  b\nc", "\n", "a\n", "{{ $value }}", "'", `"`, `\`, "\t", "a\tb", "\u0085", "\u2028", "\ufeff", "é", "日本", "%", "@x", "`", "? x", "| ", "> ", "!t", "&a", "*a", "---", "..."}),
		rapid.StringMatching(`[a-z:#\n "{}()\\-]{0,30}`),
	)
	maps := rapid.MapOfN(odd, odd, 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		g := rules.Group{Name: odd.Draw(t, "name"), Limit: rapid.IntRange(0, 9).Draw(t, "limit"), Interval: 30 * time.Second, Labels: maps.Draw(t, "labels")}
		for range rapid.IntRange(0, 3).Draw(t, "rules") {
			g.Rules = append(g.Rules, rules.Rule{Record: "x" + odd.Draw(t, "record"), Expr: odd.Draw(t, "expr"), For: time.Hour, Labels: maps.Draw(t, "l"), Annotations: maps.Draw(t, "a")})
		}
		doc := rules.AppendGroups(nil, odd.Draw(t, "header"), []rules.Group{g})
		for _, indent := range []int{0, 2} {
			if indent > 0 {
				doc = append([]byte("spec:\n"), rules.AppendGroupsIndented(nil, "", []rules.Group{g}, indent)...)
			}
			var got struct {
				file `yaml:",inline"`
				Spec file
			}
			require.NoError(t, yaml.Unmarshal(doc, &got), "%s", doc)
			f := got.file
			if indent > 0 {
				f = got.Spec
			}
			require.Len(t, f.Groups, 1)
			require.Equal(t, g.Name, f.Groups[0].Name)
			require.Equal(t, g.Limit, f.Groups[0].Limit)
			same(t, g.Labels, f.Groups[0].Labels)
			require.Len(t, f.Groups[0].Rules, len(g.Rules))
			for i, r := range f.Groups[0].Rules {
				require.Equal(t, g.Rules[i].Record, r.Record)
				require.Equal(t, g.Rules[i].Expr, r.Expr)
				same(t, g.Rules[i].Labels, r.Labels)
				same(t, g.Rules[i].Annotations, r.Annotations)
				require.Equal(t, "1h", r.For)
			}
		}
	})
}

func same(t *rapid.T, want, got map[string]string) {
	require.Len(t, got, len(want))
	for k, v := range want {
		require.Equal(t, v, got[k])
	}
}

func TestYAMLShape(t *testing.T) {
	doc := string(rules.AppendGroups(nil, "two\nlines", []rules.Group{{
		Name: "g", Interval: 30 * time.Second,
		Rules: []rules.Rule{
			{Alert: "A", Expr: "a\n+ b", For: time.Minute, KeepFiringFor: time.Hour, Labels: map[string]string{"b": "1", "a": `"x"`}},
			{Record: "r", Expr: `m{a="b"} > 1`},
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
  - name: empty
    rules: []
`, doc)
	require.Equal(t, "groups: []\n", string(rules.AppendGroups(nil, "", nil)))
	require.NotContains(t, doc, "\n---")
	require.False(t, strings.HasPrefix(doc, "---"))
}
