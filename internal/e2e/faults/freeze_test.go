package faults

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/client"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

var (
	freezeVersion = flag.String(
		"freeze", "", "write testdata/frozen/`VERSION` with this build; see testdata/frozen/README.md")
	freezeBinary = flag.String("freeze.binary", "", "the engine that writes the frozen folder; default: this build")
)

const (
	frozenDir = "../../../testdata/frozen"
	freezeDir = "testdata/freeze" // the specs and settings that are frozen next
)

// frozenReceiver stands in engine.yaml for the address of the tests' receiver.
const frozenReceiver = "127.0.0.1:1"

// frozenTraffic is what the freezer sends: every way in, every policy, and a tail behind the last
// checkpoint. Each event has an id, so that it can be sent again to a later version.
type frozenTraffic struct {
	before   []string // to the first spec, live
	backfill []string // one event a minute for two hours, half of them failures
	after    []string // to the last spec, live
	jobs     []string // to the last spec: work that ends, fails, is in flight, and ends before it starts
	last     []string // each followed by a checkpoint
	jobTail  []string // behind the last checkpoint
	tail     []string // behind the last checkpoint
}

func newFrozenTraffic(now time.Time) (f frozenTraffic) {
	line := func(id, service, typ, more string) string {
		return fmt.Sprintf(`{"id":%q,"service":%q,"type":%q%s}`, id, service, typ, more)
	}
	outcome := func(i, every int) string {
		if i%every == 0 {
			return `,"outcome":"failure"`
		}
		return ""
	}
	for i := range 30 {
		f.before = append(f.before, line(fmt.Sprint("b", i), "shop", "order",
			outcome(i, 10)+fmt.Sprintf(`,"attributes":{"product":"p%d","channel":"web"}`, i%6)))
		f.before = append(f.before, line(fmt.Sprint("l", i), "legacy", "order",
			outcome(i, 5)+fmt.Sprintf(`,"attributes":{"product":"p%d"}`, i%2)))
	}
	for i := range 7 {
		f.before = append(f.before, line(fmt.Sprint("g", i), "gone", "order", ""))
	}
	for i := range 120 {
		at := now.Add(time.Duration(i-120) * time.Minute).UTC().Format(time.RFC3339)
		f.backfill = append(
			f.backfill, line(fmt.Sprint("h", i), "shop", "order", outcome(i, 2)+fmt.Sprintf(`,"time":%q`, at)))
	}
	for i := range 10 {
		f.after = append(f.after, line(fmt.Sprint("d", i), "shop", "debug", ""))
	}
	for i := range 40 {
		f.after = append(f.after, line(fmt.Sprint("t", i), "shop", "task",
			outcome(i, 4)+`,"duration_ms":70000,"attributes":{"task":"createOrder","password":"x"}`))
	}
	for i := range 60 {
		f.after = append(f.after, line(fmt.Sprint("r", i), "shop", "request",
			outcome(i, 8)+fmt.Sprintf(`,"duration_ms":%d,"attributes":{"product":"p%d","bytes":%d}`, 100+10*i, i%2, i)))
	}
	for i := range 6 {
		f.after = append(f.after, line(fmt.Sprint("p", i), "shop", "payment", ""))
	}
	// These fill some segments, and gzip leaves little of them.
	filler := strings.Repeat("0123456789abcdef", 64)
	for i := range 300 {
		var attrs strings.Builder
		for k := range 10 {
			fmt.Fprintf(&attrs, `,"f%d":%q`, k, filler)
		}
		f.after = append(f.after, line(fmt.Sprint("f", i), "shop", "order",
			outcome(i, 50)+`,"attributes":{"product":"filler"`+attrs.String()+`}`))
	}
	job := func(id, typ, more string) {
		f.jobs = append(f.jobs, line(fmt.Sprint("j", len(f.jobs)), "shop", "job."+typ,
			fmt.Sprintf(`,"attributes":{"job":%q,"region":"eu"%s}`, id, more)))
	}
	for i := range 6 {
		job(fmt.Sprint(i), "started", "")
	}
	job("0", "done", "")
	job("1", "done", "")
	job("2", "failed", "")
	job("3", "step", `,"step":"packed"`)
	job("9", "done", "") // waits for its start
	f.jobTail = []string{line("j-tail", "shop", "job.done", `,"attributes":{"job":"4"}`)}
	for i := range 2 {
		f.last = append(f.last, line(fmt.Sprint("c", i), "shop", "order", `,"attributes":{"product":"p0","channel":"app"}`))
	}
	for i := range 25 {
		f.tail = append(
			f.tail, line(fmt.Sprint("e", i), "shop", "order", outcome(i, 5)+`,"attributes":{"product":"p0","channel":"app"}`))
	}
	return f
}

// frozenSink takes the first events for "hook", refuses two of them for good, and nothing for "slow".
type frozenSink struct {
	*httptest.Server
	left atomic.Int32 // events that hook still takes
}

