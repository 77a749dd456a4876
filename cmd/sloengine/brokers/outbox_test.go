package brokers

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/postgres/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }

// outboxTerminal runs commands on a database.
type outboxTerminal struct {
	t    *testing.T
	conn *pgx.Conn
	dsn  string // the file
}

func newOutboxTerminal(t *testing.T) *outboxTerminal {
	t.Helper()
	s := postgrestest.Shared(t)
	db := s.Database(t)
	dsn := filepath.Join(t.TempDir(), "dsn")
	require.NoError(t, os.WriteFile(dsn, []byte(s.DSN(db)), 0o600))
	return &outboxTerminal{t, s.Conn(t, db), dsn}
}

// run runs a command with input, and returns what it writes and its exit code.
func (x *outboxTerminal) run(input string, args ...string) (out, stderr string, code int) {
	x.t.Helper()
	var o, e strings.Builder
	s := cli.Streams{In: strings.NewReader(input), Out: &o, Err: &e}
	if x.dsn != "" {
		args = append(args, "--dsn-file", x.dsn)
	}
	code = cli.Execute(x.t.Context(), NewOutbox(s), s, args)
	require.NotContains(x.t, o.String()+e.String(), postgrestest.AlicePassword, "the password of the DSN")
	return o.String(), e.String(), code
}

// ok runs a command that succeeds.
func (x *outboxTerminal) ok(args ...string) string {
	x.t.Helper()
	out, stderr, code := x.run("", args...)
	require.Equal(x.t, cli.ExitOK, code, stderr)
	return out
}

func (x *outboxTerminal) exec(statements ...string) {
	x.t.Helper()
	for _, s := range statements {
		_, err := x.conn.Exec(x.t.Context(), s)
		require.NoError(x.t, err, s)
	}
}

// rows writes a row in each state: 1 PENDING, 2 waiting, 3 FAILED with a hostile error, 4 COMPLETED.
func (x *outboxTerminal) rows() {
	x.t.Helper()
	insert := `INSERT INTO outbox (idempotency_key, aggregate_type, aggregate_id, event_type, topic, key, payload, status,
		attempts, next_attempt_at, error, created_at, completed_at)
		VALUES ('%s', 'Order', '42', '%s', 'order-events', 'k', '{"secret": 1}', '%s', %d, %s, %s, '2024-11-20 09:00:0%d+00',
			%s)`
	x.exec(
		fmt.Sprintf(insert, "a", "OrderCreated", "PENDING", 0, "NULL", "NULL", 1, "NULL"),
		fmt.Sprintf(insert, "b", "OrderCreated", "PENDING", 2, "now() + interval '1 hour'", "'broker is down'", 2, "NULL"),
		fmt.Sprintf(insert, "c", "OrderPaid", "FAILED", 9, "NULL", `E'too \x1b[31mlarge\nfor it'`, 3, "now()"),
		fmt.Sprintf(insert, "d", "OrderCreated", "COMPLETED", 0, "NULL", "NULL", 4, "now()"))
}

func TestOutboxMigrate(t *testing.T) {
	x := newOutboxTerminal(t)
	dry := x.ok("migrate", "--partitioned", "--source", "xid", "--dry-run")
	require.Contains(t, dry, `CREATE TABLE "public"."outbox" (`)
	_, stderr, code := x.run("", "list")
	require.Equal(t, cli.ExitFailure, code)
	require.Contains(t, stderr,
		`table public.outbox: does not exist; create it with sloengine outbox migrate, or: CREATE TABLE "outbox" (`,
		"a dry run changes nothing")
	require.Equal(t, dry, x.ok("migrate", "--partitioned", "--source", "xid"))
	out, stderr, code := x.run("", "migrate", "--source", "xid")
	require.Equal(t, []any{"", "table outbox has everything\n", cli.ExitOK}, []any{out, stderr, code})

	x = newOutboxTerminal(t)
	x.exec(strings.TrimSuffix(dry, "\n")) // the statements can be run by hand
	require.Empty(t, x.ok("migrate", "--source", "xid"))
	require.JSONEq(t, "[]", x.ok("migrate", "--source", "xid", "-o", "json"))
	x.exec("ALTER TABLE outbox DROP COLUMN status")
	require.Contains(t, x.ok("migrate"), `ALTER TABLE "public"."outbox" ADD COLUMN "status"`)

	x = newOutboxTerminal(t)
	require.Contains(t, x.ok("migrate", "--table", "public.Out box", "--column", "key=the key", "--column", "headers="),
		`"the key" text NOT NULL`)
	require.NotContains(t, x.ok("migrate", "--preset", "outbox_events", "--topic", "statuses"), `"topic"`)
	require.Equal(t, "no rows\n", x.ok("list", "--preset", "outbox_events", "--topic", "statuses"))
}

