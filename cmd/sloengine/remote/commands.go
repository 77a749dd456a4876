// Package remote is the commands that ask a running engine through its API: status, the gate of deployments, reports,
// dead letters, rate limits, incidents, silences, annotations, blind spots, forgetting a service, and why a Prometheus
// says another number; and what check and explain say of blind spots.
//
// It opens no data directory, and of its commands blindspots alone reads specs. It knows of the engine what the API
// says. Only limits explain reads settings, and asks no engine.
package remote

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/web/api/v1"
)

// Commands are all commands of this package.
func Commands(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{newStatus(s), newGate(s), newDLQ(s), newLimits(s), newReport(s), newForget(s), newSilence(s),
		newRedact(s), newAnnotate(s), newIncident(s), newAudit(s), newReconcile(s), newEvents(s),
		newRebuild(s)}
}

// Names are the values of the flags --slo and --service of commands that ask an engine: those that it has.
func Names(c *cobra.Command, flag string) func() []string {
	if flag != "slo" && flag != "service" || c.Flag("url") == nil {
		return nil
	}
	return func() (all []string) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		var of Client
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		of.AddFlags(f)
		for _, name := range []string{"url", "token-file"} {
			if given := c.Flag(name); given.Changed {
				_ = f.Set(name, given.Value.String()) // any text is one
			}
		}
		_ = of.Groups(ctx, url.Values{}, func(part v1.SLOList) error { // a shell shows no error
			for i := range part.Items {
				name := string(part.Items[i].ID)
				if flag == "service" {
					name, _, _ = strings.Cut(name, "/")
				}
				all = append(all, name)
			}
			return nil
		})
		slices.Sort(all)
		return slices.Compact(all)
	}
}
