package yamlgen_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo/yamlgen"
)

// odd are strings that YAML could take for something else, or that need quotes or escapes.
var odd = []string{
	"", "plain", "two words", "a  b", " a", "a ", "yes", "NULL", "~", "1", "1e3", "0x1", "1:30", "-", "- a", "a: b",
	"a #b", "#a", "'", `"`, `\`, "{a}", "[", "&a", "*a", "!a", "%a", "@a",
	"a\nb", "a\n\nb", "a\n  b\nc", "\na", "a\n", " a\nb", "a \nb", "tab\tin", "a\n\tb", "é", "日本", "\u2028", "\ufeff",
	"a\ufeffb", "\u00a0", "\U0001f600", "=", "<<", "a,b", "a]", "x:", "2026-01-01", ".5", "(a)", "a (b)", "\u200b",
	"\ufffd", "---", "--- a\nb", "...", "a\n---\nb", "it's\n\"x\"",
	"\n", "\t", "a\tb", "\u0085", "`", "? x", "| ", "> ", "\x00", "\x7f",
}

// A string is read back as it was written, in every style and place.
func TestStringsAreReadBack(t *testing.T) {
	check := func(t require.TestingT, s string) {
		for _, style := range []func(string) *yamlgen.Node{yamlgen.Text, yamlgen.Quoted, yamlgen.SingleQuoted} {
			var in, doc yamlgen.Map
			in.Set("k", style(s))
			doc.Set("block", style(s))
			doc.Set("line", yamlgen.Line(yamlgen.List(style(s), in.Line(), yamlgen.Texts([]string{s}))))
			doc.Set("list", yamlgen.List(style(s), in.Node()))
			doc.Set("keys", yamlgen.Strings(map[string]string{s: s}, style))
			text := yamlgen.Document("made\n"+s, doc.Node())
			var got map[string]any
			require.NoError(t, yaml.Unmarshal(text, &got), "%q:\n%s", s, text)
			require.Equal(t, map[string]any{
				"block": s,
				"line":  []any{s, map[string]any{"k": s}, []any{s}},
				"list":  []any{s, map[string]any{"k": s}},
				"keys":  map[string]any{s: s},
			}, got, "%s", text)
		}
	}
	for _, s := range odd {
		check(t, s)
	}
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.String().Draw(t, "text")) })
}

func TestShape(t *testing.T) {
	var in, doc yamlgen.Map
	in.Text("empty", "")
	in.Plain("max", "1")
	in.Plain("for", "5m")
	doc.Text("name", "a")
	yamlgen.Comment(doc.Set("in", in.Line()), "one line")
	doc.List("none", nil)
	doc.List("items", []*yamlgen.Node{in.Node(), yamlgen.Texts([]string{"a", "1"})})
	doc.Set("expr", yamlgen.Text("a\n+ b"))
	doc.Set("quoted", yamlgen.Quoted(`"x"`))
	doc.Set("single", yamlgen.SingleQuoted(`m{a="b"}`))
	require.Equal(t, `# two
#
# lines
name: a
in: {max: 1, for: 5m} # one line
items:
  - max: 1
    for: 5m
  - [a, "1"]
expr: |-
  a
  + b
quoted: "\"x\""
single: 'm{a="b"}'
`, string(yamlgen.Document("two\n\nlines", doc.Node())))
	require.Equal(t, "\"\ufffd\"\n", string(yamlgen.Document("", yamlgen.Text("\xff"))))
	require.Panics(t, func() { yamlgen.Document("", make(chan int)) })
}
