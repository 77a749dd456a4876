package outbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Column is the name of a column, as it stands in the catalogue. Empty: the table has no such column.
type Column string

// String is the name as a quoted identifier of SQL, so that formatting a Column into a statement is safe.
func (c Column) String() string {
	if c == "" {
		return ""
	}
	return pgx.Identifier{string(c)}.Sanitize()
}

// Columns are the names of an outbox table's columns.
type Columns struct {
	ID             Column // ascending number of the row
	XID            Column // transaction that wrote the row, xid8
	CreatedAt      Column
	IdempotencyKey Column // the id of the event for everybody behind; may be the same column as ID
	AggregateType  Column
	AggregateID    Column
	EventType      Column
	Topic          Column // Kafka topic, RabbitMQ exchange or HTTP path; without it, Table.Topic is the topic of all rows
	Key            Column // Kafka key or RabbitMQ routing key; order holds per key
	Payload        Column
	Headers        Column // JSON object
	Bucket         Column // hash of the key, 0 to Buckets-1; without it, the hash is calculated
	Status         Column
	Attempts       Column
	NextAttemptAt  Column // not before this time; NULL: now
	Error          Column // of the last attempt
	CompletedAt    Column // when the relay was done with the row
	CountedAt      Column // when an engine that reads the table in the way "claim" was done with the row

	// The columns below are there only in tables whose rows are claimed one by one.
	Version            Column // increases with every change of the row
	ProcessingInstance Column // who has claimed the row
	LockedAt           Column // when the row was claimed
}

// Statuses of rows. Processing occurs only in tables whose rows are claimed one by one.
const (
	Pending    = "PENDING"
	Processing = "PROCESSING"
	Completed  = "COMPLETED"
	Failed     = "FAILED"
)

// Buckets is how many hash buckets the keys are spread over.
const Buckets = 64

// A field describes one of the Columns.
type field struct {
	name  string // in settings and messages
	of    func(*Columns) *Column
	types []string // accepted, as format_type prints them without length
	ddl   string   // type and constraints in a new table
	// data is set where only the writer of the row knows the value, so that the column cannot be added to rows that are
	// there.
	data bool
	// add is the definition for a table that has rows, where it differs from ddl.
	add string
	// after follows the addition: SQL with %[1]s for the table and %[2]s for the column.
	after string
	note  string // effect of the addition on existing rows
}

var (
	textTypes  = []string{"text", "character varying", "character", "uuid"}
	wholeTypes = []string{"bigint", "integer", "smallint"}
	timeTypes  = []string{"timestamp with time zone", "timestamp without time zone"}
)

// fields are in the order of the columns in a new table.
var fields = []field{
	{name: "id", of: func(c *Columns) *Column { return &c.ID },
		types: wholeTypes, ddl: "bigint GENERATED ALWAYS AS IDENTITY", data: true},
	{name: "xid", of: func(c *Columns) *Column { return &c.XID },
		types: []string{"xid8"}, ddl: "xid8 NOT NULL DEFAULT pg_current_xact_id()"},
	{name: "created_at", of: func(c *Columns) *Column { return &c.CreatedAt },
		types: timeTypes, ddl: "timestamptz NOT NULL DEFAULT now()", data: true},
	{name: "idempotency_key", of: func(c *Columns) *Column { return &c.IdempotencyKey },
		types: append(textTypes, wholeTypes...), ddl: "text NOT NULL", data: true},
	{name: "aggregate_type", of: func(c *Columns) *Column { return &c.AggregateType },
		types: textTypes, ddl: "text NOT NULL", data: true},
	{name: "aggregate_id", of: func(c *Columns) *Column { return &c.AggregateID },
		types: append(textTypes, wholeTypes...), ddl: "text NOT NULL", data: true},
	{name: "event_type", of: func(c *Columns) *Column { return &c.EventType },
		types: textTypes, ddl: "text NOT NULL", data: true},
	{name: "topic", of: func(c *Columns) *Column { return &c.Topic }, types: textTypes, ddl: "text NOT NULL", data: true},
	{name: "key", of: func(c *Columns) *Column { return &c.Key },
		types: append(textTypes, wholeTypes...), ddl: "text NOT NULL", data: true},
	{name: "payload", of: func(c *Columns) *Column { return &c.Payload },
		types: []string{"json", "jsonb", "text", "character varying", "bytea"}, ddl: "json NOT NULL", data: true},
	{name: "headers", of: func(c *Columns) *Column { return &c.Headers }, types: []string{"jsonb", "json"}, ddl: "jsonb"},
	{name: "bucket", of: func(c *Columns) *Column { return &c.Bucket },
		types: wholeTypes, ddl: "smallint GENERATED ALWAYS AS (%s) STORED", data: true},
	{
		name: "status", of: func(c *Columns) *Column { return &c.Status }, types: []string{"text", "character varying"},
		ddl: "text NOT NULL DEFAULT 'PENDING' CHECK (%s)", add: "text NOT NULL DEFAULT 'COMPLETED' CHECK (%s)",
		after: "ALTER TABLE %[1]s ALTER COLUMN %[2]s SET DEFAULT 'PENDING'",
		note:  "rows that are there are taken as published; sloengine outbox replay publishes them again",
	},
	{name: "attempts", of: func(c *Columns) *Column { return &c.Attempts },
		types: wholeTypes, ddl: "integer NOT NULL DEFAULT 0"},
	{name: "next_attempt_at", of: func(c *Columns) *Column { return &c.NextAttemptAt },
		types: timeTypes, ddl: "timestamptz"},
	{name: "error", of: func(c *Columns) *Column { return &c.Error }, types: []string{"text"}, ddl: "text"},
	{name: "completed_at", of: func(c *Columns) *Column { return &c.CompletedAt }, types: timeTypes, ddl: "timestamptz"},
	{name: "counted_at", of: func(c *Columns) *Column { return &c.CountedAt }, types: timeTypes, ddl: "timestamptz"},
	{name: "version", of: func(c *Columns) *Column { return &c.Version },
		types: wholeTypes, ddl: "integer NOT NULL DEFAULT 0"},
	{name: "processing_instance", of: func(c *Columns) *Column { return &c.ProcessingInstance },
		types: []string{"text", "character varying"}, ddl: "text"},
	{name: "locked_at", of: func(c *Columns) *Column { return &c.LockedAt }, types: timeTypes, ddl: "timestamptz"},
}

