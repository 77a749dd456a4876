// Package faults has the end-to-end tests that kill the program, damage its files, restore them, and open those of
// earlier versions.
package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/stretchr/testify/require"
)

// TestCrashSetChecker kills the engine again and again, at every named place
// and at random moments, under load, and then looks at every single id: what was
// acknowledged is counted exactly once, what was not at most once, and nothing
// is counted that was never sent.
func TestCrashSetChecker(t *testing.T) {
	t.Parallel()
	cycles := 56
	if testing.Short() {
		cycles = 12
	}
	soak := os.Getenv("SLOENGINE_SOAK")
	if soak == "" {
		checkCrashes(t, cycles)
		return
	}
	d, err := time.ParseDuration(soak)
	require.NoError(t, err)
	for began := time.Now(); time.Since(began) < d && !t.Failed(); {
		t.Run("round", func(t *testing.T) { checkCrashes(t, cycles) })
	}
}

// crashPlaces are all the places at which a build with the tag crashpoints can be killed.
var crashPlaces = []engine.CrashPoint{
	engine.CrashBeforeAppend, engine.CrashAfterAppend, engine.CrashAfterAck, engine.CrashBeforeApply,
	engine.CrashBeforeCheckpoint, engine.CrashAfterDeadLetters, engine.CrashAfterPack, engine.CrashAfterIDs,
	engine.CrashAfterManifest,
	engine.CrashBeforeTruncate, engine.CrashAfterTruncate, engine.CrashBeforeStop, engine.CrashAfterStop,
	engine.CrashBeforeStartRecords,
}

func checkCrashes(t *testing.T, cycles int) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	o := &e2etest.Oracle{Rnd: rand.New(rand.NewPCG(seed, 1)), Acked: map[string]bool{}}
	client := &http.Client{Timeout: 10 * time.Second}
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	program := e2etest.Program("crashpoints")
	args := e2etest.ServeArgs(t, dir, specFile, e2etest.CrashSettings)

	killed := map[string]int{}
	for cycle := range cycles {
		if o.Stored() > e2etest.CrashIDs {
			break
		}
		place, env := "random", []string(nil)
		if cycle%3 != 2 {
			place = string(crashPlaces[(cycle-cycle/3)%len(crashPlaces)])
			passing := 1 + o.Random(4)
			if strings.HasPrefix(place, "start.") || strings.HasPrefix(place, "stop.") {
				passing = 1 // a process passes there once
			}
			env = []string{fmt.Sprintf("SLOENGINE_CRASH=%s:%d", place, passing)}
		}
		p, listens := e2etest.StartCommand(t, exec.Command(program, args...), env...)
		if !listens || !p.WaitReady(t) {
			e2etest.RequireKilled(t, p)
			killed[place]++
			continue
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { o.Load(p, client) })
		}
		delay := time.Duration(40+o.Random(160)) * time.Millisecond
		switch {
		case strings.HasPrefix(place, "stop."):
			testkit.Pause(delay)
			_ = p.Cmd.Process.Signal(os.Interrupt)
		case place == "random":
			testkit.Pause(delay)
			p.Kill()
		}
		select {
		case <-p.Done:
			killed[place]++
		case <-time.After(3 * time.Second):
			p.Kill() // the place was not passed often enough
		}
		e2etest.RequireKilled(t, p)
		wg.Wait()
	}
	for _, place := range crashPlaces {
		if !testing.Short() {
			require.Positive(t, killed[string(place)], "no kill at %s; kills: %v", place, killed)
		}
	}

	p := e2etest.Serve(t, dir, specFile, e2etest.CrashSettings)
	counts := e2etest.CountsByID(t, p)
	lost, twice, invented := 0, 0, 0
	for id := range o.Acked {
		switch n := counts[id]; {
		case n == 0:
			lost++
			t.Errorf("%s was acknowledged and is not counted", id)
		case n > 1:
			twice++
			t.Errorf("%s was acknowledged and is counted %v times", id, n)
		}
	}
	inDoubt := map[string]bool{}
	for _, id := range o.Unknown {
		inDoubt[id] = true
	}
	for id, n := range counts {
		switch {
		case !o.Acked[id] && !inDoubt[id]:
			invented++
			t.Errorf("%s is counted and was never sent", id)
		case n > 1 && !o.Acked[id]:
			twice++
			t.Errorf("%s was not acknowledged and is counted %v times", id, n)
		}
	}
	p.Stop(t)
	requireHistory(t, filepath.Join(dir, "data"))
	t.Logf("kills %v; acknowledged %d, in doubt %d, counted %d; lost %d, twice %d, invented %d",
		killed, len(o.Acked), len(inDoubt), len(counts), lost, twice, invented)
}

