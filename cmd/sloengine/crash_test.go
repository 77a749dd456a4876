package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/stretchr/testify/require"
)

// One group per event, so that every single one can be looked up.
const crashSpec = `version: sloengine/v1
service: crash
slos:
  - name: each
    objective: 99
    window: 1d
    group_by: [uid]
    max_groups: 100000
    indicator:
      events: {valid: '{type="t"}', bad: '{outcome="failure"}'}
`

// Checkpoints often, so that kills hit them.
const crashSettings = `checkpoint: {interval: 60ms, log: 64KiB}
log: {segment: 1MiB}
evaluator: {interval: 200ms}
disk: {low_water: 1MiB}
`

// oracle stands outside the victim. It issues ids and records what became of
// them as far as a client can know.
type oracle struct {
	mu      sync.Mutex
	rnd     *rand.Rand
	issued  int
	acked   map[string]bool // a 202 came back
	unknown []string        // sent, but no answer came: counted or not
}

// random is a number below n.
func (o *oracle) random(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rnd.IntN(n)
}

// stored is how many ids were acknowledged. Of those in doubt few are stored.
func (o *oracle) stored() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.acked)
}

// batch makes a request: new ids, and now and then old ones again.
func (o *oracle) batch() (ids []string, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range 1 + o.rnd.IntN(12) {
		o.issued++
		ids = append(ids, fmt.Sprintf("e%06d", o.issued))
	}
	if n := len(o.unknown); n > 0 && o.rnd.IntN(2) == 0 {
		i := o.rnd.IntN(n)
		ids = append(ids, o.unknown[i])
	}
	if o.rnd.IntN(4) == 0 {
		for id := range o.acked {
			ids = append(ids, id)
			break
		}
	}
	var b bytes.Buffer
	for _, id := range ids {
		fmt.Fprintf(&b, `{"id":%q,"service":"crash","type":"t","attributes":{"uid":%q}}`+"\n", id, id)
	}
	return ids, b.Bytes()
}

func (o *oracle) record(ids []string, acked bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		switch {
		case acked:
			o.acked[id] = true
		case !o.acked[id]:
			o.unknown = append(o.unknown, id)
		}
	}
}

// load sends until the victim is gone.
func (o *oracle) load(p *process, client *http.Client) {
	for {
		select {
		case <-p.done:
			return
		default:
		}
		ids, body := o.batch()
		res, err := client.Post(p.base+"/api/v1/events", "application/x-ndjson", bytes.NewReader(body))
		if err != nil {
			o.record(ids, false)
			continue
		}
		var answer struct{ Received, Accepted, Duplicates int }
		err = json.NewDecoder(res.Body).Decode(&answer)
		res.Body.Close()
		// The status alone is the promise; a cut-off answer promises nothing.
		o.record(ids, res.StatusCode == http.StatusAccepted && err == nil && answer.Accepted+answer.Duplicates == len(ids))
	}
}

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

// crashIDs bounds the acknowledged ids of one round: each of them is a group, and those beyond
// max_groups could not be looked up.
const crashIDs = 95_000

// crashPlaces are all the places at which a build with the tag crashpoints can be killed.
var crashPlaces = []engine.CrashPoint{
	engine.CrashBeforeAppend, engine.CrashAfterAppend, engine.CrashAfterAck, engine.CrashBeforeApply,
	engine.CrashBeforeCheckpoint, engine.CrashAfterDeadLetters, engine.CrashAfterPack, engine.CrashAfterIDs, engine.CrashAfterManifest,
	engine.CrashBeforeTruncate, engine.CrashAfterTruncate, engine.CrashBeforeStop, engine.CrashAfterStop, engine.CrashBeforeStartRecords,
}

