package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web"
)

// forget drops what was counted for a service, and its ids, by a record of the log.
func (a *app) forget(ctx context.Context, r web.ForgetRequest) (done web.Forgotten, err error) {
	done.Service = r.Service
	var held, inUse bool
	var all []fold.Generation
	var basis uint64
	err = a.engine.Do(ctx, func() {
		held, inUse = a.fold.Holds(r.Service)
		all, basis = a.fold.Generations(a.parking.dedup), a.engine.Position()
	})
	switch {
	case err != nil:
		return done, err
	case !held && !inUse:
		return done, web.ErrNothingCounted
	case inUse && !r.Restart:
		return done, web.ErrServiceInUse
	}
	err = a.engine.Forget(ctx, engine.Forget{Services: []string{r.Service}}, basis)
	if errors.Is(err, engine.ErrConfigChanged) {
		return done, web.ErrSpecChanged
	}
	if err != nil {
		return done, err
	}
	for _, g := range all {
		switch {
		case g.Service != r.Service:
		case g.Number > 0:
			done.Parked++
		default:
			done.Restarted++
		}
	}
	a.parking.evicted[evictedForget].Add(done.Parked)
	a.log.Warn("everything counted for a service is forgotten, and its ids", "service", r.Service, "parked", done.Parked, "restarted", done.Restarted)
	_, err = a.generations(ctx)
	return done, err
}

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
			var done web.Forgotten
			if err := cl.act(c.Context(), "/api/v1/forget", web.ForgetRequest{Service: args[0], Restart: restart}, &done); err != nil {
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
