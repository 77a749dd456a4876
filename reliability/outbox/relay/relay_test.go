package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/retry"
)

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

func TestRowsArePublishedInOrder(t *testing.T) {
	for name, l := range map[string]outbox.Layout{"plain": {}, "by day": {Partitioned: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, outbox.Options{}, l)
			r := f.relay(nil)
			for i := range 10 {
				for k := range 7 {
					f.write(fmt.Sprint("key", k), 1+i*25, 25)
				}
			}
			f.completed(1750)
			got := f.broker.keys("orders")
			require.Len(t, got, 1750)
			inOrder(t, got)
			m := f.broker.sent[0]
			require.Equal(t, "00-abc-def-01", m.Header(HeaderTraceParent))
			require.Equal(t, m.IdempotencyKey, m.Header(HeaderIdempotencyKey))
			require.Equal(t, "created", m.Header(HeaderEventType))
			require.Equal(t, "order", m.Header(HeaderAggregateType))
			require.JSONEq(t, `{"n":1}`, string(m.Payload))
			pair := `{destination="kafka",topic="orders",event_type="created"}`
			require.Eventually(t, func() bool {
				return r.metric("sloengine_outbox_published_total"+pair) == 1750
			}, soon, 10*time.Millisecond)
			require.Equal(t, 1750., r.metric("sloengine_outbox_sent_total"+pair))
			require.Zero(t, r.metric("sloengine_outbox_duplicates_total"))
			r.stop()
			require.Zero(t, value[int](f, "SELECT count(*) FROM outbox_buckets WHERE worker IS NOT NULL"),
				"the leases are released at the end")
			require.Zero(t, value[int](f, "SELECT count(*) FROM outbox_relays"))
		})
	}
}

func TestRelaysShareTheBucketsFairly(t *testing.T) {
	f := newFixture(t, outbox.Options{}, outbox.Layout{})
	shares := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			rows, err := f.pool.Query(context.Background(),
				"SELECT count(*)::int FROM outbox_buckets WHERE worker IS NOT NULL GROUP BY worker ORDER BY 1")
			require.NoError(t, err)
			defer rows.Close()
			var list []int
			for rows.Next() {
				var n int
				require.NoError(t, rows.Scan(&n))
				list = append(list, n)
			}
			return fmt.Sprint(list) == want
		}, soon, 20*time.Millisecond)
	}
	a := f.relay(nil)
	shares("[64]")
	f.relay(nil)
	shares("[32 32]")
	f.relay(nil)
	shares("[21 21 22]")
	for i := range 20 {
		f.write(fmt.Sprint("key", i), 1, 20)
	}
	f.completed(400)
	a.stop()
	shares("[32 32]")
	require.Len(t, f.broker.keys("orders"), 400, "no row is published twice while relays come and go")
}

