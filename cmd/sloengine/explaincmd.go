package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/explain"
)

func newExplain(s cli.Streams) *cobra.Command {
	var files cli.SpecFiles
	var perSecond float64
	series := 100
	scrape := 15 * time.Second
	c := &cobra.Command{
		Use:   "explain [SERVICE/SLO ...] -f FILE|DIR|-",
		Short: "Explain an objective: downtime, failed requests, detection times, and the cost of its rules",
		Example: `  sloengine explain -f specs/ shop/checkout --events-per-second 12
  sloengine explain -f specs/`,
		RunE: func(_ *cobra.Command, ids []string) error {
			sp, err := files.Read(s)
			if err != nil {
				return err
			}
			in := cli.RulesSpec(sp)
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
					fmt.Fprintln(s.Out)
				}
				fmt.Fprint(s.Out, e.String())
				shown++
			}
			if shown < len(want) || shown == 0 {
				return fmt.Errorf("SLO not found in the spec (it has %s)", idList(in))
			}
			return nil
		},
	}
	f := c.Flags()
	files.Add(f)
	f.Float64Var(&perSecond, "events-per-second", 0, "current traffic; 0 if unknown")
	f.IntVar(&series, "series", series, "number of series of the counters of an SLO")
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
