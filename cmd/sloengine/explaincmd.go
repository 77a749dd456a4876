package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/remote"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/explain"
	"github.com/sloengine/sloengine/slo"
)

func newExplain(s cli.Streams) *cobra.Command {
	var files cli.SpecFiles
	var perSecond float64
	p := &cli.Printer{Streams: s}
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
			o := rules.Options{
				Profile: rules.Minimal, Scrape: scrape, From: time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)}
			o.Until = o.From.AddDate(0, 6, 0)
			groups, err := rules.Recording(in, o)
			if err != nil {
				return err
			}
			groups = rules.Merge(groups, alerts.Rules(in, alerts.Options{Options: o, NoEngine: true}))
			want := map[string]bool{}
			for _, id := range ids {
				want[id] = true
			}
			shown := []explained{}
			for _, x := range in.SLOs {
				if len(ids) > 0 && !want[string(x.ID)] {
					continue
				}
				e, err := explain.Explain(x, explain.Own(groups, x), perSecond,
					explain.Load{Raw: series, Groups: len(x.Expect), Scrape: scrape})
				if err != nil {
					return fmt.Errorf("explain %s: %w", x.ID, err)
				}
				one := explanation(e)
				one.Text += remote.ExplainBlindSpots(x, perSecond)
				shown = append(shown, one)
			}
			if len(shown) < len(want) || len(shown) == 0 {
				return fmt.Errorf("SLO not found in the spec (it has %s)", idList(in))
			}
			return p.Print(shown, func() error {
				for i, x := range shown {
					if i > 0 {
						fmt.Fprintln(s.Out)
					}
					fmt.Fprint(s.Out, x.Text)
				}
				return nil
			})
		},
	}
	f := c.Flags()
	files.Add(f)
	f.Float64Var(&perSecond, "events-per-second", 0, "current traffic; 0 if unknown")
	f.IntVar(&series, "series", series, "number of series of the counters of an SLO")
	f.DurationVar(&scrape, "scrape-interval", scrape, "how often Prometheus scrapes the counters")
	p.AddOutput(f, "table", "json", "yaml")
	return c
}

// explained is an explanation as JSON. Durations are seconds.
type explained struct {
	ID            slo.ID          `json:"id"`
	Objective     string          `json:"objective_percent"`
	Window        string          `json:"window"`
	PeriodSeconds float64         `json:"period_seconds"`
	BudgetSeconds float64         `json:"budget_seconds"`   // how long everything may fail per period
	Events        float64         `json:"events,omitempty"` // per period, at the given traffic
	BudgetEvents  float64         `json:"budget_events,omitempty"`
	Tiers         []explainedTier `json:"tiers"`
	Text          string          `json:"text"` // what the table prints
}

type explainedTier struct {
	Page         bool     `json:"page"`
	LongSeconds  float64  `json:"long_seconds"`
	ShortSeconds float64  `json:"short_seconds"`
	Factor       float64  `json:"factor"`
	Outage       *float64 `json:"outage_seconds"`  // until the alert if everything fails; null: never
	Tenfold      *float64 `json:"tenfold_seconds"` // likewise if ten budgets burn
}

func explanation(e *explain.Explanation) explained {
	out := explained{
		ID: e.SLO.ID, Objective: e.SLO.Objective.Percent(), Window: e.SLO.Window.String(), PeriodSeconds: e.Period.Seconds(),
		BudgetSeconds: e.BudgetTime.Seconds(),
		Events:        e.Events, BudgetEvents: e.BudgetEvents, Tiers: []explainedTier{}, Text: e.String(),
	}
	after := func(d explain.Detection) *float64 {
		if !d.Fires {
			return nil
		}
		s := d.After.Seconds()
		return &s
	}
	for _, t := range e.Tiers {
		out.Tiers = append(
			out.Tiers, explainedTier{t.Page, t.Long.Seconds(), t.Short.Seconds(), t.Factor, after(t.Outage), after(t.Tenfold)})
	}
	return out
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
