package outbox

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatCheckSays(t *testing.T) {
	for name, x := range map[string]struct {
		ddl   []string
		o     Options
		need  Need
		lines []string
	}{
		"no table": {need: NeedRelay, lines: []string{
			`table public.outbox: does not exist; create it with sloengine outbox migrate, or: CREATE TABLE "outbox" (`,
		}},
		"missing and wrong": {
			ddl: []string{
				"CREATE TABLE outbox (id bigint, created_at timestamptz, idempotency_key text, event_type text, topic text, key " +
					"text, payload bytea, status text, error varchar(20), completed_at date)"},
			o: Options{Columns: map[string]string{"aggregate_type": "", "aggregate_id": "", "headers": "", "bucket": "",
				"xid": "", "counted_at": ""}}, need: NeedRelay,
			lines: []string{
				`table public.outbox: column attempts: missing; add it: ALTER TABLE "public"."outbox" ADD COLUMN "attempts" ` +
					`integer NOT NULL DEFAULT 0;`,
				`table public.outbox: column next_attempt_at: missing; add it: ALTER TABLE "public"."outbox" ADD COLUMN ` +
					`"next_attempt_at" timestamptz;`,
				`table public.outbox: column error: has the type character varying (want text); change it: ALTER TABLE ` +
					`"public"."outbox" ALTER COLUMN "error" TYPE text USING "error"::text;`,
				`table public.outbox: column completed_at: has the type date (want timestamp with time zone, timestamp without ` +
					`time zone); change it: ALTER TABLE "public"."outbox" ALTER COLUMN "completed_at" TYPE timestamptz USING ` +
					`"completed_at"::timestamptz;`,
				"table public.outbox: the table public.outbox_buckets beside it does not exist; create it with sloengine " +
					"outbox migrate",
				"table public.outbox: the table public.outbox_relays beside it does not exist; create it with sloengine " +
					"outbox migrate",
			},
		},
		"no version": {
			ddl: []string{
				"CREATE TABLE outbox_events (id bigint, created_at timestamp, event_id text, event_type text, aggregate_type " +
					"text, aggregate_id text, payload jsonb, status varchar(20) CHECK (status IN ('PENDING', 'COMPLETED', " +
					"'FAILED')), retry_count int, next_retry_at timestamp, error_message text, processed_at timestamp, locked_at " +
					"timestamp, CHECK (aggregate_type <> status))"},
			o: Options{Preset: "outbox_events", Topic: "t"}, need: NeedOptimistic,
			lines: []string{
				`table public.outbox_events: column version: missing; add it: ALTER TABLE "public"."outbox_events" ADD COLUMN ` +
					`"version" integer NOT NULL DEFAULT 0;`,
				`table public.outbox_events: column processing_instance: missing; add it: ALTER TABLE "public"."outbox_events" ` +
					`ADD COLUMN "processing_instance" text;`,
				`table public.outbox_events: column status: the constraint outbox_events_status_check does not allow PROCESSING; ` +
					`replace it: ALTER TABLE "public"."outbox_events" DROP CONSTRAINT "outbox_events_status_check", ADD CONSTRAINT ` +
					`"outbox_events_status_check" CHECK ("status" IN ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED')) NOT VALID;`,
			},
		},
		"settings": {
			ddl: []string{"CREATE TABLE outbox (id bigint, created_at timestamptz, idempotency_key text, payload text)"},
			o: Options{Columns: map[string]string{"aggregate_type": "", "aggregate_id": "", "headers": "", "bucket": "",
				"xid": "", "counted_at": "", "topic": "", "key": "", "event_type": "", "status": "", "attempts": "",
				"next_attempt_at": "", "error": "", "completed_at": ""}},
			need: NeedPublish | NeedXID,
			lines: []string{"columns.xid is missing in the settings", "columns.event_type is missing in the settings",
				"columns.key is missing in the settings", "has no column for the topic (set topic, or columns.topic)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, _ := database(t)
			exec(t, conn, x.ddl...)
			_, err := Check(t.Context(), conn, newTable(t, x.o), x.need)
			var e *SchemaError
			require.ErrorAs(t, err, &e)
			require.Len(t, e.Problems, len(x.lines))
			for _, line := range x.lines {
				require.ErrorContains(t, err, line)
			}
		})
	}
}

