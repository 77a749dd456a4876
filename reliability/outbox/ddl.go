package outbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/internal/order"
)

// Source is how an engine reads the table directly, if one does.
type Source string

// The sources.
const (
	SourceNone  Source = ""
	SourceClaim Source = "claim" // it marks the rows that it has counted
	SourceXID   Source = "xid"   // it reads in the order of transactions and writes nothing
)

// Step is a statement that creates something that is missing.
type Step struct {
	SQL string
	// Alone is set for statements that PostgreSQL does not run inside a transaction.
	Alone bool
	Note  string // note for operators

	creates string // the partition that exists after this step, for people
}

// Layout is the result of Migrate.
type Layout struct {
	Source Source
	// Partitioned creates a table with a partition for each day. A table that is there stays as it is.
	Partitioned bool
	// Ahead is how many days after today have a partition. Default: 3.
	Ahead int
	// LockTimeout bounds how long a change waits for transactions that use the table. Default: 5s.
	LockTimeout time.Duration
	// Today overrides the database's date, for tests. Zero: the database's.
	Today time.Time
}

// DefaultAhead is how many days have partitions before they come.
const DefaultAhead = 3

func (l *Layout) applyDefaults() {
	if l.Ahead <= 0 {
		l.Ahead = DefaultAhead
	}
	if l.LockTimeout <= 0 {
		l.LockTimeout = lockTimeout
	}
}

const day = 24 * time.Hour

// DDL are the statements that create the table and those beside it. today is the first day with a partition.
func DDL(t *Table, l Layout, today time.Time) []Step {
	l.applyDefaults()
	steps, err := plan(t, &catalog{name: t.Name}, l, today)
	if err != nil {
		panic(err) // only an existing object can be in the way
	}
	return steps
}

// plan lists the missing parts. today is the database's date.
func plan(t *Table, c *catalog, l Layout, today time.Time) ([]Step, error) {
	p := planner{t: t, c: c, l: l, partitioned: l.Partitioned}
	if c.exists {
		if l.Partitioned && !c.partitioned {
			return nil,
				fmt.Errorf(
					"table %s is not partitioned, and a table cannot become partitioned (create another one under a new name, or "+
						"leave out --partitioned)", c.name.Text())
		}
		p.partitioned = c.partitioned
		if err := p.columns(); err != nil {
			return nil, err
		}
	} else {
		p.table()
	}
	p.leases()
	p.indexes()
	if own, key := t.Columns.IdempotencyKey, t.key(c); key != own && !p.partitioned && len(p.steps) > 0 {
		p.steps[0].Note = strings.TrimPrefix(
			fmt.Sprintf("%s; %s need not be unique: rows are known by %s", p.steps[0].Note, own, key), "; ")
	}
	if p.partitioned { // after the indexes, which new partitions get as well
		p.keys()
		p.partitions(today)
	}
	order.By(p.steps, func(a, b *Step) int { // those of the transaction first
		switch {
		case a.Alone == b.Alone:
			return 0
		case b.Alone:
			return -1
		}
		return 1
	})
	return p.steps, nil
}

type planner struct {
	t           *Table
	c           *catalog
	l           Layout
	partitioned bool
	steps       []Step
}

func (p *planner) add(format string, args ...any) {
	p.steps = append(p.steps, Step{SQL: fmt.Sprintf(format, args...)})
}

// wanted reports whether the table should have a column: those of sources only if there is such a source, except in the
// table of the package itself.
func (p *planner) wanted(f *field) bool {
	if *f.of(&p.t.Columns) == "" {
		return false
	}
	switch f.name {
	case "xid":
		return p.t.preset == "" || p.l.Source == SourceXID
	case "counted_at":
		return p.t.preset == "" || p.l.Source == SourceClaim
	}
	return true
}

// definition is the type of a column and its constraints.
func (p *planner) definition(f *field, ddl string) string {
	switch f.name {
	case "bucket":
		return fmt.Sprintf(ddl, "("+p.t.bucketOf()+")")
	case "status":
		states := []string{Pending, Completed, Failed}
		if p.t.Columns.Version != "" {
			states = []string{Pending, Processing, Completed, Failed}
		}
		return fmt.Sprintf(ddl, fmt.Sprintf("%s IN ('%s')", p.t.Columns.Status, strings.Join(states, "', '")))
	}
	return ddl
}

