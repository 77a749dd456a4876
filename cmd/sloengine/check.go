package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/alertmanager"
	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/promapi"
	"github.com/sloengine/sloengine/cmd/sloengine/remote"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/source/series"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/explain"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/web/status"
)

func newCheck(s cli.Streams) *cobra.Command {
	var (
		files   cli.SpecFiles
		promql  cli.PromQL
		engines engineFlags
	)
	p := &cli.Printer{Streams: s}
	retention, settings, dataDir, receivers := "0", "", "", ""
	perDay := 0.0
	var prometheus runningPrometheus
	var engine remote.Client
	var failOn string
	c := &cobra.Command{
		Use:   "check -f FILE|DIR|-",
		Short: "Check specs and report all problems with file, line and column",
		Long: `check reads specs and reports every error and warning with file, line and column. It
prints information, such as alerts that are omitted because the window is too short, to
standard error. check exits with 3 if there are errors and, with --fail-on warning, also
if there are warnings.

With --engines, check reports SLOs that judge slices of time (throughput, timeslices) as
errors, because each engine sees only a part of the events of a slice. An SLO is accepted
if --key shows that all events of a group reach the same engine.

With --receivers, check reports routes of a receivers file, or of an Alertmanager configuration,
that no alert matches, such as those on severities of an older version.

With --prometheus, check asks a running Prometheus how far apart the samples are that the rules
read, and reports SLOs whose rules would record nothing with --scrape-interval.

With --running, check asks a running engine for its usual traffic, and reports SLOs with hours in
which an outage of half an hour does not page, as too few events arrive. The command blindspots
prints all hours. With --running or --data-dir, check also reports that the engine's history
cannot reach back as far as the longest window.

With -c, check reads engine.yaml and the files that it names, as serve does at its start. It
writes to no file and connects to nothing but the Prometheus and the engine that you name.`,
		Example: `  sloengine check -f specs/
  sloengine check -f specs/ --engines 3 --key product
  sloengine check -f specs/ --prometheus http://127.0.0.1:9090
  sloengine check -f specs/ --running http://127.0.0.1:8080
  sloengine check -f - < spec.yaml`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := errors.Join(files.Check(), engines.check()); err != nil {
				return err
			}
			sp, problems, err := promql.Options().LoadPaths(files, s.In)
			if err != nil {
				return err
			}
			if problems.Err() == nil {
				if _, err := evaluator.Compile(counting.Inputs(sp)); err != nil {
					return fmt.Errorf("compile spec: %w", err)
				}
				samples, err := slo.ParseDuration(retention)
				if err != nil {
					return cli.Usagef("invalid --retention: %w", err)
				}
				problems = append(problems, lint(s, sp, samples, perDay)...)
				problems = append(problems, engines.problems(sp)...)
				unmatched, err := unmatchedRoutes(receivers, sp)
				if err != nil {
					return err
				}
				problems = append(problems, unmatched...)
				silent, err := prometheus.problems(c.Context(), sp)
				if err != nil {
					return err
				}
				problems = append(problems, silent...)
				blind, err := blindSpots(c.Context(), &engine, sp)
				if err != nil {
					return err
				}
				problems = append(problems, blind...)
			}
			found, err := config.Check(settings, app.Known(sp), app.DataDir(dataDir))
			if err != nil {
				return err
			}
			problems = append(problems, found...)
			short, err := shortHistory(c.Context(), &engine, dataDir, settings, sp)
			if err != nil {
				return err
			}
			problems = append(problems, short...)
			return reportProblems(p, sp, problems, spec.Severity(failOn))
		},
	}
	files.Add(c.Flags())
	promql.Add(c.Flags())
	engines.add(c.Flags())
	p.AddOutput(c.Flags(), "table", "json")
	c.Flags().StringVarP(&settings, "config", "c", "", "engine settings (engine.yaml) to check as well")
	c.Flags().StringVar(
		&receivers, "receivers", "", "receivers or Alertmanager configuration whose routes are compared with the alerts")
	c.Flags().StringVar(&prometheus.address, "prometheus", "",
		"URL of a Prometheus whose scrape intervals are compared with those of the rules")
	c.Flags().StringVar(&prometheus.scrape, "scrape-interval", "15s",
		"with --prometheus, the scrape interval that you generate rules with")
	engine.AddOptional(c.Flags(), "running", "URL of a running engine by whose traffic blind spots are found")
	c.Flags().StringVar(&dataDir, "data-dir", "",
		"data directory of the engine, for its history; with -c, its own folders are compared with the settings")
	cli.AddChoice(c.Flags(), &failOn, "fail-on", "", "lowest severity that makes check exit with 3",
		string(spec.Error), string(spec.Warning))
	c.Flags().StringVar(&retention, "retention", retention, "retention of Prometheus; 0 if unknown")
	c.Flags().Float64Var(&perDay, "events-per-day", 0, "events per day of an SLO; 0 if unknown")
	return c
}

