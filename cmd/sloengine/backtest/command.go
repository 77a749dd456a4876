package backtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
)

// command is what the flags say.
type command struct {
	cli.Printer
	files, before                                cli.SpecFiles
	dataDir, from, to, zone, settings, incidents string
	verify                                       bool
}

// New is the command backtest.
func New(s cli.Streams) *cobra.Command {
	x := &command{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "backtest -f FILE|DIR|- --data-dir DIR",
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

With --verify it replays the whole log by the specs of their time and compares the alert states
behind every tick of the engine with those that the engine logged. It exits with 3 if any differ.`,
		Example: `  sloengine backtest -f new.yaml --data-dir data --from 30d
  sloengine backtest -f new.yaml --data-dir data --from 30d -o markdown > comment.md
  sloengine backtest -f new.yaml --data-dir data --from 2026-11-01T00:00:00Z --incidents incidents.json
  sloengine backtest --verify --data-dir data`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return x.run(c.Context()) },
	}
	f := c.Flags()
	x.files.Add(f)
	f.StringVar(&x.dataDir, "data-dir", "", "data directory of an engine")
	f.StringVar(&x.from, "from", "30d", "begin of the range: an age such as 30d, or a time in RFC 3339")
	f.StringVar(&x.to, "to", "", "end of the range, likewise (default: the end of the log)")
	f.StringArrayVar((*[]string)(&x.before), "before", nil, "spec to compare with instead of the one in force")
	f.StringVar(&x.incidents, "incidents", "",
		"JSON array of incidents to rate alerts against, with id, service, slos, onset and end, instead of those of the engine")
	f.StringVarP(&x.settings, "config", "c", "", "engine settings (engine.yaml), for the interval and the options of alerts")
	f.StringVar(&x.zone, "zone", "UTC", "time zone of days and nights, such as Europe/Moscow")
	f.BoolVar(&x.verify, "verify", false, "compare the replay with what the engine did, instead of trying a spec")
	x.AddOutput(f, "table", "json", "markdown", "html")
	return c
}

func (x *command) run(ctx context.Context) error {
	if x.dataDir == "" {
		return cli.Usagef("no data directory given: set --data-dir DIR")
	}
	zone, err := time.LoadLocation(x.zone)
	if err != nil {
		return cli.Usagef("invalid --zone: %w", err)
	}
	r := &replay{zone: zone, interval: 10 * time.Second}
	if x.settings != "" {
		c, err := config.Load(x.settings)
		if err != nil {
			return err
		}
		r.alerts, r.interval = c.AlertOptions(), c.Evaluator.Interval
	}
	if x.verify {
		return x.runCheck(ctx, r)
	}
	candidate, err := x.files.Read(x.Streams)
	if err != nil {
		return err
	}
	if r.source, err = engine.OpenLog(fsys.OS(), x.dataDir); err != nil {
		return err
	}
	if err := x.span(r); err != nil {
		return err
	}
	given, err := x.given()
	if err != nil {
		return err
	}
	before, notes, err := x.inForce(ctx, r.source)
	if err != nil {
		return err
	}
	if given == nil {
		if r.book, err = readBook(ctx, r.source, x.dataDir); err != nil {
			return fmt.Errorf("read incidents of %s: %w (name others with --incidents)", cli.Printable(x.dataDir), err)
		}
	}
	if before != nil {
		if err := r.add("before", only(before, candidate)); err != nil {
			return fmt.Errorf("spec in force: %w", err)
		}
	}
	if err := r.add("after", candidate); err != nil {
		return err
	}
	show := cli.Progress(x.Err)
	r.progress = func(share float64) { show(share, "replayed") }
	if err := r.run(ctx); err != nil {
		return err
	}
	if err := r.found(x.dataDir); err != nil {
		return err
	}
	proposals, err := r.propose(ctx)
	if err != nil {
		return err
	}
	out := r.result(given, notes)
	for i := range out.Subjects {
		if s := &out.Subjects[i]; s.Kind == kindSLO && s.After != nil {
			s.After.Proposals = proposals[slo.ID(s.ID)]
		}
	}
	return x.print(out)
}

// runCheck compares the log with the engine that wrote it.
func (x *command) runCheck(ctx context.Context, r *replay) (err error) {
	if len(x.files) > 0 {
		return cli.Usagef("--verify takes no -f: it replays the specs of the log")
	}
	if r.source, err = engine.OpenLog(fsys.OS(), x.dataDir); err != nil {
		return err
	}
	r.to = time.Now().UTC()
	if err := r.checking(); err != nil {
		return err
	}
	if err := r.run(ctx); err != nil {
		return err
	}
	out := r.checked()
	if out.Ticks == 0 {
		return fmt.Errorf("the log of %s has no ticks: nothing was retained, or an earlier version wrote it",
			cli.Printable(x.dataDir))
	}
	if x.Format == "json" {
		err = x.Print(out, nil)
	} else {
		err = x.write(&page{Title: "Backtest", Lines: out.summary(), Notes: append(unobserved(out.Missing), out.Notes...)})
	}
	if err == nil && out.Differences > 0 {
		return cli.ErrFindings
	}
	return err
}

// span reads the range.
func (x *command) span(r *replay) (err error) {
	now := time.Now().UTC()
	if r.from, err = moment("--from", x.from, now); err != nil {
		return err
	}
	r.to = now
	if x.to != "" {
		if r.to, err = moment("--to", x.to, now); err != nil {
			return err
		}
	}
	if r.to.Sub(r.from) < r.interval {
		return cli.Usagef("the range from %s to %s is empty: --to must be later than --from",
			r.from.Format(time.RFC3339), r.to.Format(time.RFC3339))
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
func (x *command) given() ([]Incident, error) {
	if x.incidents == "" {
		return nil, nil
	}
	data, err := fsys.ReadFile(x.incidents, maxIncidents)
	if err != nil {
		return nil, fmt.Errorf("read incidents: %w", err)
	}
	list := []Incident{}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w (want a JSON array of objects with id, service, slos, onset and end)",
			cli.Printable(x.incidents), err)
	}
	for i := range list {
		inc := &list[i]
		if inc.Hand = true; inc.ID == "" {
			inc.ID = fmt.Sprintf("%d", i+1)
		}
		switch {
		case inc.Onset.IsZero():
			return nil, fmt.Errorf("%s: incident %s has no onset (set a time in RFC 3339)", cli.Printable(x.incidents),
				cli.Printable(inc.ID))
		case inc.End != nil && inc.End.Before(inc.Onset):
			return nil, fmt.Errorf("%s: incident %s ends before its onset", cli.Printable(x.incidents), cli.Printable(inc.ID))
		}
	}
	return list, nil
}

// inForce is the spec to compare with; nil if the log has none, which a note says.
func (x *command) inForce(ctx context.Context, source *retained.Source) (*spec.Spec, []string, error) {
	if len(x.before) > 0 {
		sp, err := x.before.Read(x.Streams)
		return sp, nil, err
	}
	text, found, err := newestSpec(ctx, source)
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

// found refuses a range of which the log has nothing.
func (r *replay) found(dir string) error {
	format := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	if r.records == 0 {
		return fmt.Errorf("the log of %s has no record from %s to %s (see log.retain in engine.yaml)", cli.Printable(dir),
			format(r.from.Add(-r.history())), format(r.to))
	}
	if r.ticks == 0 {
		return fmt.Errorf("the engine did not run from %s to %s: its log has records from %s to %s", format(r.from),
			format(r.to), format(r.first), format(r.end))
	}
	return nil
}

// result rates what was replayed.
func (r *replay) result(given []Incident, notes []string) *Result {
	end := r.to
	if last := r.end.Add(upGrace); last.Before(end) {
		end = last
	}
	rate := rating{from: r.from, to: end, zone: r.zone, incidents: given}
	if given == nil {
		rate.incidents = ofBook(r.book.View(), r.from, end)
	}
	var before *lane
	after := r.lanes[len(r.lanes)-1]
	if len(r.lanes) > 1 {
		before = r.lanes[0]
	}
	out := &Result{
		From: r.from, To: end, Since: r.first, Records: r.records, Events: r.events, Ticks: r.ticks,
		Down: (time.Duration(r.down) * r.interval).Seconds(), Incidents: rate.incidents, Missing: []string{}, Notes: notes,
	}
	if out.Incidents == nil {
		out.Incidents = []Incident{}
	}
	out.Total, out.Subjects = rate.compare(before, after)
	out.Missing = append(out.Missing, missing(r.gaps, r.moreGaps)...)
	for _, what := range r.book.missing {
		if !slices.Contains(out.Missing, what) {
			out.Missing = append(out.Missing, what)
		}
	}
	if n := r.broken + r.book.broken; n > 0 {
		out.Missing = append(out.Missing, cli.Plural(int(n), "record")+" that cannot be read")
	}
	out.Notes = append(out.Notes, r.notes(after)...)
	return out
}

// missing lists ranges of the log that could not be read.
func missing(gaps []retained.Gap, more int) (out []string) {
	for _, g := range gaps {
		out = append(out, fmt.Sprintf("records %d to %d: %s", g.First, g.Next-1, g.Reason))
	}
	if more > 0 {
		out = append(out, cli.Plural(more, "more range"))
	}
	return out
}

// notes say what was not replayed, and what cannot be compared.
func (r *replay) notes(after *lane) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if wanted := r.from.Add(-r.history()); r.first.After(wanted.Add(time.Hour)) {
		add("The log begins at %s. Windows that begin earlier are unobserved before, see coverage.",
			r.first.UTC().Format(time.RFC3339))
	}
	for _, s := range after.spec.Services {
		if r.services[s.Name] == 0 {
			add("The log has no event of service %s. It has events of: %s.", s.Name, strings.Join(r.some(), ", "))
		}
	}
	for _, s := range after.spec.SLOs {
		if after.seen[s.ID] == 0 && !s.Indicator.RulesOnly() && r.services[s.ID.Service()] > 0 {
			add("%s matched none of the %d events of its service.", s.ID, r.services[s.ID.Service()])
		}
	}
	if ids := after.uncounted(); len(ids) > 0 {
		add("Not replayed, since they are on series of a Prometheus: %s.", strings.Join(ids, ", "))
	}
	var soon []string
	for _, s := range after.spec.SLOs {
		if s.Alerting.Soon.Within > 0 {
			soon = append(soon, string(s.ID))
		}
	}
	if len(soon) > 0 {
		add("Not replayed, since forecasts are not in the log: %s of %s.", alerts.NameExhaustedSoon, strings.Join(soon, ", "))
	}
	add("Not replayed, since their inputs are not in the log: alerts on the engine itself.")
	for _, l := range r.lanes {
		if l.more > 0 {
			add("%s: %d more alerts are neither listed nor rated.", l.name, l.more)
		}
	}
	return out
}

// some are the first services of the log.
func (r *replay) some() []string {
	list := r.known()
	if len(list) > 10 {
		return append(list[:10:10], "...")
	}
	if len(list) == 0 {
		return []string{"none"}
	}
	return list
}
