package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/backup"
)

func newBackup(s streams) *cobra.Command {
	var (
		api apiFlags
		out string
	)
	c := &cobra.Command{
		Use:   "backup --out DIR|-",
		Short: "Copy the data folder of a running engine, consistently",
		Long: `backup asks a running engine for a copy of its data folder: log, checkpoint, dead
letters, log ranges, cursors of sinks and alert states. The engine goes on serving. All
events that it acknowledged before the backup began are in it.

DIR must be empty or not exist. With - the backup goes to standard output as a tar
stream. Its last file, BACKUP.json, lists all others with their SHA-256 checksums. A
backup that breaks off lacks this file, and restore refuses it.

Dead letters in Redis or in memory, and what file sinks wrote, are not in a backup. It
needs a token with the permission operate, where tokens are used.`,
		Example: `  sloengine backup --out /backup/2026-11-22
  sloengine backup --out - | zstd > backup.tar.zst`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" {
				return usageError{errors.New("where to? give --out DIR, or --out - for a tar stream")}
			}
			cl, err := api.client()
			if err != nil {
				return err
			}
			began := time.Now()
			m, err := cl.backup(c.Context(), out, s.out)
			if err != nil {
				return fmt.Errorf("backup: %w", err)
			}
			_, err = fmt.Fprintf(s.err, "backed up %s, %d bytes, in %.1fs; it holds everything acknowledged before %s\n",
				plural(len(m.Files), "file"), m.Bytes(), time.Since(began).Seconds(), m.Begun.Format(time.RFC3339))
			return err
		},
	}
	api.add(c.Flags())
	c.Flags().StringVar(&out, "out", "", "folder to write to, or - for a tar stream on standard output")
	return c
}

// backup takes the stream of a running engine and checks it.
func (c *apiClient) backup(ctx context.Context, out string, stdout io.Writer) (m *backup.Manifest, err error) {
	err = c.stream(ctx, app.BackupPath, func(r io.Reader) error {
		if out == "-" {
			m, err = backup.Check(r, stdout)
		} else {
			m, err = backup.Unpack(r, out)
		}
		return err
	})
	return m, err
}

func newRestore(s streams) *cobra.Command {
	var from, dataDir string
	c := &cobra.Command{
		Use:   "restore --from DIR|FILE --data-dir DIR",
		Short: "Write a backup to an empty data folder",
		Long: `restore reads a backup, which is a folder or a tar file, and checks all checksums. Then
it writes the data folder, which must be empty or not exist. An engine that is started
on it counts exactly what was acknowledged before the backup began, and maybe some of
what came during it. Events that are sent again count once.

Sinks get again what was delivered to them after the backup began.`,
		Example: `  sloengine restore --from /backup/2026-11-22 --data-dir data
  zstd -d backup.tar.zst && sloengine restore --from backup.tar --data-dir data`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case from == "-":
				return usageError{errors.New("restore reads a backup twice, so it cannot come from standard input: write it to a file first")}
			case from == "":
				return usageError{errors.New("restore what? give --from DIR or --from FILE, a backup")}
			case dataDir == "":
				return usageError{errors.New("where to? give --data-dir DIR, an empty folder")}
			}
			began := time.Now()
			m, err := backup.Restore(from, dataDir, engine.DataFormat)
			if err != nil {
				return fmt.Errorf("restore: %w", err)
			}
			_, err = fmt.Fprintf(s.err, "restored %s, %d bytes, in %.1fs, from the backup that began at %s\n",
				plural(len(m.Files), "file"), m.Bytes(), time.Since(began).Seconds(), m.Begun.Format(time.RFC3339))
			return err
		},
	}
	c.Flags().StringVar(&from, "from", "", "backup: a folder, or a tar file")
	c.Flags().StringVar(&dataDir, "data-dir", "", "folder to write to; empty or missing")
	return c
}
