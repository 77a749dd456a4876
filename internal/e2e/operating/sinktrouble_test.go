package operating

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const troubleSpec = `version: sloengine/v1
service: shop
slos:
  - {name: checkout, objective: 99.9, indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}}
`

// troublePolicies are quick, so that a sink that is well again shows soon.
const troublePolicies = `retry: {base: 10ms, cap: 100ms, rate_limit: {limit: 100000}, budget: {min_per_second: 100},
    staged: off}
breaker: {consecutive: {open: 200ms}, rate: {open: 200ms}, health_interval: 100ms}
evaluator: {interval: 100ms}
disk: {low_water: 1MiB}
`

func sendOrders(t *testing.T, p *e2etest.Process, prefix string, n int) {
	t.Helper()
	var body strings.Builder
	for i := range n {
		fmt.Fprintf(&body, `{"id":"%s%d","service":"shop","type":"order"}`+"\n", prefix, i)
	}
	status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", body.String())
	require.Equal(t, 202, status, answer)
}

// degraded are the reasons that readiness gives for a part.
func degraded(t *testing.T, p *e2etest.Process, part string) string {
	t.Helper()
	var h struct {
		Degraded []struct{ Part, Name, Reason string }
	}
	require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/-/ready"), &h))
	var all []string
	for _, d := range h.Degraded {
		if d.Part == part {
			all = append(all, d.Name+": "+d.Reason)
		}
	}
	return strings.Join(all, "\n")
}

// A sink that turns everything down, because of its address, its credentials or a size
// limit, shows: one line when it begins and one when it ends, readiness, page, metrics.
// Where no event is at fault, none becomes a dead letter.
func TestASinkThatTurnsEverythingDownShows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		dead   bool
		cause  string
	}{
		"401":      {401, false, "the receiver returned 401 Unauthorized"},
		"404":      {404, false, "the receiver returned 404 Not Found"},
		"redirect": {302, false, "the receiver returned 302 Found: redirects are not followed"},
		"413":      {413, true, "the receiver returned 413 Request Entity Too Large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var status, got atomic.Int64
			status.Store(int64(c.status))
			hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var events []json.RawMessage
				_ = json.NewDecoder(r.Body).Decode(&events)
				if s := int(status.Load()); s != 200 {
					w.Header().Set("Location", "https://login.example.org/?secret=hush")
					w.WriteHeader(s)
					_, _ = io.WriteString(w, "hush")
					return
				}
				got.Add(int64(len(events)))
			}))
			defer hook.Close()
			dir := t.TempDir()
			spec := e2etest.WriteFile(t, dir, "spec.yaml", troubleSpec)
			p := e2etest.Serve(t, dir, spec, troublePolicies+fmt.Sprintf("sinks: [{name: hook, http: {url: %q}}]\n", hook.URL))
			require.Empty(t, degraded(t, p, "sink"))
			sendOrders(t, p, "e", 1000)
			require.Eventually(t, func() bool {
				return len(p.LinesWith("sink failing")) == 1
			}, testkit.Patience, 50*time.Millisecond)
			require.Contains(t, p.LinesWith("sink failing")[0], c.cause)
			require.Contains(t, degraded(t, p, "sink"), "hook: delivery fails since ")
			require.Contains(t, degraded(t, p, "sink"), fmt.Sprintf(": %d ", c.status))
			require.NotContains(t, degraded(t, p, "sink"), "hush")
			require.Contains(t, string(e2etest.Get(t, p.Base+"/engine")), strings.SplitN(c.cause, ":", 2)[0])
			require.Positive(t, e2etest.Counter(t, p, "sloengine_sink_failing"))
			if c.dead {
				require.Eventually(t, func() bool {
					return e2etest.Counter(t, p, "sloengine_dlq_entries") == 1000
				}, testkit.Patience, 50*time.Millisecond)
				require.Contains(t, p.LinesWith("events became dead letters")[0], c.cause)
			} else {
				testkit.Pause(3 * time.Second) // far beyond what the retries of a batch take
				require.Zero(t, e2etest.Counter(t, p, "sloengine_dlq_entries"))
				require.Contains(t, p.LinesWith("to=open")[0], c.cause, "the breaker names the cause")
			}
			status.Store(200)
			sendOrders(t, p, "f", 100)
			want := int64(1100)
			if c.dead {
				want = 100
			}
			require.Eventually(t, func() bool { return got.Load() == want }, testkit.Patience, 50*time.Millisecond)
			require.Eventually(t, func() bool {
				return len(p.LinesWith("sink recovered")) == 1
			}, testkit.Patience, 50*time.Millisecond)
			require.Eventually(t, func() bool { return degraded(t, p, "sink") == "" },
				testkit.Patience, 50*time.Millisecond)
			require.Len(t, p.LinesWith("sink failing"), 1)
			metrics := string(e2etest.Get(t, p.Base+"/metrics"))
			require.Contains(t, metrics, fmt.Sprintf(`sloengine_sink_answers_total{sink="hook",code="%d"}`, c.status))
			require.Contains(t, metrics, `sloengine_sink_answers_total{sink="hook",code="200"}`)
			p.Stop(t)
		})
	}
}

// The folder of a file sink goes: nothing counts as delivered, the engine says so with and
// without traffic, and goes on by itself once the folder is there again. So it does when
// the folder cannot be made at the start.
func TestTheFolderOfAFileSinkGoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", troubleSpec)
	archive := filepath.Join(dir, "archive")
	lines := func() int {
		data, err := os.ReadFile(filepath.Join(archive, "events.ndjson"))
		if err != nil {
			return -1
		}
		return strings.Count(string(data), "\n")
	}
	require.NoError(t, os.WriteFile(archive, nil, 0o600), "a file where the folder should be")
	p := e2etest.Serve(t, dir, spec, troublePolicies+"sinks: [{name: archive, file: {dir: archive}}]\n")
	require.Eventually(t, func() bool {
		return strings.Contains(degraded(t, p, "sink"), "not a directory")
	}, testkit.Patience, 50*time.Millisecond)
	require.Eventually(t, func() bool {
		return len(p.LinesWith("sink failing")) == 1
	}, testkit.Patience, 50*time.Millisecond)
	sendOrders(t, p, "a", 10)
	require.NoError(t, os.Remove(archive))
	require.Eventually(t, func() bool { return lines() == 10 }, testkit.Patience, 50*time.Millisecond)
	require.Eventually(t, func() bool { return degraded(t, p, "sink") == "" }, testkit.Patience, 50*time.Millisecond)

	testkit.Pause(1500 * time.Millisecond) // the lines are durable and the cursor is saved: they are not sent again
	require.NoError(t, os.RemoveAll(archive))
	require.Eventually(t, func() bool {
		return strings.Contains(degraded(t, p, "sink"), "no such file or directory")
	}, testkit.Patience, 50*time.Millisecond)
	sendOrders(t, p, "b", 10)
	testkit.Pause(2 * time.Second)
	require.NoDirExists(t, archive)
	require.Zero(t, e2etest.Counter(t, p, "sloengine_dlq_entries"))
	require.NoError(t, os.Mkdir(archive, 0o700))
	require.Eventually(t, func() bool { return lines() == 10 }, testkit.Patience, 50*time.Millisecond, "%s", p.Log)
	require.Eventually(t, func() bool { return degraded(t, p, "sink") == "" }, testkit.Patience, 50*time.Millisecond)
	require.Eventually(t, func() bool {
		return len(p.LinesWith("sink recovered")) > 0
	}, testkit.Patience, 50*time.Millisecond)
	p.Stop(t)
}
