package outbox

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/sourcetest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

func TestStart(t *testing.T) {
	s := postgrestest.Shared(t)
	db := s.Database(t)
	c := s.Conn(t, db)
	migrate(t, c, outbox.Options{})
	_, err := c.Exec(t.Context(), insert, "before", 10)
	require.NoError(t, err)
	dir := t.TempDir()
	set := settings(XID)
	set.Start = Latest
	e := sourcetest.Start(t, dir)
	r := startSource(t, e, s.DSN(db), set, nil)
	testkit.Eventually(t, `r.Status().Table != ""`, func() bool { return r.Status().Table != "" })
	_, err = c.Exec(t.Context(), insert, "after", 10)
	require.NoError(t, err)
	e.RequireOnce(t, 10)
	require.Contains(t, e.State.All(), "after-1")
	r.stop()
	e.Stop()

	// Rows from before the first start are backfilled, and later ones are not.
	e = sourcetest.Start(t, t.TempDir())
	startSource(t, e, s.DSN(db), settings(XID), func(in *source.Options, _ *Options) {
		in.Settings.Backfill = source.BackfillAuto
	})
	e.RequireOnce(t, 20)
	_, err = c.Exec(t.Context(), insert, "live", 1)
	require.NoError(t, err)
	e.RequireOnce(t, 21)
	require.True(t, e.State.All()["before-1"].Backfill)
	require.False(t, e.State.All()["live-1"].Backfill)

	// So it is if the engine restarts before all of it is read.
	dir = t.TempDir()
	for _, refused := range []bool{true, false} {
		e = sourcetest.Start(t, dir)
		busy := &busyEngine{Engine: e}
		r = startSource(t, e, s.DSN(db), settings(XID), func(in *source.Options, o *Options) {
			in.Settings.Backfill, in.BatchEvents, o.Settings.Batch = source.BackfillAuto, 5, 5
			if refused {
				in.Engine = busy
			}
		})
		if refused {
			testkit.Eventually(t, "busy.batches.Load() > 2", func() bool { return busy.batches.Load() > 2 })
		}
		if !refused {
			e.RequireOnce(t, 21)
			_, err = c.Exec(t.Context(), insert, "later", 1)
			require.NoError(t, err)
			e.RequireOnce(t, 22)
		}
		r.stop()
		e.Stop()
	}
	for id, x := range e.State.All() {
		require.Equal(t, id != "later-1", x.Backfill, id)
	}
}

// busyEngine takes two batches.
type busyEngine struct {
	source.Engine
	batches atomic.Int32
}

func (e *busyEngine) AdmitAt(ctx context.Context, b *event.Batch, t *ratelimit.Tickets, todo []int32,
	at engine.Position) (engine.Result, error) {
	if e.batches.Add(1) > 2 {
		return engine.Result{}, &engine.UnavailableError{Code: "overload", Detail: "busy", RetryAfter: 10 * time.Millisecond}
	}
	return e.Engine.AdmitAt(ctx, b, t, todo, at)
}

func TestColumns(t *testing.T) {
	s := postgrestest.Shared(t)
	db := s.Database(t)
	s.Exec(t, db, "CREATE SCHEMA billing",
		`CREATE TABLE billing."Out Box" (no int GENERATED ALWAYS AS IDENTITY, "at" timestamptz DEFAULT now(),
			uid uuid DEFAULT gen_random_uuid(), what text,
		body text, done timestamptz)`, `INSERT INTO billing."Out Box" (what, body) VALUES ('paid', '{"service":"billing"}')`)
	set := settings(Claim)
	set.Table = "billing.Out Box"
	set.Columns = map[string]string{
		"id": "no", "created_at": "at", "idempotency_key": "uid", "event_type": "what", "payload": "body",
		"counted_at": "done", "key": "", "bucket": "", "topic": "", "headers": "",
		"aggregate_type": "", "aggregate_id": "", "status": "", "attempts": "", "next_attempt_at": "", "error": "",
		"completed_at": "", "xid": "",
	}
	e := sourcetest.Start(t, t.TempDir())
	startSource(t, e, s.DSN(db), set, nil)
	e.RequireOnce(t, 1)
	set.Engines = 2
	require.ErrorContains(t, set.Validate(""), "engines: several engines share the rows by their key")
}

