package remote

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
)

// engineStatus is what status prints.
type engineStatus struct {
	Failing    *v1.Failing  `json:"failing,omitempty"` // in all services
	SLOs       []*statusRow `json:"slos"`
	Agreements []v1.SLA     `json:"agreements"`
	Alerts     []v1.Alert   `json:"alerts"`
	// Ledgers are where the budgets of the rows went, with --slo.
	Ledgers []*v1.LedgerAnswer `json:"ledgers,omitempty"`

	none string // why there are no SLOs
}

// statusRow is one group of an SLO.
type statusRow struct {
	v1.SLO
	History []v1.HistoryPoint `json:"history"` // the last day by the hour
}

func newStatus(s cli.Streams) *cobra.Command {
	var service, state, only string
	var rejects bool
	var every time.Duration
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "status",
		Short: "Print the error budgets, agreements and alerts of a running engine, worst first",
		Long: `status prints what fails, the alerts that are firing or pending, the error budgets, worst first, the
agreements, and the budgets exhausted within a week at their recent pace. On a terminal
the tables fit its width, and states have colors unless NO_COLOR is set.

--slo prints one SLO, and where its budget went: each bad event of the window is charged to the
first account that explains its time.`,
		Example: `  sloengine status
  sloengine status --slo shop/checkout
  sloengine status --state exhausted --watch
  sloengine status --rejects
  sloengine status --service shop -o json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if rejects {
				if service+only != "" {
					return cli.Usagef("--rejects excludes --service and --slo, because a rejected event may name no service")
				}
				return printRejects(c.Context(), o)
			}
			read := func() (*engineStatus, error) { return readStatus(c.Context(), &o.engine, service, state) }
			if only != "" {
				id, err := sloFlag(only)
				if err != nil {
					return err
				}
				if service != "" {
					return cli.Usagef("--slo and --service exclude each other")
				}
				read = func() (*engineStatus, error) { return readOneStatus(c.Context(), &o.engine, id, state) }
			}
			if every != 0 {
				return watchStatus(c.Context(), o, every, read)
			}
			all, err := read()
			if err != nil {
				return err
			}
			return o.Print(all, func() error { return all.print(s.Out, cli.ScreenOf(s.Out)) })
		},
	}
	f := c.Flags()
	o.engine.AddFlags(f)
	o.AddOutput(f, "table", "json", "yaml")
	f.StringVar(&service, "service", "", "only this service")
	f.StringVar(&only, "slo", "", "only this SLO, as SERVICE/SLO, and where its budget went")
	cli.AddChoice(f, &state, "state", "", "only SLOs in this state", "", "firing", "exhausted", "at_risk", "ok", "no_data",
		"waiting")
	f.DurationVar(&every, "watch", 0, "print again at this interval until interrupted")
	f.Lookup("watch").NoOptDefVal = "5s"
	f.BoolVar(&rejects, "rejects", false, "print the rejected events instead: code, sender, number, and a sample")
	return c
}

// readStatus reads what status prints, of one service and state, or of all.
func readStatus(ctx context.Context, c *Client, service, state string) (*engineStatus, error) {
	q := given(map[string]string{"service": service})
	all := &engineStatus{}
	var err error
	if all.SLOs, all.Failing, err = statusRows(ctx, c, q, state); err != nil {
		return nil, err
	}
	if len(all.SLOs) == 0 && service != "" && state == "" {
		return nil, fmt.Errorf("service %q has no SLO in the running spec", service)
	}
	if len(all.SLOs) == 0 && state != "" {
		all.none = "No SLO is in the state " + state + "."
	}
	if all.Agreements, err = agreements(ctx, c, q); err != nil {
		return nil, err
	}
	all.Alerts, err = activeAlerts(ctx, c, q)
	return all, err
}

// watchStatus prints the status again and again, on a terminal in place. After the first time it says what fails, and
// continues.
func watchStatus(ctx context.Context, o *engineCommand, every time.Duration, read func() (*engineStatus, error)) error {
	if o.Format != "table" || every < time.Second {
		return cli.Usagef("--watch needs a table and at least 1s")
	}
	screen := cli.ScreenOf(o.Out)
	for first := true; ; first = false {
		all, err := read()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && first {
			return err
		}
		var text strings.Builder
		if screen.Width > 0 {
			text.WriteString("\x1b[H\x1b[2J")
		}
		fmt.Fprintln(&text, time.Now().UTC().Format(time.RFC3339)+"\n")
		if err == nil {
			err = all.print(&text, screen)
		}
		if err != nil {
			fmt.Fprintln(&text, cli.Printable(err.Error()))
		}
		if _, err := io.WriteString(o.Out, text.String()+"\n"); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// statusRows reads all pages of SLOs in a state, worst first, the last day of the worst, and what fails.
func statusRows(ctx context.Context, c *Client, q url.Values, state string) (
	all []*statusRow, failing *v1.Failing, err error) {
	err = c.Groups(ctx, maps.Clone(q), func(part v1.SLOList) error {
		failing = part.Failing
		for _, s := range part.Items {
			r := &statusRow{SLO: s}
			if state == "" || state == strings.ReplaceAll(strings.TrimSuffix(r.state(), " for data"), " ", "_") {
				all = append(all, r)
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	sortWorstFirst(all)
	// Histories cost a call each: beyond a screenful they are left out.
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for _, r := range all[:min(len(all), 100)] {
		g.Go(func() error {
			var h v1.History
			if err := c.Read(ctx, "/api/v1/slos/"+string(r.ID)+"/history", groupParams(r.Group), &h); err != nil {
				return err
			}
			r.History = h.Points
			return nil
		})
	}
	return all, failing, g.Wait()
}

// activeAlerts reads those that fire or are about to, in the order of the page.
func activeAlerts(ctx context.Context, c *Client, q url.Values) ([]v1.Alert, error) {
	active := []v1.Alert{}
	for _, state := range []string{"firing", "pending"} {
		q := maps.Clone(q)
		q.Set("state", state)
		q.Set("limit", "100")
		var page v1.AlertList
		if err := c.Read(ctx, "/api/v1/alerts", q, &page); err != nil {
			return nil, err
		}
		active = append(active, page.Items...)
	}
	return active, nil
}

func sortWorstFirst(rows []*statusRow) {
	rank := map[slo.State]int{slo.StateExhausted: 0, slo.StateAtRisk: 1, slo.StateOK: 2, slo.StateNoData: 3}
	remaining := func(r *statusRow) float64 {
		if r.Budget.Remaining == nil {
			return 1
		}
		return *r.Budget.Remaining
	}
	paging := func(r *statusRow) int {
		if r.Paging {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(rows, func(a, b *statusRow) int {
		return cmp.Or(cmp.Compare(paging(a), paging(b)), cmp.Compare(rank[a.State], rank[b.State]),
			cmp.Compare(remaining(a), remaining(b)))
	})
}

// sparkline draws the error ratio of each hour against the worst one; an hour
// without data is a gap, one without errors the lowest bar.
func sparkline(points []v1.HistoryPoint) string {
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
