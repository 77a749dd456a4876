package outbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/mapping"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/sourcetest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
)

// bothWays runs a test for each way, in a database of its own with an empty table.
func bothWays(t *testing.T, test func(t *testing.T, s *postgrestest.Server, db, way string)) {
	for _, way := range []string{Claim, XID} {
		t.Run(way, func(t *testing.T) {
			s := postgrestest.Shared(t)
			db := s.Database(t)
			migrate(t, s.Conn(t, db), outbox.Options{})
			test(t, s, db, way)
		})
	}
}

func TestRowsAreCountedOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, s *postgrestest.Server, db, way string) {
		c := s.Conn(t, db)
		dir := t.TempDir()
		_, err := c.Exec(t.Context(), insert, "a", 5000)
		require.NoError(t, err)
		e := sourcetest.Start(t, dir)
		r := startSource(t, e, s.DSN(db), settings(way), nil)
		e.RequireOnce(t, 5000)
		for i := range 20 {
			_, err := c.Exec(t.Context(), insert, fmt.Sprintf("b%d", i), 10)
			require.NoError(t, err)
		}
		e.RequireOnce(t, 5200)
		got := e.State.All()["a-17"]
		require.Equal(t, "shop", got.Service)
		require.Equal(t, "order", got.Type)
		testkit.Eventually(t, `r.Status().Behind == 0 && r.Status().Table == "public.outbox"`, func() bool {
			return r.Status().Behind == 0 && r.Status().Table == "public.outbox"
		})
		r.stop()
		e.Stop()

		e = sourcetest.Start(t, dir)
		r = startSource(t, e, s.DSN(db), settings(way), nil)
		_, err = c.Exec(t.Context(), insert, "c", 3)
		require.NoError(t, err)
		e.RequireOnce(t, 5203)
		require.Zero(t, r.intake.Totals().Duplicates)
		require.LessOrEqual(t, r.intake.Totals().Messages, uint64(3))
		require.Empty(t, r.intake.Troubles())
	})
}

// TestRowsThatCommitLate has transactions that begin first and commit last, so that their rows appear before others
// which were read already, by id and by transaction.
func TestRowsThatCommitLate(t *testing.T) {
	bothWays(t, func(t *testing.T, s *postgrestest.Server, db, way string) {
		e := sourcetest.Start(t, t.TempDir())
		r := startSource(t, e, s.DSN(db), settings(way), nil)
		c := s.Conn(t, db)
		want := 0
		var open []pgx.Tx
		for i := range 5 {
			tx, err := s.Conn(t, db).Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), insert, fmt.Sprintf("late%d", i), 3)
			require.NoError(t, err)
			open = append(open, tx)
			_, err = c.Exec(t.Context(), insert, fmt.Sprintf("early%d", i), 2)
			require.NoError(t, err)
			want += 5
		}
		if way == Claim { // reads committed rows
			e.RequireOnce(t, 10)
		} else {
			testkit.Eventually(t, "r.Status().Held == 10", func() bool { return r.Status().Held == 10 })
			require.Empty(t, e.State.All())
		}
		for i := len(open) - 1; i >= 0; i-- {
			_, err := open[i].Exec(t.Context(), insert, fmt.Sprintf("last%d", i), 1)
			require.NoError(t, err)
			want++
			require.NoError(t, open[i].Commit(t.Context()))
			if i == 2 {
				r.stop() // and a start in between
				r = startSource(t, e, s.DSN(db), settings(way), nil)
			}
		}
		tx, err := c.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), insert, "never", 3)
		require.NoError(t, err)
		require.NoError(t, tx.Rollback(t.Context()))
		e.RequireOnce(t, want)
		require.NotContains(t, e.State.All(), "never-1")
	})
}

// TestATransactionLargerThanABatch is stopped in its middle.
func TestATransactionLargerThanABatch(t *testing.T) {
	bothWays(t, func(t *testing.T, s *postgrestest.Server, db, way string) {
		c := s.Conn(t, db)
		const rows = 5_000
		_, err := c.Exec(t.Context(), insert, "a", rows)
		require.NoError(t, err)
		dir := t.TempDir()
		set := settings(way)
		set.Batch = 100
		read, duplicates := uint64(0), uint64(0)
		for n := range 5 {
			e := sourcetest.Start(t, dir)
			r := startSource(t, e, s.DSN(db), set, nil)
			testkit.Eventually(t, "len(e.State.All()) > min(rows-1, (n+1)*rows/5)", func() bool {
				return len(e.State.All()) > min(rows-1, (n+1)*rows/5)
			})
			r.stop()
			read += r.intake.Totals().Messages
			duplicates += r.intake.Totals().Duplicates
			e.Stop()
		}
		e := sourcetest.Start(t, dir)
		startSource(t, e, s.DSN(db), set, nil)
		e.RequireOnce(t, rows)
		// At most the batch that was stopped is read again, each time.
		require.LessOrEqual(t, duplicates, uint64(5*100))
		require.LessOrEqual(t, read, uint64(rows+5*100))
	})
}

