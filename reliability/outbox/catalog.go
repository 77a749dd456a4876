package outbox

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sloengine/sloengine/internal/order"
)

// DB is a connection, a pool or a transaction of pgx.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// minVersion is the first PostgreSQL with the type xid8.
const minVersion = 130000

// catalog holds the database's description of a table.
type catalog struct {
	name        Name // with the schema, once the table exists
	exists      bool
	partitioned bool
	hasRows     bool
	columns     map[string]string // name to type, without length
	nullable    map[string]bool   // columns that may be NULL
	checks      []check           // of single columns
	indexes     []index           // of the table itself
	partitions  []Partition
	besides     map[string]bool // which of the tables beside it exist, by suffix
}

// check is a constraint of a column.
type check struct{ name, column, definition string }

type index struct {
	name          string
	valid, unique bool
	whole         bool // no predicate
	columns       []string
	parent        string // the table's index that this index of a partition belongs to
}

// Partition is a partition of the table.
type Partition struct {
	Name Name
	// From and To bound created_at: From <= created_at < To. A zero time is no bound.
	From, To time.Time
	Default  bool // it has the rows that fit into no other partition
	// occupied are the days of which the default partition has rows, so that they cannot get a partition of their own.
	occupied map[time.Time]bool
	oid      uint32
	indexes  []index
}

func readCatalog(ctx context.Context, db DB, t *Table) (c *catalog, err error) {
	err = inUTC(ctx, db, func(tx pgx.Tx) error {
		c, err = lookUp(ctx, tx, t)
		return err
	})
	return c, err
}

// inUTC runs f in a transaction that prints times in UTC, and commits it.
func inUTC(ctx context.Context, db DB, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		for _, s := range []string{"SET LOCAL TimeZone = 'UTC'", "SET LOCAL DateStyle = 'ISO'"} {
			if _, err := tx.Exec(ctx, s); err != nil {
				return err
			}
		}
		return f(tx)
	})
}

func lookUp(ctx context.Context, tx pgx.Tx, t *Table) (*catalog, error) {
	c := &catalog{name: t.Name, columns: map[string]string{}, nullable: map[string]bool{}, besides: map[string]bool{}}
	var version int
	var text string
	if err := tx.QueryRow(ctx,
		"SELECT current_setting('server_version_num')::int, current_setting('server_version')").Scan(&version,
		&text); err != nil {
		return nil, fmt.Errorf("read the version of PostgreSQL: %w", err)
	}
	if version < minVersion {
		return nil, fmt.Errorf("PostgreSQL %s is too old: an outbox needs 13 or newer, which has the type xid8", text)
	}
	var oid uint32
	var kind, key string
	err := tx.QueryRow(ctx, `SELECT c.oid, n.nspname, c.relkind::text, coalesce(pg_get_partkeydef(c.oid), '')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)`, t.Name.String()).Scan(
		&oid, &c.name.Schema, &kind, &key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		if c.name.Schema == "" {
			if err := tx.QueryRow(ctx, "SELECT coalesce(current_schema(), '')").Scan(&c.name.Schema); err != nil {
				return nil, fmt.Errorf("read the current schema: %w", err)
			}
			if c.name.Schema == "" {
				return nil, fmt.Errorf("table %s: the search path names no schema that exists (name it: SCHEMA.%s)",
					t.Name.Text(), t.Name.Base)
			}
		}
		return c, c.readBesides(ctx, tx)
	case err != nil:
		return nil, fmt.Errorf("look up table %s: %w", t.Name.Text(), err)
	}
	c.exists = true
	switch kind {
	case "r":
	case "p":
		c.partitioned = true
		if want := fmt.Sprintf("RANGE (%s)", t.Columns.CreatedAt); strings.ReplaceAll(key, `"`,
			"") != strings.ReplaceAll(want, `"`, "") {
			return nil, fmt.Errorf("table %s is partitioned by %s (want %s)", c.name.Text(), key, want)
		}
	default:
		return nil, fmt.Errorf("%s is no table (relkind %s in pg_class)", c.name.Text(), kind)
	}
	if err := c.readColumns(ctx, tx, oid); err != nil {
		return nil, err
	}
	if c.indexes, err = readIndexes(ctx, tx, oid); err != nil {
		return nil, err
	}
	if c.partitioned {
		if err := c.readPartitions(ctx, tx, oid); err != nil {
			return nil, err
		}
	}
	return c, c.readBesides(ctx, tx)
}

var typeLength = regexp.MustCompile(`\(\d+(,\d+)?\)`)

