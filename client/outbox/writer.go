package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	table "github.com/sloengine/sloengine/reliability/outbox"
)

// Options say which table events go to. The zero value is the one that "sloengine outbox migrate" creates.
type Options struct {
	// Table is the table and its columns.
	Table table.Options
	// Partitioned is set for a table with partitions by day, whose idempotency keys are in a table of their own.
	Partitioned bool
	// PayloadType of the table: json (default), jsonb, text or bytea.
	PayloadType string
	// MaxPayload bounds the payload in bytes. Default: 1,000,000, which fits into a message of Kafka with its default
	// settings.
	MaxPayload int
	// Notify is a channel of NOTIFY, which wakes a reader that listens. Default: none. PostgreSQL commits transactions
	// that notify one after the other, so leave it out above some hundred commits a second.
	Notify string
	// Traceparent returns the W3C trace context of a context, for the header traceparent of events. Default: what
	// WithTraceparent has stored.
	Traceparent func(context.Context) string
}

// Writer writes events. Its methods may be used by several goroutines.
type Writer struct {
	o          Options
	table      *table.Table
	statement  string
	parameters []int // which value each parameter of the statement has
}

// New checks the options.
func New(o Options) (*Writer, error) {
	if o.PayloadType == "" {
		o.PayloadType = "json"
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = 1_000_000
	}
	if o.Traceparent == nil {
		o.Traceparent = traceparent
	}
	t, err := table.New(o.Table)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	switch c := &t.Columns; {
	case o.MaxPayload < 0:
		return nil, fmt.Errorf("outbox: invalid MaxPayload %d", o.MaxPayload)
	case strings.ContainsRune(o.Notify, 0) || len(o.Notify) > 63:
		return nil, fmt.Errorf("outbox: invalid Notify %q (want the name of a channel, up to 63 bytes)", o.Notify)
	case c.IdempotencyKey == c.ID:
		return nil,
			errors.New(
				"outbox: columns.idempotency_key is the column id, which the database gives (it has to be one that the caller " +
					"gives)")
	}
	w := &Writer{o: o, table: t}
	return w, w.build()
}

// The values of an event, as the statement's parameters are chosen from them.
const (
	valueID = iota
	valueAggregateType
	valueAggregateID
	valueType
	valueTopic
	valueKey
	valuePayload
	valueHeaders
	valueNotify
	valueCount
)

// build makes the statement that saves an event. It affects one row, or none for a known idempotency key.
func (w *Writer) build() error {
	payload := map[string]string{"json": "text::json", "jsonb": "text::jsonb", "text": "text",
		"bytea": "bytea"}[w.o.PayloadType]
	if payload == "" {
		return fmt.Errorf("outbox: unknown PayloadType %q (want json, jsonb, text or bytea)", w.o.PayloadType)
	}
	parameter := func(value int, as string) string {
		w.parameters = append(w.parameters, value)
		return fmt.Sprintf("$%d::%s", len(w.parameters), as)
	}
	c := &w.table.Columns
	id := parameter(valueID, "text")
	columns, values := []string{c.IdempotencyKey.String()}, []string{id}
	seen := map[table.Column]bool{"": true}
	for _, x := range []struct {
		column table.Column
		value  int
		as     string
	}{
		{c.AggregateType, valueAggregateType, "text"}, {c.AggregateID, valueAggregateID, "text"},
		{c.EventType, valueType, "text"},
		{c.Topic, valueTopic, "text"}, {c.Key, valueKey, "text"}, {c.Payload, valuePayload, payload},
		{c.Headers, valueHeaders, "text::jsonb"},
	} {
		if !seen[x.column] {
			seen[x.column] = true
			columns, values = append(columns, x.column.String()), append(values, parameter(x.value, x.as))
		}
	}
	var with []string
	statement := fmt.Sprintf("INSERT INTO %s (%s) ", w.table.Name, strings.Join(columns, ", "))
	if w.o.Partitioned {
		with = append(with,
			fmt.Sprintf("fresh AS (INSERT INTO %s (idempotency_key) VALUES (%s) ON CONFLICT DO NOTHING RETURNING "+
				"idempotency_key)", w.table.Keys(), id))
		statement += fmt.Sprintf("SELECT %s FROM fresh", strings.Join(values, ", "))
	} else {
		statement += fmt.Sprintf("VALUES (%s) ON CONFLICT (%s) DO NOTHING", strings.Join(values, ", "), c.IdempotencyKey)
	}
	if w.o.Notify != "" {
		with = append(with, "saved AS ("+statement+" RETURNING 1)")
		statement = fmt.Sprintf("SELECT pg_notify(%s, '') FROM saved", parameter(valueNotify, "text"))
	}
	if len(with) > 0 {
		statement = "WITH " + strings.Join(with, ", ") + " " + statement
	}
	w.statement = statement
	return nil
}

