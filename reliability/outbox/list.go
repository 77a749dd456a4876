package outbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Waiting is not the status of a row but of its next attempt: a PENDING row that has failed at least once.
const Waiting = "WAITING"

// Filter selects rows.
type Filter struct {
	// Statuses are PENDING, WAITING, PROCESSING, FAILED and COMPLETED. Without any, all rows that are not COMPLETED.
	Statuses []string
	// OlderThan leaves out rows that were created within this duration.
	OlderThan time.Duration
	Type      string // event type; "" is any
	IDs       []int64
	Limit     int // default 100
}

// Statuses are those that Filter takes.
func Statuses() []string { return []string{Pending, Waiting, Processing, Failed, Completed} }

// conditions are the filter in SQL, one for each status, so that each has its index, and the arguments.
func (f *Filter) conditions(t *Table) (where []string, args []any, err error) {
	c := &t.Columns
	statuses := f.Statuses
	if len(statuses) == 0 {
		statuses = []string{Pending, Failed}
		if c.Version != "" {
			statuses = append(statuses, Processing)
		}
		if len(f.IDs) > 0 {
			statuses = append(statuses, Completed)
		}
	}
	if c.Status == "" {
		return nil, nil, fmt.Errorf("table %s has no status column", t.Name.Text())
	}
	also := ""
	add := func(condition string, value any) {
		args = append(args, value)
		also += " AND " + fmt.Sprintf(condition, len(args))
	}
	if f.OlderThan > 0 {
		add(c.CreatedAt.String()+" < now() - make_interval(secs => $%d)", f.OlderThan.Seconds())
	}
	if f.Type != "" && c.EventType != "" {
		add(c.EventType.String()+"::text = $%d", f.Type)
	}
	if len(f.IDs) > 0 {
		add(c.ID.String()+" = ANY($%d)", f.IDs)
	}
	for _, s := range statuses {
		switch {
		case !slices.Contains(Statuses(), s):
			return nil, nil, fmt.Errorf("unknown status %q (want one of %s)", s, strings.Join(Statuses(), ", "))
		case s == Waiting:
			where = append(where, fmt.Sprintf("%s = '%s' AND %s > 0%s", c.Status, Pending, c.Attempts, also))
		default:
			where = append(where, fmt.Sprintf("%s = '%s'%s", c.Status, s, also))
		}
	}
	return where, args, nil
}

// DefaultLimit is how many rows List returns without a limit.
const DefaultLimit = 100

// List returns rows, the oldest first. If only COMPLETED ones are asked for, the newest come first.
func List(ctx context.Context, db DB, t *Table, f Filter) ([]Row, error) {
	where, args, err := f.conditions(t)
	if err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = DefaultLimit
	}
	var sql string
	list := t.SelectList("o")
	if len(f.Statuses) == 1 && f.Statuses[0] == Completed {
		sql = fmt.Sprintf("SELECT %s FROM %s o WHERE %s ORDER BY o.%s DESC LIMIT %d", list, t.Name,
			where[0], t.Columns.ID, f.Limit)
	} else {
		// Without OFFSET 0 the planner may walk over all rows in the order of their ids, because it takes the LIMIT for near.
		for i := range where {
			where[i] = fmt.Sprintf("SELECT * FROM %s WHERE %s", t.Name, where[i])
		}
		sql = fmt.Sprintf("SELECT %s FROM (%s OFFSET 0) o ORDER BY o.%s LIMIT %d", list, strings.Join(where, " UNION ALL "),
			t.Columns.ID, f.Limit)
	}
	rows, err := db.Query(ctx, sql, args...)
	if err == nil {
		var out []Row
		if out, err = pgx.CollectRows(rows, ScanRow); err == nil {
			return out, nil
		}
	}
	return nil, fmt.Errorf("list rows of %s: %w", t.Name.Text(), err)
}
