package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/promapi"
	"github.com/sloengine/sloengine/cmd/sloengine/remote"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/api"
)

var nameRE = regexp.MustCompile(`^[a-z0-9._-]+$`)

func newInit(s cli.Streams) *cobra.Command {
	service, out := "my-service", "-"
	var engine remote.Client
	var prometheus cli.Engine
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a commented starter spec, or propose specs from OpenTelemetry spans or Prometheus counters",
		Example: `  sloengine init --service shop > shop.yaml
  sloengine init --service shop --out specs/shop.yaml
  sloengine init --from-traffic http://127.0.0.1:8080 > specs.yaml
  sloengine init --from-prometheus http://127.0.0.1:9090 > specs.yaml`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			only := ""
			if c.Flags().Changed("service") {
				only = service
			}
			var text []byte
			var err error
			switch {
			case engine.Named() && prometheus.Named():
				err = cli.Usagef("--from-traffic and --from-prometheus exclude each other")
			case prometheus.Named():
				text, err = fromPrometheus(c.Context(), &prometheus, only)
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
	c.Flags().StringVar(&service, "service", service,
		"name of the service in the spec, or the only one to propose a spec for")
	c.Flags().StringVar(&out, "out", out, "file to create, or - for standard output")
	engine.AddOptional(c.Flags(), "from-traffic",
		"URL of a running engine: write specs for the services whose spans no spec counts, from the last hour")
	prometheus.AddForeign(c.Flags(), "from-prometheus",
		"URL of a Prometheus: write specs for its usual counters of requests, with objectives that the last 7 days meet")
	return c
}

// fromPrometheus writes a spec for each service of the usual counters of a Prometheus, or for one of them.
func fromPrometheus(ctx context.Context, prometheus *cli.Engine, only string) ([]byte, error) {
	u, err := prometheus.URL()
	if err != nil {
		return nil, err
	}
	token, err := prometheus.Token()
	if err != nil {
		return nil, err
	}
	secret, _ := prometheus.Secret() // Token has read it
	text, err := promapi.Propose(ctx, &promapi.Client{URL: u, Token: token},
		promapi.Options{Service: only, TokenFile: secret.File})
	if refused, ok := errors.AsType[*promapi.StatusError](err); ok && (refused.Status == http.StatusUnauthorized ||
		refused.Status == http.StatusForbidden) {
		return nil, fmt.Errorf("%w; %s", err, prometheus.Denied())
	}
	return text, err
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
		return nil, fmt.Errorf("the engine has seen no spans of service %s in the last hour that a new spec would count",
			only)
	}
	return nil, fmt.Errorf("the engine has seen no spans in the last hour that a new spec would count " +
		"(send spans to its /v1/traces)")
}
