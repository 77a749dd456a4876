package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/remote"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/rules/explain"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo/fold"
)

// diffFlags say how to print a difference, and which engine to ask.
type diffFlags struct {
	cli.Printer
	engine remote.Client
}

func newDiff(s cli.Streams) *cobra.Command {
	var running bool
	o := &diffFlags{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what a new version of a spec changes, and the consequences",
		Long: `diff compares two specs, files or folders, and their alerts: what was added or
removed, which objective, window or threshold changed, and how much earlier or later
an alert then fires. It exits with 3 if anything differs.

With --running, diff takes one spec and shows what it would do to the counts of a
running engine: which SLOs start from zero, which resume parked counts, which are
removed, and until when the engine retains their counts.`,
		Example: `  sloengine diff specs/ specs.new/
  sloengine diff --running specs.new/`,
		RunE: func(c *cobra.Command, args []string) error {
			if running {
				if len(args) == 0 {
					return cli.Usagef("diff --running takes a spec: files, folders, or - for standard input")
				}
				differs, err := diffRunning(c.Context(), o, args)
				if err == nil && differs {
					err = cli.ErrFindings
				}
				return err
			}
			if len(args) != 2 {
				return cli.Usagef("diff takes two specs: the old one and the new one")
			}
			was, err := cli.SpecFiles(args[:1]).Read(s)
			if err != nil {
				return fmt.Errorf("old spec: %w", err)
			}
			now, err := cli.SpecFiles(args[1:]).Read(s)
			if err != nil {
				return fmt.Errorf("new spec: %w", err)
			}
			changes := append([]explain.Change{}, explain.Changes(cli.RulesSpec(was), cli.RulesSpec(now))...)
			err = o.Print(changes, func() error {
				_, err := io.WriteString(s.Out, explain.ChangesText(changes))
				return err
			})
			if err != nil {
				return err
			}
			if len(changes) > 0 {
				return cli.ErrFindings
			}
			return nil
		},
	}
	o.AddOutput(c.Flags(), "table", "json")
	c.Flags().BoolVar(&running, "running", false, "compare one spec with what a running engine counts")
	o.engine.AddFlags(c.Flags())
	return c
}

// diffRunning shows what a spec would do to the counts of a running engine, and reports whether it would change any.
func diffRunning(ctx context.Context, o *diffFlags, files cli.SpecFiles) (differs bool, err error) {
	next, err := files.Read(o.Streams)
	if err != nil {
		return false, fmt.Errorf("new spec: %w", err)
	}
	cfg, err := evaluator.Compile(counting.Inputs(next))
	if err != nil {
		return false, fmt.Errorf("new spec: %w", err)
	}
	var answer struct {
		Items []fold.Generation `json:"items"`
	}
	if err := o.engine.Read(ctx, "/api/v1/generations", nil, &answer); err != nil {
		return false, err
	}
	change, err := fold.Compare(answer.Items, cfg)
	if err != nil {
		return false, fmt.Errorf("new spec: %w", err)
	}
	c := counting.DescribeChange(change, nil, time.Now().UTC().Truncate(time.Second))
	differs = len(c.Started)+len(c.Resumed)+len(c.Parked) > 0
	return differs, o.Print(c, func() error { printChange(o.Out, c); return nil })
}

func printChange(w io.Writer, c *counting.SpecChange) {
	if len(c.Started)+len(c.Resumed)+len(c.Parked) == 0 {
		fmt.Fprintln(w, "Every SLO keeps its counts.")
	}
	for _, id := range c.Started {
		fmt.Fprintf(w, "%s  starts from zero\n", cli.Printable(id))
	}
	for _, id := range c.Resumed {
		fmt.Fprintf(w, "%s  resumes its parked counts\n", cli.Printable(id))
	}
	for _, p := range c.Parked {
		what := "has a new definition: the counts of the old one are"
		if p.Removed {
			what = "is removed: its counts are"
		}
		fmt.Fprintf(w, "%s  %s retained until %s\n", cli.Printable(p.ID), what, p.Until.UTC().Format(time.RFC3339))
	}
}
