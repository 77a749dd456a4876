package backtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
)

// Options are what is tried on which past.
type Options struct {
	Source   *retained.Source
	From, To time.Time
	Interval time.Duration // of evaluations, where the log has none of its engine
	Alerts   alerts.Options
	Zone     *time.Location // of days and nights

	Before *spec.Spec // nil: there is none to compare with
	After  *spec.Spec // the candidate
	Notes  []string   // of the caller, first in those of the result

	Given []Incident // to rate alerts against; nil: those of Book
	Book  Book

	Progress func(share float64) // nil: not called
	CPU      float64             // share of a core, in (0,1]; 0: all of it
	MaxBytes int64               // of counts; 0: no bound
	// Own says that the reader of the result may see the services of the candidate only, which is a part of the spec in
	// force. Then the budgets of each hour are in the result, and proposals are not.
	Own bool
}

// Run replays the log for both specs, and rates what they would have done. The range ends with the log at the latest.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := &replay{source: o.Source, from: o.From, to: o.To, interval: o.Interval, alerts: o.Alerts, zone: o.Zone,
		progress: o.Progress, book: o.Book, share: o.CPU, most: o.MaxBytes, own: o.Own}
	if o.Own && o.Before != nil {
		o.Before = within(o.Before, o.After)
	}
	if o.Before != nil {
		if err := r.add("before", only(o.Before, o.After)); err != nil {
			return nil, fmt.Errorf("spec in force: %w", err)
		}
	}
	if err := r.add("after", o.After); err != nil {
		return nil, err
	}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	if err := r.found(); err != nil {
		return nil, err
	}
	var proposals map[slo.ID][]Proposal
	if !o.Own {
		var err error
		if proposals, err = r.propose(ctx); err != nil {
			return nil, err
		}
	}
	out := r.result(o.Given, o.Notes)
	for i := range out.Subjects {
		if s := &out.Subjects[i]; s.Kind == KindSLO && s.After != nil {
			s.After.Proposals = proposals[slo.ID(s.ID)]
		}
	}
	return out, nil
}

// Verify compares the log until now with the engine that wrote it.
func Verify(ctx context.Context, source *retained.Source, now time.Time, interval time.Duration,
	a alerts.Options) (*Checked, error) {
	r := &replay{source: source, to: now.UTC(), interval: interval, alerts: a, zone: time.UTC}
	if err := r.checking(); err != nil {
		return nil, err
	}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	out := r.checked()
	if out.Ticks == 0 {
		return nil, errors.New("the log has no ticks: nothing was retained, or an earlier version wrote it")
	}
	return out, nil
}

// found refuses a range of which the log has nothing.
func (r *replay) found() error {
	format := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	if r.records == 0 {
		return fmt.Errorf("the log has no record from %s to %s (see log.retain in engine.yaml)",
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
		rate.incidents = r.ofBook(end)
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
	if r.own {
		out.Records, out.Events = 0, 0
		for _, s := range after.spec.Services {
			out.Events += r.services[s.Name]
		}
	}
	out.Total, out.Subjects = rate.compare(before, after)
	out.Missing = append(out.Missing, missing(r.gaps, r.moreGaps)...)
	for _, what := range r.book.Missing {
		if !slices.Contains(out.Missing, what) {
			out.Missing = append(out.Missing, what)
		}
	}
	if n := r.broken + r.book.Broken; n > 0 {
		out.Missing = append(out.Missing, plural(int(n), "record")+" that cannot be read")
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
		out = append(out, plural(more, "more range"))
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
			if r.own {
				add("The log has no event of service %s.", s.Name)
			} else {
				add("The log has no event of service %s. It has events of: %s.", s.Name, strings.Join(r.some(), ", "))
			}
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

// TimeText is how texts of this package write a time.
func TimeText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
