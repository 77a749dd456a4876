package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/rules/diff"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/status"
)

func newDiff(s streams) *cobra.Command {
	var running bool
	o := &engineCommand{printer: printer{streams: s}}
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
					return usageError{errors.New("diff --running takes a spec: files, folders, or - for standard input")}
				}
				differs, err := diffRunning(c.Context(), o, args)
				if err == nil && differs {
					err = errFindings
				}
				return err
			}
			if len(args) != 2 {
				return usageError{errors.New("diff takes two specs: the old one and the new one")}
			}
			was, err := specFiles(args[:1]).read(s)
			if err != nil {
				return fmt.Errorf("old spec: %w", err)
			}
			now, err := specFiles(args[1:]).read(s)
			if err != nil {
				return fmt.Errorf("new spec: %w", err)
			}
			changes := append([]diff.Change{}, diff.Specs(rulesSpec(was), rulesSpec(now))...)
			err = o.print(changes, func() error {
				_, err := io.WriteString(s.out, diff.Text(changes))
				return err
			})
			if err != nil {
				return err
			}
			if len(changes) > 0 {
				return errFindings
			}
			return nil
		},
	}
	o.addOutput(c.Flags(), "table", "json")
	c.Flags().BoolVar(&running, "running", false, "compare one spec with what a running engine counts")
	o.engine.add(c.Flags())
	return c
}

// diffRunning shows what a spec would do to the counts of a running engine, and reports whether it would change any.
func diffRunning(ctx context.Context, o *engineCommand, files specFiles) (differs bool, err error) {
	next, err := files.read(o.streams)
	if err != nil {
		return false, fmt.Errorf("new spec: %w", err)
	}
	cfg, err := evaluator.Compile(app.Inputs(next))
	if err != nil {
		return false, fmt.Errorf("new spec: %w", err)
	}
	var answer struct {
		Items []status.Generation `json:"items"`
	}
	if err := o.engine.read(ctx, "/api/v1/generations", nil, &answer); err != nil {
		return false, err
	}
	held := make([]fold.Generation, len(answer.Items))
	for i, g := range answer.Items {
		held[i] = fold.Generation{
			Number: g.Number, ID: g.ID, Former: g.Former, Service: g.Service, Definition: g.Definition, Generation: g.Generation,
			Groups: g.Groups, Parked: g.Parked, Until: g.Until, Bytes: g.Bytes,
		}
	}
	change, err := fold.Compare(held, cfg)
	if err != nil {
		return false, fmt.Errorf("new spec: %w", err)
	}
	c := app.DescribeChange(change, nil, time.Now().UTC().Truncate(time.Second))
	differs = len(c.Started)+len(c.Resumed)+len(c.Parked) > 0
	return differs, o.print(c, func() error { printChange(o.out, c); return nil })
}

func printChange(w io.Writer, c *status.SpecChange) {
	if len(c.Started)+len(c.Resumed)+len(c.Parked) == 0 {
		fmt.Fprintln(w, "Every SLO keeps its counts.")
	}
	for _, id := range c.Started {
		fmt.Fprintf(w, "%s  starts from zero\n", printable(id))
	}
	for _, id := range c.Resumed {
		fmt.Fprintf(w, "%s  resumes its parked counts\n", printable(id))
	}
	for _, p := range c.Parked {
		what := "has a new definition: the counts of the old one are"
		if p.Removed {
			what = "is removed: its counts are"
		}
		fmt.Fprintf(w, "%s  %s retained until %s\n", printable(p.ID), what, p.Until.UTC().Format(time.RFC3339))
	}
}
