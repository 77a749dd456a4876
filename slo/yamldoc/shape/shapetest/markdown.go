package shapetest

import (
	"fmt"
	"strings"

	"github.com/sloengine/sloengine/slo/yamldoc/shape"
)

// Markdown is the reference of a format: a section for each mapping, with a row for each key. root names the whole
// document. Mappings with the same keys are described once.
func Markdown(s *shape.Shape, root string) string {
	var b strings.Builder
	seen := map[string]string{} // the title of a table
	skip := ""
	s.Walk("", func(path string, m *shape.Shape) {
		if skip != "" && strings.HasPrefix(path, skip) {
			return
		}
		title := "`" + path + "`"
		if path == "" {
			title = root
		}
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		table, same := table(m, path), signature(m)
		if first, ok := seen[same]; ok {
			fmt.Fprintf(&b, "The keys are those of [%s](#%s).\n", first, anchor(first))
			skip = path + "."
			return
		}
		seen[same], skip = title, ""
		if m.One {
			b.WriteString("Exactly one of these keys is given.\n\n")
		}
		b.WriteString("| key | type and range | default | example | meaning |\n|---|---|---|---|---|\n" + table)
	})
	return b.String()
}

// signature is what two mappings share that are described once.
func signature(s *shape.Shape) string {
	var b strings.Builder
	s.Walk("", func(path string, m *shape.Shape) {
		for i := range m.Keys {
			k := &m.Keys[i]
			fmt.Fprintf(&b, "%s %s %s %s %s\n", path, k.Name, k.String(), k.Default, k.Text)
		}
	})
	return b.String()
}

func table(s *shape.Shape, path string) string {
	var b strings.Builder
	for i := range s.Keys {
		k := &s.Keys[i]
		kind := k.String()
		k.Inner(shape.Child(path, k.Name), func(inner string, _ *shape.Shape) {
			kind = strings.Replace(kind, "mapping", "[mapping](#"+anchor(inner)+")", 1)
		})
		value := "none"
		switch {
		case k.Required:
			value = "required"
		case k.Inherits != "":
			value = k.Inherits
		case k.Default != "":
			if value = k.Default; !prose(value) {
				value = "`" + value + "`"
			}
		}
		text := k.Text
		for _, other := range k.Not {
			text += " Excludes `" + other + "`."
		}
		for _, other := range k.Needs {
			text += " Requires `" + other + "`."
		}
		if k.ByEnvironment {
			kind += ", [by environment](#values-by-environment)"
		}
		example := ""
		if k.Example != "" {
			example = "`" + k.Example + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", cell(k.Name), cell(kind), cell(value), cell(example), cell(text))
	}
	return b.String()
}

// prose reports whether a default says where a value comes from, and is none itself.
func prose(value string) bool {
	return strings.Contains(value, " ") && value[0] >= 'a' && value[0] <= 'z'
}

// cell escapes what would end a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// anchor is how a heading is linked to.
func anchor(title string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-':
			return c
		case c == ' ':
			return '-'
		}
		return -1
	}, title)
}