// blindSpots finds hours of the traffic of an engine, if it is named, in which long outages are invisible.
func blindSpots(ctx context.Context, engine *remote.Client, sp *spec.Spec) (spec.Problems, error) {
	if !engine.Named() {
		return nil, nil
	}
	groups, err := remote.TrafficGroups(ctx, engine, sp.SLOs)
	if err != nil {
		return nil, err
	}
	var out spec.Problems
	for _, f := range remote.BlindSpots(groups, time.Now()) {
		out = append(out, warning(sp, f.SLO, f.Message, f.Hint))
	}
	return out, nil
}

// shortHistory warns of an SLO whose window is longer than an engine, or a data directory, if one is named, can retain
// the log for.
func shortHistory(ctx context.Context, engine *remote.Client, dir, settings string, sp *spec.Spec) (
	spec.Problems, error) {
	known := app.Known(sp)
	if known == nil || known.LongestWindow == 0 || dir == "" && !engine.Named() {
		return nil, nil
	}
	var short string
	if engine.Named() {
		var state struct {
			Log status.LogStatus `json:"log"`
		}
		if err := engine.Read(ctx, "/api/v1/engine", nil, &state); err != nil {
			return nil, err
		}
		l := &state.Log
		// The settings are checked by config.Check: only the space is a question here.
		short = app.ShortHistory(&retained.Stats{Bytes: l.HistoryBytes, From: l.HistoryFrom},
			retained.Bounds{Age: max(known.LongestWindow, 1), Bytes: l.HistoryLimit}, time.Now(), known)
	} else {
		c, err := config.Load(settings)
		if err != nil {
			return nil, nil // config.Check has reported it
		}
		short, err = app.CheckHistory(dir, &c, known)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // no engine has run there yet
		}
		if err != nil {
			return nil, err
		}
	}
	if short == "" {
		return nil, nil
	}
	return spec.Problems{warning(sp, known.Longest, short, "raise log.retain_bytes or the disk, or accept that changed "+
		"definitions are counted again for less")}, nil
}

// unmatchedRoutes finds routes of a file, if it is named, that no alert matches.
func unmatchedRoutes(file string, sp *spec.Spec) (spec.Problems, error) {
	if file == "" {
		return nil, nil
	}
	data, err := fsys.ReadFile(file, yamldoc.MaxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("read receivers: %w", err)
	}
	in := cli.RulesSpec(sp)
	var live rules.Group // of SLOs that PromQL cannot compute, too
	for _, l := range alerts.LiveAlerts(in, alerts.Options{}) {
		live.Rules = append(live.Rules, rules.Rule{Alert: l.Alert, Labels: l.Labels})
	}
	return alertmanager.Unmatched(file, data, in, append(alerts.Rules(in, alerts.Options{}), live))
}

// lint finds alerts that cannot work. It prints findings of severity info to standard error and does not return them.
func lint(s cli.Streams, sp *spec.Spec, retention time.Duration, perDay float64) spec.Problems {
	in := cli.RulesSpec(sp)
	o := alerts.LintOptions{Retention: retention}
	if perDay > 0 {
		o.EventsPerDay = func(slo.ID) (float64, bool) { return perDay, true }
	}
	var out spec.Problems
	for _, f := range alerts.Lint(in, o) {
		p := warning(sp, f.SLO, f.Message, f.Hint)
		switch f.Severity {
		case alerts.FindingInfo:
			fmt.Fprintf(s.Err, "%s:%d:%d: info: %s (%s)\n", p.File, p.Line, p.Column, p.Message, p.Suggestion)
			continue
		case alerts.FindingError:
			p.Severity = spec.Error
		}
		out = append(out, p)
	}
	return out
}

