package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// engineStatus is what status prints.
type engineStatus struct {
	SLOs       []*statusRow      `json:"slos"`
	Agreements []statusAgreement `json:"agreements"`
	Alerts     []statusAlert     `json:"alerts"`
}

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
	var rejects bool
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "status",
		Short: "Print the error budgets, agreements and alerts of a running engine, worst first",
		Long: `status prints the error budgets, worst first, the agreements, the budgets that are empty
within a week at their recent pace, and the alerts that are firing or pending. On a
terminal the tables fit its width, and states have colours unless NO_COLOR is set.`,
		Example: `  sloengine status
  sloengine status --rejects
  sloengine status --service shop -o json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if rejects {
				if service != "" {
					return cli.Usagef("--rejects and --service exclude each other, because a rejected event may name no service")
				}
				return printRejects(c.Context(), o)
			}
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
			all := engineStatus{SLOs: rows}
			if all.Agreements, err = agreements(c.Context(), &o.engine, q); err != nil {
				return err
			}
			if all.Alerts, err = activeAlerts(c.Context(), &o.engine, q); err != nil {
				return err
			}
			return o.Print(all, func() error { return all.print(s.Out, cli.ScreenOf(s.Out)) })
		},
	}
	f := c.Flags()
	o.engine.AddFlags(f)
	o.AddOutput(f, "table", "json", "yaml")
	f.StringVar(&service, "service", "", "only this service")
	f.BoolVar(&rejects, "rejects", false, "print the rejected events instead: code, sender, number, and a sample")
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
	Name        string            `json:"name"`
	State       string            `json:"state"`
	Severity    string            `json:"severity"`
	Service     string            `json:"service"`
	SLO         *string           `json:"slo_id"`
	Agreement   *string           `json:"agreement"`
	Group       map[string]string `json:"group"`
	ActiveSince time.Time         `json:"active_since"`
}

// activeAlerts reads those that fire or are about to, in the order of the page.
func activeAlerts(ctx context.Context, c *Client, q url.Values) ([]statusAlert, error) {
	active := []statusAlert{}
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
