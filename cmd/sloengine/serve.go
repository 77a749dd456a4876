package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/status"
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

// importing are the flags of import prometheus.
type importing struct {
	cli.Printer
	process               processFlags
	files                 cli.SpecFiles
	dataDir, from         string
	url, source           string
	maxSeries, maxSamples uint64
	began                 time.Time
	failures              []string // of pairs of counters whose end was not reached
}

func newImport(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "import",
		Short: "Count what happened before the engine was there",
		Args:  cli.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	o := &importing{Printer: cli.Printer{Streams: s}}
	sub := &cobra.Command{
		Use:   "prometheus -f FILE|DIR {--url URL | -c FILE} --data-dir DIR",
		Short: "Count the past of the counters in a Prometheus into the data directory of a stopped engine",
		Long: `prometheus starts the engine on its data directory with the sources of kind prometheus
alone, lets them read the past, and stops it when they have come to now. Positions are
in the log with the counts, so that it may be interrupted, killed and run again: it goes
on, and a second run adds nothing. A running engine does the same with history, and
/api/v1/engine shows how far it is.

--url is enough where the Prometheus needs no credentials. The engine.yaml of the engine
must then name its source as --source does. The import may run before the engine counts
its SLOs, or afterwards: then it adds the time before.

The report says what the scrape interval makes uncertain: what was added in gaps counts
in their middle, and what a counter had added after the last sample before it fell is
not known. More bad events than there are events are not counted.

The exit code is 3 if some were not counted or counters were not read to the end, and 1
if a source cannot read on.`,
		Example: `  sloengine import prometheus --url http://127.0.0.1:9090 -f specs/ --data-dir data --from 30d
  sloengine import prometheus -f specs/ -c engine.yaml --data-dir data --from 30d`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	f := sub.Flags()
	f.StringVarP(&o.process.configFile, "config", "c", "", "engine settings with the source, engine.yaml")
	f.StringVar(&o.url, "url", "", "URL of the Prometheus, in place of -c")
	f.StringVar(&o.source, "source", "metrics", "name of the source in engine.yaml, with --url")
	o.files.Add(f)
	f.StringVar(&o.dataDir, "data-dir", "", "data directory of a stopped engine")
	f.StringVar(&o.from, "from", "", "how far back to read, such as 30d (default: history of the source, with --url 30d)")
	f.Uint64Var(&o.maxSeries, "max-series", 400_000, "most series to read")
	f.Uint64Var(&o.maxSamples, "max-samples", 1_000_000_000, "most samples to read")
	f.StringVar(&o.process.logLevel, "log.level", "warn", "lowest level to log: debug, info, warn or error")
	o.AddOutput(f, "table", "json", "yaml")
	c.AddCommand(sub)
	return c
}

func (o *importing) run(ctx context.Context) error {
	if err := o.files.Check(); err != nil {
		return err
	}
	back, err := slo.ParseDuration(o.from)
	switch {
	case o.from != "" && err != nil:
		return cli.Usagef("invalid --from %q (want an age such as 30d)", o.from)
	case o.dataDir == "" || o.process.configFile == "" && o.url == "":
		return cli.Usagef("set --data-dir to the data directory of the stopped engine, and --url to the Prometheus or -c " +
			"to the engine.yaml")
	case o.process.configFile != "" && o.url != "":
		return cli.Usagef("--url and -c exclude each other: -c names a file with the source")
	}
	var ofURL config.Config
	if o.url != "" {
		if o.from == "" {
			back = 30 * 24 * time.Hour
		}
		if ofURL, err = o.settings(); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	o.process.listen, o.began = "127.0.0.1:0", time.Now()
	var done []status.SourceCounters
	err = serve(ctx, o.Streams, o.process, app.Options{
		LoadSpec: o.files.Loader(o.In), DataDir: o.dataDir,
		OnSources: func(ctx context.Context, now func() []status.SourceStatus) (err error) {
			defer stop()
			done, err = o.watch(ctx, now)
			return err
		},
	}, func(c *config.Config) error {
		if o.url != "" {
			c.Sources = ofURL.Sources
		}
		c.Sources = slices.DeleteFunc(c.Sources, func(s config.Source) bool { return s.Prometheus == nil })
		if len(c.Sources) == 0 {
			return cli.Usagef("%s has no source of kind prometheus", o.process.configFile)
		}
		for i := range c.Sources {
			if o.from != "" || o.url != "" {
				c.Sources[i].Prometheus.History = back
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, fsys.ErrLocked):
		return fmt.Errorf("%w; a running engine reads the past itself with history in its source", err)
	case err != nil:
		return err
	case done == nil:
		return errors.New("interrupted; run it again to continue")
	}
	return o.report(done)
}

// settings are those of an engine with the Prometheus of --url alone.
func (o *importing) settings() (config.Config, error) {
	name, _ := json.Marshal(o.source) // as YAML, too
	url, _ := json.Marshal(o.url)
	c, err := config.Read("--url", fmt.Appendf(nil, "sources: [{name: %s, prometheus: {url: %s}}]", name, url))
	if err != nil {
		return c, cli.Usagef("invalid --url %q or --source %q: %v", o.url, o.source, err)
	}
	return c, nil
}

// importStall is how long a source that fails may take to read on.
const importStall = time.Minute

// watch shows how far the sources are until they have come to the time when the command began.
func (o *importing) watch(ctx context.Context, now func() []status.SourceStatus) ([]status.SourceCounters, error) {
	bar := cli.Progress(o.Err)
	defer bar(1, "")
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var samples uint64
	moved := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-tick.C:
		}
		var all []status.SourceCounters
		var failures []string
		ofPairs := true
		for _, s := range now() {
			all = append(all, s.Counters...)
			for _, t := range s.Troubles {
				failures = append(failures, t.Name+": "+t.Reason)
				ofPairs = ofPairs && t.Kind == "topic"
			}
		}
		var read, series uint64
		share, complete := 0.0, len(all) > 0
		for i := range all {
			c := &all[i]
			read, series = read+c.Samples, series+c.Beginnings+c.NewSeries
			behind := o.began.Sub(c.Until) - 5*time.Second // of the last scrapes
			if complete = complete && !c.Began.IsZero() && behind <= 0; !c.Began.IsZero() {
				share += float64(c.Until.Sub(c.Began)) / float64(o.began.Sub(c.Began)) / float64(len(all))
			}
		}
		switch {
		case read > o.maxSamples || series > o.maxSeries:
			return nil, fmt.Errorf("stopped after %d samples of %d series: raise --max-samples or --max-series and run it again",
				read, series)
		case complete:
			return all, nil
		case read != samples:
			samples, moved = read, time.Now()
		case len(failures) > 0 && time.Since(moved) > importStall && ofPairs:
			o.failures = failures // such as counters that are not scraped any more
			return all, nil
		case len(failures) > 0 && time.Since(moved) > importStall:
			return nil, fmt.Errorf("the source cannot read on: %s", cli.Printable(strings.Join(failures, "; ")))
		}
		bar(min(share, 0.999), cli.Plural(int(read), "sample"))
	}
}

// report prints what was read. It finds something if not all of it counts.
func (o *importing) report(all []status.SourceCounters) error {
	t := cli.Table{Columns: []cli.Column{{Name: "SLO", Shrink: true}, {Name: "FROM"}, {Name: "SAMPLES"}, {Name: "SERIES"},
		{Name: "GAPS"}, {Name: "IN GAPS"}, {Name: "RESETS"}, {Name: "NOT COUNTED"}}}
	findings := len(o.failures) > 0
	for i := range all {
		c := &all[i]
		var colour cli.Colour
		if c.Cut > 0 || c.Left != "" {
			findings, colour = true, cli.Yellow
		}
		for _, id := range c.SLOs {
			t.Add(colour, cli.Cell(id), cli.TimeCell(c.Began), fmt.Sprint(c.Samples), fmt.Sprint(c.Beginnings+c.NewSeries),
				fmt.Sprint(c.Gaps), fmt.Sprint(c.InGaps), fmt.Sprint(c.Resets), fmt.Sprint(c.Cut))
		}
	}
	err := o.Print(struct {
		Items    []status.SourceCounters `json:"items"`
		Failures []string                `json:"failures"`
	}{all, append([]string{}, o.failures...)}, func() error {
		err := t.Write(o.Out, cli.ScreenOf(o.Out))
		for _, f := range o.failures {
			fmt.Fprintf(o.Out, "not read to the end: %s\n", cli.Printable(f))
		}
		for i := range all {
			c := &all[i]
			if c.Cut > 0 {
				fmt.Fprintf(o.Out, "%s: %d bad or good events beyond all were not counted, the last ones at %s %s\n",
					cli.Printable(strings.Join(c.SLOs, ", ")), c.Cut, cli.TimeCell(c.CutAt), cli.Printable(c.CutGroup))
			}
			if c.Left != "" {
				fmt.Fprintf(o.Out, "%s: %s\n", cli.Printable(strings.Join(c.SLOs, ", ")), cli.Printable(c.Left))
			}
		}
		if o.url != "" {
			fmt.Fprintf(o.Out, "\nThe engine continues from here with this in its engine.yaml:\n"+
				"sources:\n  - name: %s\n    prometheus:\n      url: %s\n", o.source, cli.Printable(o.url))
		}
		return err
	})
	if err == nil && findings {
		err = cli.ErrFindings
	}
	return err
}
