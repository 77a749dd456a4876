package relay

import (
	"fmt"
	"strings"

	"github.com/sloengine/sloengine/reliability/outbox"
)

// statements are the SQL for a table. Times are durations in seconds, added to the database's clock.
type statements struct {
	join, peers, forget  string // the relays that share the table, with leases
	view, renew, acquire string // buckets
	release              string
	claim                string // rows, by their version
	releaseAll, sweep    string
	take                 string
	complete, result     string
	pending, failed      string
}

const now = "clock_timestamp()"

// asked is the time of the whole statement. By a running clock, a row that becomes due during the search would stop
// blocking the later rows of its key without being taken itself.
const asked = "statement_timestamp()"

// in is the time that is the parameter's seconds from now.
func in(arg string) string { return now + " + " + arg + "::float8 * interval '1 second'" }

// newStatements makes the statements.
func newStatements(t *outbox.Table, schema *outbox.Schema, o *Options) (s statements) {
	c := &t.Columns
	if o.Claim == Optimistic {
		s.optimistic(t, schema, o.OnFailed == Block)
	} else {
		s.leases(t, schema, o.OnFailed == Block)
	}
	first := "" // rows that are published again are not late
	if c.CompletedAt != "" {
		first = fmt.Sprintf(" FILTER (WHERE %s IS NULL)", c.CompletedAt)
	}
	s.pending = fmt.Sprintf("SELECT count(*), coalesce(%s, 0) FROM %s WHERE %s",
		outbox.SecondsExpr(fmt.Sprintf("(min(%s)%s)", c.CreatedAt, first), now), t.Name, t.OpenExpr())
	s.failed = fmt.Sprintf("SELECT count(*) FROM %s WHERE %[2]s <> 'COMPLETED' AND %[3]s > 0 AND %[2]s = 'FAILED'",
		t.Name, c.Status, c.Attempts)
	return s
}

// leases makes the statements of the way by leases of buckets.
func (s *statements) leases(t *outbox.Table, schema *outbox.Schema, block bool) {
	c := &t.Columns
	relays, buckets := t.Relays().String(), t.Buckets().String()
	s.join = "INSERT INTO " + relays + " AS r (name, seen_at) VALUES ($1, " + now +
		") ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at"
	s.peers = "SELECT name FROM " + relays + " WHERE seen_at > " + in("-$1") + " ORDER BY name"
	s.forget = "DELETE FROM " + relays + " WHERE name = $1 OR seen_at < " + in("-10 * $2")

	s.view = "SELECT bucket, coalesce(worker, ''), generation, coalesce(lease_until <= " + now + ", true) FROM " + buckets
	s.renew = "UPDATE " + buckets + " SET lease_until = " + in("$2") +
		" WHERE worker = $1 AND lease_until < " + in("0.7 * $2")
	s.acquire = "WITH free AS (SELECT bucket, worker IS NOT NULL AS stale FROM " + buckets +
		" WHERE worker IS NULL OR lease_until <= " + now +
		" ORDER BY random() LIMIT $3 FOR UPDATE SKIP LOCKED)" +
		" UPDATE " + buckets + " b SET worker = $1, lease_until = " + in("$2") +
		", generation = b.generation + 1 FROM free WHERE b.bucket = free.bucket" +
		" RETURNING b.bucket, b.generation, free.stale"
	s.release = "UPDATE " + buckets +
		" SET worker = NULL, lease_until = NULL WHERE worker = $1 AND bucket = ANY ($2::smallint[])"
	s.releaseAll = "UPDATE " + buckets + " SET worker = NULL, lease_until = NULL WHERE worker = $1"
	s.sweep = "UPDATE " + buckets + " SET worker = NULL, lease_until = NULL WHERE lease_until <= " + now

	// The rows of each free bucket, in order. The lease has to last until they are sent.
	waits := fmt.Sprintf("w.%s = 'PENDING' AND w.%s > %s", c.Status, c.NextAttemptAt, asked)
	if block {
		waits = fmt.Sprintf("(w.%s = 'FAILED' OR %s)", c.Status, waits)
	}
	s.take = "SELECT b.bucket, b.generation, " + selected(t) +
		" FROM " + buckets + " b CROSS JOIN LATERAL (SELECT " + fetched(t, schema, "$5") + " FROM " + t.Name.String() + " o" +
		" WHERE " + t.BucketExpr() + " = b.bucket AND " + due(c) + " AND " + unblocked(t, waits) +
		" ORDER BY o." + c.ID.String() + " LIMIT $4) r" +
		" WHERE b.bucket = ANY ($3::smallint[]) AND b.worker = $1 AND b.lease_until > " + in("$2") + " LIMIT $6"

	// Results are written only to rows whose bucket is still leased, under the same generation of the lease.
	s.results(t, schema, nil,
		fmt.Sprintf(" JOIN %s b ON b.bucket = v.bucket AND b.generation = v.generation AND b.worker = $1 AND b.lease_until "+
			"> %s WHERE o.%s = 'PENDING'", buckets, now, c.Status))
}

