package main

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/sla/fleet"
	"github.com/sloengine/sloengine/slo"
)

func newView(s cli.Streams) *cobra.Command {
	var (
		p       processFlags
		files   cli.SpecFiles
		engines []string
		client  cli.Engine
		timeout string
	)
	c := &cobra.Command{
		Use:   "view -f FILE|DIR --engines URL,URL",
		Short: "Serve one status page and API for several engines",
		Long: `view adds up what several engines counted and evaluates the sums as one engine would: pages,
read API, composite scores, history and reports. Use it when each engine receives a part of
the events. Slices of time are judged by the events of all engines.

view keeps nothing on disk and sends no notifications. It must have the same spec as the
engines. An engine that does not answer, or runs another spec, is named on the page, in the
API and in readiness. Its events are left out, and coverage is lower until it is back.

Of the settings in --config, view uses web, auth, evaluator and shutdown, and of sources which
SLOs those of kind prometheus count. Engines with the same source count the same, so view takes
the counts of the one that observed most. Its /metrics has no slo_* and sla_* families. Prometheus
takes those from the engines.`,
		Example: `  sloengine view -f specs/ --engines http://a:8080,http://b:8080,http://c:8080
  sloengine view -f specs/ --engines https://a,https://b --token-file token --web.listen-address :8090`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := files.Check(); err != nil {
				return err
			}
			urls, err := engineURLs(engines)
			if err != nil {
				return err
			}
			limit, err := slo.ParseDuration(timeout)
			if err != nil || limit <= 0 || limit > time.Minute {
				return cli.Usagef("invalid --timeout %q (want a duration up to 1m, such as 5s)", timeout)
			}
			return serveView(c.Context(), s, p,
				app.ViewOptions{LoadSpec: files.Loader(s.In), Engines: urls, Token: client.Token, Timeout: limit})
		},
	}
	p.register(c)
	files.Add(c.Flags())
	c.Flags().StringSliceVar(&engines, "engines", nil, "URLs of the engines, separated by commas")
	client.AddTokenFile(c.Flags(), "file with the bearer token for the engines")
	c.Flags().StringVar(&timeout, "timeout", slo.FormatDuration(fleet.DefaultTimeout),
		"how long an engine may take to answer for one report")
	return c
}

// engineURLs reads --engines.
func engineURLs(texts []string) (out []*url.URL, err error) {
	if len(texts) == 0 {
		return nil, cli.Usagef("no engines given: set --engines URL,URL")
	}
	seen := map[string]bool{}
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if err := remote.CheckBaseURL(text, "--token-file"); err != nil {
			return nil, cli.Usagef("invalid URL in --engines: %v (want an address such as http://127.0.0.1:8080)", err)
		}
		u, err := url.Parse(text)
		switch {
		case err != nil:
			return nil, err // checked above
		case seen[u.String()]:
			return nil, cli.Usagef("engine %s is given twice in --engines, so its events would count twice", u)
		}
		seen[u.String()] = true
		out = append(out, u)
	}
	if len(out) > fleet.MaxEngines {
		return nil, cli.Usagef("%d engines in --engines (at most %d)", len(out), fleet.MaxEngines)
	}
	return out, nil
}

// serveView completes the options, runs the view, and prints the problems of a spec as check does.
func serveView(ctx context.Context, s cli.Streams, p processFlags, opt app.ViewOptions) (err error) {
	if opt.Log, err = p.logger(s.Err); err != nil {
		return err
	}
	opt.LoadConfig = func() (config.Config, error) { return config.Load(p.configFile) }
	opt.Listen = p.listen
	opt.Version = build()
	return withProblems(s, app.RunView(ctx, opt))
}
