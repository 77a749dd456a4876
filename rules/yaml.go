package rules

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/sloengine/sloengine/slo/yamlgen"
)

// File is a Prometheus rule file with the groups. The header, if there is one, becomes a comment.
func File(header string, groups []Group) []byte {
	var w writer
	w.comment(header)
	w.groups("", groups)
	return w.Bytes()
}

// Manifest is the same as a PrometheusRule of the Prometheus operator. The namespace and the labels may be empty.
func Manifest(header, name, namespace string, labels map[string]string, groups []Group) []byte {
	var w writer
	w.comment(header)
	w.WriteString("apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n")
	w.label("  ", "name", name)
	if namespace != "" {
		w.label("  ", "namespace", namespace)
	}
	w.set("  ", "labels", labels)
	w.WriteString("spec:\n")
	w.groups("  ", groups)
	return w.Bytes()
}

// writer writes rules line by line: a tree of nodes for a thousand SLOs takes more memory than the rest of a run. What
// is not plain goes through yamlgen, and the bytes are those that it writes.
type writer struct{ bytes.Buffer }

func (w *writer) comment(text string) {
	if text != "" {
		w.Write(bytes.TrimSuffix(yamlgen.Document(text, yamlgen.Plain("")), []byte("\n")))
	}
}

func (w *writer) line(parts ...string) {
	for _, p := range parts {
		w.WriteString(p)
	}
	w.WriteByte('\n')
}

func (w *writer) groups(indent string, groups []Group) {
	if len(groups) == 0 {
		w.line(indent, "groups: []")
		return
	}
	w.line(indent, "groups:")
	w.Grow(size(groups))
	inner := indent + "  "
	for i := range groups {
		g := &groups[i]
		for line := range strings.Lines(g.Comment) {
			w.line(indent, "# ", yamlgen.Visible(strings.TrimSpace(line)))
		}
		w.text(indent+"- ", inner, "name", g.Name)
		w.duration(inner, "interval", g.Interval)
		w.duration(inner, "query_offset", g.QueryOffset)
		if g.Limit > 0 {
			w.line(inner, "limit: ", strconv.Itoa(g.Limit))
		}
		w.set(inner, "labels", g.Labels)
		if len(g.Rules) == 0 {
			w.line(inner, "rules: []")
			continue
		}
		w.line(inner, "rules:")
		for j := range g.Rules {
			w.rule(inner, &g.Rules[j])
		}
	}
}

// size is about how many bytes groups take: a buffer that grows to megabytes by doubling takes thrice that for a while.
func size(groups []Group) (n int) {
	const line = 14 // what stands around a text on its line
	for i := range groups {
		for j := range groups[i].Rules {
			r := &groups[i].Rules[j]
			n += len(r.Record+r.Alert) + len(r.Expr) + 6*line
			for _, set := range []map[string]string{r.Labels, r.Annotations} {
				for name, value := range set {
					n += len(name) + len(value) + line
				}
			}
		}
	}
	return n
}

func (w *writer) rule(indent string, r *Rule) {
	inner := indent + "  "
	if r.Record != "" {
		w.text(indent+"- ", inner, "record", r.Record)
	} else {
		w.text(indent+"- ", inner, "alert", r.Alert)
	}
	w.text(inner, inner, "expr", r.Expr)
	w.duration(inner, "for", r.For)
	w.duration(inner, "keep_firing_for", r.KeepFiringFor)
	w.set(inner, "labels", r.Labels)
	w.set(inner, "annotations", r.Annotations)
}

func (w *writer) duration(indent, key string, d time.Duration) {
	if d > 0 {
		w.line(indent, key, ": ", dur(d))
	}
}

func (w *writer) set(indent, key string, set map[string]string) {
	if len(set) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(set))
	if line, ok := flow(names, set); ok {
		w.line(indent, key, ": {", line, "}")
		return
	}
	w.line(indent, key, ":")
	for _, name := range names {
		w.label(indent+"  ", name, set[name])
	}
}

// flow is a set of at most three short strings on one line.
func flow(names []string, set map[string]string) (string, bool) {
	const width = 80
	var b strings.Builder
	for i, name := range names {
		if i == 3 || b.Len() > width || !plainKey(name) || !model.LegacyValidation.IsValidLabelName(name) ||
			!ascii(set[name]) {
			return "", false
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name + ": ")
		if value := set[name]; plainLabel(value) && !strings.ContainsAny(value, ",[]{}") {
			b.WriteString(value)
		} else {
			b.WriteString(strconv.Quote(value))
		}
	}
	return b.String(), b.Len() <= width
}

// text writes a key with a string, which is plain, or a literal block if it has several lines. first is what the line
// begins with, and indent that of the lines after it.
func (w *writer) text(first, indent, key, value string) {
	switch {
	case plain(value):
		w.line(first, key, ": ", value)
	case block(value):
		w.line(first, key, ": |-")
		for line := range strings.Lines(value) {
			w.line(indent, "  ", strings.TrimSuffix(line, "\n"))
		}
	default:
		w.node(first, indent, key, yamlgen.Text(value))
	}
}

func (w *writer) label(indent, key, value string) {
	switch {
	case plainKey(key) && plainLabel(value):
		w.line(indent, key, ": ", value)
	case plainKey(key) && ascii(value):
		w.line(indent, key, ": ", strconv.Quote(value))
	default:
		w.node(indent, indent, key, yamlgen.Quoted(value))
	}
}

// node writes what is not plain.
func (w *writer) node(first, indent, key string, value *yamlgen.Node) {
	var m yamlgen.Map
	m.Set(key, value)
	for line := range bytes.Lines(yamlgen.Document("", m.Node())) {
		w.WriteString(first)
		w.Write(line)
		first = indent
	}
}

// ascii reports whether a text consists of printable characters of ASCII.
func ascii(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// plain reports whether every reader of YAML takes a text without quotes for a string: it begins with a character of
// the alphabet, is no word with a meaning of its own, and holds nothing that ends a string.
func plain(s string) bool {
	return len(s) > 5 && alphabetic(s[0]) && ascii(s) && s[len(s)-1] != ' ' && s[len(s)-1] != ':' &&
		!strings.Contains(s, ": ") && !strings.Contains(s, " #")
}

func alphabetic(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// plainLabel is plain for the values of labels and annotations, which may be short.
func plainLabel(s string) bool { return plain(s) || plainKey(s) }

// plainKey is plain for the names of labels and annotations.
func plainKey(s string) bool {
	switch strings.ToLower(s) {
	case "yes", "off", "true", "false", "null":
		return false
	}
	return len(s) > 2 && alphabetic(s[0]) && ascii(s) && !strings.ContainsAny(s, " :#\"'")
}

// block reports whether a text of several lines may stand in a literal block without further marks.
func block(s string) bool {
	if !strings.Contains(s, "\n") || !alphabetic(s[0]) && s[0] != '(' || strings.HasSuffix(s, "\n") ||
		strings.Contains(s, "\n\n") {
		return false
	}
	for line := range strings.Lines(s) {
		if line = strings.TrimSuffix(line, "\n"); !ascii(line) || strings.HasSuffix(line, " ") {
			return false
		}
	}
	return true
}