// table creates the table. A column that two of the mapping share is created once.
func (p *planner) table() {
	c := &p.t.Columns
	var lines []string
	seen := map[Column]bool{}
	for i := range fields {
		f := &fields[i]
		if column := *f.of(c); p.wanted(f) && !seen[column] {
			seen[column] = true
			lines = append(lines, fmt.Sprintf("  %s %s", column, p.definition(f, f.ddl)))
		}
	}
	key, tail := c.ID.String(), ""
	if p.partitioned {
		key += ", " + c.CreatedAt.String()
		tail = fmt.Sprintf(" PARTITION BY RANGE (%s)", c.CreatedAt)
	}
	lines = append(lines, fmt.Sprintf("  PRIMARY KEY (%s)", key))
	p.add("CREATE TABLE %s (\n%s\n)%s", p.c.name, strings.Join(lines, ",\n"), tail)
}

// columns adds the missing columns of an existing table.
func (p *planner) columns() error {
	var problems []Problem
	for i := range fields {
		f := &fields[i]
		column := *f.of(&p.t.Columns)
		if !p.wanted(f) {
			continue
		}
		typ, there := p.c.columns[string(column)]
		switch {
		case there && !slices.Contains(f.types, typ):
			problems = append(problems, wrongType(p.c.name, f, column, typ))
		case there:
		case f.data && (p.c.hasRows || f.name == "id" || f.name == "created_at"):
			problems = append(problems, missingColumn(p.c.name, f, column, p.definition(f, f.ddl)))
		default:
			ddl, rows := f.ddl, p.c.hasRows
			if rows && f.add != "" {
				ddl = f.add
			}
			p.add("ALTER TABLE %s ADD COLUMN %s %s", p.c.name, column, p.definition(f, ddl))
			if rows && f.after != "" {
				p.steps[len(p.steps)-1].Note = f.note
				p.add(f.after, p.c.name, column)
			}
		}
	}
	if len(problems) > 0 {
		return &SchemaError{Table: p.c.name.Text(), Problems: problems}
	}
	if p.t.Columns.Version != "" {
		for _, x := range p.c.refused(p.t.Columns.Status, Processing) {
			p.add("%s", x.DDL)
		}
	}
	return nil
}

func (p *planner) keys() {
	if p.c.besides[keysTable] || p.t.Columns.IdempotencyKey == p.t.Columns.ID {
		return
	}
	keys := p.c.name.With(keysTable)
	p.add(
		"CREATE TABLE %s (\n  idempotency_key text PRIMARY KEY,\n  created_at timestamptz NOT NULL DEFAULT now()\n)", keys)
	p.add("CREATE INDEX %s ON %s (created_at, idempotency_key)", Name{Base: keys.Base + "_created_at_idx"}, keys)
	if p.c.exists && p.c.hasRows {
		p.add("INSERT INTO %s (idempotency_key, created_at) SELECT %s, min(%s) FROM %s GROUP BY 1 ON CONFLICT DO NOTHING",
			keys, textExpr(p.t.Columns.IdempotencyKey), p.t.Columns.CreatedAt, p.c.name)
	}
}

// leases creates the tables that relays share the work by.
func (p *planner) leases() {
	if buckets := p.c.name.With(bucketsTable); !p.c.besides[bucketsTable] {
		p.add(
			"CREATE TABLE %s (\n  bucket smallint PRIMARY KEY,\n  worker text,\n  lease_until timestamptz,\n  generation "+
				"bigint NOT NULL DEFAULT 0\n)", buckets)
		p.add("INSERT INTO %s (bucket) SELECT generate_series(0, %d) ON CONFLICT DO NOTHING", buckets, Buckets-1)
	}
	if relays := p.c.name.With(relaysTable); !p.c.besides[relaysTable] {
		p.add("CREATE TABLE %s (\n  name text PRIMARY KEY,\n  seen_at timestamptz NOT NULL\n)", relays)
	}
}

