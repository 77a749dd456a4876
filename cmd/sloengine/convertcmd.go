package main

import (
	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo/spec"
)

func newConvert(s cli.Streams) *cobra.Command {
	var files cli.SpecFiles
	var promql cli.PromQL
	out := "-"
	c := &cobra.Command{
		Use:   "convert -f FILE|DIR|-",
		Short: "Convert specs of Sloth, OpenSLO, Pyrra and others to the sloengine format",
		Long: `convert reads specs in any format that generate accepts and writes them in the sloengine
format. It reports anything that this format cannot express with file, line and column.
Nothing is dropped silently.`,
		Example: `  sloengine convert -f sloth.yaml > specs/shop.yaml
  sloengine convert -f openslo/ --out specs/all.yaml`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := files.Check(); err != nil {
				return err
			}
			sp, problems, err := promql.Options().LoadPaths(files, s.In)
			if err != nil {
				return err
			}
			cli.PrintProblems(s.Err, problems)
			if problems.HasErrors() {
				return cli.ErrFindings
			}
			text := spec.Encode(sp)
			if out == "-" {
				_, err := s.Out.Write(text)
				return err
			}
			return writeAtomic(out, text)
		},
	}
	files.Add(c.Flags())
	promql.Add(c.Flags())
	c.Flags().StringVar(&out, "out", out, "file to write, or - for standard output")
	return c
}