// requireHistory reads what is retained, and then the log, as another process does: each record once.
func requireHistory(t *testing.T, data string) retained.Stats {
	src, err := engine.OpenLog(fsys.OS(), data)
	require.NoError(t, err)
	r, err := src.NewReader(retained.Query{})
	require.NoError(t, err)
	defer r.Close()
	first, last := uint64(0), uint64(0)
	for rec := (wal.Record{}); ; last = rec.Seq {
		ok, err := r.Next(&rec)
		require.NoError(t, err)
		if !ok {
			break
		}
		if first == 0 {
			first, last = rec.Seq, rec.Seq-1
		}
		require.Equal(t, last+1, rec.Seq)
		require.Zero(t, rec.Lost)
	}
	st, err := src.Reach()
	require.NoError(t, err)
	require.Zero(t, st.Damaged)
	t.Logf("history: %d files of %d bytes from record %d, read up to %d", st.Files, st.Bytes, first, last)
	return st
}

// TestKilledWhileItRetains kills the engine around the moves and deletions of the history, and reads all of it after
// each.
func TestKilledWhileItRetains(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", strings.ReplaceAll(e2etest.CrashSpec, "[uid]", "[none]"))
	settings := e2etest.CrashSettings[:strings.Index(e2etest.CrashSettings, "log: {seg")] +
		"log: {segment: 1MiB, retain: 1d, retain_bytes: 1MiB}\ndisk: {low_water: 1MiB}\n"
	args := e2etest.ServeArgs(t, dir, specFile, settings)
	rnd := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	client := &http.Client{Timeout: 10 * time.Second}
	var st retained.Stats
	for cycle := range 9 {
		place := []string{"random", string(engine.CrashAfterMove), string(engine.CrashAfterDelete)}[cycle%3]
		var env []string
		if place != "random" {
			env = []string{fmt.Sprintf("SLOENGINE_CRASH=%s:%d", place, 1+rnd.IntN(2))}
		}
		p, listens := e2etest.StartCommand(t, exec.Command(e2etest.Program("crashpoints"), args...), env...)
		if !listens || !p.WaitReady(t) {
			e2etest.RequireKilled(t, p)
			continue
		}
		for sent, most := 0, 20+rnd.IntN(20); sent < most; sent++ {
			var body strings.Builder
			for range 1000 {
				fmt.Fprintf(&body, `{"service":"crash","type":"t","id":"%x","attributes":{"pad":"%032x%032x"}}`+"\n", rnd.Uint64(),
					rnd.Uint64(), rnd.Uint64())
			}
			res, err := client.Post(p.Base+"/api/v1/events", "application/x-ndjson", strings.NewReader(body.String()))
			if err != nil {
				break // it was killed
			}
			res.Body.Close()
		}
		p.Kill()
		e2etest.RequireKilled(t, p)
		st = requireHistory(t, filepath.Join(dir, "data"))
	}
	require.Greater(t, st.First, uint64(1), "the oldest were deleted")
	require.Positive(t, st.Files)
}

