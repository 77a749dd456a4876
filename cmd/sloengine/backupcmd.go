package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/remote"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/parquet"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/backup"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/slo"
)

func newBackup(s cli.Streams) *cobra.Command {
	var (
		engine  remote.Client
		out     string
		history bool
	)
	p := &cli.Printer{Streams: s}
	c := &cobra.Command{
		Use:   "backup --out DIR|-",
		Short: "Copy the data directory of a running engine, consistently",
		Long: `backup requests a copy of the data directory from a running engine: log, checkpoint, dead
letters, log ranges, sink cursors and alert states. The engine keeps serving. The backup
contains all events that the engine acknowledged before the backup began.

DIR must be empty or must not exist. With -, backup writes a tar stream to standard
output. The last file, BACKUP.json, lists all other files with their SHA-256 checksums.
An interrupted backup lacks this file, and restore refuses it.

With --history, the backup also holds the retained history (log.retain), which can be much
larger than all else. Files of it that expire meanwhile are left out.

A backup does not contain dead letters in Redis or in memory, nor the output of file
sinks. If the engine requires tokens, the command needs the permission operate.`,
		Example: `  sloengine backup --out /backup/2026-11-22
  sloengine backup --out - | zstd > backup.tar.zst`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" {
				return cli.Usagef("no destination given: set --out DIR, or --out - for a tar stream")
			}
			if out == "-" && p.Format != "table" {
				return cli.Usagef("--out - writes the backup to standard output, which leaves no room for -o %s", p.Format)
			}
			began := time.Now()
			m, err := readBackup(c.Context(), &engine, history, out, s.Out)
			if err != nil {
				return fmt.Errorf("backup: %w", err)
			}
			done := summaryOf(m, began)
			return p.PrintText(done, s.Err,
				"backed up %s, %d bytes, in %.1fs; the backup contains everything acknowledged before %s",
				cli.Plural(done.Files, "file"), done.Bytes, done.Seconds, m.Begun.Format(time.RFC3339))
		},
	}
	engine.AddFlags(c.Flags())
	c.Flags().StringVar(&out, "out", "", "folder to write to, or - for a tar stream on standard output")
	c.Flags().BoolVar(&history, "history", false, "back up the retained history, too")
	p.AddOutput(c.Flags(), "table", "json")
	return c
}

// backupSummary is what backup and restore print as JSON.
type backupSummary struct {
	Files   int       `json:"files"`
	Bytes   int64     `json:"bytes"`
	Begun   time.Time `json:"begun"` // everything acknowledged before is in the backup
	Seconds float64   `json:"seconds"`
}

func summaryOf(m *backup.Manifest, began time.Time) backupSummary {
	return backupSummary{len(m.Files), m.Bytes(), m.Begun, time.Since(began).Seconds()}
}

// readBackup reads the stream of a running engine and verifies it.
func readBackup(
	ctx context.Context, c *remote.Client, history bool, out string, stdout io.Writer,
) (m *backup.Manifest, err error) {
	params := url.Values{}
	if history { // engines before this parameter ignore it
		params.Set("history", "true")
	}
	err = c.Stream(ctx, app.BackupPath, params, func(r io.Reader) error {
		if out == "-" {
			m, err = backup.Check(r, stdout)
		} else {
			m, err = backup.Unpack(r, out)
		}
		return err
	})
	return m, err
}

func newRestore(s cli.Streams) *cobra.Command {
	var from, dataDir string
	p := &cli.Printer{Streams: s}
	c := &cobra.Command{
		Use:   "restore --from DIR|FILE --data-dir DIR",
		Short: "Write a backup to an empty data directory",
		Long: `restore reads a backup (a folder or a tar file) and verifies all checksums. Then it
writes the data directory, which must be empty or must not exist. An engine started on it
has counted everything acknowledged before the backup began, and possibly some events
that arrived during the backup. Events that you send again are counted once.

Events that a sink received after the backup began are delivered to it again.`,
		Example: `  sloengine restore --from /backup/2026-11-22 --data-dir data
  zstd -d backup.tar.zst && sloengine restore --from backup.tar --data-dir data`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case from == "-":
				return cli.Usagef("restore reads the backup twice and cannot read standard input: write the backup to a file first")
			case from == "":
				return cli.Usagef("no backup given: set --from DIR or --from FILE")
			case dataDir == "":
				return cli.Usagef("no data directory given: set --data-dir DIR (empty or missing)")
			}
			began := time.Now()
			m, err := backup.Restore(from, dataDir, engine.DataFormat, app.BackupHolds)
			if err != nil {
				return fmt.Errorf("restore: %w", err)
			}
			done := summaryOf(m, began)
			return p.PrintText(done, s.Err, "restored %s, %d bytes, in %.1fs, from the backup that began at %s",
				cli.Plural(done.Files, "file"), done.Bytes, done.Seconds, m.Begun.Format(time.RFC3339))
		},
	}
	p.AddOutput(c.Flags(), "table", "json")
	c.Flags().StringVar(&from, "from", "", "backup to read: folder or tar file")
	c.Flags().StringVar(&dataDir, "data-dir", "", "data directory to write; must be empty or missing")
	return c
}

