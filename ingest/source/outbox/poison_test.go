package outbox

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/sourcetest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
)

// looseTable takes rows that a table of this program would not.
const looseTable = `CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	xid xid8 DEFAULT pg_current_xact_id(), created_at timestamptz, idempotency_key text,
	event_type text, topic text, key text, payload bytea, headers jsonb, bucket bigint, counted_at timestamptz,
		status text DEFAULT 'PENDING', attempts int, next_attempt_at timestamptz,
	error text, completed_at timestamptz)`

// No row stops those behind it, with any content.
func TestPoison(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	times := []any{nil, "infinity", "-infinity", "99999-01-01", "294276-12-31 23:59:59+00", "4713-01-01 BC",
		"2262-04-12", "1677-09-21", "now"}
	texts := []any{nil, "", " ", "\x01\x7f", strings.Repeat("ü", 5000), "order", `"`, "a\nb", "\u2028"}
	headers := []any{nil, "{}", "[]", "null", "7", `{"specversion":"1.0","ce_id":{}}`, `{"content-type":["x"]}`,
		`{"ce_specversion":"1.0","ce_type":"` + strings.Repeat("x", 70_000) + `"}`}
	payloads := []any{
		nil, "", "null", "[]", "[[]]", "{}", "{", "\xff\x00\xfe", `{"service":"shop","time":"99999-01-01T00:00:00Z"}`,
		`{"type":"\u0001"}`, strings.Repeat("[", 100_000),
		strings.Repeat(`{"service":"x"}`+"\n", 30), strings.Repeat("\x7f", 200_000), `{"outcome":"success"}`,
		`{"duration_ms":1e308}`, `[{"id":"a"},{"id":7}]`,
	}
	buckets := []any{nil, 0, -5, 63, 64, int64(1) << 40}
	pick := func(list []any) any { return list[rnd.IntN(len(list))] }
	bothWays(t, func(t *testing.T, s *postgrestest.Server, db, way string) {
		s.Exec(t, db, "DROP TABLE outbox", looseTable)
		c := s.Conn(t, db)
		set := settings(way)
		set.Columns = map[string]string{"aggregate_type": "", "aggregate_id": ""}
		store, err := dlq.NewMemory(dlq.MemoryOptions{})
		require.NoError(t, err)
		e := sourcetest.Start(t, t.TempDir())
		r := startSource(t, e, s.DSN(db), set, func(in *source.Options, _ *Options) {
			in.Save, in.Settings.Backfill = store.Save, source.BackfillAuto
			in.Settings.MaxMessage, in.Settings.Headers = 128<<10, map[string]string{"h": "x"}
		})
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%d events, %v\n%s", len(e.State.All()), r.intake.Troubles(), &r.log)
			}
		})
		const n = 200
		for i := range n {
			// The last ones differ in their time alone.
			created, payload, bucket := times[i%len(times)], any(`{"outcome":"success"}`), any(0)
			if i < 150 {
				payload, bucket = pick(payloads), pick(buckets)
			}
			if text, ok := payload.(string); ok {
				payload = []byte(text)
			}
			_, err := c.Exec(t.Context(),
				`INSERT INTO outbox (created_at, idempotency_key, event_type, topic, key, payload, headers, bucket)
				VALUES ($1::text::timestamptz, $2, $3, $4, $5, $6, $7::text::jsonb, $8)`,
				created, pick(texts), pick(texts), pick(texts), pick(texts), payload, pick(headers), bucket)
			require.NoError(t, err)
			_, err = c.Exec(t.Context(),
				`INSERT INTO outbox (created_at, idempotency_key, event_type, payload) VALUES (now(), $1, 'order', '{}')`,
				fmt.Sprintf("good-%d", i))
			require.NoError(t, err)
		}
		testkit.Eventually(t, "the good ones are counted", func() bool {
			good := 0
			for id := range e.State.All() {
				if strings.HasPrefix(id, "good-") {
					good++
				}
			}
			return good == n
		})
		testkit.Eventually(t, `r.Status().Table != "" && r.Status().Behind == 0`, func() bool {
			return r.Status().Table != "" && r.Status().Behind == 0
		})
		require.Empty(t, r.intake.Troubles())
		stats, err := store.Stats(t.Context())
		require.NoError(t, err)
		require.Positive(t, stats.Count)

		// The command lists them, too.
		table, err := outbox.New(outbox.Options{Columns: set.Columns})
		require.NoError(t, err)
		rows, err := outbox.List(t.Context(), c, table, outbox.Filter{Limit: 1000})
		require.NoError(t, err)
		require.Len(t, rows, 2*n)
		_, err = outbox.ReadBacklog(t.Context(), c, table)
		require.NoError(t, err)
	})
}
