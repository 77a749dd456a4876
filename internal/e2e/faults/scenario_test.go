package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const scenarioSpec = `version: sloengine/v1
service: shop
slos:
  - name: payments
    objective: 99
    window: 1d
    indicator:
      events: {valid: '{type=~"payment.*"}', bad: '{outcome="failure"}'}
  - name: all
    objective: 99
    window: 1d
    indicator:
      events: {valid: '{type=~".+"}', bad: '{outcome="failure"}'}
`

// row prints a line of the table that the scenarios make together.
func row(t *testing.T, name string, in, counted, delivered, dead, lost int, more string) {
	t.Helper()
	t.Logf("| %s | in %d | counted %d | delivered %d | dead-lettered %d | lost %d | %s |", name, in, counted,
		delivered, dead, lost, more)
}

// A sink is down for ten seconds while a hundred events a second come in. When it is
// back it gets them all, and never more in a second than it can handle: no wave of retries
// knocks it over again.
func TestScenarioSinkIsDownForTenSeconds(t *testing.T) {
	t.Parallel()
	const bears = 200 // events a second
	sink := e2etest.NewReceiver(t)
	dir := t.TempDir()
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", scenarioSpec),
		fmt.Sprintf(`evaluator: {interval: 200ms}
breaker: {consecutive: {open: 5s}, health_interval: 500ms}
sinks:
  - name: hook
    http: {url: "http://%s/in", health_url: "http://%s/health"}
    batch: {items: 50, wait: 50ms}
    retry: {max_retries: unlimited, rate_limit: {limit: 100}}
    rate_limit: {limit: 180, unit: events}
`, sink.Address, sink.Address))
	go func() {
		testkit.Pause(3 * time.Second)
		sink.Down()
		testkit.Pause(10 * time.Second)
		sink.Up(t)
	}()
	sum := sendAt(t, p, "shop", 100, 15*time.Second, func(i int) (string, string) {
		return fmt.Sprint("p", i), "payment.paid"
	})
	require.Equal(t, 1500, sum.Accepted)
	back := time.Now()
	require.Eventually(t, func() bool {
		return sink.Has() == 1500
	}, testkit.Patience, 100*time.Millisecond, "%d arrived\n%s", sink.Has(), p.Log)
	require.Eventually(t, func() bool {
		return e2etest.Counted(t, p, "payments") == 1500
	}, testkit.Patience, 100*time.Millisecond)
	require.LessOrEqual(t, sink.Peak(), bears)
	require.Zero(t, e2etest.DeadLetterCount(t, p))
	row(t, "sink down 10 s at 100/s", 1500, e2etest.Counted(t, p, "payments"), sink.Has(), 0, 1500-sink.Has(),
		fmt.Sprintf("peak %d/s of %d, caught up %.1f s after the last event", sink.Peak(), bears, time.Since(back).Seconds()))
	p.Stop(t)
}

// 1500 payments a second come in where 1000 are let through. What is too much becomes
// dead letters, since the filter asks for payments; replayed, each counts once.
func TestScenarioPaymentsOverTheLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", scenarioSpec), `evaluator: {interval: 200ms}
limits:
  global: {limit: 1000, window: 1s, on_exceeded: drop}
  default: off
dead_letters: {filter: {always_save: ["payment.*"]}, replay: {rate: 5000}}
`)
	const in = 4500
	sum := sendAt(t, p, "shop", 1500, 3*time.Second, func(i int) (string, string) {
		return fmt.Sprint("p", i), "payment.paid"
	})
	require.Equal(t, in, sum.Accepted+sum.DeadLettered)
	require.InDelta(t, 3200, sum.Accepted, 1000, "the limit holds")
	require.Positive(t, sum.DeadLettered)
	require.Equal(t, sum.DeadLettered, e2etest.DeadLetterCount(t, p))
	// Their senders send some of them again meanwhile: then it is those that count.
	again := sendAt(t, p, "shop", 500, time.Second, func(i int) (string, string) {
		return fmt.Sprint("p", in-1-i), "payment.paid"
	})
	require.Equal(t, 500, again.Accepted+again.Duplicates+again.DeadLettered)
	e2etest.ReplayAll(t, p)
	require.Eventually(t, func() bool {
		return e2etest.Counted(t, p, "payments") == in
	}, testkit.Patience, 100*time.Millisecond)
	e2etest.Reports(t, p, 3)
	row(t, "1500 payments/s against 1000/s", in, e2etest.Counted(t, p, "payments"), 0, sum.DeadLettered,
		in-e2etest.Counted(t, p, "payments"),
		fmt.Sprintf("let in at once %d, replayed the rest", sum.Accepted))
	require.Equal(t, in, e2etest.Counted(t, p, "payments"))
	p.Stop(t)
}

// A flood of 5000 events a second, 1000 of them payments: all payments count in the end,
// and what was dropped of the rest is recorded and lowers coverage.
func TestScenarioFloodWithPaymentsInIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", scenarioSpec), `evaluator: {interval: 200ms}
limits:
  global: {limit: 1000, window: 1s, on_exceeded: drop}
  default: off