// export selects events of the log.
type export struct {
	dataDir, from, to, service, typ string
	format, out, slo                string

	verdicts *counting.Verdicts // of slo; nil: all events
}

func newExport(s cli.Streams) *cobra.Command {
	var x export
	c := &cobra.Command{
		Use:   "export --data-dir DIR",
		Short: "Write the events of the retained log as JSON lines or Parquet files",
		Long: `export reads the log of an engine, and its history as far back as log.retain keeps it, and
writes each event as a line of JSON, in the order in which the engine received them. The
engine may be running: export takes no lock and changes nothing.

With --format parquet, it writes a folder of Apache Parquet files per service and day,
which appears when all are written.

With --slo, it writes only the events that count for this SLO by the last definition in the log,
each with good and bad: how many events it counts as. Events that the engine refused count only
where they were replayed.

Merged events are written as they were merged. An event that was a dead letter and was
replayed is written again, with the same id.

If some records cannot be read, export writes the others, lists the missing ranges on
standard error and exits with 3.`,
		Example: `  sloengine export --data-dir data --service shop --from 2026-11-20T00:00:00Z > shop.ndjson
  sloengine export --data-dir data --format parquet --out events
  duckdb -c "SELECT service, day, outcome, sum(count * weight) FROM 'events/**/*.parquet' GROUP BY ALL"`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return x.run(c.Context(), s) },
	}
	f := c.Flags()
	f.StringVar(&x.dataDir, "data-dir", "", "data directory of an engine")
	f.StringVar(&x.from, "from", "", "only events from this time on (RFC 3339)")
	f.StringVar(&x.to, "to", "", "only events before this time (RFC 3339)")
	f.StringVar(&x.service, "service", "", "only events of this service")
	f.StringVar(&x.typ, "type", "", "only events of this type")
	f.StringVar(&x.slo, "slo", "", "only events that count for this SLO (service/name), with what they count as")
	f.StringVar(&x.format, "format", "ndjson", "ndjson or parquet")
	f.StringVar(&x.out, "out", "", "folder to write with --format parquet; must be empty or missing")
	return c
}

// query is what is asked for; the index skips what holds none of it.
func (x *export) query() (q retained.Query, err error) {
	q = retained.Query{Service: x.service, Type: x.typ}
	for _, t := range []struct {
		flag, text string
		to         *int64
	}{{"--from", x.from, &q.EventFrom}, {"--to", x.to, &q.EventTo}} {
		if t.text == "" {
			continue
		}
		at, err := slo.ParseTime(t.text)
		if err != nil || at.Year() < 1970 || at.Year() > 2261 {
			return q, cli.Usagef("%s %s: want a time such as %s", t.flag, cli.Printable(t.text),
				time.Now().UTC().Format(time.RFC3339))
		}
		*t.to = at.UnixNano()
	}
	if q.EventTo != 0 && q.EventTo <= q.EventFrom {
		return q, cli.Usagef("--to must be later than --from")
	}
	return q, nil
}