func TestARetryBlocksItsKeyAndNoOther(t *testing.T) {
	for _, onFailed := range []string{Continue, Block} {
		t.Run(onFailed, func(t *testing.T) {
			f := newFixture(t, outbox.Options{}, outbox.Layout{})
			var attempts atomic.Int32
			f.broker.outcome = func(_ context.Context, m *Message) Outcome {
				if m.IdempotencyKey == "poison-2" && m.Topic == "orders" && attempts.Add(1) > 0 {
					return Outcome{Err: errRow}
				}
				return Outcome{}
			}
			f.write("poison", 1, 4)
			f.write("other", 1, 50)
			r := f.relay(func(o *Options) { o.OnFailed, o.MaxAttempts, o.DeadLetterTopic = onFailed, 3, "dead" })
			want := 53
			if onFailed == Block {
				want = 51
			}
			f.completed(want)
			require.Eventually(t, func() bool { return f.statuses()[outbox.Failed] == 1 }, soon, 10*time.Millisecond, r.log)
			require.Equal(t, int32(3), attempts.Load())
			inOrder(t, f.broker.keys("orders"))
			require.Equal(t, []string{"poison-2"}, f.broker.keys("dead"))
			require.Equal(t, 3, value[int](f, "SELECT attempts FROM outbox WHERE idempotency_key = 'poison-2'"))
			pair := `{destination="kafka",topic="orders",event_type="created"}`
			require.Eventually(t, func() bool {
				return r.metric("sloengine_outbox_failed_total"+pair) == 1
			}, soon, 10*time.Millisecond)
			require.Equal(t, 2., r.metric("sloengine_outbox_retries_total"))
			require.Equal(t, 3.,
				r.metric(
					`sloengine_outbox_send_failures_total{destination="kafka",topic="orders",event_type="created",`+
						`error_class="unknown"}`))
			for _, text := range []string{"row was not published", "row was given up", "key=poison", "traceparent=00-abc-def-01",
				"the row is poison"} {
				require.Contains(t, r.log.String(), text)
			}
			if onFailed == Block { // until an operator decides
				f.broker.set(func(b *fakeBroker) { b.outcome = nil })
				f.exec("UPDATE outbox SET status = 'PENDING', attempts = 0, next_attempt_at = NULL WHERE status = 'FAILED'")
				f.completed(54)
				inOrder(t, f.broker.keys("orders"))
			}
		})
	}
}

func TestADeadLetterComesBeforeFailed(t *testing.T) {
	eachWay(t, func(t *testing.T, f *fixture) {
		var refused atomic.Int32
		f.broker.max = 1000
		f.broker.outcome = func(_ context.Context, m *Message) Outcome {
			switch {
			case m.Topic == "dead" && refused.Add(1) <= 3:
				return Outcome{Err: errRow}
			case m.Topic == "dead" && len(m.Payload) > 1000:
				return Outcome{Err: retry.Permanent(errRow)}
			case m.Topic == "orders" && m.Key != "good":
				return Outcome{Err: retry.Permanent(errRow)}
			}
			return Outcome{}
		}
		f.write("bad", 1, 1)
		f.exec(
			`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload) VALUES ` +
				`('large', 'a', '1', 'created', 'orders', 'large', json_build_object('x', repeat('x', 5000)))`)
		f.write("good", 1, 1)
		r := f.relay(func(o *Options) { o.DeadLetterTopic, o.DeadLetterKey = "dead", "all" })
		require.Eventually(t, func() bool { return f.statuses()[outbox.Failed] == 2 }, soon, 10*time.Millisecond, r.log)
		require.Greater(t, refused.Load(), int32(3))
		require.Contains(t, r.log.String(), "dead-letter message was not accepted")
		require.ElementsMatch(t, []string{"bad-1", "large"}, f.broker.keys("dead"))
		for _, m := range f.broker.sent {
			if m.Topic != "dead" {
				continue
			}
			var d deadLetter
			require.NoError(t, json.Unmarshal(m.Payload, &d))
			require.Equal(t, "all", m.Key)
			require.Equal(t, "orders", d.Row.Topic)
			require.Equal(t, m.IdempotencyKey, d.Row.IdempotencyKey)
			require.WithinDuration(t, time.Now(), d.FailedAt, soon)
			require.Positive(t, d.Attempts)
			require.Equal(t, "permanent", d.Class)
			if m.IdempotencyKey == "large" {
				require.True(t, d.Row.Omitted)
				require.Greater(t, d.Row.PayloadBytes, 5000)
				require.Contains(t, d.Error, "more than the broker takes")
			} else {
				require.JSONEq(t, `{"n":1}`, string(d.Row.Payload))
				require.Equal(t, "the row is poison", d.Error)
			}
		}
	})
}

