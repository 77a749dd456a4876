package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// actBatch is how many rows a statement of Retry or Replay changes, so that no statement holds its locks
// for long.
const actBatch = 1000

// Retry makes FAILED rows PENDING again, with all their attempts, and rows that wait for their next attempt due at
// once. It takes the IDs and Type of the filter, and returns how many rows there were.
func Retry(ctx context.Context, db DB, t *Table, f Filter) (n int64, err error) {
	c := &t.Columns
	f.Statuses = []string{Failed, Waiting}
	where, args, err := f.conditions(t)
	if err != nil {
		return 0, err
	}
	where[1] += fmt.Sprintf(" AND %s IS NOT NULL", c.NextAttemptAt)
	for i := range where {
		where[i] = fmt.Sprintf("SELECT %s AS id FROM %s WHERE %s", c.ID, t.Name, where[i])
	}
	set := []string{
		fmt.Sprintf("%s = CASE WHEN %s = '%s' THEN 0 ELSE %s END", c.Attempts, c.Status, Failed, c.Attempts),
		fmt.Sprintf("%s = '%s'", c.Status, Pending),
		fmt.Sprintf("%s = NULL", c.NextAttemptAt),
		fmt.Sprintf("%s = NULL", c.CompletedAt),
	}
	still := fmt.Sprintf("(o.%[1]s = '%[2]s' OR o.%[1]s = '%[3]s' AND o.%[4]s IS NOT NULL)", c.Status, Failed,
		Pending, c.NextAttemptAt)
	n, err = t.update(ctx, db, strings.Join(where, " UNION ALL ")+" OFFSET 0", args, -1<<63, set, still)
	if err != nil {
		return n, fmt.Errorf("retry rows of %s: %w", t.Name.Text(), err)
	}
	return n, nil
}

// A Span is a time range of rows by their creation, From <= created < To, and by their event type ("" is any).
type Span struct {
	From, To time.Time
	Type     string
}

// where selects the COMPLETED rows of the span.
func (s *Span) where(t *Table) (string, []any, error) {
	c := &t.Columns
	switch {
	case s.From.IsZero() || s.To.IsZero():
		return "", nil, errors.New("a replay needs both ends of the time range")
	case !s.From.Before(s.To):
		return "", nil, fmt.Errorf("invalid time range from %s to %s (the end comes first)", s.From.Format(time.RFC3339),
			s.To.Format(time.RFC3339))
	case c.Status == "":
		return "", nil, fmt.Errorf("table %s has no status column", t.Name.Text())
	}
	where := fmt.Sprintf("%s = '%s' AND %s >= $1 AND %s < $2", c.Status, Completed, c.CreatedAt, c.CreatedAt)
	args := []any{s.From, s.To}
	if s.Type != "" && c.EventType != "" {
		where += fmt.Sprintf(" AND %s::text = $3", c.EventType)
		args = append(args, s.Type)
	}
	return where, args, nil
}

// CountCompleted returns how many rows Replay would publish again.
func CountCompleted(ctx context.Context, db DB, t *Table, s Span) (n int64, err error) {
	where, args, err := s.where(t)
	if err != nil {
		return 0, err
	}
	if err := db.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM %s WHERE %s", t.Name, where),
		args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count rows of %s: %w", t.Name.Text(), err)
	}
	return n, nil
}

// Replay makes COMPLETED rows PENDING again, so that they are published once more under the same keys, and returns how
// many there were. The rows keep the time of their first completion until the next one, which distinguishes them from
// new rows: their age says nothing about a delay.
func Replay(ctx context.Context, db DB, t *Table, s Span) (n int64, err error) {
	c := &t.Columns
	where, args, err := s.where(t)
	if err != nil {
		return 0, err
	}
	set := []string{
		fmt.Sprintf("%s = '%s'", c.Status, Pending), fmt.Sprintf("%s = 0", c.Attempts),
		fmt.Sprintf("%s = NULL", c.NextAttemptAt), fmt.Sprintf("%s = NULL", c.Error),
	}
	// With the ends of the range, each batch walks over the next ids only.
	var first, last int64
	ends := fmt.Sprintf("SELECT coalesce(min(%[1]s), 0)::bigint, coalesce(max(%[1]s), 0)::bigint FROM %[2]s WHERE %[3]s",
		c.ID, t.Name, where)
	if err := db.QueryRow(ctx, ends, args...).Scan(&first, &last); err != nil {
		return 0, fmt.Errorf("replay rows of %s: %w", t.Name.Text(), err)
	}
	chosen := fmt.Sprintf("SELECT %s AS id FROM %s WHERE %s AND %s <= %d", c.ID, t.Name, where, c.ID, last)
	n, err = t.update(ctx, db, chosen, args, first-1, set, fmt.Sprintf("o.%s = '%s'", c.Status, Completed))
	if err != nil {
		return n, fmt.Errorf("replay rows of %s: %w", t.Name.Text(), err)
	}
	return n, nil
}

// update changes the rows that the query chosen selects, if they are still so, in batches by ascending id after that
// given. A row that meanwhile comes into the state again is left alone, so it ends.
func (t *Table) update(ctx context.Context, db DB, chosen string, args []any, id int64, set []string,
	still string) (n int64, err error) {
	if t.Columns.Version != "" { // the relay that has claimed the row notices
		set = append(set, fmt.Sprintf("%s = o.%s + 1", t.Columns.Version, t.Columns.Version))
	}
	last := len(args) + 1
	sql := fmt.Sprintf(`WITH chosen AS (SELECT id FROM (%s) x WHERE id > $%d ORDER BY id LIMIT %d),
		changed AS (UPDATE %s o SET %s FROM chosen WHERE o.%s = chosen.id AND %s RETURNING 1)
		SELECT coalesce(max(id), 0)::bigint, count(*), (SELECT count(*) FROM changed) FROM chosen`,
		chosen, last, actBatch, t.Name, strings.Join(set, ", "), t.Columns.ID, still)
	for {
		var seen, changed int64
		if err := db.QueryRow(ctx, sql, append(args[:last-1:last-1], id)...).Scan(&id, &seen, &changed); err != nil {
			return n, err
		}
		n += changed
		if seen < actBatch {
			return n, nil
		}
	}
}
