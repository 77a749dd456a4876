package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo/spec"
)

func newConvert(s streams) *cobra.Command {
	var files []string
	out := "-"
	c := &cobra.Command{
		Use:   "convert -f FILE|DIR|-",
		Short: "Write Sloth and OpenSLO specs in this program's own format",
		Long: `convert reads specs of any format that generate takes and writes them in the own one.
Anything that the format cannot express is reported with its place. Nothing is dropped silently.`,
		Example: `  sloengine convert -f sloth.yaml > specs/shop.yaml
  sloengine convert -f openslo/ --out specs/all.yaml`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if len(files) == 0 {
				return usageError{errors.New("which spec? give -f FILE, -f DIR or -f - for standard input")}
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
			return fsys.WriteAtomic(fsys.OS(), out, func(w io.Writer) error { _, err := w.Write(text); return err })
		},
	}
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "spec file, folder of *.yaml, or - (repeatable)")
	c.Flags().StringVar(&out, "out", out, "file to write, or - for standard output")
	return c
}