func TestABrokerThatIsAwayIsNoAttempt(t *testing.T) {
	eachWay(t, func(t *testing.T, f *fixture) {
		f.broker.outcome = func(context.Context, *Message) Outcome { return Outcome{Err: errBroker, Away: true} }
		f.broker.down = errBroker
		f.write("key", 1, 200)
		r := f.relay(func(o *Options) {
			o.MaxAttempts = 1
			o.Breaker.Consecutive.Failures, o.Breaker.Consecutive.Open, o.Breaker.HealthInterval = 1,
				time.Hour, 20*time.Millisecond
		})
		require.Eventually(t, func() bool { return strings.Contains(r.log.String(), "to=open") }, soon, 10*time.Millisecond)
		require.False(t, r.Status().Broker.OK)
		require.Equal(t, "connection refused", r.Status().Broker.Reason)
		require.Eventually(t, func() bool {
			return value[int](f, "SELECT count(*) FROM outbox WHERE status = 'PENDING' AND attempts = 0") == 200
		}, soon, 10*time.Millisecond)
		require.Zero(t, r.metric(`sloengine_outbox_ready{part="broker"}`))
		f.broker.set(func(b *fakeBroker) { b.outcome, b.down = nil, nil })
		f.completed(200)
		require.True(t, r.Status().Broker.OK)
		if f.claim != Optimistic {
			inOrder(t, f.broker.keys("orders"))
		}
		require.Equal(t, 1, strings.Count(r.log.String(), "broker failing"), r.log)
		require.Equal(t, 1, strings.Count(r.log.String(), "broker works again"), r.log)
	})
}

// TestALeaseThatEndsFencesTheRelay holds a relay up in the middle of a batch for longer than its lease, as SIGSTOP
// does.
func TestALeaseThatEndsFencesTheRelay(t *testing.T) {
	f := newFixture(t, outbox.Options{}, outbox.Layout{})
	slow, stuck, held, release := heldUp()
	f.write("key", 1, 5)
	db := &stoppedDB{DB: f.pool, until: stuck}
	paused := f.relay(func(o *Options) { o.Publisher, o.Database = slow, db })
	t.Cleanup(release)
	<-held
	db.stopped.Store(true)
	f.relay(nil)
	f.completed(5)
	inOrder(t, f.broker.keys("orders"))
	release()
	require.Eventually(t, func() bool {
		return paused.metric(`sloengine_outbox_lost_claims_total{way="lease"}`) > 0
	}, soon, 10*time.Millisecond)
	require.Positive(t, paused.metric("sloengine_outbox_duplicates_total"))
	require.Equal(t, 5, f.statuses()[outbox.Completed])
}

// heldUp is a broker that answers no message before release, which closes stuck; held tells that it has one.
func heldUp() (slow *fakeBroker, stuck, held chan struct{}, release func()) {
	stuck, held = make(chan struct{}), make(chan struct{}, 1)
	return &fakeBroker{max: 1 << 20, outcome: func(context.Context, *Message) Outcome {
		select {
		case held <- struct{}{}:
		default:
		}
		<-stuck
		return Outcome{}
	}}, stuck, held, sync.OnceFunc(func() { close(stuck) })
}

// stoppedDB makes no statements while it is stopped.
type stoppedDB struct {
	outbox.DB
	stopped atomic.Bool
	until   chan struct{}
}

func (db *stoppedDB) wait() {
	if db.stopped.Load() {
		<-db.until
	}
}

func (db *stoppedDB) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	db.wait()
	return db.DB.Exec(context.WithoutCancel(ctx), sql, args...)
}

func (db *stoppedDB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	db.wait()
	return db.DB.Query(context.WithoutCancel(ctx), sql, args...)
}

func TestALeaseOfADeadRelayIsTakenOver(t *testing.T) {
	f := newFixture(t, outbox.Options{}, outbox.Layout{})
	f.exec(
		"UPDATE outbox_buckets SET worker = 'dead', lease_until = clock_timestamp() + interval '1 second', generation = 7")
	f.exec("INSERT INTO outbox_relays VALUES ('dead', clock_timestamp())")
	f.write("key", 1, 5)
	r := f.relay(nil)
	f.completed(5)
	require.Equal(t, 64., r.metric("sloengine_outbox_stale_leases_total")+float64(64-r.Status().Buckets))
	require.Positive(t, r.metric("sloengine_outbox_stale_leases_total"))
}

