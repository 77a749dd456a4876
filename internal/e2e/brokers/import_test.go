package brokers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const requestsSpec = `
  - name: requests
    objective: 99
    window: 40d
    group_by: [route]
    indicator:
      prometheus: {total: 'http_requests_total{job="web"}', bad: 'http_requests_total{job="web",code=~"5.."}'}
`

// TestImportInAnyOrder: the past of a real Prometheus and what happens meanwhile are counted once, whichever begins
// first and whatever is killed, and so are events that are sent and sent again beside.
func TestImportInAnyOrder(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	days, kills := 6, 6
	if os.Getenv("SLOENGINE_SOAK") != "" {
		days, kills = 30, 20
	}
	for _, tt := range []struct {
		name      string
		liveFirst bool
		history   string // of the engine, which reads the past itself
		byCommand bool
	}{
		{name: "import, then the present", byCommand: true},
		{name: "the present, then import", liveFirst: true, byCommand: true},
		{name: "the present, then history", liveFirst: true, history: fmt.Sprintf(", history: %dd", days+1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			good, bad := madeHistory(t, dir, days)
			const okay, failed = `route="/cart",type="web",code="200"`, `route="/cart",type="web",code="500"`
			web := &requests{counts: map[string]int{okay: 1_000_000, failed: 1000}}
			target := httptest.NewServer(web)
			defer target.Close()
			address := "http://" + startPrometheus(t, dir, target.URL)
			testkit.Eventually(t, "what is already counted has a sample", func() bool {
				answer := e2etest.Get(t, address+"/api/v1/query?query=http_requests_total%3E999999")
				return bytes.Contains(answer, []byte(`"1000000"`))
			})
			spec := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec+requestsSpec)
			settings := func(history string) string {
				return e2etest.CrashSettings + fmt.Sprintf("sources:\n  - name: metrics\n    prometheus: {url: %q, "+
					"interval: 1s%s}\n", address, history)
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			o := &e2etest.Oracle{Rnd: rand.New(rand.NewPCG(seed, 1)), Acked: map[string]bool{}}
			client := &http.Client{Timeout: 10 * time.Second}
			// live has the engine count and be killed while requests happen and events are sent.
			live := func(history string, kills int) {
				for i := range kills {
					p := e2etest.Serve(t, dir, spec, settings(history))
					sent := make(chan struct{})
					go func() {
						o.LoadPaced(p, client)
						close(sent)
					}()
					web.add(okay, 100)
					web.add(failed, 7)
					good, bad = good+100, bad+7
					testkit.Pause(time.Duration(200+o.Random(1500)) * time.Millisecond)
					if i == kills-1 {
						p.Stop(t)
					} else {
						p.Kill()
					}
					<-sent
				}
			}
			if tt.liveFirst {
				p := e2etest.Serve(t, dir, spec, settings(""))
				testkit.Eventually(t, "counting has begun", func() bool {
					return e2etest.Counter(t, p, "sloengine_source_messages_total") > 1
				})
				p.Stop(t)
				live("", 3)
			}
			if tt.byCommand {
				args := []string{"import", "prometheus", "--url", address, "-f", spec, "--data-dir",
					filepath.Join(dir, "data"), "--from", fmt.Sprintf("%dd", days+1)}
				ended := 0
				for range kills {
					cmd := exec.Command(e2etest.Program(), args...)
					require.NoError(t, cmd.Start())
					timer := time.AfterFunc(time.Duration(100+o.Random(900))*time.Millisecond, func() {
						_ = cmd.Process.Kill() // it may have ended already
					})
					if err := cmd.Wait(); err == nil {
						ended++
					}
					timer.Stop()
				}
				t.Logf("%d of %d imports came to their end", ended, kills)
				for range 2 {
					out, errOut, code := e2etest.Command(t, args...)
					require.Zero(t, code, "%s%s", out, errOut)
					require.Contains(t, out, "crash/requests")
				}
			}
			live(tt.history, kills-2)
			p := e2etest.Serve(t, dir, spec, settings(tt.history))
			var got [2]int
			t.Cleanup(func() { t.Logf("counted %v of %d and %d", got, good, bad) })
			testkit.Eventually(t, "everything is counted", func() bool {
				got = counted(t, p, "requests")
				return got == [2]int{good, bad}
			})
			testkit.Pause(3 * time.Second)
			require.Equal(t, [2]int{good, bad}, counted(t, p, "requests"))
			counts := e2etest.CountsByID(t, p)
			sent := map[string]bool{}
			for _, id := range o.Unknown {
				sent[id] = true
			}
			for id := range o.Acked {
				sent[id] = true
				require.EqualValues(t, 1, counts[id], id)
			}
			require.NotEmpty(t, o.Acked)
			e2etest.CountedOnce(t, counts, sent)
			p.Stop(t)
		})
	}
}

