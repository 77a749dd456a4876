package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// statusRow is what status needs of one SLO of the read API.
type statusRow struct {
	ID      string            `json:"id"`
	Group   map[string]string `json:"group"`
	Percent string            `json:"objective_percent"`
	Window  string            `json:"window"`
	State   string            `json:"state"`
	Budget  struct {
		SLI       *float64 `json:"sli"`
		Remaining *float64 `json:"remaining"`
	} `json:"budget"`
	Burns []struct {
		Window string   `json:"window"`
		Rate   *float64 `json:"rate"`
	} `json:"burn_rates"`
	Rate     *float64 `json:"events_per_second"`
	Coverage *float64 `json:"coverage"`
	Forecast *struct {
		Summary string `json:"summary"`
		Pace    *struct {
			Low *float64 `json:"low_seconds"` // null: never
		} `json:"pace"`
	} `json:"forecast"`

	History []historyPoint `json:"history"` // the last day by the hour
}

type historyPoint struct {
	Ratio *float64 `json:"ratio"`
}

func newStatus(s cli.Streams) *cobra.Command {
	var service string
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "status",
		Short: "Print the error budgets of a running engine, worst first",
		Example: `  sloengine status
  sloengine status --service shop -o json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			q := url.Values{}
			if service != "" {
				q.Set("service", service)
			}
			rows, err := statusRows(c.Context(), &o.engine, q)
			if err != nil {
				return err
			}
			if len(rows) == 0 && service != "" {
				return fmt.Errorf("service %q has no SLO in the running spec", service)
			}
			return o.Print(rows, func() error {
				if err := printStatus(s.Out, rows); err != nil {
					return err
				}
				if err := printForecasts(s.Out, rows); err != nil {
					return err
				}
				active, err := activeAlerts(c.Context(), &o.engine, q)
				if err != nil {
					return err
				}
				return printAlerts(s.Out, active)
			})
		},
	}
	f := c.Flags()
	o.engine.AddFlags(f)
	o.AddOutput(f, "table", "json", "yaml")
	f.StringVar(&service, "service", "", "only this service")
	return c
}

// statusRows reads all pages of SLOs, worst first, and the last day of the worst.
func statusRows(ctx context.Context, c *Client, q url.Values) ([]*statusRow, error) {
	var all []*statusRow
	_, err := list(ctx, c, "/api/v1/slos", maps.Clone(q), math.MaxInt, 500, func(p page[*statusRow]) error {
		if p.Report.Version == 0 {
			return errors.New("the engine is still starting and has no report yet; try again in a few seconds")
		}
		all = append(all, p.Items...)
		return nil
	})
	if err != nil {
		return nil, err
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
			if err := c.Read(ctx, "/api/v1/slos/"+r.ID+"/history", q, &h); err != nil {
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
	ActiveSince           time.Time `json:"active_since"`
}

// activeAlerts reads those that fire or are about to, in the order of the page.
func activeAlerts(ctx context.Context, c *Client, q url.Values) ([]statusAlert, error) {
	var active []statusAlert
	for _, state := range []string{"firing", "pending"} {
		q := maps.Clone(q)
		q.Set("state", state)
		q.Set("limit", "100")
		var page struct{ Items []statusAlert }
		if err := c.Read(ctx, "/api/v1/alerts", q, &page); err != nil {
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
	tw := cli.NewTable(w)
	fmt.Fprintln(tw, "ALERT\tSTATE\tSEVERITY\tABOUT\tGROUP\tSINCE")
	for _, a := range active {
		about := a.Service
		switch {
		case a.SLO != nil:
			about = *a.SLO
		case a.Agreement != nil:
			about += "/" + *a.Agreement
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Name, a.State, a.Severity, about, cli.GroupText(a.Group), cli.TimeCell(a.ActiveSince))
	}
	return tw.Flush()
}

// printForecasts lists the budgets that are not empty and will be within a week at their recent pace.
func printForecasts(w io.Writer, rows []*statusRow) error {
	const week = 7 * 24 * 3600
	tw := cli.NewTable(w)
	n := 0
	for _, r := range rows {
		if f := r.Forecast; f == nil || f.Pace == nil || f.Pace.Low == nil || *f.Pace.Low == 0 || *f.Pace.Low > week {
			continue
		}
		if n++; n == 1 {
			fmt.Fprintln(tw, "\nRUNS OUT\tGROUP\tFORECAST")
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", r.ID, cli.GroupText(r.Group), r.Forecast.Summary)
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
	tw := cli.NewTable(w)
	fmt.Fprintln(tw, "STATE\tSLO\tGROUP\tOBJECTIVE\tNOW\tBUDGET LEFT\tBURN 1H\tPER S\tLAST 24H")
	for _, r := range rows {
		burn := (*float64)(nil)
		for _, b := range r.Burns {
			if b.Window == "1h" {
				burn = b.Rate
			}
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s%% / %s\t%s\t%s\t%s\t%s\t%s\n",
			strings.ReplaceAll(r.State, "_", " "), r.ID, cli.GroupText(r.Group), r.Percent, r.Window,
			cli.Percent(r.Budget.SLI, 3), cli.Percent(r.Budget.Remaining, 1), cli.Decimal(burn, 2), cli.Decimal(r.Rate, 1), sparkline(r.History))
	}
	return tw.Flush()
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