// TestTheOwnClockDecidesNothing gives two relays clocks that are days apart.
func TestTheOwnClockDecidesNothing(t *testing.T) {
	f := newFixture(t, outbox.Options{}, outbox.Layout{})
	for _, off := range []time.Duration{-72 * time.Hour, 72 * time.Hour} {
		f.relay(func(o *Options) { o.Now = func() time.Time { return time.Now().Add(off) } })
	}
	require.Eventually(t, func() bool {
		return value[int](f,
			"SELECT count(DISTINCT worker) FROM outbox_buckets WHERE lease_until BETWEEN clock_timestamp() AND "+
				"clock_timestamp() + interval '4 seconds'") == 2
	}, soon, 20*time.Millisecond)
	for i := range 20 {
		f.write(fmt.Sprint("key", i), 1, 10)
	}
	f.completed(200)
	require.Len(t, f.broker.keys("orders"), 200)
	require.Equal(
		t, 200, value[int](f, "SELECT count(*) FROM outbox WHERE completed_at BETWEEN created_at AND clock_timestamp()"))
}

func TestAMissingTableOrColumnIsNamed(t *testing.T) {
	eachWay(t, func(t *testing.T, f *fixture) {
		f.exec("ALTER TABLE outbox DROP COLUMN next_attempt_at")
		r := f.relay(nil)
		require.Eventually(t, func() bool {
			return strings.Contains(r.Status().Database.Reason, "ADD COLUMN")
		}, soon, 10*time.Millisecond, "%v", r.Status())
		require.Zero(t, r.metric(`sloengine_outbox_ready{part="database"}`))
		f.exec("ALTER TABLE outbox ADD COLUMN next_attempt_at timestamptz")
		f.write("key", 1, 1)
		f.completed(1)
		require.Eventually(t, func() bool { return r.Status().Database.OK }, soon, 10*time.Millisecond)
		f.exec("ALTER TABLE outbox DROP COLUMN attempts")
		require.Eventually(t, func() bool {
			s := r.Status().Database.Reason
			return strings.Contains(s, "attempts") && strings.Contains(s, "ADD COLUMN")
		}, soon, 10*time.Millisecond, "%v", r.Status())
		f.exec("ALTER TABLE outbox ADD COLUMN attempts int NOT NULL DEFAULT 0")
		require.Eventually(t, func() bool { return r.Status().Database.OK }, soon, 10*time.Millisecond)
	})
}

func TestTheEndWaitsForBatches(t *testing.T) {
	eachWay(t, func(t *testing.T, f *fixture) {
		begun := make(chan struct{}, 100)
		f.broker.outcome = func(ctx context.Context, m *Message) Outcome {
			begun <- struct{}{}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
				if m.Key == "quick" {
					return Outcome{}
				}
				<-ctx.Done()
			}
			return Outcome{Err: ctx.Err(), Away: true}
		}
		f.write("quick", 1, 1)
		f.write("stuck", 1, 1)
		r := f.relay(func(o *Options) {
			o.StopTimeout = 500 * time.Millisecond
			o.Lease, o.SendTimeout, o.Batch = time.Hour, time.Minute, 1
		})
		<-begun
		<-begun
		r.stop()
		require.Equal(t, map[string]int{outbox.Completed: 1, outbox.Pending: 1}, f.statuses())
		require.Zero(t, value[int](f, "SELECT count(*) FROM outbox_buckets WHERE worker IS NOT NULL"))
		if f.claim == Optimistic {
			require.Equal(t, "1 ", value[string](f,
				"SELECT attempts + 1 || ' ' || coalesce(instance || locked_at, '') FROM outbox WHERE status = 'PENDING'"),
				"the claim is released, and was no attempt")
		}
	})
}

