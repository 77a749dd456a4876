package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/stretchr/testify/require"
)

// TestKilledWhileItErases kills the engine at each step of an erasure from the history. A start continues it, all
// records are there, and events and export count what they counted.
func TestKilledWhileItErases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", strings.ReplaceAll(e2etest.CrashSpec, "[uid]", "[none]"))
	settings := e2etest.CrashSettings[:strings.Index(e2etest.CrashSettings, "log: {seg")] +
		"log: {segment: 1MiB, retain: 1d}\ndisk: {low_water: 1MiB}\n"
	p := e2etest.Serve(t, dir, specFile, settings)
	sent := 0
	send := func() {
		var body strings.Builder
		for range 1000 {
			customer, outcome := "Yak-7", "success"
			if sent++; sent%50 == 0 {
				customer = "Zebra-42"
			}
			if sent%75 == 0 {
				outcome = "failure"
			}
			fmt.Fprintf(&body, `{"service":"crash","type":"t","id":"%d","outcome":%q,"attributes":{"customer":%q,`+
				`"pad":"%0200d"}}`+
				"\n", sent, outcome, customer, sent)
		}
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", body.String())
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	require.Eventually(t, func() bool {
		send()
		files, _ := filepath.Glob(filepath.Join(data, engine.HistoryDir, "*.hist"))
		return len(files) > 3
	}, testkit.Patience, 100*time.Millisecond)
	// exported are all events without what an erasure changes, and how many have the value and a token.
	exported := func() (events []string, value, tokens int) {
		out, errs, code := e2etest.Command(t, "export", "--data-dir", data)
		require.Zero(t, code, errs)
		for line := range strings.Lines(out) {
			var e map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			if e["service"] != "crash" {
				continue
			}
			attributes := e["attributes"].(map[string]any)
			customer := attributes["customer"].(string)
			switch {
			case customer == "Zebra-42":
				value++
				delete(e, "id")
			case strings.HasPrefix(customer, "erased-"):
				tokens++
				require.True(t, strings.HasPrefix(e["id"].(string), customer))
				delete(e, "id")
			}
			if customer != "Yak-7" {
				delete(attributes, "customer")
			}
			rest, err := json.Marshal(e)
			require.NoError(t, err)
			events = append(events, string(rest))
		}
		return events, value, tokens
	}
	before, values, _ := exported()
	require.Len(t, before, sent)
	counted := func() (bad, good float64) {
		var found struct{ Comparison struct{ Bad, Good float64 } }
		require.Eventually(t, func() bool { // once the SLO was evaluated
			out, _, code := e2etest.Command(t, "events", "--url", p.Base, "--slo", "crash/each", "--last", "1h", "--why", "-o",
				"json")
			return code == 0 && json.Unmarshal([]byte(out), &found) == nil
		}, testkit.Patience, 100*time.Millisecond)
		require.EqualValues(t, sent/75, found.Comparison.Bad)
		return found.Comparison.Bad, found.Comparison.Good
	}
	bad, good := counted()
	p.Stop(t)

	args := e2etest.ServeArgs(t, dir, specFile, settings)
	for _, place := range []engine.CrashPoint{engine.CrashErasing, engine.CrashErasureNoted, engine.CrashErased,
		engine.CrashErasureNoted, engine.CrashErased} {
		p, listens := e2etest.StartCommand(t, exec.Command(e2etest.Program("crashpoints"), args...),
			fmt.Sprintf("SLOENGINE_CRASH=%s:1", place))
		if listens && p.WaitReady(t) {
			res, err := http.Post(p.Base+"/api/v1/erase", "application/json",
				strings.NewReader(`{"attribute":"customer","value":"Zebra-42"}`))
			if err == nil {
				res.Body.Close()
			}
		}
		<-p.Done
		e2etest.RequireKilled(t, p)
		requireHistory(t, data)
		after, value, tokens := exported()
		require.Equal(t, before, after, place)
		require.Equal(t, values, value+tokens)
	}
	_, value, tokens := exported()
	require.Positive(t, value)
	require.Positive(t, tokens)

	p = e2etest.Serve(t, dir, specFile, settings)
	require.Eventually(t, func() bool {
		out, errs, code := e2etest.Command(t, "forget", "--url", p.Base, "--attribute", "customer=Zebra-42")
		require.Zero(t, code, errs)
		require.Contains(t, out, "of the history")
		return !strings.Contains(out, "repeat the command")
	}, testkit.Patience, time.Second, p.Log)
	badAfter, goodAfter := counted()
	require.Equal(t, []float64{bad, good}, []float64{badAfter, goodAfter})
	p.Stop(t)
	after, value, tokens := exported()
	require.Equal(t, before, after)
	require.Zero(t, value, "also of what was in the log")
	require.Equal(t, values, tokens)
	for _, name := range []string{"*/erasures", "*/erasing", "*/*.hist", "wal/*", "checkpoints/*"} {
		files, err := filepath.Glob(filepath.Join(data, name))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NotContains(t, string(text), "Zebra-42", file)
		}
	}
	chain, err := os.ReadFile(filepath.Join(data, engine.HistoryDir, retained.ChainName))
	require.NoError(t, err)
	require.Contains(t, string(chain), `"attribute":"customer"`)
}
