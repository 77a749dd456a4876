package backtest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/api"
)

// command is what the flags say.
type command struct {
	cli.Printer
	engine                                       cli.Engine
	remote                                       Ask
	files, before                                cli.SpecFiles
	dataDir, from, to, zone, settings, incidents string
	verify                                       bool
}

// Ask has a running engine replay its log: remote.Backtest.
type Ask func(context.Context, cli.Engine, *api.BacktestRequest, func(share float64, text string)) (
	*backtest.Result, error)

// New is the command backtest.
func New(s cli.Streams, ask Ask) *cobra.Command {
	x := &command{Printer: cli.Printer{Streams: s}, remote: ask}
	c := &cobra.Command{
		Use:   "backtest -f FILE|DIR|- --data-dir DIR | --running URL",
		Short: "Try a spec on the past: budgets and alerts of the retained log, against its incidents",
		Long: `backtest replays the log of an engine, and its history as far back as log.retain keeps it, at
the receive times of the log. Every interval it evaluates the spec in force and the candidate as a
running engine does, so that late events are seen as late as they were. The engine may be running:
backtest takes no lock and changes nothing.

For each SLO it prints the error budget at the end of each day and every alert, and rates paging
alerts against the incidents of the engine, or of --incidents: critical ones and those opened by hand.
Precision is the share of pages during an incident, recall the share of incidents with a page.
Detection is the time from the onset to the first page, reset that from the end of the incident to
the end of its last page, both as medians. For the objective of the candidate, the next one below
and the next above, it prints the chance that the error budget is exhausted at some time of the next
quarter, by the forecast of the engine.

The spec in force is the last one in the log. --before names another one.

With --running, the engine replays its own log, for one caller at a time, with half a core and for
10 minutes at most. A token for some services tries specs of these only.

With --verify it replays the whole log by the specs of their time and compares the alert states
behind every tick of the engine with those that the engine logged. It exits with 3 if any differ.`,
		Example: `  sloengine backtest -f new.yaml --data-dir data --from 30d
  sloengine backtest -f new.yaml --data-dir data --from 30d -o markdown > comment.md
  sloengine backtest -f new.yaml --data-dir data --from 2026-11-01T00:00:00Z --incidents incidents.json
  sloengine backtest -f new.yaml --running https://slo.example.com --from 7d
  sloengine backtest --verify --data-dir data`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return x.run(c.Context()) },
	}
	f := c.Flags()
	x.files.Add(f)
	f.StringVar(&x.dataDir, "data-dir", "", "data directory of an engine")
	x.engine.AddOptional(f, "running", "URL of an engine that replays its own log")
	f.StringVar(&x.from, "from", "30d", "begin of the range: an age such as 30d, or a time in RFC 3339")
	f.StringVar(&x.to, "to", "", "end of the range, likewise (default: the end of the log)")
	f.StringArrayVar((*[]string)(&x.before), "before", nil, "spec to compare with instead of the one in force")
	f.StringVar(&x.incidents, "incidents", "",
		"JSON array of incidents to rate alerts against, with id, service, slos, onset and end, instead of those of the "+
			"engine")
	f.StringVarP(&x.settings, "config", "c", "", "engine settings (engine.yaml), for the interval and the options of "+
		"alerts")
	f.StringVar(&x.zone, "zone", "UTC", "time zone of days and nights, such as Europe/Moscow")
	f.BoolVar(&x.verify, "verify", false, "compare the replay with what the engine did, instead of trying a spec")
	x.AddOutput(f, "table", "json", "markdown", "html")
	return c
}

func (x *command) run(ctx context.Context) error {
	switch {
	case x.dataDir == "" && !x.engine.Named():
		return cli.Usagef("no log given: set --data-dir DIR or --running URL")
	case x.dataDir != "" && x.engine.Named():
		return cli.Usagef("--data-dir and --running exclude each other")
	case x.engine.Named() && (x.verify || x.to != "" || len(x.before) > 0 || x.settings != ""):
		return cli.Usagef("--running takes no --to, --before, --config and --verify: the engine compares with its own " +
			"spec until now")
	}
	zone, err := time.LoadLocation(x.zone)
	if err != nil {
		return cli.Usagef("invalid --zone: %w", err)
	}
	o := backtest.Options{Zone: zone, Interval: 10 * time.Second}
	if x.settings != "" {
		c, err := config.Load(x.settings)
		if err != nil {
			return err
		}
		o.Alerts, o.Interval = c.AlertOptions(), c.Evaluator.Interval
	}
	if x.verify {
		return x.runCheck(ctx, &o)
	}
	if o.After, err = x.files.Read(x.Streams); err != nil {
		return err
	}
	if x.engine.Named() {
		return x.ask(ctx, &o)
	}
	if o.Source, err = engine.OpenLog(fsys.OS(), x.dataDir); err != nil {
		return err
	}
	if err := x.span(&o); err != nil {
		return err
	}
	if o.Given, err = x.given(); err != nil {
		return err
	}
	if o.Before, o.Notes, err = x.inForce(ctx, o.Source); err != nil {
		return err
	}
	if o.Given == nil {
		if o.Book, err = backtest.ReadBook(ctx, o.Source, x.dataDir); err != nil {
			return fmt.Errorf("read incidents of %s: %w (name others with --incidents)", cli.Printable(x.dataDir), err)
		}
	}
	show := cli.Progress(x.Err)
	o.Progress = func(share float64) { show(share, "replayed") }
	out, err := backtest.Run(ctx, o)
	if err != nil {
		return fmt.Errorf("%s: %w", cli.Printable(x.dataDir), err)
	}
	return x.print(out)
}

