package yamldoc

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

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
			r := &file{Reader: &Reader{}, name: "f", lines: splitLines(c.yaml)}
			got := newValue(r, n, "key").Inside(strings.Index(n.Value, c.find))
			if strings.HasPrefix(name, "folded") || strings.Contains(name, "rows") {
				require.Equal(t, r.at(n), got, "the place of the scalar")
				return
			}
			require.Equal(t, Position{"f", c.line, c.column}, got)
		})
	}
}

// A step down that cannot be made is reported where it fails, and once: what is below it reads as nothing.
func TestAMissingStepIsReportedOnce(t *testing.T) {
	for text, want := range map[string]string{
		"a: {b: {c: 5}}":  "",
		"a: {b: {}}":      "f:1:8: b: c is missing (add c)",
		"a: {}":           "f:1:4: a: b is missing (add b)",
		"a: {b: [1]}":     "f:1:8: b: want a mapping (key: value), got a list",
		"a: {b: {c: []}}": "f:1:12: c: want a single value, got a list",
	} {
		var r Reader
		b := r.Document("f", []byte(text)).Object("a").Need("a", "add a").Object("b").Need("b", "add b")
		n, ok := b.Object("c").Need("c", "add c").Whole(0, 9)
		require.Equal(t, want == "", ok, text)
		require.Equal(t, want == "", n == 5, text)
		got := ""
		if err := r.Problems().Err(); err != nil {
			got = err.Error()
		}
		require.Equal(t, want, got, text)
	}
}