// optimistic makes the statements of the way by versions. Each write increases the version.
func (s *statements) optimistic(t *outbox.Table, schema *outbox.Schema, block bool) {
	c := &t.Columns
	table, next := t.Name.String(), fmt.Sprintf(", %[1]s = coalesce(o.%[1]s, 0) + 1", c.Version)
	free := fmt.Sprintf(", %s = NULL, %s = NULL", c.ProcessingInstance, c.LockedAt)
	ready := due(c)
	if block {
		ready += " AND " + unblocked(t, fmt.Sprintf("w.%s = 'FAILED'", c.Status))
	}
	row := func(of string) string {
		return fmt.Sprintf("o.%s = %s.id AND %s", c.ID, of, sameTime(schema, c, of))
	}
	keys := fmt.Sprintf("o.%s AS id, o.%s AS created_at", c.ID, c.CreatedAt)

	s.take = fmt.Sprintf(
		"WITH oldest AS (SELECT %s FROM %s o WHERE %s ORDER BY o.%s LIMIT $1), chosen AS (SELECT * FROM oldest ORDER BY "+
			"random() LIMIT $2)", keys, table, ready, c.ID) +
		fmt.Sprintf(
			" SELECT 0::smallint, coalesce(r.%s, 0)::bigint, %s FROM (SELECT %s FROM %s o JOIN chosen ON %s) r ORDER BY r.%s",
			c.Version, selected(t), fetched(t, schema, "$3"), table, row("chosen"), c.ID)
	// A row that another transaction is writing counts as lost at once, so relays never wait for each
	// other.
	s.claim = fmt.Sprintf(
		"WITH held AS (SELECT %s FROM %s o JOIN unnest($2::bigint[], $3::timestamptz[], $4::bigint[]) v (id, created_at, "+
			"version) ON %s AND coalesce(o.%s, 0) = v.version WHERE o.%s = 'PENDING' ORDER BY 1 FOR UPDATE OF o SKIP LOCKED)",
		keys, table, row("v"), c.Version, c.Status) +
		fmt.Sprintf(" UPDATE %s o SET %s = 'PROCESSING', %s = $1, %s = %s%s FROM held WHERE %s RETURNING o.%s::bigint",
			table, c.Status, c.ProcessingInstance, c.LockedAt, now, next, row("held"), c.ID)

	back := fmt.Sprintf("UPDATE %s o SET %s = 'PENDING'%s%s", table, c.Status, free, next)
	s.releaseAll = back + fmt.Sprintf(" WHERE o.%s = 'PROCESSING' AND o.%s = $1", c.Status, c.ProcessingInstance)
	s.sweep = fmt.Sprintf(
		"WITH stale AS (SELECT %s FROM %s o WHERE o.%s = 'PROCESSING' AND (o.%[4]s IS NULL OR o.%[4]s < %s) LIMIT $2 FOR "+
			"UPDATE SKIP LOCKED) ", keys, table, c.Status, c.LockedAt, in("-$1")) +
		back + " FROM stale WHERE " + row("stale")

	// Results are written only to rows that have the version of the claim.
	s.results(t, schema, []string{next,
		fmt.Sprintf(", %s = CASE WHEN v.status = 'COMPLETED' THEN o.%[1]s END, %s = CASE WHEN v.status = 'COMPLETED' THEN "+
			"o.%[2]s END", c.ProcessingInstance, c.LockedAt)},
		fmt.Sprintf(" WHERE o.%s = v.generation AND o.%s = $1 AND o.%s = 'PROCESSING'", c.Version,
			c.ProcessingInstance, c.Status))
}

