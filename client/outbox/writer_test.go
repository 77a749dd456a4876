package outbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/stretchr/testify/require"

	table "github.com/sloengine/sloengine/reliability/outbox"
)

// save saves an event in a transaction of its own, with pgx or database/sql.
type save func(t *testing.T, w *Writer, ctx context.Context, e Event) (bool, error)

func bothWays(t *testing.T, o table.Options, l table.Layout, f func(t *testing.T, conn *pgx.Conn, s save)) {
	conn, db, _ := database(t, o, l)
	t.Run("pgx", func(t *testing.T) {
		f(t, conn, func(t *testing.T, w *Writer, ctx context.Context, e Event) (saved bool, err error) {
			err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				saved, err = w.Save(ctx, tx, e)
				return err
			})
			return saved, err
		})
	})
	_, err := conn.Exec(t.Context(), "DELETE FROM "+must(table.New(o)).Name.String())
	require.NoError(t, err)
	if l.Partitioned {
		_, err := conn.Exec(t.Context(), "DELETE FROM "+must(table.New(o)).Keys().String())
		require.NoError(t, err)
	}
	t.Run("database/sql", func(t *testing.T) {
		f(t, conn, func(t *testing.T, w *Writer, ctx context.Context, e Event) (bool, error) {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			saved, err := w.SaveSQL(ctx, tx, e)
			if err != nil {
				return saved, err
			}
			return saved, tx.Commit()
		})
	})
}

func must(t *table.Table, err error) *table.Table {
	if err != nil {
		panic(err)
	}
	return t
}

func TestSave(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for name, x := range map[string]struct {
		o Options
		l table.Layout
	}{
		"plain":          {},
		"by day":         {Options{Partitioned: true}, table.Layout{Partitioned: true}},
		"plain, notify":  {Options{Notify: "outbox"}, table.Layout{}},
		"by day, notify": {Options{Partitioned: true, Notify: "outbox"}, table.Layout{Partitioned: true}},
		"other names": {Options{
			Table: table.Options{Name: "Out box", Columns: map[string]string{"key": "the key", "xid": ""}}}, table.Layout{}},
		"kafka_outbox": {Options{Table: table.Options{Preset: "kafka_outbox"}}, table.Layout{}},
		"without a header": {
			Options{Table: table.Options{Columns: map[string]string{"headers": "", "aggregate_type": ""}}}, table.Layout{}},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, x.o.Table, x.l, func(t *testing.T, conn *pgx.Conn, save save) {
				w := newWriter(t, x.o)
				require.NoError(t, w.Check(t.Context(), conn))
				ctx := WithTraceparent(t.Context(), trace)
				saved, err := save(t, w, ctx, order("a"))
				require.NoError(t, err)
				require.True(t, saved)
				again := order("a")
				again.Payload = []byte(`{}`)
				saved, err = save(t, w, ctx, again)
				require.NoError(t, err)
				require.False(t, saved, "the first one stays")
				saved, err = save(t, w, t.Context(), Event{ID: "b", Type: "T", Topic: "o", Key: "k", Payload: []byte("1")})
				require.NoError(t, err)
				require.True(t, saved)
				rows, err := table.List(t.Context(), conn, w.table, table.Filter{})
				require.NoError(t, err)
				require.Len(t, rows, 2)
				a, b := rows[0], rows[1]
				require.Equal(t, []string{"a", "OrderCreated", "42", "order-events", "42", `{"total":  12.50}`},
					[]string{a.IdempotencyKey, a.EventType, a.AggregateID, a.Topic, a.Key, string(a.Payload)})
				require.Equal(t, []string{"b", "T", "o", "k", "1"},
					[]string{b.IdempotencyKey, b.EventType, b.Topic, b.Key, string(b.Payload)})
				require.Nil(t, b.Headers)
				h, err := table.ParseHeaders(a.Headers)
				require.NoError(t, err)
				if w.table.Columns.Headers == "" {
					require.Nil(t, h)
				} else {
					require.Equal(t, map[string]string{"tenant": "ü", "traceparent": trace}, h)
				}
			})
		})
	}
}

