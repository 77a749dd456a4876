package outbox

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/outbox"
)

// queryTimeout bounds a query. One that takes longer is made again over another connection.
const queryTimeout = time.Minute

// row is one row of the table. Its slices are valid until the next one is read.
type row struct {
	xid     uint64 // 0 in the way claim
	id      int64
	bucket  int16
	created time.Time // zero: the row says none
	key     string
	typ     string
	value   pgtype.DriverBytes // cut off behind Options.Most bytes or characters
	headers []byte             // JSON; nil: none
	columns [len(headerColumns)]string
	oid     uint32 // of the table
	xmin    uint64 // every transaction below has ended
}

// headerColumns are the columns that can become attributes like headers, by the names of package reliability/outbox.
var headerColumns = [...]string{"aggregate_type", "aggregate_id", "topic", "key"}

// statements are those of one table. They hold names and numbers of the settings, and no values of rows.
type statements struct {
	read    string // $1 is the id to begin after, or $1 and $2 are the place; the last parameter is the number of rows
	mark    string // way claim: $1 are ids
	measure string // way xid: $1 and $2 are the place
	mine    string // condition for the rows of this engine; begins with AND, or is empty
}

// textOf is a column as text, or an empty text if the table has none.
func textOf(c outbox.Column) string {
	if c == "" {
		return "''::text"
	}
	return "coalesce(" + c.String() + "::text, '')"
}

// bucket returns the bucket of a row; every value of its column belongs to one.
func (r *resolved) bucket() string {
	if r.table.Columns.Bucket == "" && r.table.Columns.Key == "" {
		return "0::smallint"
	}
	return fmt.Sprintf("(coalesce(%s, 0) & %d)::smallint", r.table.BucketExpr(), outbox.Buckets-1)
}

// statements writes the statements. payload is the type of that column, and headers are those that become attributes.
func (r *resolved) statements(payload string, headers map[string]string, most int64) *statements {
	t, c := r.table.Name.String(), &r.table.Columns
	q := &statements{}
	if r.Engines > 1 {
		q.mine = fmt.Sprintf(" AND (%s %% %d) = %d", r.bucket(), r.Engines, r.ordinal)
	}
	value := c.Payload.String() + "::text"
	if payload == "bytea" {
		value = c.Payload.String()
	}
	wanted := map[string]bool{}
	for _, name := range headers {
		wanted[strings.ToLower(name)] = true
	}
	columns := []outbox.Column{c.AggregateType, c.AggregateID, c.Topic, c.Key}
	list := []string{c.ID.String() + "::bigint AS id", r.bucket() + " AS bucket",
		c.CreatedAt.String() + "::timestamptz AS created", textOf(c.IdempotencyKey) + " AS idempotency",
		textOf(c.EventType) + " AS typ", value + " AS value"}
	if c.Headers != "" {
		list = append(list, c.Headers.String()+"::text AS headers")
	} else {
		list = append(list, "NULL::text AS headers")
	}
	for i, name := range headerColumns {
		if !wanted[name] {
			columns[i] = ""
		}
		list = append(list, fmt.Sprintf("%s AS c%d", textOf(columns[i]), i))
	}
	outer := fmt.Sprintf(
		"s.id, s.bucket, s.created, s.idempotency, s.typ, substring(s.value, 1, %d), s.headers, s.c0, s.c1, s.c2, s.c3, "+
			"(SELECT to_regclass(%s)::oid)", most+1, "'"+strings.ReplaceAll(t, "'", "''")+"'")
	const xmin = "pg_snapshot_xmin(pg_current_snapshot())"
	const many = " LIMIT " + tooMany
	age := outbox.SecondsExpr(c.CreatedAt.String(), "clock_timestamp()")
	if r.Way == Claim {
		uncounted := c.CountedAt.String() + " IS NULL" + q.mine
		q.read = fmt.Sprintf(
			"SELECT '0'::text, %s, '0'::text FROM (SELECT %s FROM %s WHERE %s AND %s > $1::bigint ORDER BY %[5]s LIMIT $2) s "+
				"ORDER BY s.id",
			outer, strings.Join(list, ", "), t, uncounted, c.ID)
		q.mark = fmt.Sprintf("UPDATE %s SET %s = clock_timestamp() WHERE %s = ANY($1) AND %s IS NULL", t,
			c.CountedAt, c.ID, c.CountedAt)
		q.measure = fmt.Sprintf(`SELECT (SELECT count(*) FROM (SELECT 1 FROM %[1]s WHERE %[2]s%[3]s) x),
			(SELECT %[4]s FROM %[1]s WHERE %[2]s ORDER BY %[5]s LIMIT 1), 0::bigint, NULL::float8, false`, t, uncounted,
			many, age, c.ID)
		return q
	}
	xid := c.XID.String()
	after := fmt.Sprintf("(%s, %s) > ($1::text::xid8, $2::bigint)%s", xid, c.ID, q.mine)
	held := xid + " >= " + xmin + q.mine
	order := fmt.Sprintf("ORDER BY %s, %s", xid, c.ID)
	q.read = fmt.Sprintf(
		"SELECT s.xid::text, %s, %s::text FROM (SELECT %s AS xid, %s FROM %s WHERE %s AND %s < %s %s LIMIT $3) s ORDER BY "+
			"s.xid, s.id",
		outer, xmin, xid, strings.Join(list, ", "), t, after, xid, xmin, order)
	q.measure = fmt.Sprintf(`SELECT (SELECT count(*) FROM (SELECT 1 FROM %[1]s WHERE %[2]s%[3]s) x), (SELECT %[4]s
		FROM %[1]s WHERE %[2]s %[5]s LIMIT 1),
		(SELECT count(*) FROM (SELECT 1 FROM %[1]s WHERE %[6]s%[3]s) x), (SELECT %[4]s FROM %[1]s WHERE %[6]s %[5]s LIMIT 1),
		EXISTS (SELECT 1 FROM %[1]s WHERE %[7]s >= pg_snapshot_xmax(pg_current_snapshot()))`, t, after, many, age,
		order, held, xid)
	return q
}

