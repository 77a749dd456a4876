package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq/dlqtest"
)

// Two engines share their dead letters in Redis: none takes the place of another, though
// both logs have the same places, and two schedules at the same second bring each back
// once.
func TestDeadLettersSharedInRedis(t *testing.T) {
	t.Parallel()
	redis := dlqtest.Redis(t).Addr
	sink := e2etest.NewReceiver(t)
	sink.Mode.Store(e2etest.Rejects)
	var engines []*e2etest.Process
	for range 2 {
		dir := t.TempDir()
		p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", scenarioSpec), fmt.Sprintf(`evaluator: `+
			`{interval: 200ms}
redis: {address: %q}
limits:
  global: off
  default: off
  types: [{match: payment.paid, limit: 1, window: 1h, on_exceeded: drop}]
dead_letters: {storage: redis, filter: {always_save: ["payment.*"]}, replay: {schedule: "* * * * * *", rate: 1000,
    stop_after: 1000}}
sinks: [{name: hook, http: {url: "http://%s/in"}, batch: {wait: 10ms}}]
`, redis, sink.Address))
		engines = append(engines, p)
	}
	const each = 100
	for n, p := range engines {
		sum := sendAt(t, p, "shop", 1000, 100*time.Millisecond, func(i int) (string, string) {
			return fmt.Sprintf("e%d-%d", n, i), "payment.paid"
		})
		require.Equal(t, each, sum.Accepted+sum.DeadLettered)
	}
	// Whatever was let in at once is refused by the sink; the rest comes back, counts, and is
	// refused by the sink too: all are dead letters of the sink in the end, and each counts.
	total := func() int {
		return e2etest.Counted(t, engines[0], "payments") + e2etest.Counted(t, engines[1], "payments")
	}
	require.Eventually(t, func() bool {
		return total() == 2*each && e2etest.DeadLetterCount(t, engines[0]) == 2*each
	}, testkit.Patience, 200*time.Millisecond,
		"%d counted, %d dead letters\n%s", total(), e2etest.DeadLetterCount(t, engines[0]), engines[0].Log)
	sink.Mode.Store(e2etest.Takes)
	require.Eventually(t, func() bool {
		return e2etest.DeadLetterCount(t, engines[1]) == 0
	}, testkit.Patience, 200*time.Millisecond, engines[1].Log.String())
	require.Equal(t, 2*each, sink.Has())
	sink.Mu.Lock()
	for id, n := range sink.Got {
		require.Equal(t, 1, n, id)
	}
	sink.Mu.Unlock()
	require.Equal(t, 2*each, total())
	for _, p := range engines {
		p.Stop(t)
	}
}

// The breaker of a shared sink opens in both engines, although only one of them calls the receiver, and both deliver
// again once it works.
func TestSharedSink(t *testing.T) {
	t.Parallel()
	redis := dlqtest.Redis(t).Addr
	sink := e2etest.NewReceiver(t)
	sink.Mode.Store(e2etest.Refuses)
	var engines []*e2etest.Process
	for range 2 {
		dir := t.TempDir()
		p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", scenarioSpec), fmt.Sprintf(`redis: {address: %q}
sinks:
  - name: hook
    http: {url: "http://%s/in", health_url: "http://%s/health"}
    batch: {wait: 10ms}
    retry: {max_retries: unlimited, base: 10ms, cap: 100ms, budget: {min_per_second: 100}}
    breaker: {consecutive: {failures: 3, open: 1m}, health_interval: 200ms}
    shared: true
`, redis, sink.Address, sink.Address))
		engines = append(engines, p)
	}
	state := func(p *e2etest.Process) float64 {
		return e2etest.Sum(e2etest.Scrape(t, p)["sloengine_breaker_state"], "breaker", "hook")
	}
	require.Zero(t, state(engines[1]))
	sendAt(t, engines[0], "shop", 100, 100*time.Millisecond, func(i int) (string, string) {
		return fmt.Sprint("a", i), "payment.paid"
	})
	for _, p := range engines {
		require.Eventually(t, func() bool { return state(p) == 2 }, testkit.Patience, 50*time.Millisecond, p.Log)
	}
	require.Contains(t, engines[1].Log.String(), "another engine: 3 failures in a row")
	sink.Mode.Store(e2etest.Takes)
	sum := sendAt(t, engines[1], "shop", 100, 100*time.Millisecond, func(i int) (string, string) {
		return fmt.Sprint("b", i), "payment.paid"
	})
	require.Equal(t, 10, sum.Accepted)
	require.Eventually(t, func() bool { return sink.Has() == 20 },
		testkit.Patience, 50*time.Millisecond, engines[1].Log)
	for _, p := range engines {
		require.Eventually(t, func() bool { return state(p) == 0 }, testkit.Patience, 50*time.Millisecond)
		p.Stop(t)
	}
}
