package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	eventpost "github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/cmd/sloengine/demo"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	examples "github.com/sloengine/sloengine/testdata/specs"
	"github.com/sloengine/sloengine/web/site"
)

func newDemo(s cli.Streams) *cobra.Command {
	var (
		p       processFlags
		dataDir = filepath.Join(os.TempDir(), "sloengine-demo-"+strconv.Itoa(os.Getuid()))
		fresh   bool
		history = "30d"
	)
	c := &cobra.Command{
		Use:   "demo",
		Short: "Serve a demo: an insurance process with 30 days of history, two incidents and live traffic",
		Long: `demo runs serve on a temporary folder with a built-in spec and generated traffic. The
events take the usual path: over HTTP into the log, and from there into the counts.

The folder remains when the process ends. You can kill the process, even with kill -9,
start it again and find every number unchanged. --fresh starts over.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			length, err := slo.ParseDuration(history)
			if err != nil {
				return cli.Usagef("invalid --history: %w", err)
			}
			if fresh {
				if err := startOver(dataDir); err != nil {
					return fmt.Errorf("start over: %w", err)
				}
			}
			if err := os.MkdirAll(dataDir, 0o755); err != nil {
				return fmt.Errorf("create demo folder: %w", err)
			}
			d := &demoRun{out: s.Err, dir: dataDir, length: length}
			stop, err := d.openWarehouse()
			if err != nil {
				return err
			}
			defer stop()
			return serve(c.Context(), s, p, app.Options{
				LoadSpec: func() (*spec.Spec, spec.Problems, error) {
					sp, problems := spec.Load([]spec.File{
						{Name: "insurance.yaml", Data: examples.Insurance}, {Name: "insurance-sales.yaml", Data: examples.InsuranceSales},
						{Name: "sloengine.yaml", Data: examples.Own},
					})
					return sp, problems, nil
				},
				DataDir: dataDir, OnReady: d.run, Public: shownInDemo,
				Notice: func(now time.Time) (site.Notice, bool) { return demoNotice(d.outage.Load(), now) },
			}, d.settings)
		},
	}
	p.register(c)
	c.Flags().StringVar(&dataDir, "data-dir", dataDir, "data directory")
	c.Flags().BoolVar(&fresh, "fresh", false, "delete the data of an earlier demo in the folder")
	c.Flags().StringVar(&history, "history", history, "length of the generated history")
	return c
}

// shownInDemo selects what the demo's public page shows, regardless of the labels in its spec.
func shownInDemo(id slo.ID, _ map[string]string) bool {
	switch id.Name() {
	case "availability", "latency", "error-rate":
		return true
	}
	return false
}

// startOver removes the files of an earlier demo from a folder, and only while no engine uses it. It refuses a
// folder that a demo did not make.
func startOver(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, demoStateFile)); err != nil {
		return fmt.Errorf(
			"%s is not empty and was not created by a demo (remove it yourself, or set another --data-dir)", dir)
	}
	lock, err := fsys.OS().Lock(filepath.Join(dir, engine.LockFile))
	if err != nil {
		return fmt.Errorf("a demo is still running on %s: %w", dir, err)
	}
	defer lock.Close()
	for _, name := range append(app.DataDir(dir).Own, demoStateFile, demoArchive) {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// demoRun sends the history and then live traffic.
type demoRun struct {
	out       io.Writer
	dir       string
	length    time.Duration
	warehouse warehouse
	outage    atomic.Pointer[demo.Incident] // nil until the history is complete
}

// demoState is stored beside the data, so that a restarted demo continues the same story instead of repeating it.
type demoState struct {
	Story time.Time `json:"story"` // the time that the incidents are relative to
	Until time.Time `json:"until"` // traffic was generated up to here
	Live  time.Time `json:"live"`  // live traffic was sent up to here; zero if none was

	// Outage is when the incident begins that happens while the demo runs; zero: demo.StartsIn after Story.
	Outage time.Time `json:"outage,omitzero"`
}

const demoStateFile = "demo.json"

func (d *demoRun) stateFile() string { return filepath.Join(d.dir, demoStateFile) }

func (d *demoRun) load(now time.Time) (st demoState, err error) {
	data, err := fsys.ReadFile(d.stateFile(), fsys.MaxStateBytes)
	if errors.Is(err, os.ErrNotExist) {
		return demoState{Story: now, Until: now.Add(-d.length)}, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &st)
	}
	if err != nil {
		return st, fmt.Errorf("read %s: %w ('sloengine demo --fresh' starts over)", d.stateFile(), err)
	}
	return st, nil
}

// save does not sync: a power cut can lose a few seconds of the story, which are then filled with other events.
func (d *demoRun) save(st demoState) error {
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	tmp := d.stateFile() + ".tmp"
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, d.stateFile())
}

func (d *demoRun) run(ctx context.Context, base *url.URL) error {
	begin := time.Now()
	st, err := d.load(begin)
	if err != nil {
		return err
	}
	model := demo.New(st.Story, 1)
	if st.Live.IsZero() {
		model.SalesUntil = begin.Add(-demo.LongestJourney)
	}
	if !st.Outage.IsZero() {
		model.FailAt(st.Outage)
	}
	d.warehouse.model.Store(model)
	events, err := d.fill(ctx, model, base, &st, begin)
	if err != nil {
		return err
	}
	if st.Story.Equal(begin) { // to send the history may take as long as it is to the incident
		st.Outage = time.Now().Add(demo.StartsIn)
		model.FailAt(st.Outage)
	}
	d.outage.Store(model.Outage())
	fmt.Fprintf(d.out, "\n  sloengine demo: %s/?refresh=10\n\n", base)
	if events > 0 {
		fmt.Fprintf(d.out, "  %d events of history sent in %.1fs; live traffic continues until you press Ctrl-C.\n", events,
			time.Since(begin).Seconds())
	} else {
		fmt.Fprintf(d.out, "  The numbers of the last run are restored; live traffic continues until you press Ctrl-C.\n")
	}
	fmt.Fprintf(d.out, "  The data is in %s\n\n", d.dir)
	if err := d.deliver(ctx, base); err != nil {
		return err
	}
	return d.live(ctx, model, base, &st)
}

// fill sends the history since st.Until, in whole minutes.
func (d *demoRun) fill(ctx context.Context, model *demo.Model, base *url.URL, st *demoState,
	now time.Time) (events int, err error) {
	to := now.Truncate(time.Minute)
	from := st.Until
	if rounded := from.Truncate(time.Minute); rounded.Before(from) {
		from = rounded.Add(time.Minute) // the live part of that minute was already sent
	}
	send, err := demoSender(base, event.Span{From: from.UnixNano(), To: to.UnixNano()})
	if err != nil {
		return 0, err
	}
	var buf []byte
	n := 0
	flush := func() error {
		if n == 0 {
			return nil
		}
		if err := send(ctx, buf, n); err != nil {
			return err
		}
		events += n
		buf, n = buf[:0], 0
		return nil
	}
	emit := func(e *event.Event) error {
		buf = append(e.AppendJSON(buf), '\n')
		if n++; n == 2000 {
			return flush()
		}
		return nil
	}
	// The latest days first: until they are there, throughput is below its target, and a page would fire.
	latest := from
	if day := to.Add(-24 * time.Hour).Truncate(24 * time.Hour); day.After(from) {
		latest = day
	}
	if err = model.History(latest, to, emit); err == nil {
		err = flush()
	}
	if err == nil {
		err = model.History(from, latest, emit)
	}
	if err == nil {
		err = flush()
	}
	if err != nil {
		return events, fmt.Errorf("send demo history: %w", err)
	}
	if to.After(st.Until) {
		st.Until = to
	}
	return events, d.save(*st)
}

// live sends what happened since the last time, every half second.
func (d *demoRun) live(ctx context.Context, model *demo.Model, base *url.URL, st *demoState) error {
	send, err := demoSender(base)
	if err != nil {
		return err
	}
	run := "live-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	journeys, due := model.Resume(st.Live, time.Now())
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var buf []byte
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			// At most a minute at once: after the machine has slept, the rest is skipped.
			from := st.Until
			if now.Sub(from) > time.Minute {
				from = now.Add(-time.Minute)
				journeys.Skip(from)
			}
			due = append(due, journeys.Until(now)...)
			events := slices.Concat(due, model.Live(from, now, run))
			if now.Sub(from) < 5*time.Second { // many views at once would exceed rate limits
				events = append(events, model.Views(from, now, run)...)
			}
			err := error(nil)
			for part := range slices.Chunk(events, 2000) {
				buf = buf[:0]
				for _, e := range part {
					buf = append(e.AppendJSON(buf), '\n')
				}
				if err = send(ctx, buf, len(part)); err != nil {
					break
				}
			}
			if err != nil {
				fmt.Fprintf(d.out, "sending demo traffic failed: %v\n", err)
				continue // the next tick makes up the longer time since, and sends again what is due
			}
			due, st.Until, st.Live = nil, now, now
			if err := d.save(*st); err != nil {
				return fmt.Errorf("save demo state: %w", err)
			}
		}
	}
}

// demoSender returns a function that posts n events and fails unless they are acknowledged. With covers they are all
// events of a time in the past.
func demoSender(
	base *url.URL, covers ...event.Span) (send func(ctx context.Context, lines []byte, n int) error, err error) {
	u := base.JoinPath(eventpost.EventsPath)
	poster, err := eventpost.New(
		eventpost.Options{URL: u.String(), UserAgent: "sloengine-demo", MaxInFlight: 1, Compression: eventpost.None})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, lines []byte, n int) error {
		if n == 0 {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		post := poster.Post
		if len(covers) > 0 {
			post = func(ctx context.Context, lines []byte, n int) (*eventpost.Answer, error) {
				return poster.Backfill(ctx, lines, n, covers)
			}
		}
		answer, err := post(ctx, lines, n)
		if err == nil && answer.Rejected == n && len(answer.Errors) > 0 {
			err = fmt.Errorf("engine rejected all %d events; reason for the first: %q", n, answer.Errors[0].Detail)
		}
		return err
	}, nil
}

// demoNoticed is how long after the demo's incident the first page says what to look at.
const demoNoticed = 2 * time.Hour

// demoNotice is what the first page says about the demo's incident, which is nil until the history is complete. It is
// false once that is over for long.
func demoNotice(in *demo.Incident, now time.Time) (n site.Notice, ok bool) {
	clock := func(t time.Time) string { return t.UTC().Format("15:04:05") }
	const (
		mdm  = "/slo?id=" + demo.Service + "/integration-availability&group.integration=mdm&range=1h"
		many = "%.0f%% of the calls to mdm, which three products depend on, fail from %s to %s UTC. "
	)
	if in == nil {
		return site.Notice{Title: "Demo: loading the history",
			Text: "The numbers are complete when this notice names the time of the next incident."}, true
	}
	fails := fmt.Sprintf(many, 100*in.Failure(), clock(in.From), clock(in.To))
	switch {
	case now.Before(in.From):
		return site.Notice{Title: "Demo: mdm fails in " + in.From.Sub(now).Round(time.Second).String(),
			Text:  fails + "Watch this page: the first paging alert fires 70 to 100 seconds later. Or look around:",
			Links: []site.Link{{Text: "SLO of mdm", Href: mdm}, {Text: "messages to receivers", Href: "/silences"}}}, true
	case now.Before(in.To):
		return site.Notice{Title: "Demo: mdm has been failing for " + now.Sub(in.From).Round(time.Second).String(),
			Text: fails + "Once it fires, open the alert, acknowledge the incident, and silence what follows from it:",
			Links: []site.Link{{Text: "incidents", Href: "/incidents"}, {Text: "messages to receivers", Href: "/silences"},
				{Text: "SLO of mdm", Href: mdm}}}, true
	case now.Before(in.To.Add(demoNoticed)):
		month := report.PeriodOf(slo.Month, now.UTC()).String()
		return site.Notice{Title: "Demo: mdm works again since " + clock(in.To) + " UTC",
			Text: "Alerts resolve when their windows are below the threshold. What to look at now:",
			Links: []site.Link{{Text: "the incident and its timeline", Href: "/incidents"},
				{Text: "the burn-down of mdm", Href: mdm + "#budget"},
				{Text: "the report of this month", Href: "/report?period=" + month}}}, true
	}
	return n, false
}
