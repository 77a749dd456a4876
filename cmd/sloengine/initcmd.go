package main

import (
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo/spec"
)

var nameRE = regexp.MustCompile(`^[a-z0-9._-]+$`)

func newInit(s cli.Streams) *cobra.Command {
	service, out := "my-service", "-"
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a commented starter spec",
		Example: `  sloengine init --service shop > shop.yaml
  sloengine init --service shop --out specs/shop.yaml`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !nameRE.MatchString(service) {
				return cli.Usagef("invalid --service %q (want only lower-case letters, digits, '.', '-' and '_')", service)
			}
			text := spec.Starter(service)
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
	c.Flags().StringVar(&service, "service", service, "name of the service in the spec")
	c.Flags().StringVar(&out, "out", out, "file to create, or - for standard output")
	return c
}
