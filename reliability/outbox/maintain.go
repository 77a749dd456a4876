package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Retention says which rows Maintain deletes.
type Retention struct {
	// Age is how long rows that are done stay, and how long an idempotency key is recognised. Default: 7 days.
	Age time.Duration
	// Source is how an engine reads the table. With SourceClaim, rows that it has not counted stay.
	Source Source
	// WithoutRelay is set where no relay marks rows as COMPLETED, so that a row is done once the source has counted it.
	WithoutRelay bool
	// Batch is how many rows one statement looks at. Default: 1000.
	Batch int
	// Ahead is how many days after today have a partition. Default: 3.
	Ahead int
	// LockTimeout bounds how long a change of partitions waits for transactions that use the table. Default: 5s.
	LockTimeout time.Duration
	// Now overrides the database's clock, for tests. Zero: the database's.
	Now time.Time
}

// DefaultRetention is the age at which rows that are done are deleted.
const DefaultRetention = 7 * day

func (r *Retention) applyDefaults() error {
	if r.Age == 0 {
		r.Age = DefaultRetention
	}
	if r.Age < time.Minute {
		return fmt.Errorf("retention: %s is too short (at least 1m)", r.Age)
	}
	if r.WithoutRelay && r.Source != SourceClaim {
		return errors.New("retention: without a relay, only the source claim says which rows are done")
	}
	if r.Batch <= 0 {
		r.Batch = 1000
	}
	if r.LockTimeout <= 0 {
		r.LockTimeout = lockTimeout
	}
	return nil
}

// Maintained is the result of Maintain.
type Maintained struct {
	Created []string `json:"created_partitions"`
	Dropped []string `json:"dropped_partitions"`
	// Retained are partitions past their retention with rows that have to stay: rows that are PENDING or FAILED, or that
	// the source has not counted.
	Retained []string `json:"retained_partitions"`
	// Default reports that the default partition has rows, because there was no partition for their day: maintenance did
	// not run in time. Nothing is lost, and these rows are deleted in batches once they are done.
	Default bool  `json:"rows_in_default_partition"`
	Rows    int64 `json:"deleted_rows"`
	Keys    int64 `json:"deleted_idempotency_keys"`
}

// Maintain makes partitions ahead, drops those past the retention, and deletes rows that are done and their idempotency
// keys in small batches. PENDING and FAILED rows stay. It can run at any time, and several times at once.
func Maintain(ctx context.Context, db DB, t *Table, r Retention) (m Maintained, err error) {
	if err := r.applyDefaults(); err != nil {
		return m, err
	}
	c := &catalog{}
	now := r.Now
	err = inUTC(ctx, db, func(tx pgx.Tx) error {
		if c, err = lookUp(ctx, tx, t); err != nil {
			return err
		}
		if now.IsZero() {
			err = tx.QueryRow(ctx, "SELECT now()").Scan(&now)
		}
		return err
	})
	if err != nil {
		return m, err
	}
	if !c.exists {
		return m, fmt.Errorf("table %s does not exist", c.name.Text())
	}
	x := maintenance{db: db, t: t, c: c, r: r, cutoff: now.Add(-r.Age), now: now, did: &m}
	if !c.partitioned {
		return m, x.deleteRows(ctx, c.name)
	}
	if err := x.makePartitions(ctx); err != nil {
		return m, err
	}
	return m, x.dropPartitions(ctx)
}

// maintenance is one run of Maintain.
type maintenance struct {
	db     DB
	t      *Table
	c      *catalog
	r      Retention
	now    time.Time
	cutoff time.Time
	did    *Maintained
}

// makePartitions creates those of today and the days ahead. A second relay leaves it to the first.
func (x *maintenance) makePartitions(ctx context.Context) error {
	l := Layout{Ahead: x.r.Ahead, LockTimeout: x.r.LockTimeout, Today: x.now}
	l.applyDefaults()
	return inUTC(ctx, x.db, func(tx pgx.Tx) error {
		var got bool
		if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))",
			migrationLock(x.t)).Scan(&got); err != nil || !got {
			return err
		}
		c, err := lookUp(ctx, tx, x.t)
		if err != nil {
			return err
		}
		if err := c.readOccupied(ctx, tx, x.t.Columns.CreatedAt, l.days(x.now)); err != nil {
			return err
		}
		x.c = c
		p := planner{t: x.t, c: c, l: l, partitioned: true}
		p.partitions(x.now)
		return runSteps(ctx, tx, p.steps, l.LockTimeout, func(s Step) {
			if s.creates != "" {
				x.did.Created = append(x.did.Created, s.creates)
			}
		})
	})
}

// dropPartitions drops partitions that are past the retention and done, and deletes such rows of other partitions
// in batches.
func (x *maintenance) dropPartitions(ctx context.Context) error {
	for i := range x.c.partitions {
		p := &x.c.partitions[i]
		switch {
		case p.Default:
			if err := x.db.QueryRow(
				ctx, fmt.Sprintf("SELECT EXISTS (SELECT 1 FROM %s)", p.Name)).Scan(&x.did.Default); err != nil {
				return fmt.Errorf("read partition %s: %w", p.Name.Text(), err)
			}
			if !x.did.Default {
				continue
			}
		case p.To.IsZero() || p.To.After(x.cutoff):
			continue
		default:
			dropped, err := x.drop(ctx, p)
			if err != nil {
				return err
			}
			if dropped {
				x.did.Dropped = append(x.did.Dropped, p.Name.Text())
				continue
			}
			x.did.Retained = append(x.did.Retained, p.Name.Text())
		}
		if err := x.deleteRows(ctx, p.Name); err != nil {
			return err
		}
	}
	return x.deleteKeys(ctx)
}

