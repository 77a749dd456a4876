package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
)

func newRelay(s cli.Streams) *cobra.Command {
	var p processFlags
	var file string
	var check bool
	c := &cobra.Command{
		Use:   "relay -f relay.yaml",
		Short: "Publish the rows of an outbox table to a broker",
		Long: `relay publishes the rows of an outbox table in PostgreSQL to Kafka, RabbitMQ or a web
service. Rows with the same key are published in order. Any number of relays share a table: each leases a fair
part of the keys. With claim: optimistic, for tables with a version column, rows are
claimed one by one, and published in no particular order.

A row is published at least once. Its idempotency key is a header of the message, by which
consumers recognise a row that comes twice. A row that cannot be published is tried again,
and given up after max_attempts with a message to the destination in dead_letter.

/-/ready says whether the database and the broker can be used, and why not.`,
		Example: `  sloengine relay -f relay.yaml
  sloengine relay -f relay.yaml --check`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return cli.Usagef("no settings given: set -f relay.yaml")
			}
			settings, err := config.LoadRelay(file)
			if err != nil {
				return err
			}
			if check {
				fmt.Fprintf(s.Out, "%s is valid\n", file)
				for _, note := range settings.Notes() {
					fmt.Fprintf(s.Out, "note: %s\n", note)
				}
				return nil
			}
			log, err := p.logger(s.Err)
			if err != nil {
				return err
			}
			return app.RunRelay(c.Context(), app.RelayOptions{
				Config: settings, Listen: p.listen, Log: log, Version: build(),
			})
		},
	}
	p.registerServer(c)
	f := c.Flags()
	f.StringVarP(&file, "file", "f", "", "settings of the relay, relay.yaml")
	f.BoolVar(&check, "check", false, "check the settings and exit")
	return c
}
