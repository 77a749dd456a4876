package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/client"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/audit"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// frozenFacts are what a frozen version's files say. They were read by the version that wrote the
// files, and every later one has to read the same.
type frozenFacts struct {
	At          time.Time                   // when the engine was killed; the checks go by this clock
	Counts      map[string]frozenCounts     // by SLO and group
	Violations  map[string]uint64           // by event threshold and severity
	Parked      map[string]int              // groups, by SLO of a parked generation
	IDs         int                         // in the deduplication table
	Log         []uint64                    // first and last record, and segments
	DeadLetters map[string]frozenDeadLetter // by ID
	Cursors     map[string]string           // files of sinks/
	Firing      []string                    // alerts
	Rules       map[string]string           // expressions of spec.yaml, by recorded series

	// What 0.1.0 did not know.
	// of a ratio or an Apdex, since the generation began, by SLO and group
	Parts       map[string][]uint64   `json:",omitempty"`
	Volumes     map[string]uint64     `json:",omitempty"` // events of the present period, by SLO
	Work        map[string]frozenWork `json:",omitempty"` // by SLO
	Incidents   []string              `json:",omitempty"`
	Annotations []string              `json:",omitempty"`
	Audit       []string              `json:",omitempty"` // actions and their results
}

type frozenWork struct {
	Stages                      map[string]uint64 // in flight, by group and stage
	Held                        int
	Finished, Expired, Repeated uint64
}

type frozenCounts struct {
	Good, Bad                     uint64 // since the generation began
	BackfilledGood, BackfilledBad uint64
	WindowGood, WindowBad         uint64
	Sliced                        bool
}

type frozenDeadLetter struct {
	Origin, Reason, Sink, Type string
	Records                    int // of a range of the log
}

// frozenVersions are the folders below testdata/frozen, oldest first.
func frozenVersions(t testing.TB) (versions []string) {
	t.Helper()
	entries, err := os.ReadDir(frozenDir)
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() {
			versions = append(versions, e.Name())
		}
	}
	require.NotEmpty(t, versions)
	return versions
}

// serveFrozen starts an engine on the folder that the latest version left.
func serveFrozen(t *testing.T) (from, dir, data string, p *e2etest.Process) {
	t.Helper()
	versions := frozenVersions(t)
	from = filepath.Join(frozenDir, versions[len(versions)-1])
	dir = t.TempDir()
	data = filepath.Join(dir, "data")
	unpackFolder(t, filepath.Join(from, "data.tar.gz"), data)
	text, err := os.ReadFile(filepath.Join(from, "engine.yaml"))
	require.NoError(t, err)
	return from, dir, data, e2etest.Serve(t, dir, filepath.Join(from, "spec.yaml"), string(text))
}

// total adds up what an SLO counted in all groups.
func (f *frozenFacts) total(id string) (n uint64) {
	for key, c := range f.Counts {
		if strings.HasPrefix(key, id+"{") {
			n += c.Good + c.Bad + c.BackfilledGood + c.BackfilledBad
		}
	}
	return n
}

// readFrozen reads all of a frozen version but the spool. Nothing depends on the date: the engine's
// clock stands still a second after the kill, so that windows and slices are those of that day.
func readFrozen(t testing.TB, dir string, at time.Time) *frozenFacts {
	t.Helper()
	f := &frozenFacts{At: at, DeadLetters: map[string]frozenDeadLetter{}, Cursors: map[string]string{}, Firing: []string{}}
	data := filepath.Join(t.TempDir(), "data")
	unpackFolder(t, filepath.Join(dir, "data.tar.gz"), data)
	cursors, err := os.ReadDir(filepath.Join(data, engine.SinkDir))
	require.NoError(t, err)
	for _, c := range cursors {
		text, err := os.ReadFile(filepath.Join(data, engine.SinkDir, c.Name()))
		require.NoError(t, err)
		f.Cursors[c.Name()] = strings.TrimSpace(string(text))
	}
	f.readCounts(t, data, filepath.Join(dir, "spec.yaml"), at)
	f.readDeadLetters(t, data)
	f.readAlerts(t, data)
	f.readPeople(t, data, at)
	f.readRules(t, filepath.Join(dir, "spec.yaml"))
	return f
}

