package brokers

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// origin is what a source reads from, and what can happen to it.
type origin struct {
	name                        string
	cut, restore, kill, restart func()
}

// disturbSource starts an engine, kills it again and again, cuts its network and kills what it reads from, which pick
// chooses. It returns the engine that runs at the end, and how often each fault happened.
func disturbSource(t *testing.T, cycles int, args []string, pick func(*rand.Rand) origin) (*e2etest.Process,
	map[string]int) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	run := func() *e2etest.Process {
		p, ok := e2etest.Start(t, nil, args...)
		require.True(t, ok, p.Log.String())
		return p
	}
	p := run()
	faults := map[string]int{}
	for range cycles {
		testkit.Pause(time.Duration(rnd.IntN(500)) * time.Millisecond)
		from := pick(rnd)
		n := rnd.IntN(10)
		if n >= 8 {
			faults[from.name]++
			from.kill()
		} else if n >= 6 {
			faults["network"]++
			from.cut()
			testkit.Pause(time.Duration(rnd.IntN(300)) * time.Millisecond)
		}
		if n <= 6 || n == 8 {
			faults["engine"]++
			p.Kill()
			if n < 6 {
				e2etest.RequireKilled(t, p)
			}
			p = run()
		}
		if n >= 8 {
			from.restart()
		} else if n >= 6 {
			from.restore()
		}
	}
	return p, faults
}

// requireCountedAsSent holds the counts of an engine against how often each id was sent, and stops the engine.
func requireCountedAsSent(t *testing.T, p *e2etest.Process, want map[string]int) {
	t.Helper()
	e2etest.Reports(t, p, 5) // what would be counted twice now
	counts := e2etest.CountsByID(t, p)
	lost, twice, invented := 0, 0, 0
	for id, n := range want {
		switch got := counts[id]; {
		case got < float64(n):
			lost++
		case got > float64(n):
			twice++
		}
	}
	for id := range counts {
		if want[id] == 0 {
			invented++
		}
	}
	t.Logf("%d were sent; lost %d, twice %d, invented %d", len(want), lost, twice, invented)
	require.Zero(t, lost+twice+invented)
	require.Equal(t, 0, strings.Count(string(e2etest.Get(t, p.Base+"/api/v1/dlq")), `"origin"`))
	p.Stop(t)
}