// PgxTx is a transaction of pgx.
type PgxTx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// SQLTx is a transaction of database/sql, with any driver of PostgreSQL.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Save writes the event in a transaction of pgx. saved is false if there is an event with this ID already, which is no
// error. It is one statement.
//
// If a transaction that is not over has saved the same ID, Save waits for its end. Under REPEATABLE READ or
// SERIALIZABLE, PostgreSQL may then report a serialization failure, as for any other row.
//
// An error that wraps ErrInvalid is about the event and leaves the transaction as it is. After any other error, the
// transaction has to be rolled back.
func (w *Writer) Save(ctx context.Context, tx PgxTx, e Event) (saved bool, err error) {
	args, err := w.arguments(ctx, tx, &e)
	if err != nil {
		return false, err
	}
	tag, err := tx.Exec(ctx, w.statement, args...)
	if err != nil {
		return false, w.explain(err)
	}
	return tag.RowsAffected() == 1, nil
}

// SaveSQL is Save in a transaction of database/sql.
func (w *Writer) SaveSQL(ctx context.Context, tx SQLTx, e Event) (saved bool, err error) {
	args, err := w.arguments(ctx, tx, &e)
	if err != nil {
		return false, err
	}
	result, err := tx.ExecContext(ctx, w.statement, args...)
	if err != nil {
		return false, w.explain(err)
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// arguments are those of the statement.
func (w *Writer) arguments(ctx context.Context, tx any, e *Event) ([]any, error) {
	if whole(tx) {
		return nil, fmt.Errorf(
			"outbox: %T is not a transaction, so the event would be stored without the data, or the data without the event", tx)
	}
	if err := e.check(&w.o, w.table.Columns.Topic != ""); err != nil {
		return nil, err
	}
	switch c := &w.table.Columns; {
	case e.Key == "":
		e.Key = e.AggregateID
	case c.Key == c.AggregateID && e.Key != e.AggregateID:
		return nil, invalid("Key %q is not AggregateID, but the table has one column for both", e.Key)
	}
	values := [valueCount]any{
		valueID: e.ID, valueAggregateType: e.AggregateType, valueAggregateID: e.AggregateID, valueType: e.Type,
		valueTopic: e.Topic, valueKey: e.Key, valuePayload: string(e.Payload), valueNotify: w.o.Notify,
	}
	if w.o.PayloadType == "bytea" {
		values[valuePayload] = append([]byte{}, e.Payload...) // an empty one is not NULL
	}
	if h := w.headers(ctx, e); len(h) > 0 {
		data, err := json.Marshal(h)
		if err != nil {
			return nil, fmt.Errorf("outbox: encode headers: %w", err)
		}
		values[valueHeaders] = string(data)
	}
	args := make([]any, len(w.parameters))
	for i, v := range w.parameters {
		args[i] = values[v]
	}
	return args, nil
}

// headers are those of the event, with the trace context if they name none.
func (w *Writer) headers(ctx context.Context, e *Event) map[string]string {
	if _, named := e.Headers[traceHeader]; named || w.table.Columns.Headers == "" {
		return e.Headers
	}
	trace := w.o.Traceparent(ctx)
	if !validTraceparent(trace) {
		return e.Headers
	}
	h := map[string]string{traceHeader: trace}
	maps.Copy(h, e.Headers)
	return h
}

// explain adds what to do about errors of a wrong setup.
func (w *Writer) explain(err error) error {
	var state interface{ SQLState() string }
	hint := ""
	if errors.As(err, &state) {
		switch state.SQLState() {
		case "42P10": // no unique index for ON CONFLICT
			hint = fmt.Sprintf(
				" (there is no unique index on %s: run sloengine outbox migrate, or set Partitioned if the table is partitioned)",
				w.table.Columns.IdempotencyKey)
		case "42P01":
			hint = " (run sloengine outbox migrate; with Partitioned, the idempotency keys have a table of their own)"
		case "42703", "42804":
			hint = " (the table differs from the settings: see sloengine outbox migrate --dry-run)"
		}
	}
	return fmt.Errorf("outbox: save event in %s: %w%s", w.table.Name.Text(), err, hint)
}

// Check compares the table with what the writer needs. Call it once at start: an error of Save spoils a transaction.
func (w *Writer) Check(ctx context.Context, db table.DB) error {
	s, err := table.Check(ctx, db, w.table, table.NeedPublish)
	switch {
	case err != nil:
		return fmt.Errorf("outbox: %w", err)
	case s.Partitioned != w.o.Partitioned:
		return fmt.Errorf("outbox: table %s: Partitioned is %v, but should be %v", s.Table.Text(),
			w.o.Partitioned, s.Partitioned)
	case !strings.HasPrefix(s.PayloadType, w.o.PayloadType) &&
		(s.PayloadType != "character varying" || w.o.PayloadType != "text"):
		return fmt.Errorf("outbox: table %s: PayloadType is %s, but should be %s", s.Table.Text(),
			w.o.PayloadType, s.PayloadType)
	}
	return nil
}