func checkCrashes(t *testing.T, cycles int) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	o := &oracle{rnd: rand.New(rand.NewPCG(seed, 1)), acked: map[string]bool{}}
	client := &http.Client{Timeout: 10 * time.Second}
	dir := t.TempDir()
	specFile := writeFile(t, dir, "spec.yaml", crashSpec)
	program := buildWithCrashPoints(t)
	args := serveArgs(t, dir, specFile, crashSettings)

	killed := map[string]int{}
	for cycle := range cycles {
		if o.stored() > crashIDs {
			break
		}
		place, env := "random", []string(nil)
		if cycle%3 != 2 {
			place = string(crashPlaces[(cycle-cycle/3)%len(crashPlaces)])
			passing := 1 + o.random(4)
			if strings.HasPrefix(place, "start.") || strings.HasPrefix(place, "stop.") {
				passing = 1 // a process passes there once
			}
			env = []string{fmt.Sprintf("SLOENGINE_CRASH=%s:%d", place, passing)}
		}
		p, listens := startCommand(t, exec.Command(program, args...), env...)
		if !listens || !p.waitReady(t) {
			requireKilled(t, p)
			killed[place]++
			continue
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { o.load(p, client) })
		}
		delay := time.Duration(40+o.random(160)) * time.Millisecond
		switch {
		case strings.HasPrefix(place, "stop."):
			time.Sleep(delay)
			_ = p.cmd.Process.Signal(os.Interrupt)
		case place == "random":
			time.Sleep(delay)
			p.kill()
		}
		select {
		case <-p.done:
			killed[place]++
		case <-time.After(3 * time.Second):
			p.kill() // the place was not passed often enough
		}
		requireKilled(t, p)
		wg.Wait()
	}
	for _, place := range crashPlaces {
		if !testing.Short() {
			require.Positive(t, killed[string(place)], "no kill at %s; kills: %v", place, killed)
		}
	}

	p, ok := serveIn(t, dir, specFile, crashSettings)
	require.True(t, ok, p.log.String())
	p.waitReady(t)
	counts := countsByID(t, p)
	lost, twice, invented := 0, 0, 0
	for id := range o.acked {
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
	for _, id := range o.unknown {
		inDoubt[id] = true
	}
	for id, n := range counts {
		switch {
		case !o.acked[id] && !inDoubt[id]:
			invented++
			t.Errorf("%s is counted and was never sent", id)
		case n > 1 && !o.acked[id]:
			twice++
			t.Errorf("%s was not acknowledged and is counted %v times", id, n)
		}
	}
	p.stop(t)
	t.Logf("kills %v; acknowledged %d, in doubt %d, counted %d; lost %d, twice %d, invented %d",
		killed, len(o.acked), len(inDoubt), len(counts), lost, twice, invented)
}

// requireKilled fails if the engine ended in any other way than by a kill or an
// orderly stop: a start that was refused is a failure of the engine.
func requireKilled(t *testing.T, p *process) {
	t.Helper()
	<-p.done
	st := p.cmd.ProcessState
	if st.ExitCode() != 0 && st.String() != "signal: killed" {
		t.Fatalf("ended with %s:\n%s", st, p.log)
	}
}

// countsByID reads the counter of every group, once a report holds them all. The
// first report and a scrape of up to 95,000 groups take a busy machine a while.
func countsByID(t *testing.T, p *process) map[string]float64 {
	t.Helper()
	var out map[string]float64
	require.Eventually(t, func() bool {
		family := scrape(t, p)["slo_events_total"]
		if family == nil {
			return false
		}
		out = map[string]float64{}
		for _, m := range family.Metric {
			for _, l := range m.Label {
				if l.GetName() == "uid" && m.Counter.GetValue() > 0 {
					out[l.GetValue()] += m.Counter.GetValue()
				}
			}
		}
		return len(out) > 0
	}, 2*time.Minute, 200*time.Millisecond, p.log.String())
	return out
}

func scrape(t testing.TB, p *process) map[string]*dto.MetricFamily {
	t.Helper()
	res, err := http.Get(p.base + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	require.NoError(t, err)
	return families
}

// TestSecondEngineIsRefused starts two engines on one folder.
func TestSecondEngineIsRefused(t *testing.T) {
	dir := t.TempDir()
	specFile := writeFile(t, dir, "spec.yaml", crashSpec)
	first, ok := serveIn(t, dir, specFile, crashSettings)
	require.True(t, ok, first.log.String())
	first.waitReady(t)
	second, _ := serveIn(t, dir, specFile, crashSettings)
	select {
	case <-second.done:
	case <-time.After(10 * time.Second):
		t.Fatal("the second engine runs")
	}
	require.Equal(t, 1, second.cmd.ProcessState.ExitCode())
	require.Contains(t, second.log.String(), filepath.Join(dir, "data"))
	first.stop(t)
}