dead_letters: {filter: {always_save: ["payment.*"]}, replay: {rate: 5000}}
`)
	const in, payments = 10_000, 2000
	sum := sendAt(t, p, "shop", 5000, 2*time.Second, func(i int) (string, string) {
		if i%5 == 0 {
			return fmt.Sprint("p", i), "payment.paid"
		}
		return fmt.Sprint("j", i), "junk"
	})
	require.Equal(t, in, sum.Accepted+sum.DeadLettered+sum.Limited)
	require.Greater(t, sum.Limited, in/2, "junk is dropped")
	e2etest.ReplayAll(t, p)
	require.Eventually(t, func() bool {
		return e2etest.Counted(t, p, "payments") == payments
	}, testkit.Patience, 100*time.Millisecond)
	require.Equal(t, sum.Accepted+sum.DeadLettered, e2etest.Counted(t, p, "all"))
	var list struct {
		Items []struct {
			SLO      string
			Coverage *float64
		}
	}
	coverage := map[string]float64{}
	require.Eventually(t, func() bool {
		e2etest.Call(t, http.MethodGet, p.Base+"/api/v1/slos", "", &list)
		for _, s := range list.Items {
			if s.Coverage == nil {
				return false
			}
			coverage[s.SLO] = *s.Coverage
		}
		return coverage["all"] < coverage["payments"]
	}, testkit.Patience, 100*time.Millisecond, "%v", coverage)
	ratio := coverage["all"] / coverage["payments"]
	require.InDelta(t, float64(in-sum.Limited)/in, ratio, 0.02, "coverage tells the share that was dropped")
	row(t, "flood of 5000/s with 1000 payments/s", in, e2etest.Counted(t, p, "all"), 0, sum.DeadLettered,
		payments-e2etest.Counted(t, p, "payments"),
		fmt.Sprintf("junk dropped and told %d; coverage of all times %.2f", sum.Limited, ratio))
	p.Stop(t)
}

// A sink that hangs holds up no other, and its events are not lost: they become dead
// letters once they are too old for it, and can be replayed when it is back.
func TestScenarioOneSinkHangs(t *testing.T) {
	t.Parallel()
	hung, well := e2etest.NewReceiver(t), e2etest.NewReceiver(t)
	hung.Mode.Store(e2etest.Hangs)
	dir := t.TempDir()
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", scenarioSpec),
		fmt.Sprintf(`evaluator: {interval: 200ms}
timeout: 300ms
breaker: {consecutive: {open: 1s}, health_interval: 200ms}
dead_letters: {replay: {rate: 5000}}
sinks:
  - {name: hung, ttl: 2s, http: {url: "http://%s/in", health_url: "http://%s/health"}, batch: {wait: 20ms}}
  - {name: well, http: {url: "http://%s/in"}, batch: {wait: 20ms}}