// readCounts recovers the engine at a clock that stands still.
func (f *frozenFacts) readCounts(t testing.TB, data, specFile string, at time.Time) {
	t.Helper()
	f.Counts, f.Violations, f.Parked = map[string]frozenCounts{}, map[string]uint64{}, map[string]int{}
	sp, err := cli.SpecFiles{specFile}.Read(cli.Streams{Err: t.Output()})
	require.NoError(t, err)
	inputs := counting.Inputs(sp)
	cfg, err := evaluator.Compile(inputs)
	require.NoError(t, err)
	encoded, err := counting.EncodeConfig(cfg, nil)
	require.NoError(t, err)
	counts, err := fold.New(fold.Options{})
	require.NoError(t, err)
	incidents := incident.NewBook()
	running, err := engine.Open(engine.Options{
		Dir: data, State: counting.FoldState{Fold: counts, Incidents: incidents, Positions: position.NewBook(),
			Counters: counter.NewTable()},
		Config: func() []byte { return encoded }, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return at.Add(time.Second) }, Uptime: func() time.Duration { return time.Hour },
		SegmentBytes: 1 << 20, Disk: engine.DiskOptions{LowWater: -1}, IDs: engine.IDOptions{MaxAge: 36500 * 24 * time.Hour},
	})
	require.NoError(t, err)
	log := running.Log()
	_, segments := log.Size()
	f.Log = []uint64{log.FirstSeq(), log.NextSeq() - 1, uint64(segments)}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer func() {
		stop()
		wg.Wait()
		require.NoError(t, running.Close())
	}()
	ended := make(chan error, 1)
	wg.Go(func() { ended <- running.Run(ctx, engine.Parts{}) })
	select {
	case <-running.Ready():
	case err := <-ended:
		require.NoError(t, err)
	}
	eval, err := evaluator.New(evaluator.Options{
		Source: func(ctx context.Context, req fold.Request) (sums *fold.Sums, err error) {
			return sums, running.Do(ctx, func() { sums = counts.Sums(req) })
		},
	})
	require.NoError(t, err)
	require.NoError(t, eval.SetSpec(inputs))
	report, err := eval.Tick(ctx, at.Add(time.Second))
	require.NoError(t, err)
	for i := range report.SLOs {
		s := &report.SLOs[i]
		key := fmt.Sprintf("%s{%s}", s.SLO.ID.Name(), strings.Join(s.Group, ","))
		f.Counts[key] = countsOf(s)
		if s.Parts != nil {
			keep(&f.Parts, key, s.Parts.Total)
		}
		if s.Volume != nil {
			keep(&f.Volumes, key, s.Volume.Events)
		}
	}
	for i := range report.InFlight {
		w := &report.InFlight[i]
		work := frozenWork{Held: w.Held, Finished: w.Finished, Expired: w.Expired, Repeated: w.Repeated,
			Stages: map[string]uint64{}}
		for _, g := range w.Groups {
			for _, s := range g.Stages {
				work.Stages[strings.TrimSpace(g.Group[0]+" "+s.Stage)] += s.Open + s.Overdue
			}
		}
		keep(&f.Work, w.SLO.Name(), work)
	}
	for inc := range incidents.View().All() {
		f.Incidents = append(f.Incidents, fmt.Sprintf("%s %s %q %s automated=%t alerts=%d notes=%d", inc.ID, inc.Service,
			inc.Title, inc.State, inc.Automated, len(inc.Alerts), len(inc.Notes)))
	}
	for i := range report.Thresholds {
		l := &report.Thresholds[i]
		f.Violations[l.Threshold.Name+" within"], f.Violations[l.Threshold.Name+" warning"] = l.Total.Within, l.Total.Warning
		f.Violations[l.Threshold.Name+" critical"] = l.Total.Critical
	}
	f.IDs = running.Health().IDs.Count
	require.NoError(t, running.Do(ctx, func() {
		for _, g := range counts.Generations(time.Hour) {
			if g.Number > 0 {
				f.Parked[g.ID] = g.Groups
			}
		}
	}))
}

// keep adds to a map that is nil while it is empty, as in the facts of versions that did not know it.
func keep[V any](to *map[string]V, key string, v V) {
	if *to == nil {
		*to = map[string]V{}
	}
	(*to)[key] = v
}