// remains are conditions of rows that have to stay. Each of them alone has an index.
func (x *maintenance) remains() (conditions []string) {
	c := &x.t.Columns
	if !x.r.WithoutRelay && c.Status != "" {
		for _, s := range []string{Pending, Failed, Processing} {
			conditions = append(conditions, fmt.Sprintf("%s = '%s'", c.Status, s))
		}
	}
	if x.r.Source == SourceClaim {
		conditions = append(conditions, c.CountedAt.String()+" IS NULL")
	}
	return conditions
}

// done is the condition of rows that may be deleted, of the table's alias o.
func (x *maintenance) done() string {
	c := &x.t.Columns
	if x.r.WithoutRelay {
		return fmt.Sprintf("o.%s < $3", c.CountedAt)
	}
	s := fmt.Sprintf("o.%s = '%s'", c.Status, Completed)
	if c.CompletedAt != "" {
		s += fmt.Sprintf(" AND coalesce(o.%s, o.%s) < $3", c.CompletedAt, c.CreatedAt)
	} else {
		s += fmt.Sprintf(" AND o.%s < $3", c.CreatedAt)
	}
	if x.r.Source == SourceClaim {
		s += fmt.Sprintf(" AND o.%s IS NOT NULL", c.CountedAt)
	}
	return s
}

// drop drops a partition unless it has rows that have to stay. It looks twice: at all rows while others work, and
// again, at the few that can have become PENDING by a replay, under a lock against writers.
func (x *maintenance) drop(ctx context.Context, p *Partition) (dropped bool, err error) {
	c := &x.t.Columns
	if !x.r.WithoutRelay {
		var stay bool
		sql := fmt.Sprintf("SELECT EXISTS (SELECT 1 FROM %s WHERE %s IS DISTINCT FROM '%s')", p.Name, c.Status, Completed)
		if err := x.db.QueryRow(ctx, sql).Scan(&stay); err != nil || stay {
			return false, err
		}
	}
	err = pgx.BeginFunc(ctx, x.db, func(tx pgx.Tx) error {
		for _, s := range []string{
			fmt.Sprintf("SET LOCAL lock_timeout = %d", x.r.LockTimeout.Milliseconds()),
			fmt.Sprintf("LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE", x.c.name),
		} {
			if _, err := tx.Exec(ctx, s); err != nil {
				return err
			}
		}
		for _, condition := range x.remains() {
			var stay bool
			if err := tx.QueryRow(
				ctx, fmt.Sprintf("SELECT EXISTS (SELECT 1 FROM %s WHERE %s)", p.Name, condition)).Scan(&stay); err != nil || stay {
				return err
			}
		}
		dropped = true
		_, err := tx.Exec(ctx, fmt.Sprintf("DROP TABLE IF EXISTS %s", p.Name))
		return err
	})
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e) && e.Code == undefinedTable: // another relay was faster
		return true, nil
	case err != nil:
		return false, stepError(Step{SQL: "DROP TABLE " + p.Name.String()}, err)
	}
	return dropped, nil
}

// deleteRows walks over a table or partition by id, and deletes completed rows. It ends at rows that are newer than
// the retention.
func (x *maintenance) deleteRows(ctx context.Context, relation Name) error {
	c := &x.t.Columns
	if !x.r.WithoutRelay && c.Status == "" {
		return nil
	}
	sql := fmt.Sprintf(`WITH seen AS (SELECT %[2]s AS id, %[3]s AS created FROM %[1]s WHERE %[2]s > $1 ORDER BY %[2]s
		LIMIT $2),
		gone AS (DELETE FROM %[1]s o USING seen WHERE o.%[2]s = seen.id AND %[4]s RETURNING 1)
		SELECT coalesce(max(seen.id), 0)::bigint, (SELECT count(*) FROM gone), coalesce(bool_and(seen.created >= $3), true)
			FROM seen`,
		relation, c.ID, c.CreatedAt, x.done())
	for last, end := int64(-1<<63), false; !end; {
		var deleted int64
		if err := x.db.QueryRow(ctx, sql, last, x.r.Batch, x.cutoff).Scan(&last, &deleted, &end); err != nil {
			return fmt.Errorf("delete rows of %s: %w", relation.Text(), err)
		}
		x.did.Rows += deleted
	}
	return nil
}

// deleteKeys deletes the idempotency keys whose rows are gone.
func (x *maintenance) deleteKeys(ctx context.Context) error {
	if !x.c.besides[keysTable] {
		return nil
	}
	c := &x.t.Columns
	// The partition that the cutoff lies in is still there, so its keys are, too.
	cutoff := x.cutoff.UTC().Truncate(day)
	sql := fmt.Sprintf(`WITH seen AS (SELECT idempotency_key AS k, created_at AS c FROM %[1]s
		WHERE created_at < $1 AND (created_at, idempotency_key) > ($2, $3) ORDER BY created_at, idempotency_key LIMIT $4),
		gone AS (DELETE FROM %[1]s USING seen WHERE idempotency_key = seen.k
			AND NOT EXISTS (SELECT 1 FROM %[2]s o WHERE o.%[3]s < $1 AND o.%[4]s::text = seen.k) RETURNING 1)
		SELECT seen.c, seen.k, (SELECT count(*) FROM gone) FROM seen ORDER BY 1 DESC, 2 DESC LIMIT 1`,
		x.c.name.With(keysTable), x.c.name, c.CreatedAt, c.IdempotencyKey)
	last, key := time.Unix(0, 0).AddDate(-1900, 0, 0), ""
	for {
		var deleted int64
		err := x.db.QueryRow(ctx, sql, cutoff, last, key, x.r.Batch).Scan(&last, &key, &deleted)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("delete idempotency keys of %s: %w", x.c.name.Text(), err)
		}
		x.did.Keys += deleted
	}
}
