package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/web/api/v1"
)

// Verdicts of a gate, which are also its exit codes.
const (
	gateGo     = "go"
	gateStop   = "stop"
	gateNoData = "no data"
)

var gateCodes = map[string]int{gateGo: 0, gateStop: 1, gateNoData: 2}

// gateResult says whether a deployment may go on.
type gateResult struct {
	Verdict   string    `json:"verdict"`
	MinBudget float64   `json:"min_budget"` // 0 to 1
	Reason    string    `json:"reason,omitempty"`
	Groups    []gateRow `json:"groups"`
}

// gateRow is one group of an SLO. Those of all other values, which nothing was promised, are left out.
type gateRow struct {
	SLO       string            `json:"slo"`
	Group     map[string]string `json:"group"`
	Remaining *float64          `json:"remaining"` // null: no data
	Verdict   string            `json:"verdict"`
}

func newGate(s cli.Streams) *cobra.Command {
	var (
		ids, groups []string
		least       string
	)
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "gate",
		Short: "Check whether the error budgets of a running engine allow a deployment",
		Long: `gate compares the error budgets that are left with a minimum, for deploy pipelines.

It exits with 0 if every group of the SLOs has at least that share of its budget left,
with 1 if one has less, and with 2 if nothing is known: no group has data, the numbers
are stale, the SLO does not exist, or the engine does not answer. Groups without data
are passed over if others have data.`,
		Example: `  sloengine gate --slo shop/checkout --min-budget 10%
  sloengine gate --slo shop/checkout --slo shop/search --group region=eu -o json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			min, err := parseShare(least)
			if err != nil {
				return err
			}
			q := url.Values{}
			for _, g := range groups {
				label, value, ok := strings.Cut(g, "=")
				if !ok || label == "" {
					return cli.Usagef("invalid --group %q (want label=value)", g)
				}
				q.Set("group."+label, value)
			}
			if len(ids) == 0 {
				return cli.Usagef("--slo is required (such as --slo shop/checkout)")
			}
			out := gateResult{Verdict: gateNoData, MinBudget: min, Groups: []gateRow{}}
			for _, id := range ids {
				if err := out.read(c.Context(), &o.engine, id, q); err != nil {
					var usage cli.UsageError
					if errors.As(err, &usage) {
						return err
					}
					return cli.Exit{Code: gateCodes[gateNoData], Err: err}
				}
			}
			out.judge()
			if err := o.Print(out, func() error { return out.print(s.Out) }); err != nil {
				return err
			}
			if out.Verdict != gateGo {
				return cli.Exit{Code: gateCodes[out.Verdict]}
			}
			return nil
		},
	}
	f := c.Flags()
	o.engine.AddFlags(f)
	o.AddOutput(f, "table", "json", "yaml")
	f.StringArrayVar(&ids, "slo", nil, "SLO as service/slo; may be repeated")
	f.StringArrayVar(&groups, "group", nil, "only groups with label=value; may be repeated")
	f.StringVar(&least, "min-budget", "0%", "share of the error budget that must be left, 0% to 100%")
	return c
}

// parseShare reads a percentage such as 10%.
func parseShare(s string) (float64, error) {
	number, ok := strings.CutSuffix(s, "%")
	x, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || math.IsNaN(x) || x < 0 || x > 100 {
		return 0, cli.Usagef("invalid --min-budget %q (want 0%% to 100%%, such as 10%%)", s)
	}
	return x / 100, nil
}

// read adds the groups of one SLO.
func (g *gateResult) read(ctx context.Context, c *Client, id string, groups url.Values) error {
	q := maps.Clone(groups)
	q.Set("slo", id)
	found := 0
	err := c.Groups(ctx, q, func(part v1.SLOList) error {
		items := part.Items
		if part.Report.Stale {
			return errors.New("the numbers of the engine are stale")
		}
		found += len(items)
		for i := range items {
			x := &items[i]
			if x.Informative {
				continue
			}
			row := gateRow{SLO: string(x.ID), Group: x.Group, Remaining: x.Budget.Remaining, Verdict: gateGo}
			switch {
			case row.Remaining == nil:
				row.Verdict = gateNoData
			case *row.Remaining < g.MinBudget:
				row.Verdict = gateStop
			}
			g.Groups = append(g.Groups, row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if found == 0 {
		return fmt.Errorf("no slo %q with such groups in the running spec", id)
	}
	return nil
}

// judge finds the verdict on all groups: the worst one of those that have data.
func (g *gateResult) judge() {
	count := map[string]int{}
	for i := range g.Groups {
		count[g.Groups[i].Verdict]++
	}
	switch {
	case count[gateStop] > 0:
		g.Verdict, g.Reason = gateStop, cli.Plural(count[gateStop], "group")+" below the minimum"
	case count[gateGo] > 0:
		g.Verdict = gateGo
	default:
		g.Verdict, g.Reason = gateNoData, "no group has data"
	}
}

func (g *gateResult) print(w io.Writer) error {
	tw := cli.NewTable(w)
	fmt.Fprintln(tw, "VERDICT\tSLO\tGROUP\tBUDGET LEFT\tMINIMUM")
	for i := range g.Groups {
		r := &g.Groups[i]
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", r.Verdict, cli.Cell(r.SLO), cli.GroupText(r.Group),
			cli.Percent(r.Remaining, 1), cli.Percent(&g.MinBudget, 1))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, strings.TrimSuffix(g.Verdict+": "+g.Reason, ": "))
	return err
}
