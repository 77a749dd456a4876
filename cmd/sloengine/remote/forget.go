package remote

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/web/status"
)

func newForget(s cli.Streams) *cobra.Command {
	var restart bool
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "forget SERVICE",
		Short: "Forget all counts and ids of a service, so that its events can be sent again",
		Long: `forget deletes the parked counts of a service (those of SLOs that are no longer in
the spec) and its event ids. Events that you send again afterwards are counted again.

The engine refuses to forget a service of the running spec. Remove the service and
reload first, or set --restart, which restarts its SLOs from zero. You can restore
forgotten counts only by sending the events again. If a sender retries an old event on
its own, the event is added to the new counts.`,
		Example: `  sloengine forget shopp
  sloengine forget shop --restart && sloengine send --backfill --service shop january.log`,
		Args: cli.OneArg("SERVICE"),
		RunE: func(c *cobra.Command, args []string) error {
			var done status.Forgotten
			if err := o.engine.act(c.Context(), "/api/v1/forget", status.ForgetRequest{Service: args[0], Restart: restart}, &done); err != nil {
				return err
			}
			return o.Print(done, func() error {
				_, err := fmt.Fprintf(s.Out, "forgot %s: %s dropped, %s restarted from zero\n", cli.Printable(done.Service),
					cli.Plural(done.Parked, "parked generation"), cli.Plural(done.Restarted, "generation"))
				return err
			})
		},
	}
	o.engine.AddFlags(c.Flags())
	o.AddOutput(c.Flags(), "table", "json")
	c.Flags().BoolVar(&restart, "restart", false, "forget a service of the running spec, too: its SLOs restart from zero")
	return c
}
