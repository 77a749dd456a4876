package operating

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const limitSpec = `version: sloengine/v1
service: shop
slos:
  - name: checkout
    objective: 99
    window: 1d
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
`

// orders sends n orders in one request and says what became of them.
func orders(t *testing.T, p *e2etest.Process, token string, n int,
	attributes string) (a struct{ Accepted, Limited, Sampled, Duplicates int }) {
	t.Helper()
	var body strings.Builder
	for range n {
		fmt.Fprintf(&body, `{"service":"shop","type":"order","attributes":{%s}}`+"\n", attributes)
	}
	status, answer := e2etest.Post(t, p.Base+"/api/v1/events", token, body.String())
	require.Contains(t, []int{202, 429}, status, answer)
	require.NoError(t, json.Unmarshal([]byte(answer), &a))
	if status == http.StatusTooManyRequests {
		a.Limited = n
	}
	return a
}

// Limits come, change and go by reloads, with what is over them.
func TestLimitsChangeByReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", limitSpec)
	p := e2etest.Serve(t, dir, spec, "evaluator: {interval: 1s}\n")
	reload := func(settings string) {
		t.Helper()
		e2etest.WriteFile(t, dir, "engine.yaml", "evaluator: {interval: 1s}\n"+settings)
		status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
		require.Equal(t, 200, status, answer)
	}
	require.Equal(t, 50, orders(t, p, "", 50, "").Accepted, "without limits")
	reload("limits: {global: off, default: {limit: 10, window: 1h, on_exceeded: drop}}\n")
	require.Equal(t, 10, orders(t, p, "", 50, "").Accepted)
	reload("limits: {global: off, default: {limit: 25, window: 1h, on_exceeded: drop}}\n")
	require.Equal(t, 15, orders(t, p, "", 50, "").Accepted, "the counters go on")
	reload("limits: {global: off, default: {limit: 25, window: 1h, on_exceeded: aggregate}, aggregate_window: 0s}\n")
	require.Equal(t, 50, orders(t, p, "", 50, "").Accepted, "merged")
	reload("limits: {global: off, max_contexts: 5000, default: {limit: 25, window: 1h, on_exceeded: drop}}\n")
	require.Equal(t, 25, orders(t, p, "", 50, "").Accepted, "another table begins with its own counters")
	reload("")
	require.Equal(t, 50, orders(t, p, "", 50, "").Accepted, "no limits any more")
	require.NotContains(t, p.Log.String(), "take effect after a restart")
	require.Zero(t, e2etest.Counter(t, p, "sloengine_ratelimit_contexts"), "nothing is left of them")

	// What is shared needs a Redis from the start.
	e2etest.WriteFile(t, dir, "engine.yaml", "redis: {address: \"127.0.0.1:1\"}\nlimits: {shared: {redis: true}}\n")
	status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 422, status, answer)
	require.Contains(t, answer, "restart the engine")
	require.Equal(t, 50, orders(t, p, "", 50, "").Accepted)
}

// bypass_if and extractor are expressions over the event and its request. One that cannot
// be computed for an event changes nothing, and is told.
func TestLimitExpressions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", limitSpec)
	const token = "sender-0123456789abcdef"
	e2etest.WriteFile(t, dir, "tokens.yaml",
		fmt.Sprintf("- {name: all, sha256: %x, services: [\"*\"], allow: [send, read]}\n", sha256.Sum256([]byte(token))))
	p := e2etest.Serve(t, dir, spec, `
auth: {tokens_file: tokens.yaml}
limits:
  global: off
  default: off
  bypass_if: 'event.attributes.vip == "yes" or int(event.attributes.amount ?? "0") > 100'
  contexts:
    - {name: region, extractor: 'lower(trim(event.attributes.region))', limit: 5, window: 1h, on_exceeded: drop}
`)
	require.Equal(t, 5, orders(t, p, token, 20, `"region":"North","amount":1`).Accepted)
	require.Equal(t, 0, orders(t, p, token, 20, `"region":" north ","amount":1`).Accepted, "the same one")
	require.Equal(t, 5, orders(t, p, token, 20, `"region":"south","amount":1`).Accepted)
	require.Equal(t, 20, orders(t, p, token, 20, `"amount":1`).Accepted, "no value, no limit")
	require.Equal(t, 20, orders(t, p, token, 20, `"region":"north","vip":"yes"`).Accepted, "bypassed")
	require.Equal(t, 20, orders(t, p, token, 20, `"region":"north","amount":101`).Accepted, "bypassed")
	require.NotContains(t, p.Log.String(), "expression failed")
	require.Equal(t, 0, orders(t, p, token, 20, `"region":"north","amount":"many"`).Accepted, "not computed, not bypassed")
	require.Eventually(t, func() bool {
		return strings.Contains(p.Log.String(), "setting=limits.bypass_if")
	}, testkit.Patience, 10*time.Millisecond)
	require.Equal(t, 1, strings.Count(p.Log.String(), "expression failed"), "told once")
	require.EqualValues(t, 20, counterAs(t, p, token, "sloengine_ratelimit_expression_errors_total"))
}

// counterAs reads one plain sample from /metrics with a token.
func counterAs(t *testing.T, p *e2etest.Process, token, name string) (value float64) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, p.Base+"/metrics", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			_, err := fmt.Sscan(rest, &value)
			require.NoError(t, err)
			return value
		}
	}
	require.Fail(t, "no "+name)
	return 0
}

// Killed in the middle of a flood that waits to be merged: what was acknowledged counts
// once, and its ids are known.
func TestKillWhileEventsWaitToBeMerged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", limitSpec)
	serve := func() *e2etest.Process {
		return e2etest.Serve(t, dir, spec,
			"evaluator: {interval: 50ms}\nlimits: {global: off, default: {limit: 10, window: 1h, on_exceeded: aggregate}}\n")
	}
	p := serve()
	const senders = 32
	var wait sync.WaitGroup
	var mu sync.Mutex
	var acknowledged []string
	for s := range senders {
		wait.Go(func() {
			for i := 0; ; i++ {
				event := fmt.Sprintf(`{"id":"%d-%d","service":"shop","type":"order"}`, s, i)
				res, err := http.Post(p.Base+"/api/v1/events", "application/json", strings.NewReader(event))
				if err != nil {
					return
				}
				_, err = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if err == nil && res.StatusCode == http.StatusAccepted {
					mu.Lock()
					acknowledged = append(acknowledged, event)
					mu.Unlock()
				}
			}
		})
	}
	testkit.Pause(750 * time.Millisecond) // within a window of 100 ms
	p.Kill()
	wait.Wait()
	require.Greater(t, len(acknowledged), 2*senders)
	p = serve()
	status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", strings.Join(acknowledged, "\n"))
	require.Equal(t, 202, status, answer)
	require.Contains(t, answer, fmt.Sprintf(`"accepted":0,"duplicates":%d,`, len(acknowledged)))
	require.Eventually(t, func() bool {
		counted := int(e2etest.Counter(t, p, "slo_events_total"))
		return counted >= len(acknowledged) && counted <= len(acknowledged)+senders
	}, testkit.Patience, 50*time.Millisecond)
}