func TestEnginesShareTheRows(t *testing.T) {
	bothWays(t, func(t *testing.T, s *postgrestest.Server, db, way string) {
		_, err := s.Conn(t, db).Exec(t.Context(), insert, "a", 1000)
		require.NoError(t, err)
		var engines []*sourcetest.Engine
		for i := range 3 {
			set := settings(way)
			set.Engines, set.Ordinal = 3, fmt.Sprint(i)
			e := sourcetest.Start(t, t.TempDir())
			engines = append(engines, e)
			startSource(t, e, s.DSN(db), set, nil)
		}
		_, err = s.Conn(t, db).Exec(t.Context(), insert, "b", 1000)
		require.NoError(t, err)
		testkit.Eventually(t, "all are counted", func() bool {
			return len(engines[0].State.All())+len(engines[1].State.All())+len(engines[2].State.All()) >= 2000
		})
		times := map[string]int{}
		for _, e := range engines {
			require.Greater(t, len(e.State.All()), 400)
			for id, n := range e.State.All() {
				times[id] += n.Times
			}
		}
		require.Len(t, times, 2000)
		for id, n := range times {
			require.Equal(t, 1, n, id)
		}
	})
}

// TestForms has rows whose payload lacks fields that the columns have, and unreadable rows.
func TestForms(t *testing.T) {
	bothWays(t, func(t *testing.T, s *postgrestest.Server, db, way string) {
		e := sourcetest.Start(t, t.TempDir())
		r := startSource(t, e, s.DSN(db), settings(way), func(in *source.Options, _ *Options) {
			in.Settings.Headers = map[string]string{"product": "x-product"}
			in.Settings.MaxMessage = 2000
		})
		c := s.Conn(t, db)
		put := func(key, payload, headers string) {
			_, err := c.Exec(t.Context(),
				`INSERT INTO outbox (created_at, idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload,
					headers)
				VALUES (now() - interval '1 minute', $1, 'Order', '1', 'order', 'orders', 'k', $2::text::json, $3::text::jsonb)`,
				key, payload, headers)
			require.NoError(t, err)
		}
		put("bare", `{}`, `{"X-Product":"A"}`)
		put("own", `{"id":"mine","service":"billing","type":"invoice"}`, `{}`)
		put("two", ` [ {"outcome":"failure"}, {"type":"refund"} ] `, `null`)
		put("cloud", `{"specversion":"1.0","id":"c-1","source":"/billing","type":"invoice.paid"}`, `{}`)
		put("wrong", `{"outcome":"perhaps"}`, `{}`)
		put("text", `"text"`, `{}`)
		put("large", `{"attributes":{"product":"`+strings.Repeat("x", 3000)+`"}}`, `{}`)
		put(strings.Repeat("k", 250), `{}`, `{}`)
		put("half", `[{},{"outcome":1},{}]`, `{}`)
		e.RequireOnce(t, 8)
		got := e.State.All()
		require.Equal(t, "A", got["bare"].Product)
		require.WithinDuration(t, time.Now().Add(-time.Minute), got["bare"].At, 30*time.Second)
		require.Equal(t, "billing", got["mine"].Service)
		require.Equal(t, "order", got["two"].Type)
		require.Equal(t, "refund", got["two/1"].Type)
		require.Equal(t, "invoice.paid", got["c-1"].Type)
		require.Contains(t, got, "half")
		require.Contains(t, got, "half/2")
		testkit.Eventually(t, "4 dead letters", func() bool { return len(r.dead.All()) == 4 })
		for id, x := range r.dead.All() {
			require.Equal(t, "public.outbox", x.From.Topic, id)
			require.Positive(t, x.From.Offset)
			require.NotEmpty(t, x.From.Headers[":id"])
		}
		require.Empty(t, r.intake.Troubles())
	})
}

