package outbox

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// DefaultName is the name of the table without other settings.
const DefaultName = "outbox"

// Options name a table. The zero value is the table that Migrate creates by default.
type Options struct {
	// Name is the table's name as it stands in the catalogue, with its schema or without: outbox, billing.outbox. A dot
	// inside a name is written "a.b". Default: the name of the preset, or outbox.
	Name string `yaml:"name"`
	// Preset is the mapping of a known table, see Presets.
	Preset string `yaml:"preset"`
	// Columns maps columns, see ColumnNames, to the table's own. An empty name: the table has no such column.
	Columns map[string]string `yaml:"columns"`
	// Topic of all rows, for a table without a topic column.
	Topic string `yaml:"topic"`
}

// Table is an outbox table and the tables beside it.
type Table struct {
	Name    Name
	Columns Columns
	Topic   string // of all rows, where Columns.Topic is empty
	preset  string
}

// Name is the name of a table or index, with its schema or without.
type Name struct{ Schema, Base string }

// String is the name as quoted SQL.
func (n Name) String() string {
	if n.Schema == "" {
		return pgx.Identifier{n.Base}.Sanitize()
	}
	return pgx.Identifier{n.Schema, n.Base}.Sanitize()
}

// Text is the name for people.
func (n Name) Text() string {
	if n.Schema == "" {
		return n.Base
	}
	return n.Schema + "." + n.Base
}

// With is the name of a table that belongs to this one.
func (n Name) With(suffix string) Name { return Name{n.Schema, n.Base + suffix} }

// longestSuffix is the longest text that partitions and indexes add to the table's name.
const longestSuffix = len("_p20060102_uncounted_idx")

// New checks the options, and reports all problems.
func New(o Options) (*Table, error) {
	t := &Table{Topic: o.Topic, preset: o.Preset}
	var problems []error
	t.Columns, problems = resolveColumns(o.Preset, o.Columns)
	if o.Name == "" {
		o.Name = o.Preset
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	var err error
	if t.Name, err = parseName(o.Name); err != nil {
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return t, nil
}

// parseName splits a name at the dot outside of quotes.
func parseName(s string) (n Name, err error) {
	var parts []string
	rest := s
	for {
		var part string
		if after, quoted := strings.CutPrefix(rest, `"`); quoted {
			var closed bool
			if part, rest, closed = strings.Cut(after, `"`); !closed {
				return n, fmt.Errorf("name: invalid table name %q: a quote is not closed", s)
			}
		} else if i := strings.IndexByte(rest, '.'); i >= 0 {
			part, rest = rest[:i], rest[i:]
		} else {
			part, rest = rest, ""
		}
		if err := checkIdentifier(part); err != nil {
			return n, fmt.Errorf("name: invalid table name %q: %w", s, err)
		}
		parts = append(parts, part)
		if rest == "" {
			break
		}
		if rest[0] != '.' {
			return n, fmt.Errorf("name: invalid table name %q: expected a dot after the closing quote", s)
		}
		rest = rest[1:]
	}
	switch len(parts) {
	case 1:
		n.Base = parts[0]
	case 2:
		n.Schema, n.Base = parts[0], parts[1]
	default:
		return n, fmt.Errorf("name: invalid table name %q (want TABLE or SCHEMA.TABLE)", s)
	}
	if len(n.Base) > maxIdentifier-longestSuffix {
		return n,
			fmt.Errorf("name: table name %q is too long (at most %d bytes, so that partitions and indexes can add to it)",
				n.Base, maxIdentifier-longestSuffix)
	}
	return n, nil
}

// Keys is the table of idempotency keys of a partitioned table, whose unique indexes would have to contain the day.
func (t *Table) Keys() Name { return t.Name.With("_keys") }

// Buckets is the table of the relays' leases, with a row for each bucket.
func (t *Table) Buckets() Name { return t.Name.With("_buckets") }

// Relays is the table of the relays that share the buckets.
func (t *Table) Relays() Name { return t.Name.With("_relays") }

// WithKey is the table with another column as the key of its rows.
func (t *Table) WithKey(c Column) *Table {
	other := *t
	other.Columns.IdempotencyKey = c
	return &other
}

// key is the column that is the key of rows. Rows of the preset outbox_events can be several statuses of one event, so
// that their event_id is one only where the table says so.
func (t *Table) key(c *catalog) Column {
	const preset = "outbox_events"
	key := t.Columns.IdempotencyKey
	if t.preset == preset && key == presets[preset].IdempotencyKey && !c.partitioned && !c.hasUnique(key) {
		return t.Columns.ID
	}
	return key
}

// BucketExpr is the bucket of a row in SQL. The index for claiming uses it.
func (t *Table) BucketExpr() string {
	if t.Columns.Bucket != "" {
		return t.Columns.Bucket.String()
	}
	return "(" + t.bucketOf() + ")"
}

// bucketOf calculates the bucket from the key.
func (t *Table) bucketOf() string {
	return fmt.Sprintf("(hashtext(%s::text) & %d)::smallint", t.Columns.Key, Buckets-1)
}

// OpenExpr is the condition of rows that are not published yet in SQL.
func (t *Table) OpenExpr() string {
	s := t.Columns.Status.String() + " = 'PENDING'"
	if t.Columns.Version != "" { // one condition for each, since each has its index
		s = fmt.Sprintf("(%s OR %s = 'PROCESSING')", s, t.Columns.Status)
	}
	return s
}

// TopicExpr is the topic of a row in SQL.
func (t *Table) TopicExpr() string {
	if t.Columns.Topic != "" {
		return t.Columns.Topic.String() + "::text"
	}
	return literal(t.Topic) + "::text"
}

// textExpr is a column as text in SQL, or ” if the table has none.
func textExpr(c Column) string {
	if c == "" {
		return "''::text"
	}
	return "coalesce(" + c.String() + "::text, '')"
}

// literal is a text as a literal of SQL, for any value of standard_conforming_strings.
func literal(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\x00", ""), "'", "''")
	if strings.Contains(s, `\`) {
		return "E'" + strings.ReplaceAll(s, `\`, `\\`) + "'"
	}
	return "'" + s + "'"
}
