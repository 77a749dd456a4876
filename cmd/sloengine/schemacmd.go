package main

import (
	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/alerts/alertmanager"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
)

// A format is a kind of file that people write. Its description makes the reference and the JSON Schema.
type format struct {
	name, about string
	shape       func() shape.Shape
}

func formats() []format {
	return []format{
		{"spec", "A spec of sloengine: what is counted, and what was promised.", spec.Shape},
		{"engine", "engine.yaml: the settings of the engine.", config.Shape},
		{"relay", "relay.yaml: the settings of the relay of an outbox.", config.RelayShape},
		{"receivers", "The receivers of generated Alertmanager configurations.", alertmanager.Shape},
	}
}

func newSchema(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of specs and settings, for editors",
		Long: `schema prints the JSON Schema (draft 7) of a format. Editors with the YAML language server
complete and check keys with it, if the file begins with this line:

  # yaml-language-server: $schema=spec.schema.json

The schema knows keys, types, words and the bounds of numbers. "sloengine check" knows the
rest, such as names that do not exist and durations that are too long.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, f := range formats() {
		c.AddCommand(&cobra.Command{
			Use:     f.name,
			Short:   "Print the JSON Schema of: " + f.about,
			Example: "  sloengine schema " + f.name + " > " + f.name + ".schema.json",
			Args:    cli.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				text, err := schemaOf(f)
				if err != nil {
					return err
				}
				_, err = s.Out.Write(text)
				return err
			},
		})
	}
	return c
}

func schemaOf(f format) ([]byte, error) {
	described := f.shape()
	return described.Schema("urn:sloengine:schema:"+f.name, "sloengine "+f.name, f.about)
}
