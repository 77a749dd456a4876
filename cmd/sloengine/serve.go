package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/config"
	"github.com/sloengine/sloengine/web/site"
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
	f := c.Flags()
	f.StringVarP(&p.configFile, "config", "c", "", "process settings, engine.yaml (default: built in)")
	f.StringVar(&p.listen, "web.listen-address", "127.0.0.1:8080", "address to listen on; anything but loopback should have TLS and tokens")
	f.StringVar(&p.logLevel, "log.level", "info", "debug, info, warn or error")
	f.StringVar(&p.logFormat, "log.format", "text", "text or json")
}

func (p *processFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(p.logLevel)); err != nil {
		return nil, usageError{fmt.Errorf("--log.level %s: want debug, info, warn or error", p.logLevel)}
	}
	opt := &slog.HandlerOptions{Level: level}
	switch p.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, opt)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opt)), nil
	}
	return nil, usageError{fmt.Errorf("--log.format %s: want text or json", p.logFormat)}
}

func newServe(s streams) *cobra.Command {
	var (
		p          processFlags
		files      []string
		dataDir    string
		acceptLoss bool
	)
	c := &cobra.Command{
		Use:   "serve -f FILE|DIR --data-dir DIR",
		Short: "Take events, count them, and serve page, API and metrics",
		Long: `serve takes events on POST /api/v1/events and answers once they are on disk. The
status page is at /, metrics at /metrics, the API's description at /openapi.json.
It reloads spec, tokens, limits, redaction and sinks on SIGHUP and on POST /-/reload; what
is wrong with them changes nothing and is shown.`,
		Example: `  sloengine serve -f specs/ --data-dir data
  sloengine serve -f specs/ --data-dir data -c engine.yaml --web.listen-address :8443`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case len(files) == 0:
				return usageError{errors.New("which spec? give -f FILE or -f DIR; 'sloengine init' writes a first one")}
			case dataDir == "":
				return usageError{errors.New("where to? give --data-dir DIR, a folder for the log and the counts")}
			}
			return serve(c.Context(), s, p, app.Options{
				LoadSpec: fromPaths(files, s.in), DataDir: dataDir, AcceptLoss: acceptLoss,
			}, nil)
		},
	}
	p.register(c)
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "spec file, folder of *.yaml, or - (repeatable)")
	c.Flags().StringVar(&dataDir, "data-dir", "", "folder for everything that is written")
	c.Flags().BoolVar(&acceptLoss, "accept-loss", false, "start although the data folder is damaged; what is damaged is moved aside, its events are lost")
	return c
}

// serve finishes the options, runs the app, and prints a spec's problems as
// check would. adjust, if not nil, changes the settings after they were read.
func serve(ctx context.Context, s streams, p processFlags, opt app.Options, adjust func(*config.Config) error) error {
	var err error
	if opt.Log, err = p.logger(s.err); err != nil {
		return err
	}
	opt.LoadConfig = func() (config.Config, error) {
		c, err := config.Load(p.configFile)
		if err == nil && adjust != nil {
			err = adjust(&c)
		}
		return c, err
	}
	findings, err := config.Findings(p.configFile)
	if err != nil {
		return err
	}
	for _, f := range findings {
		opt.Log.Warn("questionable setting", "file", f.File, "line", f.Line, "problem", f.Message, "hint", f.Suggestion)
	}
	opt.Crash = crashPoint
	opt.Listen = p.listen
	opt.Version = site.Version{Version: version, Revision: revision(), Go: runtime.Version()}
	err = app.Run(ctx, opt)
	var se *app.SpecError
	if errors.As(err, &se) {
		printProblems(s.err, se.Problems)
		return fmt.Errorf("%w; nothing was started", err)
	}
	return err
}