// warning is a problem of an SLO, or of an agreement named service/name.
func warning(sp *spec.Spec, id slo.ID, message, hint string) spec.Problem {
	p := spec.Problem{Severity: spec.Warning, Message: message, Suggestion: hint}
	for _, kind := range []spec.Kind{spec.KindSLO, spec.KindSLA} {
		if src, ok := sp.Source(kind, id.Service(), id.Name()); ok {
			p.Position = src.Position
			break
		}
	}
	return p
}

// runningPrometheus is where the rules will run.
type runningPrometheus struct{ address, scrape string }

// problems finds SLOs whose counters are scraped too seldom for their rules, or not at all.
func (r runningPrometheus) problems(ctx context.Context, sp *spec.Spec) (spec.Problems, error) {
	if r.address == "" {
		return nil, nil
	}
	u, err := url.Parse(r.address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, cli.Usagef("invalid --prometheus (want an address such as http://127.0.0.1:9090)")
	}
	every, err := slo.ParseDuration(r.scrape)
	if err != nil {
		return nil, cli.Usagef("invalid --scrape-interval: %w", err)
	}
	from := time.Now().UTC()
	in := cli.RulesSpec(sp)
	groups, err := rules.Recording(
		in, rules.Options{Profile: rules.Minimal, Scrape: every, From: from, Until: from.AddDate(0, 0, 1)})
	if err != nil {
		return nil, err
	}
	p := scrapeCheck{&promapi.Client{URL: u}}
	var out spec.Problems
	for _, s := range in.SLOs {
		found, err := p.Check(ctx, explain.Own(groups, s), every)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			problem := warning(sp, s.ID, f.Message, f.Suggestion)
			problem.Severity = f.Severity
			out = append(out, problem)
		}
	}
	return out, nil
}

// reportProblems prints the problems and turns those of failOn and worse into the exit code.
func reportProblems(p *cli.Printer, sp *spec.Spec, problems spec.Problems, failOn spec.Severity) error {
	err := p.Print(map[string]any{"problems": append(spec.Problems{}, problems...)}, func() error {
		cli.PrintProblems(p.Out, problems)
		return nil
	})
	if err != nil {
		return err
	}
	errs, warnings := 0, 0
	for _, x := range problems {
		if x.Severity == spec.Error {
			errs++
		} else {
			warnings++
		}
	}
	if len(problems) > 0 {
		fmt.Fprintf(p.Err, "%s, %s\n", cli.Plural(errs, "error"), cli.Plural(warnings, "warning"))
	}
	if errs > 0 || warnings > 0 && failOn == spec.Warning {
		return cli.ErrFindings
	}
	fmt.Fprintf(p.Err, "ok: %s, %s, %s\n", cli.Plural(len(sp.SLOs), "SLO"),
		cli.Plural(len(sp.Thresholds), "event threshold"), cli.Plural(len(sp.Agreements), "SLA"))
	return nil
}

// scrapeLookback is how far back samples are counted.
const scrapeLookback = 10 * time.Minute

// scrapeFinding is a series whose samples do not fit the rules that read it.
type scrapeFinding struct {
	Message, Suggestion string
	Severity            spec.Severity
}

// scrapeCheck compares the scrape interval that rules are made for with the samples that a running Prometheus has. It
// reads the expressions of rules.
type scrapeCheck struct{ *promapi.Client }

