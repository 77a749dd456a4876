package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Backlog describes the unpublished rows.
type Backlog struct {
	Pending int64 `json:"pending"` // with those that are claimed one by one and PROCESSING
	Waiting int64 `json:"waiting"` // those of Pending that failed at least once
	Failed  int64 `json:"failed"`
	// Oldest is when the oldest of Pending was created. Rows that a replay made PENDING do not count.
	Oldest *time.Time `json:"oldest_pending"`
	Age    float64    `json:"oldest_pending_seconds"` // of Oldest, by the database's clock
}

// ReadBacklog counts the rows that are not published, and those that are FAILED. It reads no others.
func ReadBacklog(ctx context.Context, db DB, t *Table) (b Backlog, err error) {
	c := &t.Columns
	waiting, fresh := "0", "true"
	if c.Attempts != "" {
		waiting = fmt.Sprintf("count(*) FILTER (WHERE %s > 0)", c.Attempts)
	}
	if c.CompletedAt != "" {
		fresh = c.CompletedAt.String() + " IS NULL"
	}
	sql := fmt.Sprintf(`SELECT p.*, coalesce(%[7]s, 0), (SELECT count(*) FROM %[1]s WHERE %[2]s = 'FAILED')
		FROM (SELECT count(*), %[3]s, min(%[4]s) FILTER (WHERE %[5]s)::timestamptz AS oldest FROM %[1]s WHERE %[6]s) p`,
		t.Name, c.Status, waiting, c.CreatedAt, fresh, t.OpenExpr(), SecondsExpr("p.oldest", "clock_timestamp()"))
	if err := db.QueryRow(ctx, sql).Scan(&b.Pending, &b.Waiting, optionalTime{&b.Oldest}, &b.Age, &b.Failed); err != nil {
		return b, fmt.Errorf("count the rows of %s: %w", t.Name.Text(), err)
	}
	return b, nil
}

// Stats is the state of a table.
type Stats struct {
	Backlog
	// Completed is an estimate of the planner's statistics in large tables, see Estimated.
	Completed int64 `json:"completed"`
	Estimated bool  `json:"completed_is_estimate"`
	// Recent is the latency of the rows completed within the last hour, among the SampleRows newest rows of the table.
	Recent Latency `json:"last_hour"`
	Topics []Topic `json:"topics"`
	Relays []Relay `json:"relays"`
	// Unleased is how many buckets no relay has a valid lease of.
	Unleased int `json:"buckets_without_lease"`
}

// Latency is how long rows took from their creation to their completion, in seconds.
type Latency struct {
	Completed int64    `json:"completed"`
	P50       *float64 `json:"p50_seconds"` // nil without rows
	P95       *float64 `json:"p95_seconds"`
}

// Topic is the state of the rows of one topic and event type.
type Topic struct {
	Topic   string  `json:"topic"`
	Type    string  `json:"event_type"`
	Pending int64   `json:"pending"`
	Failed  int64   `json:"failed"`
	Recent  Latency `json:"last_hour"`
}

// Relay is who has leases.
type Relay struct {
	Name    string     `json:"name"`
	Buckets int        `json:"buckets"`
	Until   *time.Time `json:"lease_until"` // the lease that ends first
	SeenAt  *time.Time `json:"seen_at"`
}

const (
	// SampleRows is how many rows Stats looks at for latencies.
	SampleRows = 100_000
	// exactRows is the size up to which completed rows are counted.
	exactRows = 1_000_000
	// maxTopics bounds the pairs of topic and event type in Stats.
	maxTopics = 200
)

// ReadStats reads the state of a table. In a table of any size it looks at rows that are PENDING or FAILED and at
// SampleRows others.
func ReadStats(ctx context.Context, db DB, t *Table) (*Stats, error) {
	c, err := readCatalog(ctx, db, t)
	if err != nil {
		return nil, err
	}
	s := &Stats{Topics: []Topic{}, Relays: []Relay{}}
	if s.Backlog, err = ReadBacklog(ctx, db, t); err != nil {
		return nil, err
	}
	if err = s.readCompleted(ctx, db, t, c); err == nil {
		err = s.readTopics(ctx, db, t)
	}
	if err == nil && c.besides[bucketsTable] && c.besides[relaysTable] {
		err = s.readRelays(ctx, db, t)
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of %s: %w", t.Name.Text(), err)
	}
	return s, nil
}