`, hung.Address, hung.Address, well.Address))
	const in = 2000
	sum := sendAt(t, p, "shop", 1000, 2*time.Second, func(i int) (string, string) {
		return fmt.Sprint("p", i), "payment.paid"
	})
	require.Equal(t, in, sum.Accepted)
	require.Eventually(t, func() bool {
		return well.Has() == in
	}, testkit.Patience, 50*time.Millisecond, "one sink waits for another")
	require.Eventually(t, func() bool {
		return e2etest.DeadLetterCount(t, p) == in
	}, testkit.Patience, 100*time.Millisecond, p.Log.String())
	dead := e2etest.DeadLetterCount(t, p)
	hung.Mode.Store(e2etest.Takes)
	require.Eventually(t, func() bool {
		replayAllOnce(t, p)
		return e2etest.DeadLetterCount(t, p) == 0
	}, testkit.Patience, 500*time.Millisecond, p.Log.String())
	require.Equal(t, in, hung.Has())
	require.Equal(t, in, e2etest.Counted(t, p, "payments"), "a replay to a sink counts nothing")
	row(t, "one of two sinks hangs", in, e2etest.Counted(t, p, "payments"), hung.Has(), dead, in-hung.Has(),
		"the other got all meanwhile")
	p.Stop(t)
}

func replayAllOnce(t testing.TB, p *e2etest.Process) {
	t.Helper()
	var result struct{ Replayed int }
	e2etest.Call(t, http.MethodPost, p.Base+"/api/v1/dlq/replay", `{"all":true}`, &result)
}

// A sink lags behind further than it may: what it does not get is kept as a range of the
// log, ingest goes on, and a replay gives it all of it.
func TestScenarioSinkLagsTooFar(t *testing.T) {
	t.Parallel()
	sink := e2etest.NewReceiver(t)
	sink.Down()
	dir := t.TempDir()
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", scenarioSpec),
		fmt.Sprintf(`evaluator: {interval: 200ms}
log: {segment: 1MiB}
checkpoint: {interval: 200ms, log: 1MiB}
disk: {low_water: 1MiB}
breaker: {consecutive: {open: 500ms}, health_interval: 200ms}
dead_letters: {replay: {rate: 50000}}
sinks:
  - {name: hook, max_lag_bytes: 1MiB, http: {url: "http://%s/in", health_url: "http://%s/health"},
      retry: {max_retries: unlimited}, batch: {wait: 20ms}}
`, sink.Address, sink.Address))
	const in = 60_000
	sum := sendAt(t, p, "shop", 15_000, 4*time.Second, func(i int) (string, string) {
		return fmt.Sprint("p", i), "payment.paid"
	})
	require.Equal(t, in, sum.Accepted)
	require.Eventually(t, func() bool {
		return e2etest.DeadLetterCount(t, p) > 0
	}, testkit.Patience, 100*time.Millisecond, p.Log.String())
	dead := e2etest.DeadLetterCount(t, p)
	sink.Up(t)
	require.Eventually(t, func() bool {
		replayAllOnce(t, p)
		return e2etest.DeadLetterCount(t, p) == 0 && sink.Has() == in
	}, testkit.Patience, 500*time.Millisecond,
		"%d of %d arrived\n%s", sink.Has(), in, p.Log)
	row(t, "sink lags beyond max_lag_bytes", in, e2etest.Counted(t, p, "payments"), sink.Has(), dead, in-sink.Has(),
		"dead letters are log ranges")
	p.Stop(t)
}

// sendAt sends events of the given ids and types at a rate, in about ten requests a second, and
// returns what became of them. An event that the engine asks to send again is sent again.
func sendAt(t testing.TB, p *e2etest.Process, service string, perSecond int, for_ time.Duration,
	event func(i int) (id, typ string)) (sum e2etest.Answered) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	sent := 0
	for began := time.Now(); ; {
		due := min(int(float64(perSecond)*time.Since(began).Seconds()), int(float64(perSecond)*for_.Seconds()))
		var body bytes.Buffer
		var ids []string
		for ; sent < due && len(ids) < 5000; sent++ { // a slow machine catches up in several requests
			id, typ := event(sent)
			ids = append(ids, id)
			fmt.Fprintf(&body, `{"id":%q,"service":%q,"type":%q,"attributes":{"uid":%q}}`+"\n", id, service, typ, id)
		}
		if len(ids) > 0 {
			res, err := http.Post(p.Base+"/api/v1/events", "application/x-ndjson", &body)
			require.NoError(t, err)
			data, _ := io.ReadAll(res.Body)
			res.Body.Close()
			require.Equal(t, http.StatusAccepted, res.StatusCode, string(data))
			var a e2etest.Answered
			require.NoError(t, json.Unmarshal(data, &a))
			sum.Received += a.Received
			sum.Accepted += a.Accepted
			sum.Duplicates += a.Duplicates
			sum.Limited += a.Limited
			sum.Sampled += a.Sampled
			sum.DeadLettered += a.DeadLettered
			sum.Rejected += a.Rejected
			if a.Accepted+a.Duplicates == len(ids) {
				sum.Safe = append(sum.Safe, ids...)
			}
		}
		if sent == int(float64(perSecond)*for_.Seconds()) {
			return sum
		}
		<-tick.C
	}
}
