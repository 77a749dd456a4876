package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/status"
)

// diffRunning says what a spec would do to the counts of a running engine. It reports
// whether it would do anything.
func diffRunning(ctx context.Context, s streams, api *apiFlags, files []string, output string) (differs bool, err error) {
	next, err := readSpec(s, files)
	if err != nil {
		return false, fmt.Errorf("new spec: %w", err)
	}
	cfg, err := evaluator.Compile(app.Inputs(next))
	if err != nil {
		return false, fmt.Errorf("new spec: %w", err)
	}
	cl, err := api.client()
	if err != nil {
		return false, err
	}
	var answer struct {
		Items []status.Generation `json:"items"`
	}
	if err := cl.read(ctx, "/api/v1/generations", nil, &answer); err != nil {
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
	if output == "json" {
		enc := json.NewEncoder(s.out)
		enc.SetIndent("", "  ")
		return differs, enc.Encode(c)
	}
	printChange(s, c)
	return differs, nil
}

func printChange(s streams, c *status.SpecChange) {
	if len(c.Started)+len(c.Resumed)+len(c.Parked) == 0 {
		fmt.Fprintln(s.out, "Every SLO goes on with its counts.")
	}
	for _, id := range c.Started {
		fmt.Fprintf(s.out, "%s  starts from zero\n", printable(id))
	}
	for _, id := range c.Resumed {
		fmt.Fprintf(s.out, "%s  resumes the counts that are parked\n", printable(id))
	}
	for _, p := range c.Parked {
		what := "has another definition: the counts of the one before are"
		if p.Removed {
			what = "is removed: its counts are"
		}
		fmt.Fprintf(s.out, "%s  %s retained until %s\n", printable(p.ID), what, p.Until.UTC().Format(time.RFC3339))
	}
}
