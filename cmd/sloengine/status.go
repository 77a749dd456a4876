package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"gopkg.in/yaml.v3"
)

// statusRow is what status needs of one SLO of the read API.
type statusRow struct {
	ID      string            `json:"id" yaml:"id"`
	Group   map[string]string `json:"group" yaml:"group,omitempty"`
	Percent string            `json:"objective_percent" yaml:"objective_percent"`
	Window  string            `json:"window" yaml:"window"`
	State   string            `json:"state" yaml:"state"`
	Budget  struct {
		SLI       *float64 `json:"sli" yaml:"sli"`
		Remaining *float64 `json:"remaining" yaml:"remaining"`
	} `json:"budget" yaml:"budget"`
	Burns []struct {
		Window string   `json:"window" yaml:"window"`
		Rate   *float64 `json:"rate" yaml:"rate"`
	} `json:"burn_rates" yaml:"burn_rates"`
	Rate     *float64 `json:"events_per_second" yaml:"events_per_second"`
	Coverage *float64 `json:"coverage" yaml:"coverage"`

	History []historyPoint `json:"history" yaml:"-"` // the last day by the hour
}

type historyPoint struct {
	Ratio *float64 `json:"ratio"`
}

func newStatus(s streams) *cobra.Command {
	var (
		api     apiFlags
		service string
		output  = "table"
	)
	c := &cobra.Command{
		Use:   "status",
		Short: "Print the budgets of a running engine, worst first",
		Example: `  sloengine status
  sloengine status --service shop -o json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "table" && output != "json" && output != "yaml" {
				return usageError{fmt.Errorf("-o %s: want table, json or yaml", output)}
			}
			cl, err := api.client()
			if err != nil {
				return err
			}
			rows, err := statusRows(c.Context(), cl, service)
			if err != nil {
				return err
			}
			if len(rows) == 0 && service != "" {
				return fmt.Errorf("the engine knows no SLO of service %q", service)
			}
			switch output {
			case "json":
				enc := json.NewEncoder(s.out)
				enc.SetIndent("", "  ")
				return enc.Encode(rows)
			case "yaml":
				return yaml.NewEncoder(s.out).Encode(rows)
			}
			if err := printStatus(s.out, rows); err != nil {
				return err
			}
			active, err := activeAlerts(c.Context(), cl, service)
			if err != nil {
				return err
			}
			return printAlerts(s.out, active)
		},
	}
	f := c.Flags()
	api.add(f)
	f.StringVar(&service, "service", "", "only this service")
	f.StringVarP(&output, "output", "o", output, "table, json or yaml")
	return c
}

// statusRows reads all pages of SLOs, worst first, and the last day of the worst.
func statusRows(ctx context.Context, c *apiClient, service string) ([]*statusRow, error) {
	var all []*statusRow
	q := url.Values{"limit": {"500"}}
	if service != "" {
		q.Set("service", service)
	}
	for {
		var page struct {
			Report struct{ Version uint64 }
			Items  []*statusRow
			Next   string `json:"next_cursor"`
		}
		if err := c.read(ctx, "/api/v1/slos", q, &page); err != nil {
			return nil, err
		}
		if page.Report.Version == 0 {
			return nil, errors.New("the engine has no report yet: it is still starting; try again in a few seconds")
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			break
		}
		q.Set("cursor", page.Next)
	}
	sortWorstFirst(all)
	// Histories cost a call each: beyond a screenful they are left out.
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for _, r := range all[:min(len(all), 100)] {
		g.Go(func() error {
			q := url.Values{}
			for label, value := range r.Group {
				q.Set("group."+label, value)
			}
			var h struct{ Points []historyPoint }
			if err := c.read(ctx, "/api/v1/slos/"+r.ID+"/history", q, &h); err != nil {
				return err
			}
			r.History = h.Points
			return nil
		})
	}
	return all, g.Wait()
}

// statusAlert is what status needs of one alert of the read API.
type statusAlert struct {
	Name, State, Severity string
	Service               string
	SLO                   *string `json:"slo_id"`
	Agreement             *string
	Group                 map[string]string
	ActiveSince           *time.Time `json:"active_since"`
}

// activeAlerts reads those that fire or are about to, in the order of the page.
func activeAlerts(ctx context.Context, c *apiClient, service string) ([]statusAlert, error) {
	var active []statusAlert
	for _, state := range []string{"firing", "pending"} {
		q := url.Values{"state": {state}, "limit": {"100"}}
		if service != "" {
			q.Set("service", service)
		}
		var page struct{ Items []statusAlert }
		if err := c.read(ctx, "/api/v1/alerts", q, &page); err != nil {
			return nil, err
		}
		active = append(active, page.Items...)
	}
	return active, nil
}

func printAlerts(w io.Writer, active []statusAlert) error {
	if len(active) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ALERT\tSTATE\tSEVERITY\tABOUT\tGROUP\tSINCE")
	for _, a := range active {
		about := a.Service
		switch {
		case a.SLO != nil:
			about = *a.SLO
		case a.Agreement != nil:
			about += "/" + *a.Agreement
		}
		since := "-"
		if a.ActiveSince != nil {
			since = a.ActiveSince.UTC().Format("2006-01-02 15:04:05Z")
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Name, a.State, a.Severity, about, groupText(a.Group), since)
	}
	return tw.Flush()
}

func sortWorstFirst(rows []*statusRow) {
	rank := map[string]int{"exhausted": 0, "at_risk": 1, "ok": 2, "no_data": 3}
	remaining := func(r *statusRow) float64 {
		if r.Budget.Remaining == nil {
			return 1
		}
		return *r.Budget.Remaining
	}
	slices.SortStableFunc(rows, func(a, b *statusRow) int {
		return cmp.Or(cmp.Compare(rank[a.State], rank[b.State]), cmp.Compare(remaining(a), remaining(b)))
	})
}

func printStatus(w io.Writer, rows []*statusRow) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "STATE\tSLO\tGROUP\tOBJECTIVE\tNOW\tBUDGET LEFT\tBURN 1H\tPER S\tLAST 24H")
	for _, r := range rows {
		burn := (*float64)(nil)
		for _, b := range r.Burns {
			if b.Window == "1h" {
				burn = b.Rate
			}
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s%% / %s\t%s\t%s\t%s\t%s\t%s\n",
			strings.ReplaceAll(r.State, "_", " "), r.ID, groupText(r.Group), r.Percent, r.Window,
			percent(r.Budget.SLI, 3), percent(r.Budget.Remaining, 1), decimal(burn, 2), decimal(r.Rate, 1), sparkline(r.History))
	}
	return tw.Flush()
}

// groupText prints group values so that hostile ones cannot move the cursor.
func groupText(g map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(g)) {
		v := g[k]
		if v == "" {
			v = "(none)"
		}
		if quoted := fmt.Sprintf("%q", v); quoted != `"`+v+`"` {
			v = quoted
		}
		parts = append(parts, v)
	}
	return strings.Join(parts, ", ")
}

func percent(x *float64, digits int) string {
	if x == nil {
		return "no data"
	}
	return fmt.Sprintf("%.*f%%", digits, *x*100)
}

func decimal(x *float64, digits int) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, *x)
}

// sparkline draws the error ratio of each hour against the worst one; an hour
// without data is a gap, one without errors the lowest bar.
func sparkline(points []historyPoint) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	worst := 0.0
	for _, p := range points {
		if p.Ratio != nil {
			worst = max(worst, 1-*p.Ratio)
		}
	}
	var b strings.Builder
	for _, p := range points {
		switch {
		case p.Ratio == nil:
			b.WriteRune(' ')
		case worst == 0:
			b.WriteRune(bars[0])
		default:
			b.WriteRune(bars[int((1-*p.Ratio)/worst*float64(len(bars)-1)+0.5)])
		}
	}
	return b.String()
}
