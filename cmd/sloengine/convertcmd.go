package main

import (
	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo/spec"
)

func newConvert(s cli.Streams) *cobra.Command {
	var files cli.SpecFiles
	var promql cli.PromQL
	out, to := "-", ""
	c := &cobra.Command{
		Use:   "convert -f FILE|DIR|-",
		Short: "Convert specs of Sloth, OpenSLO, Pyrra and others to the sloengine format, or to OpenSLO",
		Long: `convert reads specs in any format that generate accepts and writes them in the sloengine
format, or with --to openslo in openslo/v1. It reports anything that the format cannot express
with file, line and column. Nothing is dropped silently.

In OpenSLO, SLOs on events are queries of the counters that the engine exports for them.`,
		Example: `  sloengine convert -f sloth.yaml > specs/shop.yaml
  sloengine convert -f openslo/ --out specs/all.yaml
  sloengine convert -f specs/ --to openslo > openslo.yaml`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := files.Check(); err != nil {
				return err
			}
			sp, problems, err := promql.Options().LoadPaths(files, s.In)
			if err != nil {
				return err
			}
			if problems.HasErrors() {
				cli.PrintProblems(s.Err, problems)
				return cli.ErrFindings
			}
			text := spec.Encode(sp)
			if to == "openslo" {
				var lost spec.Problems
				text, lost = spec.EncodeOpenSLO(sp)
				problems = append(problems, lost...)
			}
			cli.PrintProblems(s.Err, problems)
			if out == "-" {
				_, err := s.Out.Write(text)
				return err
			}
			return writeAtomic(out, text)
		},
	}
	files.Add(c.Flags())
	promql.Add(c.Flags())
	cli.AddChoice(c.Flags(), &to, "to", "", "format to write", "sloengine", "openslo")
	c.Flags().StringVar(&out, "out", out, "file to write, or - for standard output")
	return c
}
