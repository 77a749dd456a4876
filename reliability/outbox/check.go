package outbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Problem is something about a table that a user of it cannot work with.
type Problem struct {
	Column string // of the table; "" if it is about the table
	Text   string // problem
	DDL    string // the statement that helps, "" if there is none
}

// SchemaError lists the differences between a table and the needs of its user.
type SchemaError struct {
	Table    string
	Problems []Problem
}

// Error has one line for each problem.
func (e *SchemaError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "table %s: ", e.Table)
		if p.Column != "" {
			fmt.Fprintf(&b, "column %s: ", p.Column)
		}
		b.WriteString(p.Text)
		if p.DDL != "" {
			fmt.Fprintf(&b, ": %s;", p.DDL)
		}
	}
	return b.String()
}

func missingColumn(table Name, f *field, column Column, ddl string) Problem {
	p := Problem{Column: string(column), Text: "missing; add it",
		DDL: fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", table, column, ddl)}
	switch {
	case f.name == "bucket":
		p.Text, p.DDL = `missing (set columns.bucket to "", and the bucket is calculated)`, ""
	case f.data:
		p.Text, p.DDL = fmt.Sprintf(
			"missing (set columns.%s to the column that has it, or to \"\" if the table has none)", f.name), ""
	}
	return p
}

func wrongType(table Name, f *field, column Column, typ string) Problem {
	want, _, _ := strings.Cut(f.ddl, " ")
	p := Problem{Column: string(column), Text: fmt.Sprintf("has the type %s (want %s)", typ, strings.Join(f.types, ", "))}
	if f.name != "bucket" && f.name != "xid" {
		p.Text += "; change it"
		p.DDL = fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s USING %s::%s", table, column, want, column, want)
	}
	return p
}

// Need is a use of a table. Needs are combined with |.
type Need uint

// The needs.
const (
	NeedPublish    Need = 1 << iota // write rows
	NeedRelay                       // claim rows by leases of their buckets, and mark them
	NeedOptimistic                  // claim rows one by one by their version
	NeedClaim                       // read rows as the source "claim"
	NeedXID                         // read rows as the source "xid"
	NeedManage                      // list, retry and replay rows
)

// columns are those that the needs cannot do without, by their names in settings.
func (n Need) columns() []string {
	names := []string{"id", "created_at", "idempotency_key", "payload"}
	add := func(need Need, more ...string) {
		if n&need != 0 {
			names = append(names, more...)
		}
	}
	add(NeedPublish|NeedRelay|NeedOptimistic, "event_type", "key")
	add(NeedRelay|NeedOptimistic|NeedManage, "status", "attempts", "next_attempt_at", "error", "completed_at")
	add(NeedOptimistic, "version", "processing_instance", "locked_at")
	add(NeedClaim, "counted_at")
	add(NeedXID, "xid")
	return names
}

// Schema is the result of Check for a table.
type Schema struct {
	Table       Name // with its schema
	Partitioned bool
	Undated     bool   // created_at may be NULL
	PayloadType string // such as json or bytea
	Key         Column // that rows are known by: not that of the mapping where it is not unique
}

// Check compares the table with the needs of its user. Differences are a *SchemaError with all of them, and with
// the statements that help.
func Check(ctx context.Context, db DB, t *Table, need Need) (*Schema, error) {
	c, err := readCatalog(ctx, db, t)
	if err != nil {
		return nil, err
	}
	e := &SchemaError{Table: c.name.Text()}
	if !c.exists {
		steps := DDL(t, Layout{Source: need.source()}, time.Time{})
		e.Problems = append(
			e.Problems, Problem{Text: "does not exist; create it with sloengine outbox migrate, or", DDL: steps[0].SQL})
		return nil, e
	}
	p := planner{t: t, c: c, l: Layout{Source: need.source()}, partitioned: c.partitioned}
	required := need.columns()
	for i := range fields {
		f := &fields[i]
		column := *f.of(&t.Columns)
		typ, there := c.columns[string(column)]
		needed := slices.Contains(required, f.name)
		switch {
		case column == "" && needed:
			e.Problems = append(e.Problems,
				Problem{Text: fmt.Sprintf("columns.%s is missing in the settings (the table has to have this column)", f.name)})
		case column == "" || !there && !needed && !p.wanted(f):
		case !there:
			e.Problems = append(e.Problems, missingColumn(c.name, f, column, p.definition(f, f.ddl)))
		case !slices.Contains(f.types, typ):
			e.Problems = append(e.Problems, wrongType(c.name, f, column, typ))
		}
	}
	if need&(NeedRelay|NeedOptimistic|NeedPublish) != 0 && t.Columns.Topic == "" && t.Topic == "" {
		e.Problems = append(e.Problems, Problem{Text: "has no column for the topic (set topic, or columns.topic)"})
	}
	for _, b := range []struct {
		suffix string
		needed bool
	}{
		{keysTable, need&NeedPublish != 0 && c.partitioned && t.Columns.IdempotencyKey != t.Columns.ID},
		{bucketsTable, need&NeedRelay != 0},
		{relaysTable, need&NeedRelay != 0},
	} {
		if b.needed && !c.besides[b.suffix] {
			e.Problems = append(e.Problems,
				Problem{Text: fmt.Sprintf("the table %s beside it does not exist; create it with sloengine outbox migrate",
					c.name.With(b.suffix).Text())})
		}
	}
	if need&NeedOptimistic != 0 {
		e.Problems = append(e.Problems, c.refused(t.Columns.Status, Processing)...)
	}
	if len(e.Problems) > 0 {
		return nil, e
	}
	return &Schema{Table: c.name, Partitioned: c.partitioned, Undated: c.nullable[string(t.Columns.CreatedAt)],
		PayloadType: c.columns[string(t.Columns.Payload)], Key: t.key(c)}, nil
}

// Unmapped are the columns, as settings name them, that a need requires and the settings say the table does not have.
func Unmapped(t *Table, need Need) (names []string) {
	required := need.columns()
	for i := range fields {
		if f := &fields[i]; *f.of(&t.Columns) == "" && slices.Contains(required, f.name) {
			names = append(names, f.name)
		}
	}
	return names
}

// refused are the constraints of a column that list statuses, but not this one.
func (c *catalog) refused(column Column, status string) (problems []Problem) {
	for _, x := range c.checks {
		if x.column != string(column) || !strings.Contains(x.definition, literal(Pending)) ||
			strings.Contains(x.definition, literal(status)) {
			continue
		}
		name := pgx.Identifier{x.name}.Sanitize()
		list := strings.Join([]string{literal(Pending), literal(Processing), literal(Completed), literal(Failed)}, ", ")
		problems = append(problems, Problem{
			Column: x.column, Text: fmt.Sprintf("the constraint %s does not allow %s; replace it", x.name, status),
			DDL: fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s, ADD CONSTRAINT %s CHECK (%s IN (%s)) NOT VALID", c.name,
				name, name, column, list),
		})
	}
	return problems
}

// source is the source among the needs.
func (n Need) source() Source {
	switch {
	case n&NeedClaim != 0:
		return SourceClaim
	case n&NeedXID != 0:
		return SourceXID
	}
	return SourceNone
}