func TestTheLabelsAreBounded(t *testing.T) {
	m := NewMetrics(nil, "kafka")
	for i := range 1000 {
		m.of(fmt.Sprint("topic", i), "type").sent.Inc()
	}
	require.Len(t, m.pairs, maxPairs+1)
	require.EqualValues(t, 800, m.pairs[pair{other, other}].sent.Get())
}

func TestTheDefaultAttemptsAreWorthADay(t *testing.T) {
	p, err := retry.New(DefaultRetry(retry.Options{}))
	require.NoError(t, err)
	total := time.Duration(0)
	for n := 1; n < DefaultMaxAttempts; n++ {
		total += p.Delay(n-1, 0)
	}
	require.InDelta(t, 24, total.Hours(), 1)
	require.InDelta(t, 2, p.Delay(0, 0).Seconds(), 0.41)
}

func TestEveryFamilyIsExported(t *testing.T) {
	eachWay(t, func(t *testing.T, f *fixture) {
		f.broker.outcome = func(_ context.Context, m *Message) Outcome {
			if m.Key == "bad" {
				return Outcome{Err: retry.Permanent(errRow)}
			}
			return Outcome{}
		}
		f.write("good", 1, 1)
		f.write("bad", 1, 1)
		r := f.relay(nil)
		f.completed(1)
		for _, p := range metric.Parts() {
			if p.Title != "Outbox relay" {
				continue
			}
			for _, d := range p.Families {
				if d == metric.OutboxHTTPRequests { // it is of a publisher
					continue
				}
				require.Eventually(t, func() bool {
					for _, name := range r.set.ListMetricNames() {
						if name == d.Name || strings.HasPrefix(name, d.Name+"{") {
							return true
						}
					}
					return false
				}, soon, 10*time.Millisecond, d.Name)
			}
		}
	})
}

// Rows that are done are deleted after their retention. A row that is published again is neither late nor
// lost.
func TestRetentionAndReplay(t *testing.T) {
	eachWay(t, func(t *testing.T, f *fixture) {
		f.write("old", 1, 30)
		f.exec(
			"UPDATE outbox SET status = 'COMPLETED', created_at = now() - interval '3 hours', completed_at = now() - interval " +
				"'2 hours'")
		f.write("failed", 1, 1)
		f.exec(
			"UPDATE outbox SET status = 'FAILED', created_at = now() - interval '3 hours', completed_at = now() - interval '2 " +
				"hours', attempts = 9 WHERE key = 'failed'")
		f.write("again", 1, 2)
		f.exec(
			"UPDATE outbox SET created_at = now() - interval '30 minutes', completed_at = now() - interval '29 minutes' WHERE " +
				"key = 'again'")
		r := f.relay(func(o *Options) { o.Retention = &outbox.Retention{Age: time.Hour} })
		require.Eventually(t, func() bool {
			return r.metric("sloengine_outbox_deleted_rows_total") == 30
		}, soon, 10*time.Millisecond)
		f.completed(2)
		require.Equal(t, 1, value[int](f, "SELECT count(*) FROM outbox WHERE status = 'FAILED'"))
		require.ElementsMatch(t, []string{"again-1", "again-2"}, f.broker.keys("orders"))
		require.Eventually(t, func() bool {
			return r.metric(`sloengine_outbox_sent_total{destination="kafka",topic="orders",event_type="created"}`) == 2
		}, soon, 10*time.Millisecond)
		require.Zero(t, r.metric("sloengine_outbox_latency_seconds_count"))
		f.write("new", 1, 1)
		f.completed(3)
		require.Eventually(t, func() bool {
			return r.metric("sloengine_outbox_latency_seconds_count") == 1
		}, soon, 10*time.Millisecond)
		require.Less(t, r.metric("sloengine_outbox_latency_seconds_sum"), 600.)
	})
}

