package cli

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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// choice is a flag whose value is one of a few words.
type choice struct {
	value *string
	words []string
}

// AddChoice adds such a flag. The first word is the default; "": none.
func AddChoice(f *pflag.FlagSet, p *string, name, short, usage string, words ...string) {
	*p = words[0]
	if words[0] == "" {
		words = words[1:]
	}
	f.VarP(&choice{p, words}, name, short, usage+": "+Alternatives(words))
}

// Complete completes the values of all flags that have one of a few words, and of those whose words names knows; nil:
// files.
func Complete(c *cobra.Command, names func(c *cobra.Command, flag string) func() []string) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		words := names(c, f.Name)
		if of, ok := f.Value.(*choice); ok {
			words = func() []string { return of.words }
		}
		if words != nil {
			_ = c.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, _ string) ([]string,
				cobra.ShellCompDirective) {
				return words(), cobra.ShellCompDirectiveNoFileComp
			}) // it fails for a flag that has one
		}
	})
	for _, sub := range c.Commands() {
		Complete(sub, names)
	}
}

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return "string" }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return Usagef("want %s", Alternatives(c.words))
	}
	*c.value = s
	return nil
}

// Alternatives lists words as a choice: a, b or c.
func Alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Printer writes what a command found, in the format that -o names.
type Printer struct {
	Streams
	Format string
}

// AddOutput adds the flag -o. The first format is the default.
func (p *Printer) AddOutput(f *pflag.FlagSet, formats ...string) {
	AddChoice(f, &p.Format, "output", "o", "output format", formats...)
}

// Print writes v as JSON or YAML, or calls table.
func (p *Printer) Print(v any, table func() error) error {
	if p.Format == "table" {
		return table()
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if p.Format == "yaml" {
		return WriteYAML(p.Out, buf.Bytes())
	}
	_, err := io.WriteString(p.Out, PlainJSON(buf.String()))
	return err
}

// PrintText writes v as JSON or YAML, or else a line of text to w.
func (p *Printer) PrintText(v any, w io.Writer, format string, args ...any) error {
	return p.Print(v, func() error {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		return err
	})
}

// NewTable aligns columns that are separated by tabs. Flush it at the end.
func NewTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// Seconds is a number of seconds of the API as a duration, to the millisecond.
func Seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

// TimeCell is a time in a table, in UTC. A time that is not known is a dash.
func TimeCell(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// maxCell is how many characters of a text a table shows.
const maxCell = 60

// Cell is a text in a table: hostile ones cannot move the cursor or the columns.
func Cell(s string) string {
	s = Printable(s)
	if r := []rune(s); len(r) > maxCell {
		s = string(r[:maxCell-1]) + "…"
	}
	if s == "" {
		return "-"
	}
	return s
}

// GroupText prints group values so that hostile ones cannot move the cursor.
func GroupText(g map[string]string) string {
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

// Percent prints a ratio with that many digits, and a missing one as no data.
func Percent(x *float64, digits int) string {
	if x == nil {
		return "no data"
	}
	return fmt.Sprintf("%.*f%%", digits, *x*100)
}

// Decimal prints a number with that many digits, and a missing one as a dash.
func Decimal(x *float64, digits int) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, *x)
}

// Plural prints a number of things, whose word takes an s.
func Plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Words prints a state of the API, such as no_data.
func Words(s string) string { return strings.ReplaceAll(Printable(s), "_", " ") }

// Printable escapes what is no visible character.
func Printable(s string) string {
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

// PlainJSON escapes, in a JSON document, what is no visible character; the document
// stays the same.
func PlainJSON(s string) string {
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

// WriteYAML writes a JSON document as YAML, its fields in the same order.
func WriteYAML(w io.Writer, raw []byte) error {
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
