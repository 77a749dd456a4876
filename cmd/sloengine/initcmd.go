package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/remote"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/api"
)

var nameRE = regexp.MustCompile(`^[a-z0-9._-]+$`)

func newInit(s cli.Streams) *cobra.Command {
	service, out := "my-service", "-"
	var engine remote.Client
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a commented starter spec, or specs for services that send OpenTelemetry spans",
		Example: `  sloengine init --service shop > shop.yaml
  sloengine init --service shop --out specs/shop.yaml
  sloengine init --from-traffic http://127.0.0.1:8080 > specs.yaml`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			only := ""
			if c.Flags().Changed("service") {
				only = service
			}
			var text []byte
			var err error
			switch {
			case engine.Named():
				text, err = fromTraffic(c.Context(), &engine, only)
			case !nameRE.MatchString(service):
				err = cli.Usagef("invalid --service %q (want only lower-case letters, digits, '.', '-' and '_')", service)
			default:
				text = spec.Starter(service)
			}
			if err != nil {
				return err
			}
			if out == "-" {
				_, err := s.Out.Write(text)
				return err
			}
			// Never overwrite an existing spec: it may be handwritten.
			f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
			if err != nil {
				return fmt.Errorf("write starter spec: %w", err)
			}
			if _, err := f.Write(text); err != nil {
				f.Close()
				return fmt.Errorf("write starter spec: %w", err)
			}
			if err := f.Close(); err != nil {
				return fmt.Errorf("write starter spec: %w", err)
			}
			fmt.Fprintf(s.Err, "wrote %s; next: sloengine check -f %s\n", out, out)
			return nil
		},
	}
	c.Flags().StringVar(&service, "service", service, "name of the service in the spec, or the only one of the traffic")
	c.Flags().StringVar(&out, "out", out, "file to create, or - for standard output")
	engine.AddOptional(c.Flags(), "from-traffic",
		"URL of a running engine: write specs for the services whose spans no spec counts, from the last hour")
	return c
}

// fromTraffic writes a spec for each service whose spans reach an engine and are not counted, or for one of them.
func fromTraffic(ctx context.Context, engine *remote.Client, only string) ([]byte, error) {
	var seen api.SeenList
	if err := engine.Read(ctx, api.SeenPath, nil, &seen); err != nil {
		return nil, err
	}
	var specs [][]byte
	for i := range seen.Items {
		if s := &seen.Items[i]; s.Spec != "" && (only == "" || s.Name == only) {
			specs = append(specs, []byte(s.Spec))
		}
	}
	switch {
	case len(specs) > 0:
		return bytes.Join(specs, []byte("---\n")), nil
	case only != "":
		return nil, fmt.Errorf("the engine has seen no spans of service %s in the last hour that a new spec would count", only)
	}
	return nil, fmt.Errorf("the engine has seen no spans in the last hour that a new spec would count " +
		"(send spans to its /v1/traces)")
}
