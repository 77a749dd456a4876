package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
)

const logSpec = `version: sloengine/v1
service: site
slos:
  - name: requests
    objective: 99
    window: 30d
    indicator:
      events: {valid: '{type="request"}', bad: '{outcome="failure"}'}
  - name: by-class
    objective: 99
    window: 30d
    group_by: [status_class]
    indicator:
      events: {valid: '{type="request"}', bad: '{outcome="failure"}'}
`

// tally is what a log says, counted without any of the engine's code.
type tally struct {
	total   int
	classes map[string]int
	hours   []int // per hour, from the first to the last
}

var logLine = regexp.MustCompile(`^\S+ \S+ .*? ?\[(\d\d/[^\]]+)\] "(?:[^"\\]|\\.)*" ([1-5]\d\d) (?:\d+|-) "`)

func tallyOf(t *testing.T, file string) tally {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	out := tally{classes: map[string]int{}}
	byHour := map[int64]int{}
	for line := range bytes.Lines(data) {
		m := logLine.FindSubmatch(bytes.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", string(m[1]))
		if err != nil {
			continue
		}
		out.total++
		out.classes[string(m[2][:1])+"xx"]++
		byHour[at.Unix()/3600]++
	}
	var hours []int64
	for h := range byHour {
		hours = append(hours, h)
	}
	sort.Slice(hours, func(i, j int) bool { return hours[i] < hours[j] })
	for h := hours[0]; h <= hours[len(hours)-1]; h++ {
		out.hours = append(out.hours, byHour[h])
	}
	return out
}

// TestAccessLog sends a log while the engine is killed in the middle, sends it
// again, and holds totals, status classes and every hour against an independent
// count of the file. The log of a real site is used where it lies beside the
// project, the sample in the tree always.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	logs := map[string]string{"sample": "../../../testdata/logs/sample-combined.log"}
	if real := "../../../../shared/data/apache_access.log"; fileExists(real) {
		logs["real"] = real
	}
	for name, file := range logs {
		t.Run(name, func(t *testing.T) { testAccessLog(t, file) })
	}
}

func fileExists(name string) bool { _, err := os.Stat(name); return err == nil }

func testAccessLog(t *testing.T, file string) {
	want := tallyOf(t, file)
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", logSpec)
	settings := e2etest.WriteFile(t, dir, "engine.yaml", "evaluator: {interval: 200ms}\ncheckpoint: {interval: 100ms}\n")
	address := nettest.FreeAddress(t)
	serve := func() *e2etest.Process {
		p, ok := e2etest.Start(t, nil, "serve", "-f", spec, "-c", settings, "--data-dir", dir+"/data",
			"--web.listen-address", address)
		require.True(t, ok, p.Log.String())
		return p
	}
	send := func(batch string) *exec.Cmd {
		return exec.Command(e2etest.Program(), "send", "--url", "http://"+address, "--format",
			"combined", "--service", "site",
			"--backfill", "--shift", "--batch", batch, "--concurrency", "1", "-o", "json", file)
	}

	p := serve()
	p.WaitReady(t)
	first := send("20")
	var firstOut bytes.Buffer
	first.Stdout = &firstOut
	require.NoError(t, first.Start())
	// Kill once a part of it is in.
	require.Eventually(t, func() bool { return accepted(t, p) > 0 }, testkit.Patience, time.Millisecond)
	p.Kill()
	p = serve()
	p.WaitReady(t)
	_ = first.Wait() // 3 where the log has broken lines
	require.Contains(t, []int{cli.ExitOK, cli.ExitFindings}, first.ProcessState.ExitCode(), firstOut.String())

	again, err := send("1000").Output()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
		require.Equal(t, cli.ExitFindings, exit.ExitCode())
	}
	var summary struct{ Read, Sent, Accepted, Duplicates int }
	require.NoError(t, json.Unmarshal(again, &summary), string(again))
	require.Equal(t, want.total, summary.Sent)
	require.Equal(t, 0, summary.Accepted, "the second time everything is known")
	require.Equal(t, want.total, summary.Duplicates)

	var got tally
	require.Eventually(t, func() bool {
		got = tally{classes: map[string]int{}}
		for _, s := range e2etest.ListSLOs(t, p).Items {
			switch s.ID {
			case "site/requests":
				got.total = int(s.Budget.Counts.Valid)
			case "site/by-class":
				got.classes[s.Group["status_class"]] = int(s.Budget.Counts.Valid)
			}
		}
		return got.total == want.total
	}, testkit.Patience, 50*time.Millisecond, "counted %d of %d", got.total, want.total)
	got.hours = hourly(t, p, "site/requests")
	require.Equal(t, want, got)
	t.Logf("%d requests, classes %v, %d hours: all as counted in the file, after a kill and a second send", got.total,
		got.classes, len(got.hours))
	p.Stop(t)
}

// accepted is how many events the engine has acknowledged.
func accepted(t *testing.T, p *e2etest.Process) float64 {
	t.Helper()
	for _, m := range e2etest.Scrape(t, p)["sloengine_ingest_events_total"].GetMetric() {
		for _, l := range m.Label {
			if l.GetValue() == "accepted" {
				if m.Counter != nil {
					return m.Counter.GetValue()
				}
				return m.Untyped.GetValue()
			}
		}
	}
	return 0
}

// hourly reads an SLO's history from the first hour with events to the last.
func hourly(t *testing.T, p *e2etest.Process, id string) []int {
	t.Helper()
	to := time.Now().Truncate(time.Hour).Add(time.Hour)
	q := url.Values{"from": {fmt.Sprint(to.Add(-20 * 24 * time.Hour).Unix())},
		"to": {fmt.Sprint(to.Unix())}, "step": {"1h"}}
	res, err := http.Get(p.Base + "/api/v1/slos/" + id + "/history?" + q.Encode())
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	var body struct{ Points []struct{ Good, Bad int } }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&body))
	var out []int
	for _, pt := range body.Points {
		if n := pt.Good + pt.Bad; n > 0 || len(out) > 0 {
			out = append(out, n)
		}
	}
	for len(out) > 0 && out[len(out)-1] == 0 {
		out = out[:len(out)-1]
	}
	return out
}