// TestNotifications polls so seldom that only a notification brings the rows.
func TestNotifications(t *testing.T) {
	bothWays(t, func(t *testing.T, s *postgrestest.Server, db, way string) {
		e := sourcetest.Start(t, t.TempDir())
		set := settings(way)
		set.Poll, set.ListenChannel, set.ListenDSNFile = time.Minute, "Orders", secret(t, s.DSN(db))
		r := startSource(t, e, s.DSN(db), set, nil)
		testkit.Eventually(t, `strings.Contains(s.Sessions(t, db), "LISTEN")`, func() bool {
			return strings.Contains(s.Sessions(t, db), "LISTEN")
		})
		best := time.Hour
		for i := range 5 {
			c := s.Conn(t, db)
			tx, err := c.Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), insert, fmt.Sprintf("n%d", i), 1)
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), `NOTIFY "Orders"`)
			require.NoError(t, err)
			began := time.Now()
			require.NoError(t, tx.Commit(t.Context()))
			testkit.Eventually(t, "len(e.State.All()) == i+1", func() bool { return len(e.State.All()) == i+1 })
			best = min(best, time.Since(began))
		}
		t.Logf("fastest from commit to counted: %s", best)
		require.Less(t, best, 5*time.Second) // far below the interval of polls
		require.Empty(t, r.intake.Troubles())

		// Notifications that were missed while the connection was down do not matter.
		s.Admin(t, db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
		_, err := s.Conn(t, db).Exec(t.Context(), insert, "missed", 1)
		require.NoError(t, err)
		e.RequireOnce(t, 6)
	})
}

// TestThroughAPooler reads behind a real pgbouncer whose two sessions others use as well.
func TestThroughAPooler(t *testing.T) {
	bothWays(t, func(t *testing.T, s *postgrestest.Server, db, way string) {
		dsn := s.DSNOf(s.Bouncer(t), postgrestest.Alice, postgrestest.AlicePassword, db)
		e := sourcetest.Start(t, t.TempDir())
		r := startSource(t, e, dsn, settings(way), func(_ *source.Options, o *Options) {
			o.Database.TransactionPooling = true
		})
		other, err := pgx.Connect(t.Context(), dsn+"&default_query_exec_mode=exec")
		require.NoError(t, err)
		defer other.Close(context.Background())
		for i := range 50 {
			_, err := other.Exec(t.Context(), insert, fmt.Sprint(i), 20)
			require.NoError(t, err)
		}
		e.RequireOnce(t, 1000)
		require.Empty(t, r.intake.Troubles())
	})
}

// TestWhatAnOperatorReads makes the mistakes around a table.
func TestWhatAnOperatorReads(t *testing.T) {
	bothWays(t, func(t *testing.T, s *postgrestest.Server, db, way string) {
		expect := func(r *runningSource, kind source.Kind, text string) {
			t.Helper()
			testkit.Eventually(t, "r.trouble(kind) != nil", func() bool { return r.trouble(kind) != nil })
			require.Contains(t, r.trouble(kind).Brief, text)
			require.Contains(t, r.log.String(), "source fails")
			require.NotContains(t, r.log.String(), postgrestest.AlicePassword)
		}
		e := sourcetest.Start(t, t.TempDir())
		expect(startSource(t, e, s.DSNOf(s.Address, postgrestest.Alice, "wrong", db), settings(way), nil),
			source.TroubleCredentials, "user name or password")
		expect(startSource(t, e, s.DSNOf(s.Address, postgrestest.Mallory, postgrestest.MalloryPassword, db), settings(way),
			nil), source.TroubleCredentials, "GRANT")
		expect(startSource(t, e, s.DSN("missing"), settings(way), nil), source.TroubleTopic, "the database does not exist")
		set := settings(way)
		set.Table = "missing"
		expect(startSource(t, e, s.DSN(db), set, nil), source.TroubleTopic,
			"does not exist; create it with sloengine outbox migrate")

		// The table is dropped while it is read, and created again. The ids are used again, and the keys are not.
		r := startSource(t, e, s.DSN(db), settings(way), nil)
		_, err := s.Conn(t, db).Exec(t.Context(), insert, "old", 10)
		require.NoError(t, err)
		e.RequireOnce(t, 10)
		s.Exec(t, db, "DROP TABLE outbox")
		expect(r, source.TroubleTopic, "does not exist")
		c := s.Conn(t, db)
		migrate(t, c, outbox.Options{})
		_, err = c.Exec(t.Context(), insert, "new", 10)
		require.NoError(t, err)
		e.RequireOnce(t, 20)
		expect(r, source.TroublePosition, "the table was dropped and created again")
		require.Nil(t, r.trouble(source.TroubleTopic))
	})
}

// TestATransactionHoldsRowsBack shows rows that are not read because a transaction that began before is open.
func TestATransactionHoldsRowsBack(t *testing.T) {
	s := postgrestest.Shared(t)
	db := s.Database(t)
	migrate(t, s.Conn(t, db), outbox.Options{})
	e := sourcetest.Start(t, t.TempDir())
	r := startSource(t, e, s.DSN(db), settings(XID), func(_ *source.Options, o *Options) {
		o.HeldTooLong = 10 * time.Millisecond
	})
	tx, err := s.Conn(t, db).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SET LOCAL application_name = 'nightly'; CREATE TABLE other (n int)",
		pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	_, err = s.Conn(t, db).Exec(t.Context(), insert, "a", 7)
	require.NoError(t, err)
	testkit.Eventually(t, "seven are held back", func() bool {
		return r.Status().Held == 7 && r.Status().HeldFor > 0 && r.trouble(source.TroubleHeldBack) != nil
	})
	require.Contains(t, r.trouble(source.TroubleHeldBack).Reason, "application nightly")
	require.Empty(t, e.State.All())
	var out strings.Builder
	r.set.WritePrometheus(&out)
	require.Contains(t, out.String(), `sloengine_outbox_source_held_back_rows{source="orders"} 7`)
	require.Contains(t, out.String(), `sloengine_outbox_source_behind_rows{source="orders"} 7`)
	require.Regexp(t, `sloengine_outbox_source_held_back_seconds{source="orders"} [0-9.e-]*[1-9]`, out.String())
	require.Regexp(t, `sloengine_outbox_source_oldest_seconds{source="orders"} [0-9.e-]*[1-9]`, out.String())
	require.NoError(t, tx.Rollback(t.Context()))
	e.RequireOnce(t, 7)
	testkit.Eventually(t, "r.Status().Held == 0 && len(r.intake.Troubles()) == 0", func() bool {
		return r.Status().Held == 0 && len(r.intake.Troubles()) == 0
	})
}

