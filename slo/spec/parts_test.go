package spec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"objective", "objectve", 1}, {"kitten", "sitting", 3}, {"form", "from", 1}, {"ключ", "луч", 2},
	} {
		require.Equal(t, c.want, distance(c.a, c.b), "%s %s", c.a, c.b)
		require.Equal(t, c.want, distance(c.b, c.a), "%s %s", c.b, c.a)
	}
	require.Equal(t, "group_by", closest("groupBy", []string{"name", "group_by"}))
	require.Equal(t, "group_by", closest("group-by", []string{"name", "group_by"}))
	require.Empty(t, closest("colour", []string{"name", "group_by"}))
	require.Empty(t, closest(strings.Repeat("x", 65), []string{strings.Repeat("x", 64)}))
}

// The place of every character of a scalar, however it is written.
func TestInside(t *testing.T) {
	for name, c := range map[string]struct {
		yaml   string
		find   string // in the value; its first character is looked for
		column int
		line   int
	}{
		"plain":           {`key: abcXdef`, "X", 9, 1},
		"single quotes":   {`key: 'it''s X'`, "X", 13, 1},
		"double quotes":   {`key: "a\"\tb\x41\u0042X"`, "X", 23, 1},
		"wide characters": {`ключ: "дом X"`, "X", 12, 1},
		"literal":         {"key: |\n  first\n  secXond\n", "X", 6, 3},
		"literal, deep":   {"a:\n  key: |-\n      {\n        X\n", "X", 9, 4},
		"literal, CRLF":   {"key: |\r\n  first\r\n  secXond\r\n", "X", 6, 3},
		"folded":          {"key: >\n  first\n  secXond\n", "X", 6, 1},
		"plain, two rows": {"key: abc\n  dXf\n", "X", 6, 1},
		"quoted, 2 rows":  {"key: \"abc\n  dXf\"\n", "X", 6, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var doc yaml.Node
			require.NoError(t, yaml.Unmarshal([]byte(c.yaml), &doc))
			n := doc.Content[0].Content[1]
			for n.Kind == yaml.MappingNode {
				n = n.Content[1]
			}
			r := &reader{collector: &collector{}, file: "f", lines: splitLines(c.yaml)}
			got := newValue(r, n, "key").inside(strings.Index(n.Value, c.find))
			if strings.HasPrefix(name, "folded") || strings.Contains(name, "rows") {
				require.Equal(t, r.at(n), got, "the place of the scalar")
				return
			}
			require.Equal(t, Position{"f", c.line, c.column}, got)
		})
	}
}

func TestFixDuration(t *testing.T) {
	for in, want := range map[string]string{
		"30 days": "30d", "5min": "5m", "1.5h": "1h30m", "2 Hours": "2h", "500 milliseconds": "500ms", "0.5s": "500ms", "1M": "1m", "soon": "", "": "", "5x": "",
	} {
		require.Equal(t, want, fixDuration(in), in)
	}
}