// Check finds the counters that rules read over ranges that hold fewer than two samples, of which rate() makes nothing,
// and those without samples, whose scrape interval is not known. Every is the scrape interval that the rules are made
// for.
func (p scrapeCheck) Check(ctx context.Context, groups []rules.Group, every time.Duration) ([]scrapeFinding, error) {
	read, order, err := scrapedCounters(groups)
	if err != nil {
		return nil, err
	}
	var out []scrapeFinding
	for _, selector := range order {
		n, ok, err := p.samples(ctx, selector)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			wrong, err := p.bound(ctx, selector)
			if err != nil {
				return nil, err
			}
			if wrong != nil {
				out = append(out, scrapeFinding{selector + ": " + wrong.Error(),
					"write " + wrong.Nearest[0] + ", or add the bucket to the histogram", spec.Error})
				continue
			}
			out = append(out, scrapeFinding{
				fmt.Sprintf("the scrape interval of %s is not known: Prometheus has no sample of the last %s", selector,
					slo.FormatDuration(scrapeLookback)),
				fmt.Sprintf(
					"check the selector and the scrape job; without samples SLONoData fires. The rules assume a scrape every %s",
					slo.FormatDuration(every)), spec.Warning,
			})
			continue
		}
		found := time.Duration(float64(scrapeLookback) / n)
		if shortest := read[selector]; 2*found > shortest {
			out = append(out, scrapeFinding{
				fmt.Sprintf(
					"%s has a sample every %s, but rules read its rate over %s, in which two are needed: without them nothing is "+
						"recorded and no alert fires",
					selector, slo.FormatDuration(found.Round(time.Second)), slo.FormatDuration(shortest)),
				scrapeRemedy(found), spec.Warning,
			})
		}
	}
	return out, nil
}

func scrapeRemedy(found time.Duration) string {
	for _, d := range []time.Duration{15 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute} {
		if found <= d+d/10 { // scrapes fail now and then
			return "generate with --scrape-interval " + slo.FormatDuration(d)
		}
	}
	return "scrape it every 2m or more often, and generate with that --scrape-interval"
}

// scrapedCounters are the selectors that rules read over a range and that no rule records, each with the shortest of
// its ranges.
func scrapedCounters(groups []rules.Group) (shortest map[string]time.Duration, order []string, err error) {
	recorded := map[string]bool{}
	for _, g := range groups {
		for _, r := range g.Rules {
			recorded[r.Record] = true
		}
	}
	shortest = map[string]time.Duration{}
	p := parser.NewParser(parser.Options{})
	for _, g := range groups {
		for _, r := range g.Rules {
			expr, err := p.ParseExpr(r.Expr)
			if err != nil {
				return nil, nil, fmt.Errorf("parse rule %s: %w", r.Record+r.Alert, err)
			}
			parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
				m, ok := n.(*parser.MatrixSelector)
				if !ok {
					return nil
				}
				v, ok := m.VectorSelector.(*parser.VectorSelector)
				if !ok || recorded[v.Name] {
					return nil
				}
				plain := parser.VectorSelector{Name: v.Name, LabelMatchers: v.LabelMatchers}
				name := plain.String()
				if have, seen := shortest[name]; !seen {
					order = append(order, name)
					shortest[name] = m.Range
				} else {
					shortest[name] = min(have, m.Range)
				}
				return nil
			})
		}
	}
	return shortest, order, nil
}

// samples is the median number of samples of a series within scrapeLookback. ok is false if there is no series.
func (p scrapeCheck) samples(ctx context.Context, selector string) (n float64, ok bool, err error) {
	found, err := p.Query(ctx, "quantile(0.5, count_over_time("+selector+"["+slo.FormatDuration(scrapeLookback)+"]))")
	if err != nil || len(found) == 0 {
		return 0, false, err
	}
	if n = found[0].Value; !(n > 0) {
		return 0, false, fmt.Errorf("query Prometheus at %s: %s has %g samples", p.URL.Redacted(), selector, n)
	}
	return n, true, nil
}

// bound finds out whether a selector is of a bucket that its histogram does not have; nil if it is not.
func (p scrapeCheck) bound(ctx context.Context, selector string) (*series.BoundError, error) {
	b, ok := series.BucketOf(selector)
	if !ok {
		return nil, nil
	}
	found, err := p.Query(ctx, b.Query)
	if err != nil {
		return nil, err
	}
	bounds := make([]string, 0, len(found))
	for _, x := range found {
		bounds = append(bounds, x.Labels["le"])
	}
	return b.Among(bounds), nil
}
