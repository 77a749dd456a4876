package outbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Row is one row of an outbox table. Columns that the table does not have are empty.
type Row struct {
	ID             int64
	CreatedAt      time.Time          // see TimeOf
	StoredAt       pgtype.Timestamptz // CreatedAt as the table has it
	IdempotencyKey string
	AggregateType  string
	AggregateID    string
	EventType      string
	Topic          string
	Key            string
	Payload        []byte // as written, except that a jsonb column normalizes it
	Headers        []byte // JSON object, see ParseHeaders; nil without any
	Status         string
	Attempts       int
	NextAttemptAt  *time.Time
	Error          string
	CompletedAt    *time.Time
	Version        int // 0 in tables without one
}

// SelectList is the list of a SELECT whose rows ScanRow reads. alias is the table's in the FROM clause, or "".
func (t *Table) SelectList(alias string) string {
	q := func(c Column, typ, absent string) string {
		if c == "" {
			return absent
		}
		s := c.String()
		if alias != "" {
			s = alias + "." + s
		}
		switch typ {
		case "text":
			return "coalesce(" + s + "::text, '')"
		case "integer": // others may have written anything, and there is room to count on
			return "least(greatest(coalesce(" + s + ", 0), 0), 1000000000)::integer"
		}
		if typ != "" {
			s += "::" + typ
		}
		return s
	}
	c := &t.Columns
	topic := q(c.Topic, "text", literal(t.Topic)+"::text")
	return strings.Join([]string{
		q(c.ID, "bigint", ""), q(c.CreatedAt, "timestamptz", ""), q(c.IdempotencyKey, "text", ""),
		q(c.AggregateType, "text", "''::text"), q(c.AggregateID, "text", "''::text"), q(c.EventType, "text", "''::text"),
		topic, q(c.Key, "text", "''::text"), q(c.Payload, "", ""), q(c.Headers, "", "NULL::jsonb"),
		q(c.Status, "text", "''::text"), q(c.Attempts, "integer", "0"),
		q(c.NextAttemptAt, "timestamptz", "NULL::timestamptz"),
		q(c.Error, "text", "''::text"), q(c.CompletedAt, "timestamptz", "NULL::timestamptz"), q(c.Version, "integer", "0"),
	}, ", ")
}

// ScanRow reads a row of a SELECT with SelectList. It fits pgx.CollectRows.
func ScanRow(rows pgx.CollectableRow) (r Row, err error) {
	err = rows.Scan(r.Targets()...)
	return r, err
}

// Targets are the scan targets of SelectList, for statements that select more than that.
func (r *Row) Targets() []any {
	return []any{
		&r.ID, rowTime{r}, &r.IdempotencyKey, &r.AggregateType, &r.AggregateID, &r.EventType, &r.Topic, &r.Key,
		&r.Payload, &r.Headers, &r.Status, &r.Attempts, optionalTime{&r.NextAttemptAt}, &r.Error,
		optionalTime{&r.CompletedAt}, &r.Version,
	}
}

// SecondsExpr are the seconds between two times in SQL, of which the first may be NULL, and at most 95 years. Either
// can be infinite or out of the range of an interval, for which a difference would be an error.
func SecondsExpr(from, to string) string {
	from += "::timestamptz"
	return fmt.Sprintf(
		"CASE WHEN %[1]s IS NOT NULL THEN least(greatest(extract(epoch FROM %[2]s)::float8 - extract(epoch FROM "+
			"%[1]s)::float8, -3e9), 3e9) END", from, to)
}

// The nearest times to those that a row can have and JSON has not.
var (
	firstTime = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// TimeOf is a time of a row: zero where it is NULL, and the nearest one that JSON has where it is infinite or far away.
func TimeOf(t pgtype.Timestamptz) time.Time {
	switch {
	case !t.Valid:
		return time.Time{}
	case t.InfinityModifier == pgtype.Infinity || t.Time.After(lastTime):
		return lastTime
	case t.InfinityModifier == pgtype.NegativeInfinity || t.Time.Before(firstTime):
		return firstTime
	}
	return t.Time
}

// rowTime scans the time of a row.
type rowTime struct{ r *Row }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (x rowTime) ScanTimestamptz(t pgtype.Timestamptz) error {
	x.r.CreatedAt, x.r.StoredAt = TimeOf(t), t
	return nil
}

// optionalTime scans one that may be absent.
type optionalTime struct{ to **time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (r optionalTime) ScanTimestamptz(t pgtype.Timestamptz) error {
	if *r.to = nil; t.Valid {
		at := TimeOf(t)
		*r.to = &at
	}
	return nil
}

// ParseHeaders reads the headers of a row: a JSON object. Values that are no texts are given as their JSON.
func ParseHeaders(data []byte) (map[string]string, error) {
	if len(data) == 0 || bytes.Equal(data, []byte("null")) {
		return nil, nil
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("invalid headers (want a JSON object): %w", err)
	}
	out := make(map[string]string, len(raw))
	for name, value := range raw {
		var s string
		if value[0] == '"' {
			if err := json.Unmarshal(value, &s); err != nil {
				return nil, fmt.Errorf("invalid header %q: %w", name, err)
			}
		} else if s = string(value); s == "null" {
			continue
		}
		out[name] = s
	}
	return out, nil
}
