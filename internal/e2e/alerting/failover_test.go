package alerting

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// pairOfEngines is an active engine and a standby on one data directory, behind what a load balancer knows of them.
type pairOfEngines struct {
	t       *testing.T
	args    []string
	engines [2]atomic.Pointer[e2etest.Process]
}

func (p *pairOfEngines) start(i int) {
	p.t.Helper()
	e, ok := e2etest.Start(p.t, nil, p.args...)
	require.True(p.t, ok, e.Log.String())
	p.engines[i].Store(e)
}

// ready finds the engine that takes events; nil while there is none.
func (p *pairOfEngines) ready(client *http.Client) *e2etest.Process {
	for i := range p.engines {
		e := p.engines[i].Load()
		if e == nil {
			continue
		}
		if res, err := client.Get(e.Base + "/-/ready"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return e
			}
		}
	}
	return nil
}

// produce sends one batch after the other, each until it is acknowledged, and counts what was.
func (p *pairOfEngines) produce(ctx context.Context, acked *atomic.Int64) {
	const batch = 20
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	var to *e2etest.Process
	for n := 0; ctx.Err() == nil; n++ {
		var body strings.Builder
		for i := range batch {
			fmt.Fprintf(&body, `{"id":"%d-%d","service":"shop","type":"order","outcome":"failure"}`+"\n", n, i)
		}
		for {
			if to == nil {
				to = p.ready(client)
			}
			if to != nil {
				res, err := client.Post(to.Base+"/api/v1/events", "application/x-ndjson", strings.NewReader(body.String()))
				if err == nil {
					res.Body.Close()
					if res.StatusCode == http.StatusAccepted {
						break
					}
				}
				to = nil
			}
			testkit.Pause(5 * time.Millisecond)
		}
		acked.Add(batch)
		testkit.Pause(2 * time.Millisecond)
	}
}

// TestFailover kills the active one of two engines with SIGKILL, again and again: the standby takes the data directory
// over, a producer with retries loses nothing, and nobody is notified twice.
func TestFailover(t *testing.T) {
	t.Parallel()
	const rounds = 7
	h := newWebhook(t)
	dir := t.TempDir()
	spec := burningSpec(t, dir, "shop")
	settings := fmt.Sprintf(`evaluator: {interval: 200ms}
notifications:
  receivers: [{name: oncall, webhook_configs: [{url: %q}]}]
  default: oncall
  timing: {critical: {group_wait: 0s, group_interval: 200ms, repeat_interval: 1h}}
`, h.URL)
	p := &pairOfEngines{t: t, args: append(e2etest.ServeArgs(t, dir, spec, settings), "--standby")}

	// A directory without data may be one that is not mounted.
	empty, _ := e2etest.Start(t, nil, p.args...)
	<-empty.Done
	require.Contains(t, empty.Log.String(), "start the first engine without --standby")
	first := e2etest.Serve(t, dir, spec, settings)
	first.Stop(t)

	p.start(0)
	require.True(t, p.engines[0].Load().WaitReady(t))
	p.start(1)
	client := &http.Client{}
	defer client.CloseIdleConnections()
	ctx, stop := context.WithCancel(t.Context())
	var acked atomic.Int64
	produced := make(chan struct{})
	go func() { defer close(produced); p.produce(ctx, &acked) }()
	require.Eventually(t, func() bool { return len(h.of("ErrorBudgetBurnPage")) > 0 },
		testkit.Patience, 10*time.Millisecond)

	var ready, accepted []time.Duration
	for round := range rounds {
		active, standby := round%2, 1-round%2
		waiting := p.engines[standby].Load()
		require.Eventually(t, func() bool {
			return strings.Contains(waiting.Log.String(), "standing by")
		}, testkit.Patience, 5*time.Millisecond)
		res, err := client.Get(waiting.Base + "/-/ready")
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		before := acked.Load() // the log has something to replay
		require.Eventually(t, func() bool { return acked.Load() > before+1000 }, testkit.Patience, 5*time.Millisecond)

		killed := time.Now()
		p.engines[active].Load().Kill()
		before = acked.Load()
		require.Eventually(t, func() bool { return p.ready(client) == waiting }, testkit.Patience, 2*time.Millisecond)
		ready = append(ready, time.Since(killed))
		// one may have been acknowledged just before
		require.Eventually(t, func() bool { return acked.Load() > before+20 }, testkit.Patience, 2*time.Millisecond)
		accepted = append(accepted, time.Since(killed))
		p.start(active)
	}
	stop()
	<-produced
	last := p.ready(client)
	require.NotNil(t, last)
	require.Eventually(t, func() bool {
		return e2etest.Counter(t, last, "slo_events_total") == float64(acked.Load())
	}, testkit.Patience, 50*time.Millisecond,
		"%d were acknowledged", acked.Load())
	told := h.of("ErrorBudgetBurnPage")
	require.Equal(t, "firing", told[0])
	require.LessOrEqual(t, len(told), 1+rounds, "one more for each kill")
	slices.Sort(ready)
	slices.Sort(accepted)
	t.Logf("%d fail-overs, %d events: ready after %s (median), %s (max), events accepted after %s, %s; %d notifications",
		rounds, acked.Load(), ready[rounds/2], ready[rounds-1], accepted[rounds/2], accepted[rounds-1], len(told))

	// An orderly stop hands over, too, and a standby that is stopped ends without an error.
	other := p.engines[0].Load()
	if other == last {
		other = p.engines[1].Load()
	}
	last.Stop(t)
	require.True(t, other.WaitReady(t), other.Log.String())
	p.start(0)
	idle := p.engines[0].Load()
	require.Eventually(t, func() bool {
		return strings.Contains(idle.Log.String(), "standing by")
	}, testkit.Patience, 5*time.Millisecond)
	idle.Stop(t)
	other.Stop(t)
}
