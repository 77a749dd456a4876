package main

import (
	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/slo/spec"
)

func newConvert(s streams) *cobra.Command {
	var files specFiles
	out := "-"
	c := &cobra.Command{
		Use:   "convert -f FILE|DIR|-",
		Short: "Convert Sloth and OpenSLO specs to the sloengine format",
		Long: `convert reads specs in any format that generate accepts and writes them in the sloengine
format. It reports anything that this format cannot express with file, line and column.
Nothing is dropped silently.`,
		Example: `  sloengine convert -f sloth.yaml > specs/shop.yaml
  sloengine convert -f openslo/ --out specs/all.yaml`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := files.check(); err != nil {
				return err
			}
			sp, problems, err := spec.LoadPaths(files, s.in)
			if err != nil {
				return err
			}
			printProblems(s.err, problems)
			if problems.HasErrors() {
				return errFindings
			}
			text := spec.Encode(sp)
			if out == "-" {
				_, err := s.out.Write(text)
				return err
			}
			return writeAtomic(out, text)
		},
	}
	files.add(c.Flags())
	c.Flags().StringVar(&out, "out", out, "file to write, or - for standard output")
	return c
}