func (s *Stats) readCompleted(ctx context.Context, db DB, t *Table, c *catalog) error {
	var all float64
	var known bool
	// reltuples is -1, or 0 up to PostgreSQL 13, for tables that were never analyzed.
	err := db.QueryRow(ctx,
		`SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::float8, coalesce(bool_and(c.reltuples >= 0), false)
		FROM pg_partition_tree($1::text::regclass) p JOIN pg_class c ON c.oid = p.relid WHERE p.isleaf`,
		c.name.String()).Scan(&all, &known)
	if err != nil {
		return err
	}
	if known && all > exactRows {
		s.Completed, s.Estimated = max(int64(all)-s.Pending-s.Failed, 0), true
		return nil
	}
	return db.QueryRow(
		ctx, fmt.Sprintf("SELECT count(*) FROM %s WHERE %s = 'COMPLETED'", t.Name, t.Columns.Status)).Scan(&s.Completed)
}

func (s *Stats) readTopics(ctx context.Context, db DB, t *Table) error {
	c := &t.Columns
	completed := "NULL::timestamptz"
	if c.CompletedAt != "" {
		completed = c.CompletedAt.String() + "::timestamptz"
	}
	sql := fmt.Sprintf(`WITH r AS (
			SELECT %[1]s AS topic, %[2]s AS type, 1 AS pending, 0 AS failed, NULL::float8 AS took FROM %[3]s WHERE %[10]s
			UNION ALL SELECT %[1]s, %[2]s, 0, 1, NULL FROM %[3]s WHERE %[4]s = 'FAILED'
			UNION ALL SELECT topic, type, 0, 0, %[11]s
				FROM (SELECT %[1]s AS topic, %[2]s AS type, %[4]s AS status, %[5]s::timestamptz AS created, %[6]s AS completed
					FROM %[3]s ORDER BY %[7]s DESC LIMIT %[8]d) newest
				WHERE status = 'COMPLETED' AND completed > now() - interval '1 hour')
		SELECT grouping(topic) = 1, coalesce(topic, ''), coalesce(type, ''), coalesce(sum(pending), 0),
			coalesce(sum(failed), 0), count(took),
			percentile_cont(0.5) WITHIN GROUP (ORDER BY took), percentile_cont(0.95) WITHIN GROUP (ORDER BY took)
		FROM r GROUP BY GROUPING SETS ((), (topic, type)) ORDER BY 1 DESC, sum(pending) + sum(failed) DESC, count(took) DESC,
			2, 3 LIMIT %[9]d`,
		t.TopicExpr(), textExpr(c.EventType), t.Name, c.Status, c.CreatedAt, completed, c.ID, SampleRows, maxTopics+1,
		t.OpenExpr(), SecondsExpr("created", "completed"))
	rows, err := db.Query(ctx, sql)
	if err != nil {
		return err
	}
	var x Topic
	var total bool
	_, err = pgx.ForEachRow(rows, []any{&total, &x.Topic, &x.Type, &x.Pending, &x.Failed, &x.Recent.Completed,
		&x.Recent.P50, &x.Recent.P95}, func() error {
		if total {
			s.Recent = x.Recent
		} else {
			s.Topics = append(s.Topics, x)
		}
		x = Topic{}
		return nil
	})
	return err
}

func (s *Stats) readRelays(ctx context.Context, db DB, t *Table) error {
	sql := fmt.Sprintf(`SELECT coalesce(r.name, b.worker, ''), count(b.bucket), min(b.lease_until), r.seen_at
		FROM (SELECT bucket, lease_until, CASE WHEN lease_until > clock_timestamp() THEN worker END AS worker FROM %s) b
			FULL JOIN %s r ON r.name = b.worker
		GROUP BY 1, r.seen_at ORDER BY 1`, t.Buckets(), t.Relays())
	rows, err := db.Query(ctx, sql)
	if err != nil {
		return err
	}
	var r Relay
	_, err = pgx.ForEachRow(rows, []any{&r.Name, &r.Buckets, &r.Until, &r.SeenAt}, func() error {
		if r.Name == "" {
			s.Unleased = r.Buckets
		} else {
			s.Relays = append(s.Relays, r)
		}
		r = Relay{}
		return nil
	})
	return err
}
