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
	"strconv"
	"time"

	"github.com/spf13/cobra"

	eventpost "github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/config"
	"github.com/sloengine/sloengine/cmd/sloengine/demo"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	examples "github.com/sloengine/sloengine/testdata/specs"
)

func newDemo(s streams) *cobra.Command {
	var (
		p       processFlags
		dataDir = filepath.Join(os.TempDir(), "sloengine-demo-"+strconv.Itoa(os.Getuid()))
		fresh   bool
		history = "30d"
	)
	c := &cobra.Command{
		Use:   "demo",
		Short: "Serve an insurance process: thirty days of history, two incidents, live traffic",
		Long: `demo is serve on a temporary folder with a spec of its own and made-up traffic,
which goes the same way as anybody's: over HTTP, into the log, into the counts.

The folder outlives the process, so that you can kill it (kill -9, too), start it
again and find every number as it was. --fresh starts over.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			length, err := slo.ParseDuration(history)
			if err != nil {
				return usageError{fmt.Errorf("--history: %w", err)}
			}
			if fresh {
				if err := startOver(dataDir); err != nil {
					return fmt.Errorf("start over: %w", err)
				}
			}
			if err := os.MkdirAll(dataDir, 0o755); err != nil {
				return fmt.Errorf("make the demo's folder: %w", err)
			}
			d := demoRun{out: s.err, dir: dataDir, length: length}
			return serve(c.Context(), s, p, app.Options{
				LoadSpec: func() (*spec.Spec, spec.Problems, error) {
					sp, problems := spec.Load([]spec.File{
						{Name: "insurance.yaml", Data: examples.Insurance}, {Name: "sloengine.yaml", Data: examples.Own},
					})
					return sp, problems, nil
				},
				DataDir: dataDir, OnReady: d.run, Public: shownInDemo,
			}, demoSettings(dataDir))
		},
	}
	p.register(c)
	c.Flags().StringVar(&dataDir, "data-dir", dataDir, "folder for everything that is written")
	c.Flags().BoolVar(&fresh, "fresh", false, "forget what an earlier demo left in the folder")
	c.Flags().StringVar(&history, "history", history, "how much past to make up")
	return c
}

// demoSettings gives the demo a sink, unless its settings have one: without any nothing
// is delivered, and the engine's objective about that has no data. It is small.
func demoSettings(dataDir string) func(*config.Config) error {
	return func(c *config.Config) error {
		if c.Auth.TokensFile != "" || c.Web.ConfigFile != "" {
			return usageError{errors.New("demo sends its traffic without tokens and TLS; leave auth.tokens_file and web.config_file out of its settings")}
		}
		if len(c.Sinks) > 0 {
			return nil
		}
		demo, err := config.Read("demo", fmt.Appendf(nil, "sinks: [{name: archive, file: {dir: %q, max_bytes: 1MiB, keep: 1, fsync: never}}]", filepath.Join(dataDir, demoArchive)))
		if err != nil {
			return err
		}
		c.Sinks = demo.Sinks
		return nil
	}
}

// demoArchive is the folder of the demo's own sink.
const demoArchive = "archive"

// shownInDemo chooses what the demo's public page shows, whatever the labels of its
// spec say.
func shownInDemo(id slo.ID, _ map[string]string) bool {
	switch id.Name() {
	case "availability", "latency", "error-rate":
		return true
	}
	return false
}

// startOver removes what a demo left in a folder: only its own, and only while no
// engine uses it. A folder of anything else is refused.
func startOver(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, demoStateFile)); err != nil {
		return fmt.Errorf("%s is not empty and was not made by a demo; remove it yourself or choose another --data-dir", dir)
	}
	lock, err := fsys.OS().Lock(filepath.Join(dir, engine.LockFile))
	if err != nil {
		return fmt.Errorf("a demo still runs on %s: %w", dir, err)
	}
	defer lock.Close()
	for _, name := range append(engine.Contents(), demoStateFile, app.AlertsFile, demoArchive) {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// demoRun fills the past and then keeps the present going.
type demoRun struct {
	out    io.Writer
	dir    string
	length time.Duration
}

// demoState is kept beside the data, so that a demo that is started again goes
// on with the same story instead of telling it twice.
type demoState struct {
	Story time.Time `json:"story"` // what the incidents are placed by
	Until time.Time `json:"until"` // traffic was made up to here
}

const demoStateFile = "demo.json"

func (d demoRun) stateFile() string { return filepath.Join(d.dir, demoStateFile) }

func (d demoRun) load(now time.Time) (st demoState, err error) {
	data, err := os.ReadFile(d.stateFile())
	if errors.Is(err, os.ErrNotExist) {
		return demoState{Story: now, Until: now.Add(-d.length)}, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &st)
	}
	if err != nil {
		return st, fmt.Errorf("read %s (sloengine demo --fresh starts over): %w", d.stateFile(), err)
	}
	return st, nil
}

// save is not synced: a power cut can lose a few seconds of story, whose time is
// then filled with other events.
func (d demoRun) save(st demoState) error {
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

func (d demoRun) run(ctx context.Context, base *url.URL) error {
	begin := time.Now()
	st, err := d.load(begin)
	if err != nil {
		return err
	}
	model := demo.New(st.Story, 1)
	events, err := d.fill(ctx, model, base, &st, begin)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\n  sloengine demo: %s/?refresh=10\n\n", base)
	if events > 0 {
		fmt.Fprintf(d.out, "  %d events of history sent in %.1fs; live traffic goes on until you press Ctrl-C.\n", events, time.Since(begin).Seconds())
	} else {
		fmt.Fprintf(d.out, "  The numbers of the last run are back; live traffic goes on until you press Ctrl-C.\n")
	}
	fmt.Fprintf(d.out, "  The data is in %s\n\n", d.dir)
	return d.live(ctx, model, base, &st)
}

// fill makes up the past since st.Until, in whole minutes.
func (d demoRun) fill(ctx context.Context, model *demo.Model, base *url.URL, st *demoState, now time.Time) (events int, err error) {
	to := now.Truncate(time.Minute)
	from := st.Until
	if rounded := from.Truncate(time.Minute); rounded.Before(from) {
		from = rounded.Add(time.Minute) // the live part of that minute is there already
	}
	send, err := demoSender(base, "backfill=true")
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
	err = model.History(from, to, func(e *event.Event) error {
		buf = append(e.AppendJSON(buf), '\n')
		if n++; n == 2000 {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return events, fmt.Errorf("send the demo's history: %w", err)
	}
	if to.After(st.Until) {
		st.Until = to
	}
	return events, d.save(*st)
}

// live sends what happened since the last time, every half second.
func (d demoRun) live(ctx context.Context, model *demo.Model, base *url.URL, st *demoState) error {
	send, err := demoSender(base, "")
	if err != nil {
		return err
	}
	run := "live-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var buf []byte
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			// At most a minute at once: after a long sleep of the machine the rest is
			// left out rather than sent in one gulp.
			from := st.Until
			if now.Sub(from) > time.Minute {
				from = now.Add(-time.Minute)
			}
			buf = buf[:0]
			events := model.Live(from, now, run)
			for _, e := range events {
				buf = append(e.AppendJSON(buf), '\n')
			}
			if err := send(ctx, buf, len(events)); err != nil {
				fmt.Fprintf(d.out, "demo traffic: %v\n", err)
				continue // the next tick makes up the longer time since
			}
			st.Until = now
			if err := d.save(*st); err != nil {
				return fmt.Errorf("save the demo's state: %w", err)
			}
		}
	}
}

// demoSender makes a function that posts n events and insists on an acknowledgement.
func demoSender(base *url.URL, query string) (send func(ctx context.Context, lines []byte, n int) error, err error) {
	u := base.JoinPath(eventpost.EventsPath)
	u.RawQuery = query
	poster, err := eventpost.New(eventpost.Options{URL: u.String(), UserAgent: "sloengine-demo", MaxInFlight: 1, Compression: eventpost.None})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, lines []byte, n int) error {
		if n == 0 {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		answer, err := poster.Post(ctx, lines, n)
		if err == nil && answer.Rejected == n && len(answer.Errors) > 0 {
			err = fmt.Errorf("the engine rejected all %d events, the first because %q", n, answer.Errors[0].Detail)
		}
		return err
	}, nil
}