// TestARestoredTable is read again from its beginning, and counted rows count once.
func TestARestoredTable(t *testing.T) {
	s := postgrestest.Shared(t)
	db := s.Database(t)
	c := s.Conn(t, db)
	migrate(t, c, outbox.Options{})
	_, err := c.Exec(t.Context(), insert, "a", 10)
	require.NoError(t, err)
	dir := t.TempDir()
	e := sourcetest.Start(t, dir)
	r := startSource(t, e, s.DSN(db), settings(XID), nil)
	e.RequireOnce(t, 10)
	r.stop()
	var known []position.Progress
	require.NoError(t, e.Do(t.Context(), func() { known = e.State.Book.Of("orders") }))
	require.NotEmpty(t, known)
	for name, change := range map[string]func(p *position.Progress){
		"another database cluster": func(p *position.Progress) { p.Stream.ID[0] ^= 1 },
		"an earlier time":          func(p *position.Progress) { p.Ranges = []position.Range{{From: 0, To: 1 << 40}} },
	} {
		before := make([]position.Progress, len(known))
		copy(before, known)
		for i := range before {
			change(&before[i])
		}
		r = startSource(t, e, s.DSN(db), settings(XID), func(_ *source.Options, o *Options) { o.Positions = before })
		testkit.Eventually(t, "r.trouble(source.TroublePosition) != nil && r.intake.Totals().Duplicates == 10", func() bool {
			return r.trouble(source.TroublePosition) != nil && r.intake.Totals().Duplicates == 10
		})
		require.Contains(t, r.trouble(source.TroublePosition).Brief, name)
		r.stop()
	}
	// A dump has the transactions of its cluster, which may be in the future of another one.
	r = startSource(t, e, s.DSN(db), settings(XID), nil)
	s.Exec(t, db, "UPDATE outbox SET xid = '1000000000000' WHERE id = 3")
	testkit.Eventually(t, "r.trouble(source.TroubleTopic) != nil", func() bool {
		return r.trouble(source.TroubleTopic) != nil
	})
	require.Contains(t, r.trouble(source.TroubleTopic).Reason, `UPDATE "outbox" SET "xid" = pg_current_xact_id() WHERE`)
	s.Exec(
		t, db, `UPDATE "outbox" SET "xid" = pg_current_xact_id() WHERE "xid" >= pg_snapshot_xmax(pg_current_snapshot())`)
	testkit.Eventually(t, "r.trouble(source.TroubleTopic) == nil && r.intake.Totals().Duplicates == 1", func() bool {
		return r.trouble(source.TroubleTopic) == nil && r.intake.Totals().Duplicates == 1
	})
	e.RequireOnce(t, 10)
}

// TestFaults cuts the network and kills the server under a source that reads.
func TestFaults(t *testing.T) {
	s := postgrestest.Start(t, postgrestest.Options{Proxied: true})
	for _, way := range []string{Claim, XID} {
		t.Run(way, func(t *testing.T) {
			db := s.Database(t)
			migrate(t, s.Conn(t, db), outbox.Options{})
			e := sourcetest.Start(t, t.TempDir())
			r := startSource(t, e, s.ProxiedDSN(db), settings(way), nil)
			put := func(name string) {
				_, err := s.Conn(t, db).Exec(t.Context(), insert, name, 500)
				require.NoError(t, err)
			}
			put("a")
			s.Proxy.Cut()
			put("b")
			testkit.Eventually(t, "r.trouble(source.TroubleConnection) != nil", func() bool {
				return r.trouble(source.TroubleConnection) != nil
			})
			s.Proxy.Restore()
			e.RequireOnce(t, 1000)
			put("c")
			s.Kill()
			testkit.Eventually(t, "r.trouble(source.TroubleConnection) != nil", func() bool {
				return r.trouble(source.TroubleConnection) != nil
			})
			s.Restart(t)
			put("d")
			e.RequireOnce(t, 2000)
			testkit.Eventually(t, "len(r.intake.Troubles()) == 0", func() bool { return len(r.intake.Troubles()) == 0 })
		})
	}
}