// readPeople reads what people did and wrote.
func (f *frozenFacts) readPeople(t testing.TB, data string, at time.Time) {
	t.Helper()
	notes, err := annotation.New(annotation.Options{
		File: filepath.Join(data, "annotations.json"), Now: func() time.Time {
			return at
		}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	for _, a := range notes.List("shop", slo.Span{From: at.Add(-time.Hour), To: at.Add(time.Hour)}) {
		f.Annotations = append(f.Annotations, fmt.Sprintf("%s %s %s %q", a.ID, a.Kind, a.Service, a.Text))
	}
	record, err := audit.Open(audit.Options{Dir: filepath.Join(data, "audit")})
	require.NoError(t, err)
	entries, _, err := record.Read(audit.Query{Limit: 1000})
	require.NoError(t, err)
	for i := range entries {
		f.Audit = append(f.Audit, entries[i].Action+" "+entries[i].Result)
	}
	require.NoError(t, record.Close())
}

func countsOf(s *sla.SLOReport) frozenCounts {
	return frozenCounts{
		Good: s.Total.Good, Bad: s.Total.Bad, BackfilledGood: s.Backfilled.Good, BackfilledBad: s.Backfilled.Bad,
		WindowGood: s.Events.Good, WindowBad: s.Events.Bad, Sliced: s.Slice > 0,
	}
}

func (f *frozenFacts) readDeadLetters(t testing.TB, data string) {
	t.Helper()
	store, err := dlq.OpenFile(dlq.FileOptions{Dir: filepath.Join(data, engine.DeadLetterDir)})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	_, damaged := store.Damage()
	require.Zero(t, damaged)
	page, err := store.List(t.Context(), dlq.Query{Limit: 1000})
	require.NoError(t, err)
	for i := range page.Entries {
		e := &page.Entries[i]
		dead := frozenDeadLetter{Origin: string(e.Origin), Reason: e.Reason, Sink: e.Sink, Type: e.Type}
		if e.SeqEnd > 0 {
			kept, err := wal.OpenArchive(fsys.OS(), filepath.Join(data, engine.LogRangeDir, e.ID), e.Seq, e.SeqEnd)
			require.NoError(t, err)
			var rec wal.Record
			for ok := true; ok; {
				if ok, err = kept.Next(&rec); ok {
					dead.Records++
				}
				require.NoError(t, err)
			}
			require.NoError(t, kept.Close())
		}
		f.DeadLetters[e.ID] = dead
	}
}

func (f *frozenFacts) readAlerts(t testing.TB, data string) {
	t.Helper()
	m, err := state.New(
		state.Options{Alerts: alerts.Options{Options: rules.Options{}}, Grace: time.Minute, KeepResolved: time.Hour})
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(data, "alerts.json"))
	require.NoError(t, err)
	require.NoError(t, m.Restore(text))
	view := m.View()
	for i := range view.Active {
		if a := &view.Active[i]; a.State == state.Firing {
			f.Firing = append(f.Firing, fmt.Sprintf("%s %s %s %v", a.Name, a.SLO, a.Agreement, a.Group))
		}
	}
	slices.Sort(f.Firing)
}

func (f *frozenFacts) readRules(t testing.TB, specFile string) {
	t.Helper()
	f.Rules = map[string]string{}
	out := t.TempDir()
	var stdout, stderr bytes.Buffer
	args := []string{"generate", "rules", "--profile", "full", "-f", specFile, "--out", out, "--from",
		"2026-11-01T00:00:00Z", "--until", "2027-02-01T00:00:00Z"}
	require.Zero(t, e2etest.Run(t.Context(), args, nil, &stdout, &stderr), stderr.String())
	files, err := filepath.Glob(filepath.Join(out, "rules", "*.recording.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		var file struct {
			Groups []struct {
				Rules []struct {
					Record, Expr string
					Labels       map[string]string
				}
			}
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(text, &file))
		for _, g := range file.Groups {
			for _, r := range g.Rules {
				if r.Record != "" {
					labels, err := json.Marshal(r.Labels)
					require.NoError(t, err)
					f.Rules[r.Record+string(labels)] = r.Expr
				}
			}
		}
	}
}

// TestFrozen opens what earlier versions wrote. A failure means that an upgrade would lose or
// change something: change the code, never the frozen files.
func TestFrozen(t *testing.T) {
	t.Parallel()
	for _, version := range frozenVersions(t) {
		t.Run(version, func(t *testing.T) {
			dir := filepath.Join(frozenDir, version)
			text, err := os.ReadFile(filepath.Join(dir, "facts.json"))
			require.NoError(t, err)
			var want frozenFacts
			require.NoError(t, json.Unmarshal(text, &want))
			require.Equal(t, &want, readFrozen(t, dir, want.At))
			startFrozen(t, dir, &want)
			sendFrozenSpool(t, dir)
		})
	}
}

// startFrozen runs the program on the data folder, whatever the date is by now.
func startFrozen(t *testing.T, from string, want *frozenFacts) {
	t.Helper()
	dir := t.TempDir()
	unpackFolder(t, filepath.Join(from, "data.tar.gz"), filepath.Join(dir, "data"))
	hook := e2etest.NewReceiver(t)
	settings, err := os.ReadFile(filepath.Join(from, "engine.yaml"))
	require.NoError(t, err)
	p := e2etest.Serve(t, dir, filepath.Join(from, "spec.yaml"),
		strings.ReplaceAll(string(settings), frozenReceiver, hook.Address))

	var page struct{ Items []struct{ ID string } }
	require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/dlq?limit=1000"), &page))
	require.Len(t, page.Items, len(want.DeadLetters))
	for _, e := range page.Items {
		require.Contains(t, want.DeadLetters, e.ID)
	}
	require.Eventually(t, func() bool {
		return e2etest.Counter(t, p, "slo_events_total") > 0
	}, testkit.Patience, 20*time.Millisecond)
	firing := string(e2etest.Get(t, p.Base+"/api/v1/alerts"))
	for _, alert := range want.Firing {
		name, _, _ := strings.Cut(alert, " ")
		require.Contains(t, firing, name)
	}
	// All ids are known.
	traffic := newFrozenTraffic(time.Now())
	lines := append(
		slices.Clone(traffic.tail), slices.DeleteFunc(append(traffic.before, traffic.after...), func(line string) bool {
			return !strings.Contains(line, `"service":"shop","type":"order"`)
		})...)
	status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", strings.Join(lines, "\n"))
	require.Equal(t, http.StatusAccepted, status, answer)
	var sent e2etest.Answered
	require.NoError(t, json.Unmarshal([]byte(answer), &sent))
	require.Equal(t, len(lines), sent.Duplicates, answer)
	// The sinks go on behind their cursors, and have nothing twice.
	require.Eventually(t, func() bool {
		hook.Mu.Lock()
		defer hook.Mu.Unlock()
		return hook.Got["e24"] == 2
	}, testkit.Patience, 20*time.Millisecond, "both sinks get the last event: %s", p.Log)
	hook.Mu.Lock()
	require.Zero(t, hook.Got["b1"], "delivered before the kill")
	hook.Mu.Unlock()
	p.Stop(t)
}

// sendFrozenSpool sends what waits in the client's spool.
func sendFrozenSpool(t *testing.T, from string) {
	t.Helper()
	dir := t.TempDir()
	unpackFolder(t, filepath.Join(from, "spool.tar.gz"), dir)
	var mu sync.Mutex
	got := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := 0
		for dec := json.NewDecoder(r.Body); ; n++ {
			var e struct{ ID string }
			if dec.Decode(&e) != nil {
				break
			}
			mu.Lock()
			got[e.ID]++
			mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"received":%d,"accepted":%d}`, n, n)
	}))
	defer server.Close()
	c, err := client.New(client.Options{
		URL: server.URL, Service: "shop", Compression: client.None, Logger: slog.New(slog.DiscardHandler),
		Spool: client.SpoolOptions{Dir: dir},
	})
	require.NoError(t, err)
	want := map[string]int{}
	for i := 5; i < 20; i++ {
		want[fmt.Sprint("s", i)] = 1
	}
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return reflect.DeepEqual(want, got)
	}, testkit.Patience, 10*time.Millisecond, "the spool holds %v", got)
	require.NoError(t, c.Close(t.Context()))
}
