package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/diff"
	"github.com/sloengine/sloengine/rules/explain"
)

func newExplain(s streams) *cobra.Command {
	var files []string
	var perSecond float64
	series := 100
	scrape := 15 * time.Second
	c := &cobra.Command{
		Use:   "explain [SERVICE/SLO ...] -f FILE|DIR|-",
		Short: "Say what an objective means: minutes, requests, detection times, cost of its rules",
		Example: `  sloengine explain -f specs/ shop/checkout --events-per-second 12
  sloengine explain -f specs/`,
		RunE: func(_ *cobra.Command, ids []string) error {
			if len(files) == 0 {
				return usageError{errors.New("which spec? give -f FILE, -f DIR or -f - for standard input")}
			}
			in, err := specFiles(s, files)
			if err != nil {
				return err
			}
			now := time.Now().UTC()
			o := rules.Options{Scrape: scrape, From: time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)}
			o.Until = o.From.AddDate(0, 6, 0)
			groups, err := rules.Recording(in, o)
			if err != nil {
				return err
			}
			firing, err := alerts.Rules(in, alerts.Options{Options: o, NoEngine: true})
			if err != nil {
				return err
			}
			groups = append(groups, firing...)
			want := map[string]bool{}
			for _, id := range ids {
				want[id] = true
			}
			shown := 0
			for _, x := range in.SLOs {
				if len(ids) > 0 && !want[string(x.ID)] {
					continue
				}
				e, err := explain.Explain(x, explain.Own(groups, x), perSecond, explain.Load{Raw: series, Groups: len(x.Expect), Scrape: scrape})
				if err != nil {
					return fmt.Errorf("explain %s: %w", x.ID, err)
				}
				if shown > 0 {
					fmt.Fprintln(s.out)
				}
				fmt.Fprint(s.out, e.String())
				shown++
			}
			if shown < len(want) || shown == 0 {
				return fmt.Errorf("the spec has no such SLO; it has %s", idList(in))
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringArrayVarP(&files, "file", "f", nil, "spec file, folder of *.yaml, or - (repeatable)")
	f.Float64Var(&perSecond, "events-per-second", 0, "today's traffic; 0 if unknown")
	f.IntVar(&series, "series", series, "how many series the counters of an SLO have")
	f.DurationVar(&scrape, "scrape-interval", scrape, "how often Prometheus scrapes the counters")
	return c
}

func idList(in rules.Spec) string {
	text := ""
	for i, x := range in.SLOs {
		if i > 0 {
			text += ", "
		}
		if i == 20 {
			return text + "..."
		}
		text += string(x.ID)
	}
	if text == "" {
		return "none"
	}
	return text
}

func newDiff(s streams) *cobra.Command {
	output := "table"
	var running bool
	var api apiFlags
	c := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Say what another version of a spec changes, and what that means",
		Long: `diff compares two specs, files or folders, and their alerts: what was added or
removed, which objective, window or threshold changed, and how much earlier or later
an alert then fires. It exits with 3 if anything differs.

With --running it takes one spec and asks a running engine what it would do to the
counts: which SLOs start from zero, which resume counts that are parked, and which
are removed, and until when their counts are retained.`,
		Example: `  sloengine diff specs/ specs.new/
  sloengine diff --running specs.new/`,
		RunE: func(c *cobra.Command, args []string) error {
			if output != "table" && output != "json" {
				return usageError{fmt.Errorf("-o %s: want table or json", output)}
			}
			if running {
				if len(args) == 0 {
					return usageError{errors.New("diff --running takes a spec: files, folders or - for standard input")}
				}
				differs, err := diffRunning(c.Context(), s, &api, args, output)
				if err == nil && differs {
					err = errFindings
				}
				return err
			}
			if len(args) != 2 {
				return usageError{errors.New("diff takes two specs: the old one and the new one")}
			}
			was, err := specFiles(s, args[:1])
			if err != nil {
				return fmt.Errorf("old spec: %w", err)
			}
			now, err := specFiles(s, args[1:])
			if err != nil {
				return fmt.Errorf("new spec: %w", err)
			}
			changes := diff.Specs(was, now)
			switch output {
			case "json":
				enc := json.NewEncoder(s.out)
				enc.SetIndent("", "  ")
				if err := enc.Encode(append([]diff.Change{}, changes...)); err != nil {
					return err
				}
			default:
				fmt.Fprint(s.out, diff.Text(changes))
			}
			if len(changes) > 0 {
				return errFindings
			}
			return nil
		},
	}
	c.Flags().StringVarP(&output, "output", "o", output, "table or json")
	c.Flags().BoolVar(&running, "running", false, "compare one spec with what a running engine counts")
	api.add(c.Flags())
	return c
}