func TestAnEventGoesWithItsTransaction(t *testing.T) {
	for _, partitioned := range []bool{false, true} {
		conn, db, more := database(t, table.Options{}, table.Layout{Partitioned: partitioned})
		w := newWriter(t, Options{Partitioned: partitioned})
		other := more()
		// A retry waits for the first transaction, and saves the event when that is rolled back.
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		saved, err := w.Save(t.Context(), tx, order("a"))
		require.NoError(t, err)
		require.True(t, saved)
		retried := make(chan bool, 1)
		go func() {
			tx, err := db.BeginTx(context.Background(), nil)
			if err == nil {
				var saved bool
				if saved, err = w.SaveSQL(context.Background(), tx, order("a")); err == nil && tx.Commit() == nil {
					retried <- saved
					return
				}
			}
			retried <- false
		}()
		require.Eventually(t, func() bool {
			return value[int](t, other,
				"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
		}, testkit.Patience, 5*time.Millisecond)
		require.NoError(t, tx.Rollback(t.Context()))
		require.True(t, <-retried)
		require.Equal(t, 1, value[int](t, other, "SELECT count(*) FROM outbox"))
	}
}

func TestNotifyWakesAListener(t *testing.T) {
	conn, _, more := database(t, table.Options{}, table.Layout{})
	w := newWriter(t, Options{Notify: "Out box"})
	listener := more()
	_, err := listener.Exec(t.Context(), `LISTEN "Out box"`)
	require.NoError(t, err)
	for _, id := range []string{"a", "a", "b"} { // the second one is no event
		require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			_, err := w.Save(t.Context(), tx, order(id))
			return err
		}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		n, err := listener.WaitForNotification(ctx)
		require.NoError(t, err)
		require.Equal(t, "Out box", n.Channel)
	}
	_, err = conn.Exec(t.Context(), `NOTIFY "Out box", 'last'`)
	require.NoError(t, err)
	n, err := listener.WaitForNotification(ctx)
	require.NoError(t, err)
	require.Equal(t, "last", n.Payload)
}

// TestWhatIsRefusedDoesNotSpoilTheTransaction: PostgreSQL would refuse all of these, and the transaction with them.
func TestWhatIsRefusedDoesNotSpoilTheTransaction(t *testing.T) {
	with := func(f func(*Event)) Event { e := order("x"); f(&e); return e }
	payload := func(s string) Event { return with(func(e *Event) { e.Payload = []byte(s) }) }
	long := strings.Repeat("x", 2000)
	for _, x := range []struct {
		typ, text string
		e         Event
	}{
		{"json", "ID is empty", with(func(e *Event) { e.ID = "" })},
		{"json", "Type is empty", with(func(e *Event) { e.Type = "" })},
		{"json", "Topic is empty", with(func(e *Event) { e.Topic = "" })},
		{"json", "ID has 2000 bytes (at most 1024)", with(func(e *Event) { e.ID = long })},
		{"json", "Key has 2000 bytes (at most 1024)", with(func(e *Event) { e.Key = long })},
		{"json", "AggregateID is not valid UTF-8", with(func(e *Event) { e.AggregateID = "\xff" })},
		{"json", "AggregateType contains a NUL character", with(func(e *Event) { e.AggregateType = "\x00" })},
		{"json", `header "a" contains a NUL character`, with(func(e *Event) { e.Headers = map[string]string{"a": "\x00"} })},
		{"json", "Headers have 65", with(func(e *Event) {
			e.Headers = map[string]string{"a": strings.Repeat(long, 33)[:65536]}
		})},
		{"json", "Payload is not JSON: unexpected end", payload("")},
		{"json", "Payload is not JSON: invalid character", payload("{'a': 1}")},
		{"json", "Payload is not valid UTF-8", payload("\"\xff\"")},
		{"json", "Payload is nested deeper than 1000 levels", payload(strings.Repeat("[", 1001) + strings.Repeat("]", 1001))},
		{"json", "Payload has 3002 bytes (at most 3000", payload(`"` + strings.Repeat("x", 3000) + `"`)},
		{"jsonb", `Payload contains \u0000`, payload(`"a\u0000"`)},
		{"jsonb", `Payload contains \ud800 without the other half`, payload(`"\ud800x"`)},
		{"jsonb", `Payload contains \udc00 without the other half`, payload(`"\udc00"`)},
		{"jsonb", `an exponent of 6 digits`, payload(`[1, 2e+100000]`)},
		{"text", "Payload contains a NUL character", payload("a\x00")},
	} {
		w := newWriter(t, Options{PayloadType: x.typ, MaxPayload: 3000})
		_, err := w.Save(t.Context(), refusing{}, x.e)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, x.text)
	}
}

// refusing is a transaction that is not asked.
type refusing struct{}

func (refusing) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	panic("an invalid event reached the database")
}