// TestExport writes the events of history and log while the engine runs, each once, and says what is missing.
func TestExport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", strings.ReplaceAll(e2etest.CrashSpec, "[uid]", "[none]"))
	settings := e2etest.CrashSettings[:strings.Index(e2etest.CrashSettings, "log: {seg")] +
		"log: {segment: 1MiB, retain: 1d}\ndisk: {low_water: 1MiB}\n"
	p := e2etest.Serve(t, dir, specFile, settings)
	history := filepath.Join(dir, "data", engine.HistoryDir)
	sent := 0
	send := func(typ string) {
		var body strings.Builder
		for range 1000 {
			sent++
			fmt.Fprintf(&body, `{"service":"crash","type":"%s","id":"%d","attributes":{"pad":"%0200d"}}`+"\n", typ, sent, sent)
		}
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", body.String())
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	require.Eventually(t, func() bool {
		send("t")
		files, _ := filepath.Glob(filepath.Join(history, "*.hist"))
		return len(files) > 1
	}, testkit.Patience, 100*time.Millisecond)
	exportFrom := func(data string, args ...string) (ids []string, missing string, code int) {
		out, missing, code := e2etest.Command(t, append([]string{"export", "--data-dir", data}, args...)...)
		for line := range strings.Lines(out) {
			var e struct{ ID, Service, Type string }
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			if e.Service == "crash" {
				ids = append(ids, e.ID)
			}
		}
		return ids, missing, code
	}
	export := func(args ...string) ([]string, string, int) { return exportFrom(filepath.Join(dir, "data"), args...) }
	ids, missing, code := export()
	require.Zero(t, code, missing)
	require.Len(t, ids, sent)
	for i, id := range ids {
		require.Equal(t, strconv.Itoa(i+1), id)
	}
	// With less space than it takes, the history does not reach back for the longest window.
	small := e2etest.WriteFile(t, dir, "small.yaml", "log: {retain_bytes: 1KiB}\n")
	data := filepath.Join(dir, "data")
	for want, args := range map[string][]string{"": {"--data-dir", data, "-c", filepath.Join(dir, "engine.yaml")},
		"crash/": {"--data-dir", data, "-c", small}} {
		out, errs, code := e2etest.Command(t, append([]string{"check", "-f", specFile}, args...)...)
		require.Zero(t, code, errs)
		require.Equal(t, want != "", strings.Contains(out+errs, "more would do"), out+errs)
		require.Contains(t, out+errs, want)
	}
	// A backup takes the history along if it is asked to, and an engine on the restored folder goes on with it.
	for _, args := range [][]string{nil, {"--history"}} {
		restored := t.TempDir()
		saved, data := filepath.Join(restored, "saved"), filepath.Join(restored, "data")
		_, errs, code := e2etest.Command(t, append([]string{"backup", "--url", p.Base, "--out", saved}, args...)...)
		require.Zero(t, code, errs)
		_, errs, code = e2etest.Command(t, "restore", "--from", saved, "--data-dir", data)
		require.Zero(t, code, errs)
		if args == nil {
			require.NoDirExists(t, filepath.Join(data, engine.HistoryDir))
			continue
		}
		got, missing, code := exportFrom(data) // before an engine has started on it
		require.Zero(t, code, missing)
		require.Equal(t, ids, got)
		again := e2etest.Serve(t, restored, specFile, settings)
		require.NotContains(t, again.Log.String(), "aside")
		got, missing, code = exportFrom(data)
		require.Zero(t, code, missing)
		require.Equal(t, ids, got)
		again.Stop(t)
	}
	now := time.Now().UTC().Add(time.Hour).Format(time.RFC3339)
	for _, args := range [][]string{{"--service", "other"}, {"--type", "other"}, {"--from", now}} {
		ids, _, code = export(args...)
		require.Zero(t, code)
		require.Empty(t, ids, args)
	}
	ids, _, _ = export("--to", now, "--type", "t", "--service", "crash")
	require.Len(t, ids, sent)
	_, missing, code = export("--from", "yesterday")
	require.Equal(t, 2, code)
	require.Contains(t, missing, "want a time such as")

	files, err := filepath.Glob(filepath.Join(history, "*.hist"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(files[0], 100))
	ids, missing, code = export()
	require.Equal(t, 3, code)
	require.Regexp(t, `^records \d+ to \d+ are missing: `, missing)
	require.Less(t, len(ids), sent)
	require.Equal(t, strconv.Itoa(sent), ids[len(ids)-1])
	p.Stop(t)

	// What cannot be retained is said, and so is the end of that.
	require.NoError(t, os.RemoveAll(history))
	require.NoError(t, os.WriteFile(history, nil, 0o600))
	p = e2etest.Serve(t, dir, specFile, settings)
	degraded := func() bool { return strings.Contains(string(e2etest.Get(t, p.Base+"/-/ready")), `"part":"history"`) }
	require.Eventually(t, degraded, testkit.Patience, 100*time.Millisecond)
	require.Contains(t, p.Log.String(), "closed segments of the log cannot be retained")
	require.NoError(t, os.Remove(history))
	require.Eventually(t, func() bool { return !degraded() }, testkit.Patience, 100*time.Millisecond)
	require.Contains(t, p.Log.String(), "closed segments of the log are retained again")
	p.Stop(t)
}

// TestSecondEngineIsRefused starts two engines on one folder.
func TestSecondEngineIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	first := e2etest.Serve(t, dir, specFile, e2etest.CrashSettings)
	second, _ := e2etest.ServeIn(t, dir, specFile, e2etest.CrashSettings)
	select {
	case <-second.Done:
	case <-time.After(testkit.Patience):
		t.Fatal("the second engine runs")
	}
	require.Equal(t, 1, second.Cmd.ProcessState.ExitCode())
	require.Contains(t, second.Log.String(), filepath.Join(dir, "data"))
	first.Stop(t)
}
