package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app/sources"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/reliability/fsys"
)

func newPositions(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "positions",
		Short: "Move the positions of sources between engines",
		Long: `positions exports how far the sources of a stopped engine read their topics, and imports
it into the data directories of other engines. Use it when you change the number of
engines (sources.NAME.engines) and partitions move to other engines:

  1. Stop all engines.
  2. Export the positions of each data directory.
  3. Import all exported files into each data directory, old and new.
  4. Change engines and ordinal, and start all engines.

Counts do not move. They stay in the old data directories and age out of the windows.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newPositionsExport(s), newPositionsImport(s))
	return c
}

func newPositionsExport(s cli.Streams) *cobra.Command {
	var dataDir, source string
	c := &cobra.Command{
		Use:     "export --data-dir DIR",
		Short:   "Write the positions of a stopped engine as JSON to standard output",
		Example: `  sloengine positions export --data-dir data-0 > positions-0.json`,
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dataDir == "" {
				return cli.Usagef("no data directory given: set --data-dir DIR")
			}
			book, err := sources.ReadPositions(c.Context(), dataDir,
				slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: slog.LevelWarn})))
			if err != nil {
				return fmt.Errorf("export positions (the engine must be stopped): %w", err)
			}
			return book.WriteDocument(s.Out, source)
		},
	}
	c.Flags().StringVar(&dataDir, "data-dir", "", "data directory of a stopped engine")
	c.Flags().StringVar(&source, "source", "", "only this source of engine.yaml; default: all")
	return c
}

func newPositionsImport(s cli.Streams) *cobra.Command {
	var dataDir string
	p := &cli.Printer{Streams: s}
	c := &cobra.Command{
		Use:   "import --data-dir DIR FILE...",
		Short: "Leave exported positions in a data directory for the next start of its engine",
		Long: `import checks the exported files and writes them to the data directory. The engine takes
them over at its next start, before its sources read anything, and reads no message that
one of the files counts. Positions of partitions that the engine does not own have no
effect. Importing the same file twice changes nothing.`,
		Example: `  sloengine positions import --data-dir data-3 positions-0.json positions-1.json positions-2.json`,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case dataDir == "":
				return cli.Usagef("no data directory given: set --data-dir DIR")
			case len(args) == 0:
				return cli.Usagef("no files given: name the files that 'sloengine positions export' wrote, or - for standard input")
			}
			book := position.NewBook()
			for _, name := range args {
				data, err := readPositionsFile(s, name)
				if err == nil {
					err = book.ReadDocument(data)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", cli.Printable(name), err)
				}
			}
			if err := sources.WritePositions(dataDir, book); err != nil {
				return fmt.Errorf("import positions (the engine must be stopped): %w", err)
			}
			n := 0
			for _, source := range book.Sources() {
				n += len(book.Of(source))
			}
			result := struct {
				Streams int `json:"streams"`
			}{n}
			return p.PrintText(result, s.Err, "wrote positions of %s; the engine takes them over at its next start",
				cli.Plural(n, "stream"))
		},
	}
	p.AddOutput(c.Flags(), "table", "json")
	c.Flags().StringVar(&dataDir, "data-dir", "", "data directory of a stopped engine, or of one that never ran")
	return c
}

// maxPositionsFile is the largest file that import reads: about a hundred bytes for each of 65,536 streams, and more.
const maxPositionsFile = 64 << 20

func readPositionsFile(s cli.Streams, name string) ([]byte, error) {
	if name != "-" {
		return fsys.ReadFile(name, maxPositionsFile)
	}
	data, err := io.ReadAll(io.LimitReader(s.In, maxPositionsFile+1))
	if err == nil && len(data) > maxPositionsFile {
		err = fmt.Errorf("larger than %d MiB", maxPositionsFile>>20)
	}
	return data, err
}
