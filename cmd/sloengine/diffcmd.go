package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/status"
)

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
