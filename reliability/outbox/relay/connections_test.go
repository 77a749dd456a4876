package relay

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
	"github.com/sloengine/sloengine/reliability/retry"
)

// through is a pool of another connection string.
func (f *fixture) through(dsn string, pooling bool) *postgres.Pool {
	f.t.Helper()
	file := f.t.TempDir() + "/dsn"
	writeFile(f.t, file, dsn)
	p, err := postgres.Open(postgres.Options{DSNFile: file, MaxConnections: 4, TransactionPooling: pooling})
	require.NoError(f.t, err)
	f.t.Cleanup(p.Close)
	return p
}

// TestThroughAPooler relays behind a real pgbouncer, which gives each transaction one of two sessions.
func TestThroughAPooler(t *testing.T) {
	eachWay(t, func(t *testing.T, f *fixture) {
		pool := f.through(f.server.DSNOf(f.server.Bouncer(t), postgrestest.Alice, postgrestest.AlicePassword, f.db), true)
		// No lease runs out where the machine is busy, so each row is sent once.
		patient := func(o *Options) { o.Database, o.Lease = pool, time.Minute }
		a := f.relay(patient)
		f.relay(patient)
		for i := range 10 {
			for k := range 5 {
				f.write(fmt.Sprint("key", k), 1+i*10, 10)
			}
		}
		f.completed(500)
		require.Len(t, f.broker.keys("orders"), 500)
		if f.claim != Optimistic {
			inOrder(t, f.broker.keys("orders"))
		}
		require.NotContains(t, a.log.String(), "prepared statement")
	})
}

func TestADatabaseThatRefusesThePassword(t *testing.T) {
	eachWay(t, func(t *testing.T, f *fixture) {
		f.write("key", 1, 1)
		pool := f.through(f.server.DSNOf(f.server.Address, postgrestest.Alice, "wrong-secret", f.db), false)
		r := f.relay(func(o *Options) { o.Database = pool })
		require.Eventually(t, func() bool {
			return strings.Contains(r.Status().Database.Reason, "user name or password")
		}, soon, 10*time.Millisecond, "%v", r.Status())
		require.NotContains(t, r.log.String(), "wrong-secret")
		require.Equal(t, map[string]int{outbox.Pending: 1}, f.statuses())
	})
}

// A receiver that is throttling says when to come again.
func TestTheWaitThatABrokerAsksFor(t *testing.T) {
	eachWay(t, func(t *testing.T, f *fixture) {
		const wait = 3 * time.Second
		var mu sync.Mutex
		var times []time.Time
		f.broker.outcome = func(context.Context, *Message) Outcome {
			mu.Lock()
			defer mu.Unlock()
			if times = append(times, time.Now()); len(times) == 1 {
				return Outcome{Err: retry.WithClass(retry.After(errBroker, wait), retry.ClassOverload), Away: true}
			}
			return Outcome{}
		}
		f.write("key", 1, 1)
		f.relay(nil)
		f.completed(1)
		require.GreaterOrEqual(t, times[1].Sub(times[0]), wait-100*time.Millisecond)
		require.Zero(t, value[int](f, "SELECT attempts FROM outbox"))
	})
}