func (x *export) run(ctx context.Context, s cli.Streams) (err error) {
	switch {
	case x.dataDir == "":
		return cli.Usagef("no data directory given: set --data-dir DIR")
	case x.format != "ndjson" && x.format != "parquet":
		return cli.Usagef("--format %s: want ndjson or parquet", cli.Printable(x.format))
	case x.format == "parquet" && x.out == "":
		return cli.Usagef("--format parquet writes files: set --out DIR (empty or missing)")
	case x.format == "ndjson" && x.out != "":
		return cli.Usagef("--out is for --format parquet; lines are written to standard output")
	}
	q, err := x.query()
	if err != nil {
		return err
	}
	source, err := engine.OpenLog(fsys.OS(), x.dataDir)
	if err != nil {
		return err
	}
	if x.slo != "" {
		if x.verdicts, err = counting.NewVerdicts(ctx, source, slo.ID(x.slo)); err != nil {
			return fmt.Errorf("--slo: %w", err)
		}
		if q.Service = x.verdicts.Service(); x.service != "" && x.service != q.Service {
			return cli.Usagef("--service %s: events that count for --slo are of service %s", cli.Printable(x.service),
				cli.Printable(q.Service))
		}
	}
	r, err := source.NewReader(q)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if x.format == "parquet" {
		err = x.writeParquet(ctx, s, r, &q)
	} else {
		err = x.writeLines(ctx, s.Out, r, &q)
	}
	if err != nil {
		return err
	}
	gaps, more := r.Gaps()
	for _, g := range gaps {
		_, _ = fmt.Fprintf(s.Err, "records %d to %d are missing: %s\n", g.First, g.Next-1, g.Reason)
	}
	if more > 0 {
		_, _ = fmt.Fprintf(s.Err, "%s more are missing\n", cli.Plural(more, "range"))
	}
	if len(gaps) > 0 {
		return cli.ErrFindings
	}
	return nil
}

// eachEvent calls f with the events that a query asks for.
func (x *export) eachEvent(ctx context.Context, r *retained.Reader, q *retained.Query,
	f func(*parquet.Row) error) error {
	var view event.View
	to := int64(math.MaxInt64)
	if q.EventTo != 0 {
		to = q.EventTo
	}
	for rec, err := range r.Rest(ctx) {
		if err != nil {
			return err
		}
		if rec.Type != record.TypeEvents && rec.Type != record.TypeReplay {
			continue
		}
		events, err := record.ParseEvents(rec.Payload)
		if err != nil {
			return fmt.Errorf("record %d: %w", rec.Seq, err)
		}
		row := parquet.Row{Event: &view, Received: rec.Time, Record: rec.Seq}
		for body := events.Body; len(body) > 0; row.Index++ {
			n, err := view.Parse(body)
			if err != nil {
				return fmt.Errorf("event of record %d: %w", rec.Seq, err)
			}
			row.Binary, body = body[:n], body[n:]
			if view.Time < q.EventFrom && q.EventFrom != 0 || view.Time >= to ||
				q.Service != "" && string(view.Service) != q.Service || q.Type != "" && string(view.Type) != q.Type {
				continue
			}
			if row.Judged = x.verdicts != nil; row.Judged {
				if row.Good, row.Bad = x.verdicts.Of(rec.Seq, rec.Time, &view); row.Good+row.Bad == 0 {
					continue
				}
			}
			if err := f(&row); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *export) writeLines(ctx context.Context, to io.Writer, r *retained.Reader, q *retained.Query) error {
	out := bufio.NewWriterSize(to, 1<<16)
	var line []byte
	if err := x.eachEvent(ctx, r, q, func(row *parquet.Row) error {
		line = row.Event.AppendJSON(line[:0])
		if row.Judged {
			line = fmt.Appendf(line[:len(line)-1], `,"good":%d,"bad":%d}`, row.Good, row.Bad)
		}
		line = append(line, '\n')
		_, err := out.Write(line)
		return err
	}); err != nil {
		return err
	}
	return out.Flush()
}

// writeParquet writes beside the folder and renames at the end: a part must not be taken for the whole.
func (x *export) writeParquet(ctx context.Context, s cli.Streams, r *retained.Reader, q *retained.Query) (err error) {
	out := filepath.Clean(x.out)
	if names, err := os.ReadDir(out); err == nil && len(names) > 0 {
		return fmt.Errorf("--out %s is not empty: give another folder, or remove it", cli.Printable(x.out))
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--out: %w", err)
	}
	partial := out + ".partial"
	if _, err := os.Lstat(partial); err == nil {
		return fmt.Errorf("%s is of an export that did not end: remove it if that is not running", cli.Printable(partial))
	}
	w, err := parquet.NewWriter(fsys.OS(), partial)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	if err := x.eachEvent(ctx, r, q, w.Write); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := os.Remove(out); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--out: %w", err)
	}
	if err := fsys.ChangeDir(fsys.OS(), filepath.Dir(out), parquet.SiteMkdir, func() error {
		return os.Rename(partial, out)
	}); err != nil {
		return err
	}
	rows, files := w.Written()
	_, _ = fmt.Fprintf(s.Err, "%s in %s of %s\n", cli.Plural(int(rows), "event"), cli.Plural(files, "file"),
		cli.Printable(out))
	return nil
}