// ask has a running engine replay its log.
func (x *command) ask(ctx context.Context, o *backtest.Options) (err error) {
	if err := x.span(o); err != nil {
		return err
	}
	q := api.BacktestRequest{Spec: string(spec.Encode(o.After)), Last: slo.FormatDuration(o.To.Sub(o.From)), Zone: x.zone}
	if q.Incidents, err = x.given(); err != nil {
		return err
	}
	out, err := x.remote(ctx, x.engine, &q, cli.Progress(x.Err))
	if err != nil {
		return err
	}
	return x.print(out)
}

// runCheck compares the log with the engine that wrote it.
func (x *command) runCheck(ctx context.Context, o *backtest.Options) error {
	if len(x.files) > 0 {
		return cli.Usagef("--verify takes no -f: it replays the specs of the log")
	}
	source, err := engine.OpenLog(fsys.OS(), x.dataDir)
	if err != nil {
		return err
	}
	out, err := backtest.Verify(ctx, source, time.Now(), o.Interval, o.Alerts)
	if err != nil {
		return fmt.Errorf("%s: %w", cli.Printable(x.dataDir), err)
	}
	if x.Format == "json" {
		err = x.Print(out, nil)
	} else {
		err = x.write(&page{Title: "Backtest", Lines: out.Summary(), Notes: append(unobserved(out.Missing), out.Notes...)})
	}
	if err == nil && out.Differences > 0 {
		return cli.ErrFindings
	}
	return err
}

// span reads the range.
func (x *command) span(o *backtest.Options) (err error) {
	now := time.Now().UTC()
	if o.From, err = moment("--from", x.from, now); err != nil {
		return err
	}
	o.To = now
	if x.to != "" {
		if o.To, err = moment("--to", x.to, now); err != nil {
			return err
		}
	}
	if o.To.Sub(o.From) < o.Interval {
		return cli.Usagef("the range from %s to %s is empty: --to must be later than --from",
			o.From.Format(time.RFC3339), o.To.Format(time.RFC3339))
	}
	return nil
}

// moment reads an age or a time.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if age, err := slo.ParseDuration(text); err == nil {
		return now.Add(-age), nil
	}
	at, err := slo.ParseTime(text)
	if err != nil || at.Year() < 1970 || at.Year() > 2261 {
		return at, cli.Usagef("%s %s: want an age such as 30d, or a time such as %s", flag, cli.Printable(text),
			now.Format(time.RFC3339))
	}
	return at.UTC(), nil
}

// maxIncidents bounds the file of incidents.
const maxIncidents = 16 << 20

// given are the incidents of a file; nil without one.
func (x *command) given() ([]backtest.Incident, error) {
	if x.incidents == "" {
		return nil, nil
	}
	data, err := fsys.ReadFile(x.incidents, maxIncidents)
	if err != nil {
		return nil, fmt.Errorf("read incidents: %w", err)
	}
	list := []backtest.Incident{}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w (want a JSON array of objects with id, service, slos, onset and end)",
			cli.Printable(x.incidents), err)
	}
	if err := backtest.CheckIncidents(list); err != nil {
		return nil, fmt.Errorf("%s: %w", cli.Printable(x.incidents), err)
	}
	return list, nil
}

// inForce is the spec to compare with; nil if the log has none, which a note says.
func (x *command) inForce(ctx context.Context, source *retained.Source) (*spec.Spec, []string, error) {
	if len(x.before) > 0 {
		sp, err := x.before.Read(x.Streams)
		return sp, nil, err
	}
	text, found, err := backtest.NewestSpec(ctx, source)
	switch {
	case err != nil:
		return nil, nil, err
	case !found:
		return nil, nil, fmt.Errorf("%s has no log: nothing was received, or an engine has never run on it",
			cli.Printable(x.dataDir))
	case text == "":
		return nil, []string{"The last spec in the log was written by an earlier version, without objectives and alerts. " +
			"Name it with --before to compare with it."}, nil
	}
	sp, problems := spec.Load([]spec.File{{Name: "spec in force", Data: []byte(text)}})
	if err := problems.Err(); err != nil {
		return nil, nil, fmt.Errorf("spec in force, of the log: %w (name it with --before)", err)
	}
	return sp, nil, nil
}
