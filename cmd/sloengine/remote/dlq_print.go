package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/dlq"
)

// dlqPrinter writes a list of dead letters page by page, so that a long one needs no
// memory: a table, one JSON array, or one YAML list.
type dlqPrinter struct {
	*engineCommand
	n int
}

func (p *dlqPrinter) entries(answer page[json.RawMessage]) error {
	if p.Format == "table" {
		return p.table(answer.Items)
	}
	for _, raw := range answer.Items {
		p.n++
		if p.Format == "yaml" {
			if err := cli.WriteYAML(p.Out, []byte("["+string(raw)+"]")); err != nil {
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
			return fmt.Errorf("decode dead letter: %w", err)
		}
		if _, err := fmt.Fprint(p.Out, start, cli.PlainJSON(buf.String())); err != nil {
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
	case p.Format == "table":
		_, err = fmt.Fprintln(p.Err, "no dead letters match")
	default:
		_, err = fmt.Fprintln(p.Out, "[]")
	}
	return err
}

// end finishes the document as far as it got.
func (p *dlqPrinter) end() (err error) {
	if p.Format == "json" && p.n > 0 {
		_, err = fmt.Fprint(p.Out, "\n]\n")
	}
	return err
}

func (p *dlqPrinter) table(items []json.RawMessage) error {
	if len(items) == 0 {
		return nil
	}
	tw := cli.NewTable(p.Out)
	if p.n == 0 {
		fmt.Fprintln(tw, "ID\tSAVED\tORIGIN\tSINK\tREASON\tCLASS\tTRIES\tSERVICE\tTYPE\tSEVERITY")
	}
	for _, raw := range items {
		var e dlq.Entry
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("decode dead letter: %w", err)
		}
		p.n++
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", cli.Cell(e.ID), cli.TimeCell(e.Saved),
			cli.Cell(string(e.Origin)), cli.Cell(e.Sink),
			cli.Cell(e.Reason), cli.Cell(e.Class), e.Attempts, cli.Cell(e.Service), cli.Cell(e.Type), cli.Cell(e.Severity))
	}
	return tw.Flush()
}

func printEntry(w io.Writer, e *dlq.Entry) error {
	tw := cli.NewTable(w)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(tw, "%s\t%s\n", name, cli.Printable(value))
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
			line(at.name, cli.TimeCell(at.time))
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
		return fmt.Errorf("decode event: %w", err)
	}
	_, err := fmt.Fprintf(w, "event\n%s\n", cli.PlainJSON(buf.String()))
	return err
}

func printDLQStats(w io.Writer, s dlq.Stats) error {
	tw := cli.NewTable(w)
	fmt.Fprintf(tw, "storage\t%s\ndead letters\t%d\nbytes\t%d\n", cli.Printable(s.Backend), s.Count, s.Bytes)
	some := func(name string, n int64) {
		if n > 0 {
			fmt.Fprintf(tw, "%s\t%d\n", name, n)
		}
	}
	some("bytes on disk", s.DiskBytes)
	some("bytes in redis", s.MemoryBytes)
	if !s.Oldest.IsZero() {
		fmt.Fprintf(tw, "oldest\t%s\n", cli.TimeCell(s.Oldest))
	}
	if !s.Newest.IsZero() {
		fmt.Fprintf(tw, "newest\t%s\n", cli.TimeCell(s.Newest))
	}
	some("damaged places", s.Damaged)
	if l := s.Lost; l != nil {
		fmt.Fprintf(tw, "lost at most\t%d\nbytes damaged\t%d\n", l.Entries, l.Bytes)
		if !l.From.IsZero() || !l.To.IsZero() {
			fmt.Fprintf(tw, "saved between\t%s and %s\n", cli.TimeCell(l.From), cli.TimeCell(l.To))
		}
	}
	some("bytes torn", s.TornBytes)
	for _, part := range []struct {
		name string
		by   map[string]int64
	}{{"origin", s.ByOrigin}, {"reason", s.ByReason}, {"sink", s.BySink}} {
		for _, key := range slices.Sorted(maps.Keys(part.by)) {
			fmt.Fprintf(tw, "%s %s\t%d\n", part.name, cli.Cell(key), part.by[key])
		}
	}
	return tw.Flush()
}

func printReplay(w io.Writer, r dlq.ReplayResult) error {
	if r.DryRun {
		fmt.Fprintln(w, "dry run: nothing was changed")
	}
	tw := cli.NewTable(w)
	replayed := "replayed"
	if r.DryRun {
		replayed = "would be replayed"
	}
	fmt.Fprintf(tw, "%s\t%d\n", replayed, r.Replayed)
	for _, x := range []struct {
		name string
		n    int
	}{
		{"failed again", r.Failed}, {"held back", r.HeldBack}, {"too old", r.TooOld}, {"no target", r.NoTarget},
		{"not found", r.NotFound},
	} {
		if x.n > 0 {
			fmt.Fprintf(tw, "%s\t%d\n", x.name, x.n)
		}
	}
	return tw.Flush()
}
