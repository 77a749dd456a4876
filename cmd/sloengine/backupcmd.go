package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/remote"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/backup"
)

func newBackup(s cli.Streams) *cobra.Command {
	var (
		engine remote.Client
		out    string
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
			m, err := readBackup(c.Context(), &engine, out, s.Out)
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
func readBackup(ctx context.Context, c *remote.Client, out string, stdout io.Writer) (m *backup.Manifest, err error) {
	err = c.Stream(ctx, app.BackupPath, func(r io.Reader) error {
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
