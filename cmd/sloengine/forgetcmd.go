package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/web/status"
)

func newForget(s streams) *cobra.Command {
	var (
		api     apiFlags
		restart bool
		output  = "table"
	)
	c := &cobra.Command{
		Use:   "forget SERVICE",
		Short: "Forget everything that was counted for a service, so that it can be sent again",
		Long: `forget drops the parked counts of a service, which are those of SLOs that the spec
does not have any more, and its ids. Events that are sent again then count again.

A service of the running spec is refused: remove it and reload first, or give
--restart, and its SLOs start again from zero. What was forgotten cannot be had back
but by sending it again. Senders that repeat an event on their own repeat it into the
new counts.`,
		Example: `  sloengine forget shopp
  sloengine forget shop --restart && sloengine send --backfill --service shop january.log`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usageError{errors.New("forget takes the name of one service")}
			}
			if output != "table" && output != "json" {
				return usageError{fmt.Errorf("-o %s: want table or json", output)}
			}
			cl, err := api.client()
			if err != nil {
				return err
			}
			var done status.Forgotten
			if err := cl.act(c.Context(), "/api/v1/forget", status.ForgetRequest{Service: args[0], Restart: restart}, &done); err != nil {
				return err
			}
			if output == "json" {
				return json.NewEncoder(s.out).Encode(done)
			}
			_, err = fmt.Fprintf(s.out, "forgot %s: %s dropped, %s restarted from zero\n", printable(done.Service),
				plural(done.Parked, "parked generation"), plural(done.Restarted, "generation"))
			return err
		},
	}
	api.add(c.Flags())
	c.Flags().BoolVar(&restart, "restart", false, "also if the running spec has the service: its SLOs start again from zero")
	c.Flags().StringVarP(&output, "output", "o", output, "table or json")
	return c
}
