package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// choice is a flag whose value is one of a few words.
type choice struct {
	value *string
	words []string
}

// addChoice adds such a flag. The first word is the default.
func addChoice(f *pflag.FlagSet, p *string, name, short, usage string, words ...string) {
	*p = words[0]
	f.VarP(&choice{p, words}, name, short, usage+": "+alternatives(words))
}

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return "string" }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return usageError{fmt.Errorf("want %s", alternatives(c.words))}
	}
	*c.value = s
	return nil
}

func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// printer writes what a command found, in the format that -o names.
type printer struct {
	streams
	format string
}

func (p *printer) addOutput(f *pflag.FlagSet, formats ...string) {
	addChoice(f, &p.format, "output", "o", "output format", formats...)
}

// print writes v as JSON or YAML, or calls table.
func (p *printer) print(v any, table func() error) error {
	if p.format == "table" {
		return table()
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if p.format == "yaml" {
		return writeYAML(p.out, buf.Bytes())
	}
	_, err := io.WriteString(p.out, plainJSON(buf.String()))
	return err
}

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

func timeCell(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// maxCell is how many characters of a text a table shows.
const maxCell = 60

// cell is a text in a table: hostile ones cannot move the cursor or the columns.
func cell(s string) string {
	s = printable(s)
	if r := []rune(s); len(r) > maxCell {
		s = string(r[:maxCell-1]) + "…"
	}
	if s == "" {
		return "-"
	}
	return s
}

// groupText prints group values so that hostile ones cannot move the cursor.
func groupText(g map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(g)) {
		v := g[k]
		if v == "" {
			v = "(none)"
		}
		if quoted := fmt.Sprintf("%q", v); quoted != `"`+v+`"` {
			v = quoted
		}
		parts = append(parts, v)
	}
	return strings.Join(parts, ", ")
}

func percent(x *float64, digits int) string {
	if x == nil {
		return "no data"
	}
	return fmt.Sprintf("%.*f%%", digits, *x*100)
}

func decimal(x *float64, digits int) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, *x)
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// words prints a state of the API, such as no_data.
func words(s string) string { return strings.ReplaceAll(printable(s), "_", " ") }

// printable escapes what is no visible character.
func printable(s string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// plainJSON escapes, in a JSON document, what is no visible character; the document
// stays the same.
func plainJSON(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func hidden(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// writeYAML writes a JSON document as YAML, its fields in the same order.
func writeYAML(w io.Writer, raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	node, err := yamlNode(dec)
	if err != nil {
		return fmt.Errorf("decode response: %w", err)
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return fmt.Errorf("encode YAML: %w", err)
	}
	return enc.Close()
}

func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if t == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for dec.More() {
			// of a mapping, key and value come one after the other
			child, err := yamlNode(dec)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, err := dec.Token()
		return n, err
	case json.Number:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: t.String()}
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
		return n, nil
	}
	n := &yaml.Node{}
	if err := n.Encode(token); err != nil {
		return nil, err
	}
	return n, nil
}