func newFrozenSink(t testing.TB, takes int32) *frozenSink {
	s := &frozenSink{}
	s.left.Store(takes)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var events []struct{ ID string }
		if json.NewDecoder(r.Body).Decode(&events) != nil || r.URL.Path != "/hook" || s.left.Add(-int32(len(events))) < 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var refused []string
		for i, e := range events {
			if e.ID == "b0" || e.ID == "l0" {
				refused = append(refused, fmt.Sprintf(`{"index":%d,"code":"unknown_customer","retryable":false}`, i))
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"errors":[%s]}`, strings.Join(refused, ","))
	}))
	t.Cleanup(s.Close)
	return s
}

// TestFreeze makes a data folder, a client's spool and the facts about them with this build, and
// holds them to the same checks as those of earlier versions. With -freeze it also keeps them.
func TestFreeze(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"spec.yaml", "spec-before.yaml", "engine.yaml"} {
		copyFile(t, filepath.Join(freezeDir, name), filepath.Join(dir, name))
	}
	copyFile(t, "../../../deploy/engine.yaml", filepath.Join(dir, "settings.yaml"))
	at := freezeData(t, dir)
	freezeSpool(t, dir)
	facts := readFrozen(t, dir, at)
	// What was sent, counted by hand.
	require.EqualValues(t, 30+120+300+2+25, facts.total("checkout"))
	require.EqualValues(t, facts.total("checkout"), facts.total("by-product"))
	require.Greater(t, facts.Log[2], uint64(2), "segments")
	require.NotEmpty(t, facts.Firing)
	lagging := facts.lagging(t)
	require.NotEmpty(t, lagging)
	require.Len(t, facts.DeadLetters, 2+4-2+len(lagging))
	next := lagging[0].from
	for _, r := range lagging { // a busy machine skips in several steps, with no record between them or twice
		require.Equal(t, next, r.from, "%v", lagging)
		require.EqualValues(t, r.to-r.from+1, r.records, "%v", lagging)
		next = r.to + 1
	}
	require.Equal(t, map[string]int{"legacy/old": 2}, facts.Parked)
	require.Equal(t, map[string]frozenWork{
		"jobs": {Stages: map[string]uint64{"eu": 1, "eu packed": 1}, Held: 1, Finished: 4}}, facts.Work)
	require.Equal(t, frozenCounts{Good: 3, Bad: 1, WindowGood: 3, WindowBad: 1}, facts.Counts["jobs{eu}"])
	require.GreaterOrEqual(t, facts.Volumes["orders-a-week{}"], uint64(2+25), "a week may have begun since the others")
	require.NotEmpty(t, facts.Parts["conversion{p0}"])
	require.NotEmpty(t, facts.Parts["experience{}"])
	require.Len(t, facts.Annotations, 1+1, "by hand, and of the change of the spec")
	require.GreaterOrEqual(t, len(facts.Incidents), 2, "by hand, and of the alert")
	require.Contains(t, facts.Audit, "forget ok")
	sendFrozenSpool(t, dir)
	if *freezeVersion == "" {
		return
	}
	to := filepath.Join(frozenDir, *freezeVersion)
	require.NoError(t, os.MkdirAll(to, 0o755))
	for _, name := range []string{"spec.yaml", "spec-before.yaml", "engine.yaml", "settings.yaml",
		"data.tar.gz", "spool.tar.gz"} {
		copyFile(t, filepath.Join(dir, name), filepath.Join(to, name))
	}
	data, err := json.MarshalIndent(facts, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(to, "facts.json"), append(data, '\n'), 0o644))
}

// skippedRange is a part of the log that a sink skips.
type skippedRange struct {
	from, to uint64
	records  int
}

// lagging are the ranges of the dead letters of slow, in order.
func (f *frozenFacts) lagging(t *testing.T) (out []skippedRange) {
	for id, dead := range f.DeadLetters {
		if dead.Reason != "lagging" {
			continue
		}
		r := skippedRange{records: dead.Records}
		_, err := fmt.Sscanf(id[strings.LastIndex(id, "-")+1:], "%d~%d", &r.from, &r.to)
		require.NoError(t, err, id)
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b skippedRange) int { return cmp.Compare(a.from, b.from) })
	return out
}

// freezeData runs an engine through two specs, kills it, and packs its data folder.
func freezeData(t *testing.T, dir string) (killed time.Time) {
	sink := newFrozenSink(t, 40)
	settings, err := os.ReadFile(filepath.Join(dir, "engine.yaml"))
	require.NoError(t, err)
	live := e2etest.WriteFile(
		t, dir, "live.yaml", strings.ReplaceAll(string(settings), frozenReceiver, sink.Listener.Addr().String()))
	run := func(specFile string) *e2etest.Process {
		program := *freezeBinary
		if program == "" {
			program = e2etest.Program()
		}
		p, ok := e2etest.StartCommand(t, exec.Command(program, "serve", "-f", filepath.Join(dir, specFile), "-c", live,
			"--data-dir", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:0"))
		require.True(t, ok, p.Log.String())
		require.True(t, p.WaitReady(t), p.Log.String())
		return p
	}
	send := func(p *e2etest.Process, query string, lines []string) {
		t.Helper()
		for len(lines) > 0 {
			n := min(100, len(lines))
			status, answer := e2etest.Post(t, p.Base+"/api/v1/events"+query, "", strings.Join(lines[:n], "\n"))
			require.Equal(t, http.StatusAccepted, status, answer)
			lines = lines[n:]
		}
	}
	deadLetters := func(p *e2etest.Process, n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			return e2etest.DeadLetterCount(t, p) >= n
		}, testkit.Patience, 20*time.Millisecond, "dead letters: %s", p.Log)
	}
	traffic := newFrozenTraffic(time.Now())
	p := run("spec-before.yaml")
	send(p, "", traffic.before)
	deadLetters(p, 2) // those that hook refuses
	p.Stop(t)

	p = run("spec.yaml")
	send(p, "?backfill=true", traffic.backfill)
	send(p, "", traffic.after)
	send(p, "", traffic.jobs)
	var done map[string]any
	e2etest.Call(t, http.MethodPost, p.Base+"/api/v1/forget", `{"service":"gone"}`, &done)
	deadLetters(p, 2+4+1) // payments over their limit, and the part of the log that slow skips
	for _, action := range []string{"replay", "discard"} {
		e2etest.Call(t, http.MethodPost, p.Base+"/api/v1/dlq/"+action,
			`{"ids":["`+deadLetterOf(t, p, "admission")+`"]}`, &done)
	}
	require.Eventually(t, func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/alerts")), `"firing"`)
	},
		testkit.Patience, 50*time.Millisecond, "an alert fires")
	e2etest.Call(t, http.MethodPost, p.Base+"/api/v1/annotations", `{"service":"shop","text":"v2 deployed"}`, &done)
	var opened struct{ ID string }
	e2etest.Call(t, http.MethodPost, p.Base+"/api/v1/incidents",
		`{"title":"Orders are slow","service":"shop","by":"ann"}`, &opened)
	e2etest.Call(t, http.MethodPost, p.Base+"/api/v1/incidents/"+opened.ID+"/note",
		`{"by":"ann","text":"the database"}`, &done)
	e2etest.Call(t, http.MethodPost, p.Base+"/api/v1/incidents/"+opened.ID+"/resolve", `{"by":"ann"}`, &done)
	checkpoints := func() float64 { return e2etest.Counter(t, p, "sloengine_checkpoint_written_total") }
	for _, line := range traffic.last { // two checkpoints, the second of which holds all but this line
		before := checkpoints()
		send(p, "", []string{line})
		require.Eventually(t, func() bool {
			return checkpoints() > before
		}, testkit.Patience, 5*time.Millisecond, "a checkpoint")
	}
	send(p, "", traffic.jobTail)
	send(p, "", traffic.tail)
	p.Kill()
	e2etest.RequireKilled(t, p)
	killed = time.Now().UTC().Truncate(time.Second)
	packFolder(t, filepath.Join(dir, "data"), filepath.Join(dir, "data.tar.gz"))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "data")))
	return killed
}

// deadLetterOf is the ID of the newest dead letter of an origin.
func deadLetterOf(t *testing.T, p *e2etest.Process, origin string) string {
	var page struct{ Items []struct{ ID string } }
	require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/dlq?limit=1&origin="+origin), &page))
	require.Len(t, page.Items, 1)
	return page.Items[0].ID
}

// freezeSpool leaves twenty events in a client's spool, of which five were sent already.
func freezeSpool(t *testing.T, dir string) {
	var up atomic.Bool
	var taken atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() || taken.Add(1) > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"received":5,"accepted":5}`)
	}))
	defer server.Close()
	spool := filepath.Join(dir, "spool")
	c, err := client.New(client.Options{
		URL: server.URL, Service: "shop", BatchEvents: 5, Compression: client.None, Logger: slog.New(slog.DiscardHandler),
		Spool: client.SpoolOptions{Dir: spool},
	})
	require.NoError(t, err)
	for batch := range 4 {
		var events []client.Event
		for i := range 5 {
			events = append(events, client.Event{ID: fmt.Sprint("s", 5*batch+i), Type: "order"})
		}
		require.NoError(t, c.Send(t.Context(), events...))
	}
	up.Store(true)
	require.Eventually(t, func() bool { return taken.Load() > 1 }, testkit.Patience, 10*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // it tells that the server is not there
	packFolder(t, spool, filepath.Join(dir, "spool.tar.gz"))
	require.NoError(t, os.RemoveAll(spool))
}

// packFolder writes what is in dir to a .tar.gz, without locks and the reserve, which hold nothing.
func packFolder(t testing.TB, dir, to string) {
	t.Helper()
	out, err := os.Create(to)
	require.NoError(t, err)
	z, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	require.NoError(t, err)
	w := tar.NewWriter(z)
	require.NoError(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.EqualFold(d.Name(), engine.LockFile) || d.Name() == "RESERVE" {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		require.NoError(t, err)
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: filepath.ToSlash(rel), Mode: 0o640, Size: int64(len(data))}))
		_, err = w.Write(data)
		return err
	}))
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	require.NoError(t, out.Close())
}

// unpackFolder is the way back.
func unpackFolder(t testing.TB, from, dir string) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	z, err := gzip.NewReader(in)
	require.NoError(t, err)
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, data, 0o640))
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o644))
}