// TestMap makes events of the payload of a service that knows nothing of them, in bytes.
func TestMap(t *testing.T) {
	bothWays(t, func(t *testing.T, s *postgrestest.Server, db, way string) {
		s.Exec(t, db, "ALTER TABLE outbox ALTER payload TYPE bytea USING convert_to(payload::text, 'UTF8')")
		e := sourcetest.Start(t, t.TempDir())
		startSource(t, e, s.DSN(db), settings(way), func(in *source.Options, _ *Options) {
			in.Settings.Map = &mapping.Settings{FailureIf: `text(".state") == "lost"`,
				Attributes: map[string]string{"product": ".order.product"}}
		})
		_, err := s.Conn(t, db).Exec(t.Context(),
			`INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload)
			VALUES ('a', 'Order', '1', 'OrderCreated', 'orders', 'k', $1)`, []byte(`{"orderId":7,"state":"new",`+
				`"order":{"product":"B"}}`))
		require.NoError(t, err)
		e.RequireOnce(t, 1)
		got := e.State.All()["a"]
		require.Equal(t, sourcetest.Seen{Times: 1, Service: "shop", Type: "OrderCreated", Product: "B", At: got.At}, got)
	})
}

// TestOtherTables reads the tables of others by a mapping of their columns.
func TestOtherTables(t *testing.T) {
	for _, way := range []string{Claim, XID} {
		t.Run(way, func(t *testing.T) {
			s := postgrestest.Shared(t)
			db := s.Database(t)
			s.Exec(t, db,
				`CREATE TABLE outbox_events (id bigserial PRIMARY KEY, event_id varchar(255) NOT NULL,
					event_type varchar(100) NOT NULL, aggregate_id varchar(255) NOT NULL,
					aggregate_type varchar(100) NOT NULL, payload jsonb NOT NULL, status varchar(20) DEFAULT 'PENDING',
						version integer DEFAULT 0, processing_instance varchar(255),
					locked_at timestamp, created_at timestamp DEFAULT CURRENT_TIMESTAMP, processed_at timestamp,
						next_retry_at timestamp, retry_count integer DEFAULT 0, error_message text)`,
				`CREATE TABLE kafka_outbox (id bigserial, aggregate_id varchar(255) NOT NULL, aggregate_type varchar(100) NOT NULL,
					event_type varchar(100) NOT NULL,
					kafka_topic varchar(255) NOT NULL, kafka_key varchar(255) NOT NULL, payload jsonb NOT NULL, headers jsonb,
						status varchar(20) DEFAULT 'PENDING',
					created_at timestamp DEFAULT CURRENT_TIMESTAMP, processed_at timestamp, retry_count integer DEFAULT 0,
						next_retry_at timestamp, error_message text,
					idempotency_key varchar(255) NOT NULL, PRIMARY KEY (id, created_at)) PARTITION BY RANGE (created_at)`,
				"CREATE TABLE kafka_outbox_all PARTITION OF kafka_outbox DEFAULT",
				`INSERT INTO outbox_events (event_id, event_type, aggregate_id, aggregate_type, payload) SELECT 'e' || n, `+
					`'order', n, 'Order', '{"outcome":"success"}' FROM generate_series(1, 100) n`)
			e := sourcetest.Start(t, t.TempDir())
			set := settings(way)
			set.Preset = "outbox_events"
			r := startSource(t, e, s.DSN(db), set, nil)
			column, ddl := "counted_at", `ALTER TABLE "public"."outbox_events" ADD COLUMN "counted_at" timestamptz`
			if way == XID {
				column, ddl = "xid",
					`ALTER TABLE "public"."outbox_events" ADD COLUMN "xid" xid8 NOT NULL DEFAULT pg_current_xact_id()`
			}
			testkit.Eventually(t, "r.trouble(source.TroubleTopic) != nil", func() bool {
				return r.trouble(source.TroubleTopic) != nil
			})
			require.Contains(t, r.trouble(source.TroubleTopic).Brief, "column "+column+": missing")
			require.Contains(t, r.trouble(source.TroubleTopic).Brief, ddl)
			s.Exec(t, db, ddl, strings.Replace(ddl, "outbox_events", "kafka_outbox", 1))
			e.RequireOnce(t, 100)
			require.Nil(t, r.trouble(source.TroubleTopic))

			e = sourcetest.Start(t, t.TempDir())
			set.Preset, set.Engines, set.Ordinal = "kafka_outbox", 2, "0"
			startSource(t, e, s.DSN(db), set, nil)
			other := sourcetest.Start(t, t.TempDir())
			set.Ordinal = "1"
			startSource(t, other, s.DSN(db), set, nil)
			s.Exec(t, db,
				`INSERT INTO kafka_outbox (aggregate_id, aggregate_type, event_type, kafka_topic, kafka_key, payload,
					idempotency_key)
				SELECT n, 'Order', 'OrderCreated', 'order-events', n, '{"outcome":"failure"}', 'order-created-' || n
					FROM generate_series(1, 100) n`)
			testkit.Eventually(t, "len(e.State.All())+len(other.State.All()) >= 100", func() bool {
				return len(e.State.All())+len(other.State.All()) >= 100
			})
			require.NotEmpty(t, e.State.All())
			require.NotEmpty(t, other.State.All())
		})
	}
}
