package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/spf13/cobra"
)

// processFlags are those that serve and demo share.
type processFlags struct {
	configFile string
	listen     string
	logLevel   string
	logFormat  string
}

func (p *processFlags) register(c *cobra.Command) {
	c.Flags().StringVarP(&p.configFile, "config", "c", "", "engine settings, engine.yaml (default: built-in settings)")
	p.registerServer(c)
}

// registerServer adds the flags of commands that have no engine.yaml.
func (p *processFlags) registerServer(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.listen, "web.listen-address", "127.0.0.1:8080",
		"address to listen on; beyond loopback, configure TLS and tokens")
	cli.AddChoice(f, &p.logFormat, "log.format", "", "log format", "text", "json")
	f.StringVar(&p.logLevel, "log.level", "info", "lowest level to log: debug, info, warn or error")
}

func (p *processFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(p.logLevel)); err != nil {
		return nil, cli.Usagef("invalid --log.level %q (want debug, info, warn or error)", p.logLevel)
	}
	opt := &slog.HandlerOptions{Level: level}
	if p.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opt)), nil
	}
	return slog.New(slog.NewTextHandler(w, opt)), nil
}

func newServe(s cli.Streams) *cobra.Command {
	var (
		p          processFlags
		files      cli.SpecFiles
		dataDir    string
		acceptLoss bool
		standby    bool
	)
	c := &cobra.Command{
		Use:   "serve -f FILE|DIR --data-dir DIR",
		Short: "Receive events, count them, and serve the status page, API and metrics",
		Long: `serve receives events on POST /api/v1/events and acknowledges them once they are on
disk. The status page is at /, the metrics are at /metrics, and the OpenAPI description
is at /openapi.json.

serve reloads spec, tokens, rate limits, redaction and sinks on SIGHUP and on
POST /-/reload. If any of them is invalid, the reload fails, the old configuration stays
in force, and the page and the log show the error.`,
		Example: `  sloengine serve -f specs/ --data-dir data
  sloengine serve -f specs/ --data-dir data -c engine.yaml --web.listen-address :8443`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := files.Check(); err != nil {
				return err
			}
			if dataDir == "" {
				return cli.Usagef("no data directory given: set --data-dir DIR for the log and the counts")
			}
			return serve(c.Context(), s, p, app.Options{
				LoadSpec: files.Loader(s.In), DataDir: dataDir, AcceptLoss: acceptLoss, Standby: standby,
			}, nil)
		},
	}
	p.register(c)
	files.Add(c.Flags())
	c.Flags().StringVar(&dataDir, "data-dir", "", "data directory")
	c.Flags().BoolVar(&acceptLoss, "accept-loss", false,
		"start even if the data directory is damaged; damaged parts are moved aside and their events are lost")
	c.Flags().BoolVar(
		&standby, "standby", false, "wait while another engine uses the data directory, and take over when it ends")
	return c
}

// serve completes the options, runs the app, and prints the problems of a spec as check does. adjust, if not nil,
// changes the settings after they were read.
func serve(ctx context.Context, s cli.Streams, p processFlags, opt app.Options,
	adjust func(*config.Config) error) error {
	var err error
	if opt.Log, err = p.logger(s.Err); err != nil {
		return err
	}
	opt.LoadConfig = func() (config.Config, error) {
		c, err := config.Load(p.configFile)
		if err == nil && adjust != nil {
			err = adjust(&c)
		}
		return c, err
	}
	opt.Crash = crashPoint
	opt.Listen = p.listen
	opt.Version = build()
	return withProblems(s, app.Run(ctx, opt))
}

func withProblems(s cli.Streams, err error) error {
	var se *spec.InvalidError
	if errors.As(err, &se) {
		cli.PrintProblems(s.Err, se.Problems)
		return fmt.Errorf("%w; nothing was started", err)
	}
	return err
}
