package remote

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/web/api"
)

func newRebuild(s cli.Streams) *cobra.Command {
	var r counting.RebuildRequest
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "rebuild [--slo SERVICE/SLO].. | --all",
		Short: "Count SLOs again from the retained log, or show how far that is",
		Long: `rebuild has the engine count SLOs again from the oldest record of its history, in the background.
They keep their counts until then. The engine does this by itself for changed definitions and new SLOs.

With --cancel, the engine stops it. Where an earlier definition was in force until then, the changed one is in force
at once and starts from zero. Without --slo and --all, rebuild shows what is being rebuilt.`,
		Example: `  sloengine rebuild
  sloengine rebuild --slo shop/checkout
  sloengine rebuild --all --cancel`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if r.All && len(r.SLOs) > 0 {
				return cli.Usagef("--slo and --all exclude each other")
			}
			if !r.All && len(r.SLOs) == 0 {
				if r.Cancel {
					return cli.Usagef("--cancel needs --slo or --all")
				}
				var e struct {
					Rebuild *counting.RebuildProgress `json:"rebuild"`
				}
				if err := o.engine.Read(c.Context(), "/api/v1/engine", nil, &e); err != nil {
					return err
				}
				return o.Print(e, func() error { printRebuild(o.Out, e.Rebuild); return nil })
			}
			var done counting.RebuildAnswer
			if err := o.engine.act(c.Context(), api.RebuildPath, r, &done); err != nil {
				return err
			}
			return o.Print(done, func() error {
				what := "to be rebuilt"
				if r.Cancel {
					what = "not to be rebuilt"
				}
				fmt.Fprintf(o.Out, "%s: %s\n", what, printableList(done.SLOs))
				if len(done.Activated) > 0 {
					fmt.Fprintf(o.Out, "start from zero with their changed definitions: %s\n", printableList(done.Activated))
				}
				return nil
			})
		},
	}
	o.engine.AddFlags(c.Flags())
	o.AddOutput(c.Flags(), "table", "json")
	c.Flags().StringArrayVar(&r.SLOs, "slo", nil, "an SLO to rebuild, such as shop/checkout (repeatable)")
	c.Flags().BoolVar(&r.All, "all", false, "rebuild all SLOs, one service after the other")
	c.Flags().BoolVar(&r.Cancel, "cancel", false, "do not rebuild them")
	return c
}

func printableList(list []string) string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = cli.Printable(x)
	}
	return strings.Join(out, ", ")
}

// printRebuild says how far rebuilds are.
func printRebuild(w io.Writer, p *counting.RebuildProgress) {
	if p == nil {
		fmt.Fprintln(w, "nothing is to be rebuilt")
		return
	}
	if len(p.SLOs) > 0 {
		fmt.Fprintf(w, "running: %s, %.0f%%\n", printableList(p.SLOs), 100*p.Share)
	}
	fmt.Fprintf(w, "without counts of the history: %s\n", printableList(p.Waiting))
	if len(p.Held) > 0 {
		fmt.Fprintf(w, "earlier definition in force until then: %s\n", printableList(p.Held))
	}
	if p.Failing != "" {
		fmt.Fprintf(w, "failing, tried again each minute: %s\n", cli.Printable(p.Failing))
	}
}
