package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
)

func newMan(s cli.Streams) *cobra.Command {
	date := "2006-01-02"
	c := &cobra.Command{
		Use:   "man DIR",
		Short: "Write a man page for each command",
		Long: `man writes a man page for each command to a directory, which has to exist. Without --date,
the pages are the same for each build of a version.`,
		Example: `  sloengine man /usr/local/share/man/man1
  man sloengine-serve`,
		Args: cli.OneArg("directory"),
		RunE: func(c *cobra.Command, args []string) error {
			at, err := time.Parse(time.DateOnly, date)
			if err != nil {
				return cli.Usagef("invalid --date %q (want a day such as 2026-11-24)", date)
			}
			names, err := cli.WriteMan(c.Root(), args[0], version, at)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.Err, "wrote %d man pages to %s\n", len(names), args[0])
			return nil
		},
	}
	c.Flags().StringVar(&date, "date", date, "day in the margin of the pages")
	return c
}