func (c *catalog) readColumns(ctx context.Context, tx pgx.Tx, oid uint32) error {
	rows, err := tx.Query(ctx,
		"SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 "+
			"AND NOT attisdropped", oid)
	if err != nil {
		return fmt.Errorf("read the columns of %s: %w", c.name.Text(), err)
	}
	var name, typ string
	var set bool
	_, err = pgx.ForEachRow(rows, []any{&name, &typ, &set}, func() error {
		c.nullable[name] = !set
		c.columns[name] = typeLength.ReplaceAllString(typ, "")
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the columns of %s: %w", c.name.Text(), err)
	}
	rows, err = tx.Query(ctx,
		`SELECT x.conname, a.attname, pg_get_constraintdef(x.oid) FROM pg_constraint x
			JOIN pg_attribute a ON a.attrelid = x.conrelid AND a.attnum = x.conkey[1]
		WHERE x.conrelid = $1 AND x.contype = 'c' AND cardinality(x.conkey) = 1 ORDER BY x.conname`, oid)
	if err != nil {
		return fmt.Errorf("read the constraints of %s: %w", c.name.Text(), err)
	}
	c.checks, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (x check, err error) {
		err = r.Scan(&x.name, &x.column, &x.definition)
		return x, err
	})
	if err != nil {
		return fmt.Errorf("read the constraints of %s: %w", c.name.Text(), err)
	}
	return nil
}

func readIndexes(ctx context.Context, tx pgx.Tx, oid uint32) (out []index, err error) {
	rows, err := tx.Query(ctx,
		`SELECT c.relname, i.indisvalid AND i.indisready, i.indisunique, i.indpred IS NULL AND i.indexprs IS NULL,
			ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(n, o)
				JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n WHERE o <= i.indnkeyatts ORDER BY o),
			coalesce((SELECT p.relname::text FROM pg_inherits h JOIN pg_class p ON p.oid = h.inhparent WHERE h.inhrelid = c.oid),
				'')
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = $1 ORDER BY c.relname`, oid)
	if err != nil {
		return nil, fmt.Errorf("read indexes: %w", err)
	}
	out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (x index, err error) {
		err = r.Scan(&x.name, &x.valid, &x.unique, &x.whole, &x.columns, &x.parent)
		return x, err
	})
	if err != nil {
		return nil, fmt.Errorf("read indexes: %w", err)
	}
	return out, nil
}

var bound = regexp.MustCompile(`^FOR VALUES FROM \((MINVALUE|'([^']*)')\) TO \((MAXVALUE|'([^']*)')\)$`)

func (c *catalog) readPartitions(ctx context.Context, tx pgx.Tx, oid uint32) error {
	rows, err := tx.Query(ctx, `SELECT c.oid, n.nspname, c.relname, pg_get_expr(c.relpartbound, c.oid)
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE i.inhparent = $1 ORDER BY c.relname`, oid)
	if err != nil {
		return fmt.Errorf("read the partitions of %s: %w", c.name.Text(), err)
	}
	c.partitions, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (p Partition, err error) {
		var text string
		if err := r.Scan(&p.oid, &p.Name.Schema, &p.Name.Base, &text); err != nil {
			return p, err
		}
		if text == "DEFAULT" {
			p.Default = true
			return p, nil
		}
		m := bound.FindStringSubmatch(text)
		if m == nil {
			return p, fmt.Errorf("partition %s has bounds that are no times: %s", p.Name.Text(), text)
		}
		if p.From, err = parseBound(m[2]); err == nil {
			p.To, err = parseBound(m[4])
		}
		return p, err
	})
	if err != nil {
		return fmt.Errorf("read the partitions of %s: %w", c.name.Text(), err)
	}
	for i := range c.partitions {
		p := &c.partitions[i]
		if p.indexes, err = readIndexes(ctx, tx, p.oid); err != nil {
			return err
		}
	}
	order.By(c.partitions, func(a, b *Partition) int { return a.From.Compare(b.From) })
	return nil
}

// parseBound reads a time as PostgreSQL prints it in UTC, with or without a zone.
func parseBound(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05.999999999-07", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("invalid bound of a partition: %q", s)
}

// Suffixes of the tables beside the outbox.
const (
	keysTable    = "_keys"
	bucketsTable = "_buckets"
	relaysTable  = "_relays"
)

func (c *catalog) readBesides(ctx context.Context, tx pgx.Tx) error {
	for _, suffix := range []string{keysTable, bucketsTable, relaysTable} {
		var there bool
		if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL",
			c.name.With(suffix).String()).Scan(&there); err != nil {
			return fmt.Errorf("look up table %s: %w", c.name.With(suffix).Text(), err)
		}
		c.besides[suffix] = there
	}
	if !c.exists {
		return nil
	}
	if err := tx.QueryRow(ctx, fmt.Sprintf("SELECT EXISTS (SELECT 1 FROM %s)", c.name)).Scan(&c.hasRows); err != nil {
		return fmt.Errorf("read table %s: %w", c.name.Text(), err)
	}
	return nil
}