func TestRowsAreListedRetriedAndReplayed(t *testing.T) {
	x := newOutboxTerminal(t)
	x.ok("migrate")
	require.Equal(t, "no rows\n", x.ok("list"))
	x.rows()
	out := x.ok("list")
	require.Contains(t, out, `too \x1b[31mlarge\nfor it`)
	require.NotContains(t, out, "\x1b")
	require.NotContains(t, out, "secret")
	require.Len(t, strings.Split(out, "\n"), 5, "a header and three rows")
	require.Len(t, strings.Split(x.ok("list", "--status", "waiting,FAILED"), "\n"), 4)
	require.Contains(t, x.ok("list", "--status", "completed", "--older-than", "1h"), "2024-11-20 09:00:04Z")
	var rows []outboxRow
	require.NoError(t, json.Unmarshal([]byte(x.ok("list", "--type", "OrderPaid", "-o", "json")), &rows))
	require.Equal(t, []outboxRow{{
		ID: 3, CreatedAt: rows[0].CreatedAt, Status: "FAILED", IdempotencyKey: "c", AggregateType: "Order", AggregateID: "42",
		EventType: "OrderPaid",
		Topic:     "order-events", Key: "k", Bytes: 13, Attempts: 9, Error: "too \x1b[31mlarge\nfor it",
		CompletedAt: rows[0].CompletedAt,
	}}, rows)

	out, stderr, code := x.run("", "retry", "1", "3", "4", "99", "3")
	require.Equal(t, cli.ExitFindings, code)
	require.Equal(t,
		"retried 1 row\nrow 1 is PENDING and due already\nrow 4 is COMPLETED (see sloengine outbox replay)\nrow 99 does "+
			"not exist\n", out)
	require.Contains(t, stderr, "msg=audit action=outbox.retry user=")
	require.Contains(t, stderr, `database_user=alice table=outbox ids="[1 3 4 99]"`)
	require.Equal(t, "retried 0 rows\n", x.ok("retry", "--all", "--type", "OrderPaid"))
	require.Equal(t, "retried 1 row\n", x.ok("retry", "--all"))

	hour := []string{"replay", "--from", "2024-11-20T09:00:00Z", "--to", "2024-11-20T10:00:00Z"}
	require.Equal(t, "1 row would be published again\n", x.ok(append(hour, "--dry-run")...))
	for _, answer := range []string{"", "n\n", "perhaps\n"} {
		_, stderr, code = x.run(answer, hour...)
		require.Equal(t, cli.ExitFailure, code)
		require.Contains(t, stderr, "publish 1 row of outbox again? [y/N] ")
		require.Contains(t, stderr, "nothing was changed")
		require.NotContains(t, stderr, "audit")
	}
	require.Equal(t, "0 rows will be published again\n", x.ok(append(hour, "--type", "OrderPaid")...))
	out, stderr, code = x.run("y\n", hour...)
	require.Equal(t, []any{"1 row will be published again\n", cli.ExitOK}, []any{out, code})
	require.Contains(t, stderr, "action=outbox.replay")
	require.Contains(t, x.ok(append(hour, "--yes", "-o", "json")...), `"replayed": 0`)
}

