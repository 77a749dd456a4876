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

	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/reliability/dlq"
)

// print writes a JSON document as the flags ask, or calls table.
func (o *dlqCommon) print(raw json.RawMessage, table func() error) error {
	switch o.output {
	case "json":
		var buf bytes.Buffer
		if err := json.Indent(&buf, raw, "", "  "); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		_, err := fmt.Fprintln(o.out, plainJSON(buf.String()))
		return err
	case "yaml":
		return writeYAML(o.out, raw)
	}
	return table()
}

func (o *dlqCommon) printValue(v any, table func() error) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	return o.print(raw, table)
}

// dlqPrinter writes a list of dead letters page by page, so that a long one needs no
// memory: a table, one JSON array, or one YAML list.
type dlqPrinter struct {
	*dlqCommon
	n int
}

func newDLQPrinter(o *dlqCommon) *dlqPrinter { return &dlqPrinter{dlqCommon: o} }

func (p *dlqPrinter) entries(items []json.RawMessage) error {
	if p.output == "table" {
		return p.table(items)
	}
	for _, raw := range items {
		p.n++
		if p.output == "yaml" {
			if err := writeYAML(p.out, []byte("["+string(raw)+"]")); err != nil {
				return err
			}
			continue
		}
		start := ",\n  "
		if p.n == 1 {
			start = "[\n  "
		}
		var buf bytes.Buffer
		if err := json.Indent(&buf, raw, "  ", "  "); err != nil {
			return fmt.Errorf("read a dead letter: %w", err)
		}
		if _, err := fmt.Fprint(p.out, start, plainJSON(buf.String())); err != nil {
			return err
		}
	}
	return nil
}

// close ends a whole list.
func (p *dlqPrinter) close() (err error) {
	switch {
	case p.n > 0:
		return p.end()
	case p.output == "table":
		_, err = fmt.Fprintln(p.err, "no dead letters match")
	default:
		_, err = fmt.Fprintln(p.out, "[]")
	}
	return err
}

// end finishes the document as far as it got.
func (p *dlqPrinter) end() (err error) {
	if p.output == "json" && p.n > 0 {
		_, err = fmt.Fprint(p.out, "\n]\n")
	}
	return err
}

func (p *dlqPrinter) table(items []json.RawMessage) error {
	if len(items) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	if p.n == 0 {
		fmt.Fprintln(tw, "ID\tSAVED\tORIGIN\tSINK\tREASON\tCLASS\tTRIES\tSERVICE\tTYPE\tSEVERITY")
	}
	for _, raw := range items {
		var e dlq.Entry
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("read a dead letter: %w", err)
		}
		p.n++
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", cell(e.ID), timeCell(e.Saved), cell(string(e.Origin)), cell(e.Sink),
			cell(e.Reason), cell(e.Class), e.Attempts, cell(e.Service), cell(e.Type), cell(e.Severity))
	}
	return tw.Flush()
}

func printEntry(w io.Writer, e *dlq.Entry) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(tw, "%s\t%s\n", name, printable(value))
		}
	}
	line("id", e.ID)
	line("origin", string(e.Origin))
	line("sink", e.Sink)
	line("reason", e.Reason)
	line("class", e.Class)
	line("error", e.Error)
	line("attempts", strconv.Itoa(e.Attempts))
	for _, at := range []struct {
		name string
		time time.Time
	}{{"first failure", e.First}, {"last failure", e.Last}, {"saved", e.Saved}} {
		if !at.time.IsZero() {
			line(at.name, timeCell(at.time))
		}
	}
	switch {
	case e.SeqEnd > e.Seq:
		line("log", fmt.Sprintf("records %d to %d", e.Seq, e.SeqEnd))
	case e.Seq > 0:
		line("log", fmt.Sprintf("record %d, event %d", e.Seq, e.Index))
	}
	line("service", e.Service)
	line("type", e.Type)
	line("severity", e.Severity)
	line("raw", string(e.Raw))
	if err := tw.Flush(); err != nil || len(e.Event) == 0 {
		return err
	}
	var buf bytes.Buffer
	if err := json.Indent(&buf, e.Event, "", "  "); err != nil {
		return fmt.Errorf("read the event: %w", err)
	}
	_, err := fmt.Fprintf(w, "event\n%s\n", plainJSON(buf.String()))
	return err
}

func printDLQStats(w io.Writer, s dlq.Stats) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "storage\t%s\ndead letters\t%d\nbytes\t%d\n", printable(s.Backend), s.Count, s.Bytes)
	if s.DiskBytes > 0 {
		fmt.Fprintf(tw, "bytes on disk\t%d\n", s.DiskBytes)
	}
	if s.MemoryBytes > 0 {
		fmt.Fprintf(tw, "bytes in redis\t%d\n", s.MemoryBytes)
	}
	if !s.Oldest.IsZero() {
		fmt.Fprintf(tw, "oldest\t%s\n", timeCell(s.Oldest))
	}
	if !s.Newest.IsZero() {
		fmt.Fprintf(tw, "newest\t%s\n", timeCell(s.Newest))
	}
	if s.Damaged > 0 {
		fmt.Fprintf(tw, "damaged places\t%d\n", s.Damaged)
	}
	if l := s.Lost; l != nil {
		fmt.Fprintf(tw, "lost at most\t%d\nbytes damaged\t%d\n", l.Entries, l.Bytes)
		if !l.From.IsZero() || !l.To.IsZero() {
			fmt.Fprintf(tw, "saved between\t%s and %s\n", timeCell(l.From), timeCell(l.To))
		}
	}
	if s.TornBytes > 0 {
		fmt.Fprintf(tw, "bytes torn\t%d\n", s.TornBytes)
	}
	for _, part := range []struct {
		name string
		by   map[string]int64
	}{{"origin", s.ByOrigin}, {"reason", s.ByReason}, {"sink", s.BySink}} {
		for _, key := range slices.Sorted(maps.Keys(part.by)) {
			fmt.Fprintf(tw, "%s %s\t%d\n", part.name, cell(key), part.by[key])
		}
	}
	return tw.Flush()
}

func printReplay(w io.Writer, r dlq.ReplayResult) error {
	if r.DryRun {
		fmt.Fprintln(w, "dry run: nothing was done")
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	replayed := "replayed"
	if r.DryRun {
		replayed = "would be tried"
	}
	fmt.Fprintf(tw, "%s\t%d\n", replayed, r.Replayed)
	for _, x := range []struct {
		name string
		n    int
	}{
		{"failed again", r.Failed}, {"held back", r.HeldBack}, {"too old", r.TooOld}, {"without a target", r.NoTarget}, {"not there", r.NotFound},
	} {
		if x.n > 0 {
			fmt.Fprintf(tw, "%s\t%d\n", x.name, x.n)
		}
	}
	return tw.Flush()
}

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
		return fmt.Errorf("read the answer: %w", err)
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return fmt.Errorf("write YAML: %w", err)
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