// sameTime compares the creation of a row, which says in which partition it is. Of IS NOT DISTINCT FROM the planner
// knows no selectivity, so it is used only where creation can be NULL.
func sameTime(schema *outbox.Schema, c *outbox.Columns, of string) string {
	equal := "="
	if schema.Undated && !schema.Partitioned {
		equal = "IS NOT DISTINCT FROM"
	}
	return fmt.Sprintf("o.%s %s %s.created_at", c.CreatedAt, equal, of)
}

// results makes the statements that write results where the condition holds. also are further assignments: of all
// results, and of those that have a status.
func (s *statements) results(t *outbox.Table, schema *outbox.Schema, also []string, condition string) {
	c := &t.Columns
	condition += fmt.Sprintf(" AND o.%s = v.id AND %s RETURNING o.%s::bigint", c.ID, sameTime(schema, c, "v"), c.ID)
	also = append(also, "", "")
	s.complete = fmt.Sprintf("UPDATE %s o SET %s = 'COMPLETED'", t.Name, c.Status) + set(c.Error, "NULL") +
		set(c.CompletedAt, now) + also[0] +
		" FROM unnest($2::bigint[], $3::timestamptz[], $4::smallint[], $5::bigint[]) v (id, created_at, bucket, generation)" +
		condition
	s.result = fmt.Sprintf("UPDATE %s o SET %s = v.status", t.Name, c.Status) + set(c.Attempts, "v.attempts") +
		set(c.NextAttemptAt, "CASE WHEN v.status = 'PENDING' THEN "+in("v.delay")+" END") + set(c.Error, "v.error") +
		set(c.CompletedAt, "CASE WHEN v.status <> 'PENDING' THEN "+now+" END") + also[0] + also[1] +
		" FROM unnest($2::bigint[], $3::timestamptz[], $4::smallint[], $5::bigint[], $6::text[], $7::int[], $8::float8[], " +
		"$9::text[]) v (id, created_at, bucket, generation, status, attempts, delay, error)" + condition
}

// fetched are the columns of a row o that is to be published, and the size of its payload. o.* would fetch the payload
// of a row that is too large for the broker.
func fetched(t *outbox.Table, schema *outbox.Schema, largest string) string {
	c := &t.Columns
	size := "octet_length(o." + c.Payload.String() + "::text)" // of json and text, known without reading the value
	if schema.PayloadType == "bytea" {
		size = "octet_length(o." + c.Payload.String() + ")"
	}
	list := []string{"CASE WHEN " + size + " <= " + largest + " THEN o." + c.Payload.String() + " END AS " +
		c.Payload.String(), size + " AS payload_size"}
	seen := map[outbox.Column]bool{"": true, c.Payload: true}
	for _, name := range []outbox.Column{c.ID, c.CreatedAt, c.IdempotencyKey, c.AggregateType, c.AggregateID, c.EventType,
		c.Topic, c.Key, c.Headers, c.Status, c.Attempts, c.NextAttemptAt, c.Error, c.CompletedAt, c.Version} {
		if !seen[name] {
			seen[name] = true
			list = append(list, "o."+name.String())
		}
	}
	return strings.Join(list, ", ")
}

// selected lists the columns read from the fetched rows r: the size, the age and the row.
func selected(t *outbox.Table) string {
	return "coalesce(r.payload_size, 0), coalesce(" + outbox.SecondsExpr("r."+t.Columns.CreatedAt.String(), now) +
		", 0), " + t.SelectList("r")
}

// due is the condition of rows o whose next attempt is due.
func due(c *outbox.Columns) string {
	return fmt.Sprintf("o.%s = 'PENDING' AND (o.%[2]s IS NULL OR o.%[2]s <= %s)", c.Status, c.NextAttemptAt, asked)
}

// unblocked is the condition of rows o without an earlier row w of their key for which the condition blocks holds.
func unblocked(t *outbox.Table, blocks string) string {
	c := &t.Columns
	return fmt.Sprintf(
		"NOT EXISTS (SELECT FROM %s w WHERE w.%s = o.%s AND w.%s < o.%s AND w.%s <> 'COMPLETED' AND w.%s > 0 AND %s)",
		t.Name, c.Key, c.Key, c.ID, c.ID, c.Status, c.Attempts, blocks)
}

// set is an assignment to a column that the table may lack.
func set(c outbox.Column, value string) string {
	if c == "" {
		return ""
	}
	return ", " + c.String() + " = " + value
}