// errAnother is the end of a session that finds another table under the name.
var errAnother = errors.New("the table was dropped and created again")

// each calls f with up to n rows, and reports how many there were. f ends the rest by returning false.
func (x *session) each(ctx context.Context, n int, f func(r *row) bool) (rows int, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	args := []any{x.after, n}
	if x.s.set.Way == XID {
		from := x.s.places.first(x.owned)
		args = []any{strconv.FormatUint(from.xid, 10), from.id, n}
	}
	found, err := x.pool.Query(ctx, x.q.read, args...)
	if err != nil {
		return 0, err
	}
	defer found.Close()
	var r row
	var xid, xmin string
	var created pgtype.Timestamptz
	c := &r.columns
	for found.Next() {
		rows++
		if err := found.Scan(&xid, &r.id, &r.bucket, &created, &r.key, &r.typ, &r.value, &r.headers, &c[0], &c[1], &c[2],
			&c[3], &r.oid, &xmin); err != nil {
			return rows, err
		}
		if r.oid != x.oid {
			return rows, errAnother
		}
		r.created = outbox.TimeOf(created)
		if r.xid, err = strconv.ParseUint(xid, 10, 64); err == nil {
			r.xmin, err = strconv.ParseUint(xmin, 10, 64)
		}
		if err != nil {
			return rows, err
		}
		if !f(&r) {
			return rows, nil
		}
	}
	return rows, found.Err()
}

// mark sets counted_at of the rows that are durable.
func (x *session) mark(ctx context.Context) error {
	if len(x.s.unmarked) == 0 {
		return nil
	}
	// Also if the source is being stopped: another engine would read them all again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
	defer cancel()
	if _, err := x.pool.Exec(ctx, x.q.mark, x.s.unmarked); err != nil {
		return err
	}
	x.s.unmarked = x.s.unmarked[:0]
	return nil
}

// longestKey is how long an idempotency key may be to be the id of an event, with room for the index of an event in its
// row. The hash of a longer one is it instead.
const longestKey = 240

// message makes the message of a row. It is valid until the next row.
func (x *session) message(r *row, m *source.Message) {
	key := r.key
	switch {
	case key == "": // which is NULL
		key = x.generation + "/" + strconv.FormatInt(r.id, 10)
	case len(key) > longestKey || strings.ContainsFunc(key, unicode.IsControl):
		sum := xxh3.HashString128(key).Bytes()
		key = hex.EncodeToString(sum[:])
	}
	*m = source.Message{
		Value: r.value, Time: r.created, MessageID: key, Service: x.s.set.Service, Type: r.typ,
		Topic: x.s.places.table, Generation: x.generation, Partition: int32(r.bucket), Offset: r.id,
		Refold: r.xid < x.s.places.backlog,
	}
	x.heads = x.heads[:0]
	if len(x.s.headers) > 0 {
		for i, name := range headerColumns {
			if r.columns[i] != "" {
				x.heads = append(x.heads, header{name, r.columns[i]})
			}
		}
	}
	if len(r.headers) > 0 && (len(x.s.headers) > 0 || bytes.Contains(r.headers, []byte("specversion")) ||
		bytes.Contains(r.headers, []byte("ontent-"))) {
		all, err := outbox.ParseHeaders(r.headers)
		if err != nil && len(x.s.headers) > 0 {
			x.s.o.Logger.Debug("headers of a row are unreadable", "source", x.s.in.Name(), "table", x.s.places.table,
				"id", r.id, "err", err)
		}
		for name, value := range all {
			x.heads = append(x.heads, header{name, value})
		}
	}
	if len(x.heads) > 0 {
		m.Headers = &x.heads
	}
}

type header struct{ name, value string }

// headers are those of a row, and its columns.
type headers []header

func (h *headers) Len() int                  { return len(*h) }
func (h *headers) At(i int) (string, []byte) { return (*h)[i].name, []byte((*h)[i].value) }
