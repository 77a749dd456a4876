package rules

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// AppendGroups appends one YAML document: a Prometheus rule file. The header, if
// there is one, becomes a comment. A writer of its own, since encoding thousands
// of rules by reflection takes longer than making them.
func AppendGroups(dst []byte, header string, groups []Group) []byte {
	return AppendGroupsIndented(dst, header, groups, 0)
}

// AppendGroupsIndented is AppendGroups below a mapping of another document, such
// as the spec of a PrometheusRule: every line is indented by so many spaces.
func AppendGroupsIndented(dst []byte, header string, groups []Group, indent int) []byte {
	w := yamlWriter{dst, strings.Repeat(" ", indent)}
	w.header(header)
	if len(groups) == 0 {
		w.line("groups: []\n")
		return w.b
	}
	w.line("groups:\n")
	for i := range groups {
		w.group(&groups[i])
	}
	return w.b
}

// WriteGroups writes the same document as AppendGroups while the groups come,
// so that few of them are in memory. After an error the document is incomplete.
func WriteGroups(to io.Writer, header string, groups iter.Seq2[Group, error]) error {
	const enough = 64 << 10
	w := yamlWriter{b: make([]byte, 0, 2*enough)}
	w.header(header)
	first := true
	for g, err := range groups {
		if err != nil {
			return err
		}
		if first {
			w.line("groups:\n")
			first = false
		}
		if w.group(&g); len(w.b) >= enough {
			if _, err := to.Write(w.b); err != nil {
				return fmt.Errorf("write rules: %w", err)
			}
			w.b = w.b[:0]
		}
	}
	if first {
		w.line("groups: []\n")
	}
	if _, err := to.Write(w.b); err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	return nil
}

func (w *yamlWriter) header(text string) {
	for line := range strings.Lines(text) {
		w.line("#")
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			w.b = append(w.b, ' ')
			w.b = append(w.b, strings.ToValidUTF8(strings.Map(comment, line), "?")...)
		}
		w.b = append(w.b, '\n')
	}
}

func comment(r rune) rune {
	if !printable(r) {
		return '?'
	}
	return r
}

type yamlWriter struct {
	b      []byte
	indent string
}

func (w *yamlWriter) line(s string) {
	w.b = append(w.b, w.indent...)
	w.b = append(w.b, s...)
}

func (w *yamlWriter) group(g *Group) {
	w.line("  - name: ")
	w.scalar(g.Name)
	w.duration("    interval: ", g.Interval)
	w.duration("    query_offset: ", g.QueryOffset)
	if g.Limit > 0 {
		w.line("    limit: ")
		w.b = append(w.b, strconv.Itoa(g.Limit)...)
		w.b = append(w.b, '\n')
	}
	w.mapping("    labels:\n", "      ", g.Labels)
	if len(g.Rules) == 0 {
		w.line("    rules: []\n")
		return
	}
	w.line("    rules:\n")
	for i := range g.Rules {
		w.rule(&g.Rules[i])
	}
}

func (w *yamlWriter) rule(r *Rule) {
	if r.Record != "" {
		w.line("      - record: ")
		w.scalar(r.Record)
	} else {
		w.line("      - alert: ")
		w.scalar(r.Alert)
	}
	w.line("        expr: ")
	w.expr(r.Expr)
	w.duration("        for: ", r.For)
	w.duration("        keep_firing_for: ", r.KeepFiringFor)
	w.mapping("        labels:\n", "          ", r.Labels)
	w.mapping("        annotations:\n", "          ", r.Annotations)
}

func (w *yamlWriter) duration(key string, d time.Duration) {
	if d <= 0 {
		return
	}
	w.line(key)
	w.b = append(w.b, dur(d)...)
	w.b = append(w.b, '\n')
}

func (w *yamlWriter) mapping(title, indent string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	w.line(title)
	var room [8]string
	keys := room[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		w.line(indent)
		w.text(k)
		w.b = append(w.b, ": "...)
		w.quoted(m[k])
		w.b = append(w.b, '\n')
	}
}

// scalar writes a value and ends the line.
func (w *yamlWriter) scalar(s string) {
	w.text(s)
	w.b = append(w.b, '\n')
}

// text writes a name: plain if it reads as nothing but text, else quoted.
func (w *yamlWriter) text(s string) {
	if isPlain(s) {
		w.b = append(w.b, s...)
		return
	}
	w.quoted(s)
}

// expr writes an expression: plain if possible, in a literal block if it has
// several lines, else quoted.
func (w *yamlWriter) expr(s string) {
	switch {
	case isPlain(s):
		w.b = append(w.b, s...)
	case isBlock(s):
		w.b = append(w.b, "|-"...)
		for line := range strings.SplitSeq(s, "\n") {
			w.b = append(w.b, '\n')
			if line != "" {
				w.line("          ")
				w.b = append(w.b, line...)
			}
		}
	default:
		w.quoted(s)
	}
	w.b = append(w.b, '\n')
}

// isPlain reports whether text may stand as it is: it begins with a letter or a
// bracket, is printable ASCII, has nothing that ends a plain scalar or begins a
// comment, and is none of the words that YAML 1.1 takes for something else.
func isPlain(s string) bool {
	if s == "" {
		return false
	}
	if c := s[0]; c != '(' && c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' || c == '#' && i > 0 && s[i-1] == ' ' || c == ':' && (i == len(s)-1 || s[i+1] == ' ') {
			return false
		}
	}
	if s[len(s)-1] == ' ' {
		return false
	}
	if len(s) > 5 {
		return true
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}

// isBlock reports whether text may stand in a literal block without loss.
func isBlock(s string) bool {
	if !strings.Contains(s, "\n") || s[0] == ' ' || s[0] == '\n' || s[len(s)-1] == '\n' || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if r < utf8.RuneSelf && (r >= ' ' && r < 0x7f || r == '\n') {
			continue
		}
		if r < utf8.RuneSelf || !printable(r) {
			return false
		}
	}
	return true
}

// printable reports whether YAML takes a character as it is, and everyone sees it.
func printable(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r < 0xa0, r == 0x2028, r == 0x2029, r == 0xfeff, r >= 0xd800 && r < 0xe000, r == 0xfffe, r == 0xffff:
		return false
	}
	return true
}

const hexDigits = "0123456789abcdef"

// quoted writes a double-quoted scalar. Broken UTF-8 becomes the replacement
// character.
func (w *yamlWriter) quoted(s string) {
	w.b = append(w.b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf && c >= ' ' && c != '"' && c != '\\' && c != 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if printable(r) && c != '"' && c != '\\' && (r != utf8.RuneError || size > 1) {
			i += size
			continue
		}
		w.b = append(w.b, s[from:i]...)
		switch c {
		case '"', '\\':
			w.b = append(w.b, '\\', c)
		case '\n':
			w.b = append(w.b, `\n`...)
		case '\t':
			w.b = append(w.b, `\t`...)
		default:
			w.b = append(w.b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
		}
		i += size
		from = i
	}
	w.b = append(w.b, s[from:]...)
	w.b = append(w.b, '"')
}
