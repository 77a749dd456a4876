package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/remote"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/otlp"
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
removed, and until when the engine retains their counts. Of services that send spans, it
shows which attributes an SLO that starts needs, and since when spans keep them.`,
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
		Spans []otlp.Kept       `json:"spans"`
	}
	if err := o.engine.Read(ctx, "/api/v1/generations", nil, &answer); err != nil {
		return false, err
	}
	change, err := fold.Compare(answer.Items, cfg)
	if err != nil {
		return false, fmt.Errorf("new spec: %w", err)
	}
	c := plannedChange{SpecChange: counting.DescribeChange(change, nil, time.Now().UTC().Truncate(time.Second))}
	c.Attributes = attributesOfSpans(c.Started, cfg, answer.Spans)
	differs = len(c.Started)+len(c.Resumed)+len(c.Parked) > 0
	return differs, o.Print(c, func() error { printChange(o.Out, &c); return nil })
}

// plannedChange is a change before it is made.
type plannedChange struct {
	*counting.SpecChange
	Attributes []spanAttribute `json:"attributes_of_spans,omitempty"`
}

// spanAttribute is one that a definition needs and that spans bring. They keep only what the spec or otlp.keep names.
type spanAttribute struct {
	SLO       string     `json:"slo"`
	Service   string     `json:"service"`
	Attribute string     `json:"attribute"`
	KeptSince *time.Time `json:"kept_since"` // at the latest; null: it is not
}

// attributesOfSpans lists what SLOs need of services that send spans.
func attributesOfSpans(slos []string, cfg *fold.Config, kept []otlp.Kept) (out []spanAttribute) {
	for _, id := range slos {
		for _, ind := range cfg.Indicators {
			i := slices.IndexFunc(kept, func(k otlp.Kept) bool { return k.Service == ind.Service })
			if ind.ID != id || i < 0 {
				continue
			}
			one := fold.Config{Indicators: []fold.Indicator{ind}}
			names, _ := one.MergeBy(ind.Service)
			for _, name := range names {
				a := spanAttribute{SLO: id, Service: ind.Service, Attribute: name}
				if at, ok := kept[i].Since(name); ok {
					a.KeptSince = &at
				}
				out = append(out, a)
			}
		}
	}
	return out
}

func printChange(w io.Writer, c *plannedChange) {
	if len(c.Started)+len(c.Resumed)+len(c.Parked) == 0 {
		fmt.Fprintln(w, "Every SLO keeps its counts.")
	}
	for _, id := range c.Started {
		fmt.Fprintf(w, "%s  starts from zero\n", cli.Printable(id))
	}
	for _, a := range c.Attributes {
		text := "do not have until this spec is in force (to have it before, add it to otlp.keep)"
		if a.KeptSince != nil {
			text = "have since " + a.KeptSince.UTC().Format(time.RFC3339) + " at the latest"
		}
		fmt.Fprintf(w, "%s  needs %s, which spans of %s %s\n", cli.Printable(a.SLO), cli.Printable(a.Attribute),
			cli.Printable(a.Service), text)
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