func TestOutboxStatsAndCleanup(t *testing.T) {
	x := newOutboxTerminal(t)
	x.ok("migrate", "--partitioned")
	x.rows()
	x.exec("UPDATE outbox_buckets SET worker = 'relay-1', lease_until = now() + interval '5 minutes' WHERE bucket < 60",
		"INSERT INTO outbox_relays VALUES ('relay-1', now())")
	x.exec("UPDATE outbox SET completed_at = created_at WHERE id = 4")
	out := x.ok("stats")
	for _, want := range []string{
		"pending 2 (1 of them failed at least once), failed 1, completed 1\n", "oldest pending row: 2024-11-20 09:00:01Z, ",
		"last hour: 0 completed, latency p50 -, p95 -\n",
		"order-events  OrderCreated  2        0", "relay-1  60       ", "4 of 64 buckets have no relay\n",
	} {
		require.Contains(t, out, want)
	}
	require.Contains(t, x.ok("stats", "-o", "json"), `"buckets_without_lease": 4`)

	x.exec("INSERT INTO outbox_keys SELECT idempotency_key, created_at FROM outbox")
	out, stderr, code := x.run("", "cleanup", "--retention", "1m")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(
		t, "deleted 1 row and 1 idempotency key\nthe default partition has rows: there was no partition for their day\n", out)
	require.Contains(t, stderr, "action=outbox.cleanup")
}

func TestOutboxWrongUsage(t *testing.T) {
	x := newOutboxTerminal(t)
	x.ok("migrate")
	for text, args := range map[string][]string{
		`invalid --status "sent" (want pending, waiting, processing, failed or completed)`: {"list", "--status", "sent"},
		`invalid --limit 0`:          {"list", "--limit", "0"},
		`invalid --older-than "old"`: {"list", "--older-than", "old"},
		`set either the IDs of rows, or --all; see 'outbox retry --help'`: {"retry"},
		`set either the IDs of rows`:                                      {"retry", "1", "--all"},
		`--type is for --all`:                                             {"retry", "1", "--type", "x"},
		`invalid ID "x"`:                                                  {"retry", "x"},
		`invalid --from ""`:                                               {"replay"},
		`invalid --to "2024-11-20T09:00:00Z" (want a time after --from`: {"replay", "--from", "2024-11-20T09:00:00Z",
			"--to", "2024-11-20T09:00:00Z"},
		`invalid --ahead 0`:                            {"migrate", "--ahead", "0"},
		`invalid --retention "x"`:                      {"cleanup", "--retention", "x"},
		`--without-relay requires --source claim`:      {"cleanup", "--without-relay"},
		`preset: unknown preset "x"`:                   {"list", "--preset", "x"},
		`columns: unknown column "x" (want one of id,`: {"list", "--column", "x=y"},
		`contains a control character`:                 {"list", "--table", "a\a.b.c"},
		`password_file: `:                              {"list", "--password-file", "/nowhere"},
		`want none, claim or xid`:                      {"migrate", "--source", "x"},
	} {
		_, stderr, code := x.run("", args...)
		require.Equal(t, cli.ExitUsage, code, args)
		require.Contains(t, stderr, text)
	}
	x.dsn = ""
	t.Setenv("PGHOST", "")
	_, stderr, code := x.run("", "list")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "no database: set --dsn-file, or PGHOST, PGUSER and PGDATABASE as for psql")
}

// TestTheEnvironmentNamesTheDatabase, as for psql.
func TestTheEnvironmentNamesTheDatabase(t *testing.T) {
	x := newOutboxTerminal(t)
	c := x.conn.Config()
	x.dsn = ""
	for name, value := range map[string]string{"PGHOST": c.Host, "PGPORT": fmt.Sprint(c.Port), "PGUSER": c.User,
		"PGPASSWORD": c.Password, "PGDATABASE": c.Database, "PGSSLMODE": "require"} {
		t.Setenv(name, value)
	}
	x.ok("migrate")
	require.Equal(t, "no rows\n", x.ok("list"))
	t.Setenv("PGPASSWORD", "wrong")
	_, stderr, code := x.run("", "list")
	require.Equal(t, cli.ExitFailure, code)
	require.Contains(t, stderr, "password authentication failed")
}