// Presets are tables that the package knows by name: "" is the one that Migrate creates by default.
var presets = map[string]Columns{
	"": {
		ID: "id", XID: "xid", CreatedAt: "created_at", IdempotencyKey: "idempotency_key", AggregateType: "aggregate_type",
		AggregateID: "aggregate_id",
		EventType:   "event_type", Topic: "topic", Key: "key", Payload: "payload", Headers: "headers",
		Bucket: "bucket", Status: "status",
		Attempts: "attempts", NextAttemptAt: "next_attempt_at", Error: "error", CompletedAt: "completed_at",
		CountedAt: "counted_at",
	},
	// Rows are claimed one by one, by comparing the version.
	"outbox_events": {
		ID: "id", XID: "xid", CreatedAt: "created_at", IdempotencyKey: "event_id", AggregateType: "aggregate_type",
		AggregateID: "aggregate_id",
		EventType:   "event_type", Key: "aggregate_id", Payload: "payload", Status: "status",
		Attempts: "retry_count", NextAttemptAt: "next_retry_at", Error: "error_message", CompletedAt: "processed_at",
		CountedAt: "counted_at",
		Version:   "version", ProcessingInstance: "processing_instance", LockedAt: "locked_at",
	},
	"kafka_outbox": {
		ID: "id", XID: "xid", CreatedAt: "created_at", IdempotencyKey: "idempotency_key", AggregateType: "aggregate_type",
		AggregateID: "aggregate_id",
		EventType:   "event_type", Topic: "kafka_topic", Key: "kafka_key", Payload: "payload",
		Headers: "headers", Status: "status",
		Attempts: "retry_count", NextAttemptAt: "next_retry_at", Error: "error_message", CompletedAt: "processed_at",
		CountedAt: "counted_at",
	},
}

// Presets are the names that Options.Preset takes besides "".
func Presets() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(presets)), func(s string) bool { return s == "" })
}

// ColumnNames are the keys that Options.Columns takes.
func ColumnNames() []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	return names
}

// resolveColumns applies the mapping of the settings to a preset.
func resolveColumns(preset string, mapping map[string]string) (c Columns, problems []error) {
	c, ok := presets[preset]
	if !ok {
		return c, []error{fmt.Errorf("preset: unknown preset %q (want %s)", preset, strings.Join(Presets(), " or "))}
	}
	for _, name := range slices.Sorted(maps.Keys(mapping)) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			problems = append(
				problems, fmt.Errorf("columns: unknown column %q (want one of %s)", name, strings.Join(ColumnNames(), ", ")))
			continue
		}
		if err := checkIdentifier(mapping[name]); mapping[name] != "" && err != nil {
			problems = append(problems, fmt.Errorf("columns.%s: %w", name, err))
			continue
		}
		*fields[i].of(&c) = Column(mapping[name])
	}
	for _, f := range fields {
		switch f.name {
		case "id", "created_at", "idempotency_key", "payload":
			if *f.of(&c) == "" {
				problems = append(problems, fmt.Errorf("columns.%s: missing (every outbox table needs this column)", f.name))
			}
		}
	}
	return c, problems
}

// maxIdentifier is how many bytes of a name PostgreSQL keeps. It cuts longer ones without an error.
const maxIdentifier = 63

func checkIdentifier(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("empty name")
	case len(s) > maxIdentifier:
		return fmt.Errorf("name %.20q.. has %d bytes (PostgreSQL takes at most %d)", s, len(s), maxIdentifier)
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return fmt.Errorf("name %q contains a control character or invalid UTF-8", s)
		}
	}
	return nil
}