// indexes creates those that claiming, blocked keys and the sources need.
func (p *planner) indexes() {
	c := &p.t.Columns
	create := func(suffix, unique, on string) {
		name := Name{p.c.name.Schema, p.c.name.Base + suffix}
		if !p.c.exists {
			p.add("CREATE %sINDEX %s ON %s %s", unique, Name{Base: name.Base}, p.c.name, on)
			return
		}
		i := slices.IndexFunc(p.c.indexes, func(x index) bool { return x.name == name.Base })
		if i >= 0 && p.c.indexes[i].valid {
			return
		}
		if p.partitioned {
			p.indexPartitions(name, suffix, on, i >= 0)
			return
		}
		if i >= 0 {
			p.alone("DROP INDEX CONCURRENTLY IF EXISTS %s", name)
		}
		p.alone("CREATE %sINDEX CONCURRENTLY %s ON %s %s", unique, Name{Base: name.Base}, p.c.name, on)
	}
	if p.c.exists && !slices.ContainsFunc(p.c.indexes, func(x index) bool {
		return x.valid && x.whole && len(x.columns) > 0 && x.columns[0] == string(c.ID)
	}) {
		create("_id_idx", "", fmt.Sprintf("(%s)", c.ID))
	}
	if key := p.t.key(p.c); !p.partitioned && !p.c.hasUnique(key) && key != c.ID {
		before := len(p.steps)
		create("_idempotency_key_idx", "UNIQUE ", fmt.Sprintf("(%s)", c.IdempotencyKey))
		if p.c.exists && len(p.steps) > before {
			p.steps[before].Note = fmt.Sprintf(
				"a transaction that writes a value of %s again fails from then on; where rows share one, set "+
					"columns.idempotency_key to %s", c.IdempotencyKey, c.ID)
		}
	}
	if c.Status != "" {
		if c.Key != "" {
			create("_pending_idx", "", fmt.Sprintf("(%s, %s) WHERE %s = 'PENDING'", p.t.BucketExpr(), c.ID, c.Status))
			if c.Attempts != "" {
				create(
					"_blocked_idx", "", fmt.Sprintf("(%s, %s) WHERE %s <> 'COMPLETED' AND %s > 0", c.Key, c.ID, c.Status, c.Attempts))
			}
		}
		create("_failed_idx", "", fmt.Sprintf("(%s) WHERE %s = 'FAILED'", c.ID, c.Status))
		if c.Version != "" && c.LockedAt != "" {
			create("_ready_idx", "", fmt.Sprintf("(%s) WHERE %s = 'PENDING'", c.ID, c.Status))
			create("_locked_idx", "", fmt.Sprintf("(%s) WHERE %s = 'PROCESSING'", c.LockedAt, c.Status))
		}
	}
	if p.l.Source == SourceClaim && c.CountedAt != "" {
		create("_uncounted_idx", "", fmt.Sprintf("(%s) WHERE %s IS NULL", c.ID, c.CountedAt))
	}
	if p.l.Source == SourceXID && c.XID != "" {
		create("_xid_idx", "", fmt.Sprintf("(%s, %s)", c.XID, c.ID))
	}
}

// indexPartitions builds an index of each partition without blocking writers, and attaches it to that of the table,
// which is valid once all are attached.
func (p *planner) indexPartitions(name Name, suffix, on string, there bool) {
	if !there {
		p.add("CREATE INDEX %s ON ONLY %s %s", Name{Base: name.Base}, p.c.name, on)
	}
	for i := range p.c.partitions {
		part := &p.c.partitions[i]
		if slices.ContainsFunc(part.indexes, func(x index) bool { return x.parent == name.Base && x.valid }) {
			continue
		}
		own := Name{part.Name.Schema, part.Name.Base + suffix}
		if j := slices.IndexFunc(part.indexes, func(x index) bool {
			return x.name == own.Base
		}); j < 0 || !part.indexes[j].valid {
			if j >= 0 {
				p.alone("DROP INDEX CONCURRENTLY IF EXISTS %s", own)
			}
			p.alone("CREATE INDEX CONCURRENTLY %s ON %s %s", Name{Base: own.Base}, part.Name, on)
		}
		p.alone("ALTER INDEX %s ATTACH PARTITION %s", name, own)
	}
}

func (p *planner) alone(format string, args ...any) {
	p.steps = append(p.steps, Step{SQL: fmt.Sprintf(format, args...), Alone: true})
}

func (c *catalog) hasUnique(column Column) bool {
	return slices.ContainsFunc(c.indexes, func(x index) bool {
		return x.unique && x.valid && x.whole && len(x.columns) == 1 && x.columns[0] == string(column)
	})
}