// TestTheDDLOfCheckHelps runs the statements of the error until there is none.
func TestTheDDLOfCheckHelps(t *testing.T) {
	conn, _ := database(t)
	table := newTable(t, Options{})
	migrate(t, conn, table, Layout{})
	exec(t, conn, "ALTER TABLE outbox DROP COLUMN attempts, DROP COLUMN error, ALTER COLUMN completed_at TYPE text")
	_, err := Check(t.Context(), conn, table, NeedRelay)
	var e *SchemaError
	require.ErrorAs(t, err, &e)
	require.Len(t, e.Problems, 3)
	for _, p := range e.Problems {
		exec(t, conn, p.DDL)
	}
	_, err = Check(t.Context(), conn, table, NeedRelay)
	require.NoError(t, err)

	// The same table, to be claimed by versions.
	table = newTable(t, Options{
		Columns: map[string]string{"version": "version", "processing_instance": "instance", "locked_at": "locked_at"}})
	_, err = Check(t.Context(), conn, table, NeedOptimistic)
	require.ErrorAs(t, err, &e)
	require.Len(t, e.Problems, 4)
	plan, err := Plan(t.Context(), conn, table, Layout{})
	require.NoError(t, err)
	for i, p := range e.Problems {
		require.Equal(t, p.DDL, plan[i].SQL, "migrate does the same")
		exec(t, conn, p.DDL)
	}
	_, err = Check(t.Context(), conn, table, NeedOptimistic|NeedRelay)
	require.NoError(t, err)
	seed(t, conn, "k", Pending, 1, false)
	exec(t, conn, "UPDATE outbox SET status = 'PROCESSING'")
}

func TestOptions(t *testing.T) {
	long := strings.Repeat("x", 40)
	for text, o := range map[string]Options{
		`preset: unknown preset "mysql" (want kafka_outbox or outbox_events)`: {Preset: "mysql"},
		`columns: unknown column "keys" (want one of id, xid, created_at,`:    {Columns: map[string]string{"keys": "k"}},
		`columns.id: missing (every outbox table needs this column)`:          {Columns: map[string]string{"id": ""}},
		`columns.key: name "a\x00b" contains a control character`: {
			Columns: map[string]string{"key": "a\x00b"}},
		`name: invalid table name "a.b.c" (want TABLE or SCHEMA.TABLE)`: {Name: "a.b.c"},
		`name: invalid table name "a.": empty name`:                     {Name: "a."},
		`name: invalid table name "\"a": a quote is not closed`:         {Name: `"a`},
		`name: invalid table name "\"a\"b": expected a dot after`:       {Name: `"a"b`},
		`name: table name "` + long + `" is too long (at most 39 bytes`: {Name: long},
		`columns.key: name "xxxxxxxxxxxxxxxxxxxx".. has 80 bytes (PostgreSQL ta`: {
			Columns: map[string]string{"key": long + long}},
	} {
		_, err := New(o)
		require.ErrorContains(t, err, text)
	}
	for s, want := range map[string]Name{"": {"", "outbox"}, "a.b": {"a", "b"}, `"a.b".c`: {"a.b", "c"},
		`Out box`: {"", "Out box"}} {
		require.Equal(t, want, newTable(t, Options{Name: s}).Name)
	}
	require.NoError(t, checkIdentifier(strings.Repeat("x", 63)))
	require.Error(t, checkIdentifier(strings.Repeat("x", 64)))
	require.Equal(t, `"we""ird"`, Column(`we"ird`).String())
	require.Equal(t, `E'a''\\b'`, literal(`a'\b`))
}

func TestHeaders(t *testing.T) {
	for in, want := range map[string]map[string]string{
		"": nil, "null": nil, "{}": {}, `{"a": "ü", "n": 1.50, "o": {"x": [1]}, "t": true, "z": null}`: {"a": "ü",
			"n": "1.50", "o": `{"x": [1]}`, "t": "true"},
	} {
		got, err := ParseHeaders([]byte(in))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := ParseHeaders([]byte(`["a"]`))
	require.ErrorContains(t, err, "want a JSON object")
}