// No row stops those behind it, with any content, and each is published or given up.
func TestOddRows(t *testing.T) {
	loose := `CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, created_at timestamptz,
		idempotency_key text, aggregate_type text, aggregate_id text, event_type text,
		topic text, key text, payload bytea, headers jsonb, status text DEFAULT 'PENDING', attempts bigint,
			next_attempt_at timestamptz, error text, completed_at timestamptz,
		version bigint, instance text, locked_at timestamptz)`
	columns := map[string]string{"bucket": "", "xid": "", "counted_at": ""}
	optimistic := map[string]string{"bucket": "", "xid": "", "counted_at": "", "version": "version",
		"processing_instance": "instance", "locked_at": "locked_at"}
	for claim, columns := range map[string]map[string]string{Lease: columns, Optimistic: optimistic} {
		t.Run(claim, func(t *testing.T) {
			f := newFixture(t, outbox.Options{Columns: columns}, outbox.Layout{}, loose,
				"CREATE UNIQUE INDEX outbox_idempotency_key_idx ON outbox (idempotency_key)")
			f.claim = claim
			n := 0
			for _, created := range []any{nil, "infinity", "-infinity", "99999-01-01", "294276-12-31 23:59:59+00",
				"4713-01-01 BC", "now"} {
				for _, attempts := range []any{nil, -1, int64(1) << 40} {
					for _, headers := range []any{nil, "[]", "7", `{"a":{"b":null}}`, `{"idempotency-key":"\u0001"}`} {
						n++
						f.exec(`INSERT INTO outbox (created_at, attempts, headers, topic, key, payload, idempotency_key, next_attempt_at)
							VALUES ($1::text::timestamptz, $2, $3::text::jsonb, 'orders', $4, $5, $6, $7::text::timestamptz)`,
							created, attempts, headers, fmt.Sprintf("k\x01%d", n), [][]byte{nil, {}, {0xff, 0}}[n%3],
							fmt.Sprintf("odd-%d", n), []any{nil, "-infinity"}[n%2])
						f.exec(
							"INSERT INTO outbox (created_at, topic, key, payload, idempotency_key) VALUES (now(), 'orders', $1, '{}', $2)",
							fmt.Sprint("g", n), fmt.Sprintf("good-%d", n))
					}
				}
			}
			r := f.relay(func(o *Options) { o.DeadLetterTopic = "dead" })
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("%v\n%s", f.statuses(), r.log)
				}
			})
			require.Eventually(t, func() bool {
				s := f.statuses()
				return s[outbox.Completed]+s[outbox.Failed] == 2*n
			}, soon, 10*time.Millisecond)
			require.Len(t, f.broker.keys("orders"), f.statuses()[outbox.Completed], "each is published once")
			require.Equal(t, n, value[int](
				f, "SELECT count(*)::int FROM outbox WHERE status = 'COMPLETED' AND idempotency_key LIKE 'good-%'"))
			require.Zero(t, value[int](f, "SELECT count(*)::int FROM outbox WHERE status = 'FAILED' AND headers IS NULL"))
			for _, m := range f.broker.sent {
				if m.DeadLetter {
					require.Contains(t, string(m.Payload), `"failed_at"`)
				}
			}
			require.True(t, r.Status().Database.OK)
			require.NotContains(t, r.log.String(), "database failing")
			stats, err := outbox.ReadStats(t.Context(), f.pool, f.table)
			require.NoError(t, err)
			_, err = json.Marshal(stats)
			require.NoError(t, err)
		})
	}
}

// A row that is published says nothing of the attempts before.
func TestCompletedRowHasNoError(t *testing.T) {
	eachWay(t, func(t *testing.T, f *fixture) {
		f.broker.outcome = func(context.Context, *Message) Outcome {
			f.broker.outcome = nil
			return Outcome{Err: errRow}
		}
		f.write("a", 1, 1)
		f.relay(nil)
		f.completed(1)
		require.Equal(t, 1, value[int](f, "SELECT attempts FROM outbox"))
		require.True(t, value[bool](f, "SELECT error IS NULL FROM outbox"))
	})
}