// TestWhatIsAcceptedIsStored saves what is just within the bounds, in columns of all types.
func TestWhatIsAcceptedIsStored(t *testing.T) {
	nested := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	texts := []string{`"a\\u0000"`, `"\ud83d\ude00 \u00e9\""`, `[1e9999, -1.5E-9999, "2e100000"]`, nested,
		`"` + strings.Repeat("y", 2000) + `"`, "null"}
	for typ, payloads := range map[string][]string{
		"json": append(texts, `"\u0000"`, `"\ud800"`, `1e1000000`), "jsonb": texts, "text": append(texts, "", "no JSON"),
		"bytea": append(texts, "", "\x00\xff"),
	} {
		conn, _, _ := database(t, table.Options{}, table.Layout{})
		_, err := conn.Exec(
			t.Context(), fmt.Sprintf("ALTER TABLE outbox ALTER COLUMN payload TYPE %s USING payload::text::%s", typ, typ))
		require.NoError(t, err)
		w := newWriter(t, Options{PayloadType: typ})
		require.NoError(t, w.Check(t.Context(), conn))
		for i, p := range payloads {
			e := order(fmt.Sprint(strings.Repeat("k", 1000), i))
			e.Payload, e.Key = []byte(p), strings.Repeat("ü", 512)
			require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				saved, err := w.Save(t.Context(), tx, e)
				require.True(t, saved || err != nil)
				return err
			}), "%s in %s", p, typ)
			if typ != "jsonb" {
				rows, err := table.List(t.Context(), conn, w.table, table.Filter{IDs: []int64{int64(i + 1)}})
				require.NoError(t, err)
				require.Equal(t, p, string(rows[0].Payload), typ)
			}
		}
	}
}

func TestWrongSetup(t *testing.T) {
	for text, o := range map[string]Options{
		`unknown PayloadType "xml"`:     {PayloadType: "xml"},
		`invalid MaxPayload -1`:         {MaxPayload: -1},
		`invalid Notify`:                {Notify: strings.Repeat("x", 64)},
		`unknown preset`:                {Table: table.Options{Preset: "x"}},
		`is the column id, which the d`: {Table: table.Options{Columns: map[string]string{"idempotency_key": "id"}}},
	} {
		_, err := New(o)
		require.ErrorContains(t, err, text)
	}
	conn, db, _ := database(t, table.Options{}, table.Layout{Partitioned: true})
	for text, o := range map[string]Options{
		"set Partitioned if the table is partitioned":    {},
		"the idempotency keys have a table of their own": {Table: table.Options{Name: "other"}, Partitioned: true},
		"the table differs from the settings": {Table: table.Options{Columns: map[string]string{"key": "k"}},
			Partitioned: true},
	} {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			_, err := newWriter(t, o).Save(t.Context(), tx, order("a"))
			return err
		})
		require.ErrorContains(t, err, text)
	}
	require.ErrorContains(t, newWriter(t, Options{}).Check(t.Context(), conn), "Partitioned is false, but should be true")
	require.ErrorContains(t, newWriter(t, Options{Partitioned: true, PayloadType: "bytea"}).Check(t.Context(), conn),
		"PayloadType is bytea, but should be json")
	require.ErrorContains(t, newWriter(t, Options{Table: table.Options{Name: "other"}}).Check(t.Context(), conn),
		"table public.other: does not exist")

	w := newWriter(t, Options{Partitioned: true})
	_, err := w.Save(t.Context(), conn, order("a"))
	require.ErrorContains(t, err, "*pgx.Conn is not a transaction")
	_, err = w.Save(t.Context(), (*pgxpool.Pool)(nil), order("a"))
	require.ErrorContains(t, err, "*pgxpool.Pool is not a transaction")
	_, err = w.SaveSQL(t.Context(), db, order("a"))
	require.ErrorContains(t, err, "*sql.DB is not a transaction")
	e := order("a")
	e.Key = "other"
	_, err = newWriter(t, Options{Table: table.Options{Preset: "outbox_events"}}).Save(t.Context(), refusing{}, e)
	require.ErrorContains(t, err, `Key "other" is not AggregateID, but the table has one column for both`)
}

func TestTraceparent(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for s, want := range map[string]bool{
		good: true, "": false, good + "\n": false, strings.ToUpper(good): false, "ff" + good[2:]: false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": false,
	} {
		require.Equal(t, want, validTraceparent(s), s)
	}
	w := newWriter(t, Options{Traceparent: func(context.Context) string { return good }})
	require.Equal(t, map[string]string{"traceparent": good}, w.headers(t.Context(), &Event{}))
	require.Equal(t, map[string]string{"traceparent": "own"},
		w.headers(t.Context(), &Event{Headers: map[string]string{"traceparent": "own"}}))
}