// madeCounters answers as a Prometheus whose counters of a route have a sample each minute: 10 more requests, and one
// more failure. There is a gap of 20 minutes 100 minutes ago, the process begins again 60 minutes ago, and 30 minutes
// ago 12 requests of 10 fail.
func madeCounters(now time.Time) http.HandlerFunc {
	type sample [2]any
	all, bad := map[int64]int{}, map[int64]int{}
	sums := [2]int{1000, 100}
	for at := -180; at <= 0; at++ {
		if at == -60 {
			sums = [2]int{}
		}
		sums[0] += 10
		if sums[1]++; at == -30 {
			sums[1] += 11
		}
		if at <= -100 || at > -80 {
			when := now.Add(time.Duration(at) * time.Minute).Unix()
			all[when], bad[when] = sums[0], sums[1]
		}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		length, _ := time.ParseDuration(strings.TrimSuffix(query[strings.LastIndexByte(query, '[')+1:], "]"))
		at, _ := strconv.ParseFloat(r.FormValue("time"), 64)
		sums := all
		if strings.HasPrefix(query, "bad") {
			sums = bad
		}
		values := []sample{}
		for _, when := range slices.Sorted(maps.Keys(sums)) {
			if float64(when) <= at && float64(when) > at-length.Seconds() {
				values = append(values, sample{when, strconv.Itoa(sums[when])})
			}
		}
		result := []any{}
		if len(values) > 0 {
			result = append(result, map[string]any{"values": values,
				"metric": map[string]string{"__name__": query[:9], "instance": "a", "route": "/cart"}})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success",
			"data": map[string]any{"resultType": "matrix", "result": result}})
	}
}

// The report of an import says what the scrape interval makes uncertain, and where bad events are more than all.
func TestImportReports(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Minute)
	server := httptest.NewServer(madeCounters(now))
	defer server.Close()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", `version: sloengine/v1
service: shop
slos:
  - name: availability
    objective: 99
    window: 30d
    group_by: [route]
    indicator:
      prometheus: {total: all_total, bad: bad_total}
`)
	args := []string{"import", "prometheus", "--url", server.URL, "-f", spec, "--data-dir", filepath.Join(dir, "data"),
		"--from", "1d"}
	_, errOut, code := e2etest.Command(t, append(slices.Clone(args), "--data-dir", filepath.Join(dir, "few"),
		"--max-samples", "10")...)
	require.Equal(t, 1, code)
	require.Contains(t, errOut, "raise --max-samples or --max-series and run it again")
	out, errOut, code := e2etest.Command(t, append(slices.Clone(args), "-o", "json")...)
	require.Equal(t, 3, code, errOut)
	var report struct {
		Items []struct {
			Gaps     int       `json:"gaps"`
			InGaps   int       `json:"in_gaps"`
			Resets   int       `json:"resets"`
			Cut      int       `json:"cut"`
			CutAt    time.Time `json:"cut_at"`
			CutGroup string    `json:"cut_group"`
		} `json:"items"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report), out)
	require.Len(t, report.Items, 1, out)
	one := report.Items[0]
	require.Equal(t, []any{2, 21*10 + 21, 2, 2, "route=/cart"},
		[]any{one.Gaps, one.InGaps, one.Resets, one.Cut, one.CutGroup})
	require.WithinDuration(t, now.Add(-30*time.Minute), one.CutAt, time.Minute)
	for _, wrong := range [][]string{{"-c", spec}, {"--source", "a b"}} {
		_, errOut, code := e2etest.Command(t, append(slices.Clone(args), wrong...)...)
		require.Equal(t, 2, code, errOut)
	}
	_, errOut, code = e2etest.Command(t, "import", "prometheus", "--url", "nowhere", "-f", spec, "--data-dir", dir)
	require.Equal(t, 2, code)
	require.Contains(t, errOut, "invalid --url")
}
