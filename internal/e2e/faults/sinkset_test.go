package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq/dlqtest"
	"github.com/sloengine/sloengine/reliability/nettest"
)

var sinkCycles = flag.Int("sink.cycles", 16, "kills of the engine in the set checker of sinks, 5 with -short")

// TestSinkSetChecker kills the engine, its sink and its Redis again and again, under load
// over the limits, and then looks at every single id: what was acknowledged reached each
// sink at least once, directly or through a replay of the dead letters, and counts exactly
// once.
func TestSinkSetChecker(t *testing.T) {
	t.Parallel()
	cycles := *sinkCycles
	if testing.Short() {
		cycles = 5
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	o := &e2etest.Oracle{Rnd: rand.New(rand.NewPCG(seed, 1)), Acked: map[string]bool{}}
	hook := e2etest.NewReceiver(t)
	proxy := nettest.NewProxy(t, dlqtest.Redis(t).Addr)
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	settings := e2etest.CrashSettings + fmt.Sprintf(`redis: {address: %q, timeout: 50ms}
limits:
  global: {limit: 400, window: 1s, on_exceeded: drop}
  default: off
  shared: {redis: true, fallback: 0.5}
dead_letters: {filter: {always_save: [t]}, replay: {rate: 20000, batch: 500, schedule: "*/2 * * * * *"}}
timeout: 500ms
retry: {base: 10ms, cap: 200ms, max_retries: 1}
breaker: {consecutive: {open: 300ms}, health_interval: 100ms}
sinks:
  - {name: hook, http: {url: "http://%s/in", health_url: "http://%s/health"}, batch: {wait: 10ms, items: 100}, ttl: 2s}
  - {name: archive, file: {dir: archive, max_bytes: 64KiB}}
`, proxy.Address, hook.Address, hook.Address)
	// The faults go on by themselves.
	faults, stopFaults := context.WithCancel(t.Context())
	var faulty sync.WaitGroup
	var outages atomic.Int32
	faulty.Go(func() {
		for faults.Err() == nil {
			fault := rnd.IntN(5)
			switch fault {
			case 0:
				hook.Down()
			case 1:
				hook.Mode.Store(e2etest.Hangs)
			case 2:
				hook.Mode.Store(e2etest.Refuses)
			case 3:
				proxy.Cut()
			case 4:
				proxy.Stall()
			}
			outages.Add(1)
			testkit.Pause(time.Duration(50+rnd.IntN(400)) * time.Millisecond)
			if fault == 0 {
				hook.Up(t)
			}
			hook.Mode.Store(e2etest.Takes)
			proxy.Restore()
			testkit.Pause(time.Duration(100+rnd.IntN(300)) * time.Millisecond)
		}
	})
	client := &http.Client{Timeout: 10 * time.Second}
	kills := 0
	for range cycles {
		p, listens := e2etest.ServeIn(t, dir, specFile, settings)
		if !listens || !p.WaitReady(t) {
			t.Fatal(p.Log.String())
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { o.LoadPaced(p, client) })
		}
		testkit.Pause(time.Duration(200+o.Random(500)) * time.Millisecond)
		p.Kill()
		kills++
		e2etest.RequireKilled(t, p)
		wg.Wait()
	}
	stopFaults()
	faulty.Wait()

	p := e2etest.Serve(t, dir, specFile, settings)
	// All that was acknowledged is delivered in the end.
	dead := e2etest.DeadLetterCount(t, p)
	missing := func() (n int) {
		hook.Mu.Lock()
		defer hook.Mu.Unlock()
		for id := range o.Acked {
			if hook.Got[id] == 0 {
				n++
			}
		}
		return n
	}
	began := time.Now()
	require.Eventually(t, func() bool {
		if e2etest.DeadLetterCount(t, p) > 0 {
			replayAllOnce(t, p)
		}
		return e2etest.DeadLetterCount(t, p) == 0 && missing() == 0
	}, testkit.Patience, 200*time.Millisecond, "%d ids did not reach the sink\n%s", missing(), p.Log)
	recovered := time.Since(began)
	// The archive has a lane, a breaker and dead letters of its own, and gets there when it
	// gets there: after a breaker that opened with 100 events in the first second.
	archive := filepath.Join(dir, "archive")
	notArchived := func() (n int) {
		archived, _ := archivedIDs(t, archive)
		for id := range o.Acked {
			if archived[id] == 0 {
				n++
			}
		}
		return n
	}
	behind := notArchived()
	testkit.Within(90*time.Second, func() bool {
		if notArchived() == 0 {
			return true
		}
		if e2etest.DeadLetterCount(t, p) > 0 {
			replayAllOnce(t, p)
		}
		return false
	})
	archiving := time.Since(began)
	e2etest.Reports(t, p, 2)
	counts := e2etest.CountsByID(t, p)
	sinks := e2etest.Get(t, p.Base+"/api/v1/engine")
	p.Stop(t) // so that the archive does not change while it is read
	archived, torn := archivedIDs(t, archive)
	require.Zero(t, torn, "torn lines in the archive")
	inDoubt := map[string]bool{}
	for _, id := range o.Unknown {
		inDoubt[id] = true
	}
	lost, twice, invented, unarchived := 0, 0, 0, 0
	for id := range o.Acked {
		if counts[id] == 0 {
			lost++
			t.Errorf("%s was acknowledged and is not counted", id)
		}
		if archived[id] == 0 {
			unarchived++
			t.Errorf("%s was acknowledged and is not in the archive", id)
		}
	}
	for id, n := range counts {
		if n > 1 {
			twice++
			t.Errorf("%s is counted %v times", id, n)
		}
		if !o.Acked[id] && !inDoubt[id] {
			invented++
			t.Errorf("%s is counted and was never sent", id)
		}
	}
	if unarchived > 0 {
		t.Logf("%d events are not in the archive after %s; the engine said: %s\n%s", unarchived, archiving, sinks, p.Log)
	}
	t.Logf(
		"| seed %d | kills %d, outages %d | acknowledged %d, in doubt %d | counted %d | at the sink %d, "+
			"in the archive %d | dead letters at the end %d | lost %d, twice %d, invented %d, not archived %d | recovered in "+
			"%.1f s, archive %d behind, there after %.1f s |",
		seed, kills, outages.Load(), len(o.Acked), len(inDoubt), len(counts), hook.Has(), len(archived), dead, lost, twice,
		invented, unarchived, recovered.Seconds(), behind, archiving.Seconds())
}

// archivedIDs reads all that the file sink wrote. While it writes, lines that are on their
// way count as torn, and a file that is rotated meanwhile may be left out.
func archivedIDs(t *testing.T, dir string) (ids map[string]int, torn int) {
	t.Helper()
	ids = map[string]int{}
	names, err := filepath.Glob(filepath.Join(dir, "events*.ndjson"))
	require.NoError(t, err)
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // between two files
		}
		require.NoError(t, err)
		for line := range bytes.Lines(raw) {
			if !bytes.HasSuffix(line, []byte{'\n'}) {
				torn++
				continue
			}
			var e struct{ ID string }
			require.NoError(t, json.Unmarshal(line, &e), string(line))
			ids[e.ID]++
		}
	}
	return ids, torn
}
