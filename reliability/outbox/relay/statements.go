package relay

import (
	"fmt"
	"strings"

	"github.com/sloengine/sloengine/reliability/outbox"
)

// statements are the SQL for a table. Times are durations in seconds, added to the database's clock.
type statements struct {
	join, peers, forget        string // the relays that share the table
	view, renew, acquire       string // buckets
	release, releaseAll, sweep string
	take                       string
	complete, result           string
	pending, failed            string
}

// newStatements makes the statements. block: a FAILED row blocks its key.
func newStatements(t *outbox.Table, schema *outbox.Schema, block bool) (s statements) {
	c := &t.Columns
	relays, buckets := t.Relays().String(), t.Buckets().String()
	const now = "clock_timestamp()"
	in := func(arg string) string { return now + " + " + arg + "::float8 * interval '1 second'" }

	s.join = "INSERT INTO " + relays + " AS r (name, seen_at) VALUES ($1, " + now + ") ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at"
	s.peers = "SELECT name FROM " + relays + " WHERE seen_at > " + in("-$1") + " ORDER BY name"
	s.forget = "DELETE FROM " + relays + " WHERE name = $1 OR seen_at < " + in("-10 * $2")

	s.view = "SELECT bucket, coalesce(worker, ''), generation, coalesce(lease_until <= " + now + ", true) FROM " + buckets
	s.renew = "UPDATE " + buckets + " SET lease_until = " + in("$2") + " WHERE worker = $1 AND lease_until < " + in("0.7 * $2")
	s.acquire = "WITH free AS (SELECT bucket, worker IS NOT NULL AS stale FROM " + buckets + " WHERE worker IS NULL OR lease_until <= " + now +
		" ORDER BY random() LIMIT $3 FOR UPDATE SKIP LOCKED)" +
		" UPDATE " + buckets + " b SET worker = $1, lease_until = " + in("$2") + ", generation = b.generation + 1 FROM free WHERE b.bucket = free.bucket" +
		" RETURNING b.bucket, b.generation, free.stale"
	s.release = "UPDATE " + buckets + " SET worker = NULL, lease_until = NULL WHERE worker = $1 AND bucket = ANY ($2::smallint[])"
	s.releaseAll = "UPDATE " + buckets + " SET worker = NULL, lease_until = NULL WHERE worker = $1"
	s.sweep = "UPDATE " + buckets + " SET worker = NULL, lease_until = NULL WHERE lease_until <= " + now

	// The rows of each free bucket, in order. The lease has to last until they are sent. o.* would fetch the payload of a
	// row that is too large for the broker.
	size := "octet_length(o." + c.Payload.String() + "::text)" // of json and text, known without reading the value
	if schema.PayloadType == "bytea" {
		size = "octet_length(o." + c.Payload.String() + ")"
	}
	inner := []string{"CASE WHEN " + size + " <= $5 THEN o." + c.Payload.String() + " END AS " + c.Payload.String(), size + " AS payload_size"}
	seen := map[outbox.Column]bool{"": true, c.Payload: true}
	for _, name := range []outbox.Column{c.ID, c.CreatedAt, c.IdempotencyKey, c.AggregateType, c.AggregateID, c.EventType, c.Topic, c.Key, c.Headers, c.Status, c.Attempts, c.NextAttemptAt, c.Error, c.CompletedAt, c.Version} {
		if !seen[name] {
			seen[name] = true
			inner = append(inner, "o."+name.String())
		}
	}
	waits := fmt.Sprintf("w.%s = 'PENDING' AND w.%s > %s", c.Status, c.NextAttemptAt, now)
	if block {
		waits = fmt.Sprintf("(w.%s = 'FAILED' OR %s)", c.Status, waits)
	}
	s.take = "SELECT b.bucket, b.generation, r.payload_size, extract(epoch FROM " + now + " - r." + c.CreatedAt.String() + ")::float8, " + t.SelectList("r") +
		" FROM " + buckets + " b CROSS JOIN LATERAL (SELECT " + strings.Join(inner, ", ") + " FROM " + t.Name.String() + " o" +
		" WHERE " + t.BucketExpr() + " = b.bucket AND o." + c.Status.String() + " = 'PENDING'" +
		fmt.Sprintf(" AND (o.%[1]s IS NULL OR o.%[1]s <= %[2]s)", c.NextAttemptAt, now) +
		fmt.Sprintf(" AND NOT EXISTS (SELECT FROM %s w WHERE w.%s = o.%s AND w.%s < o.%s AND w.%s <> 'COMPLETED' AND w.%s > 0 AND %s)",
			t.Name, c.Key, c.Key, c.ID, c.ID, c.Status, c.Attempts, waits) +
		" ORDER BY o." + c.ID.String() + " LIMIT $4) r" +
		" WHERE b.bucket = ANY ($3::smallint[]) AND b.worker = $1 AND b.lease_until > " + in("$2") + " LIMIT $6"

	// Results are written only to rows whose bucket is still leased, under the same generation of the lease.
	held := fmt.Sprintf(" JOIN %s b ON b.bucket = v.bucket AND b.generation = v.generation AND b.worker = $1 AND b.lease_until > %s WHERE o.%s = v.id AND o.%s = v.created_at AND o.%s = 'PENDING'",
		buckets, now, c.ID, c.CreatedAt, c.Status)
	s.complete = fmt.Sprintf("UPDATE %s o SET %s = 'COMPLETED'", t.Name, c.Status) + set(c.CompletedAt, now) +
		" FROM unnest($2::bigint[], $3::timestamptz[], $4::smallint[], $5::bigint[]) v (id, created_at, bucket, generation)" + held
	s.result = fmt.Sprintf("UPDATE %s o SET %s = v.status", t.Name, c.Status) + set(c.Attempts, "v.attempts") +
		set(c.NextAttemptAt, "CASE WHEN v.status = 'PENDING' THEN "+in("v.delay")+" END") + set(c.Error, "v.error") +
		set(c.CompletedAt, "CASE WHEN v.status <> 'PENDING' THEN "+now+" END") +
		" FROM unnest($2::bigint[], $3::timestamptz[], $4::smallint[], $5::bigint[], $6::text[], $7::int[], $8::float8[], $9::text[]) v (id, created_at, bucket, generation, status, attempts, delay, error)" + held
	for _, q := range []*string{&s.complete, &s.result} {
		*q += fmt.Sprintf(" RETURNING o.%s::bigint", c.ID)
	}

	first := "" // rows that are published again are not late
	if c.CompletedAt != "" {
		first = fmt.Sprintf(" FILTER (WHERE %s IS NULL)", c.CompletedAt)
	}
	s.pending = fmt.Sprintf("SELECT count(*), coalesce(extract(epoch FROM %s - min(%s)%s), 0)::float8 FROM %s WHERE %s = 'PENDING'", now, c.CreatedAt, first, t.Name, c.Status)
	s.failed = fmt.Sprintf("SELECT count(*) FROM %s WHERE %[2]s <> 'COMPLETED' AND %[3]s > 0 AND %[2]s = 'FAILED'", t.Name, c.Status, c.Attempts)
	return s
}

// set is an assignment to a column that the table may lack.
func set(c outbox.Column, value string) string {
	if c == "" {
		return ""
	}
	return ", " + c.String() + " = " + value
}
