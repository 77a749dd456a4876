package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// lockTimeout is the default of Layout.LockTimeout. Writers queue behind a change that waits.
const lockTimeout = 5 * time.Second

// lockPoll is how often Migrate asks whether another one has ended.
const lockPoll = 100 * time.Millisecond

// Plan lists the parts that the database lacks.
func Plan(ctx context.Context, db DB, t *Table, l Layout) ([]Step, error) {
	l.applyDefaults()
	c, date, err := l.inspect(ctx, db, t)
	if err != nil {
		return nil, err
	}
	return plan(t, c, l, date)
}

// inspect reads the catalogue, and for partitioned tables the days that the default partition has rows of.
func (l *Layout) inspect(ctx context.Context, db DB, t *Table) (c *catalog, date time.Time, err error) {
	err = inUTC(ctx, db, func(tx pgx.Tx) error {
		if c, err = lookUp(ctx, tx, t); err != nil {
			return err
		}
		if date, err = today(ctx, tx); err != nil {
			return err
		}
		return c.readOccupied(ctx, tx, t.Columns.CreatedAt, l.days(date))
	})
	return c, date, err
}

// Migrate creates the missing parts, and calls each before every step. Two at once take turns. It can be run again at
// any time, also on a table that Migrate did not create. The indexes of a table that has been there before are built
// without blocking its writers.
//
// conn has to be a session of its own: behind a pgbouncer with transaction pooling, the lock would belong to another
// one.
func Migrate(ctx context.Context, conn *pgx.Conn, t *Table, l Layout, each func(Step)) (err error) {
	l.applyDefaults()
	unlock, err := lockTable(ctx, conn, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	steps, err := Plan(ctx, conn, t, l)
	if err != nil {
		return err
	}
	together := steps
	for i := range steps {
		if steps[i].Alone {
			together = steps[:i]
			break
		}
	}
	if len(together) > 0 {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			return runSteps(ctx, tx, together, l.LockTimeout, each)
		})
		if err != nil {
			return err
		}
	}
	for _, s := range steps[len(together):] {
		each(s)
		if _, err := conn.Exec(ctx, s.SQL); err != nil {
			return stepError(s, err)
		}
	}
	return nil
}

// runSteps runs steps in a transaction, which gives up rather than make writers wait.
func runSteps(ctx context.Context, tx pgx.Tx, steps []Step, timeout time.Duration, each func(Step)) error {
	if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", timeout.Milliseconds())); err != nil {
		return err
	}
	for _, s := range steps {
		each(s)
		if _, err := tx.Exec(ctx, s.SQL); err != nil {
			return stepError(s, err)
		}
	}
	return nil
}

// SQLSTATEs that people meet.
const (
	lockNotAvailable = "55P03"
	uniqueViolation  = "23505"
	undefinedTable   = "42P01"
)

func stepError(s Step, err error) error {
	var e *pgconn.PgError
	hint := ""
	if errors.As(err, &e) {
		switch e.Code {
		case lockNotAvailable:
			hint = " (a long transaction uses the table; run it again later)"
		case uniqueViolation:
			hint = fmt.Sprintf(" (%s; remove the duplicates, or set columns.idempotency_key to the column id)", e.Detail)
		}
	}
	return fmt.Errorf("%s: %w%s", s.SQL, err, hint)
}

// migrationLock is the key of the advisory lock for changes of a table.
func migrationLock(t *Table) string { return "sloengine outbox " + t.Name.Base }

// lockTable takes the advisory lock of a table's migration.
func lockTable(ctx context.Context, conn *pgx.Conn, t *Table) (unlock func() error, err error) {
	key := migrationLock(t)
	for waited := false; ; waited = true {
		var got bool
		// A statement that waits inside the database would hold a snapshot, for which CREATE INDEX CONCURRENTLY waits.
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", key).Scan(&got); err != nil &&
			(!waited || ctx.Err() == nil) {
			return nil, fmt.Errorf("lock the migration of table %s: %w", t.Name.Text(), err)
		}
		if got {
			break
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another migration of table %s is running: %w", t.Name.Text(), context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockTimeout)
		defer cancel()
		if conn.IsClosed() {
			return nil // the session has ended, and its lock with it
		}
		var held bool
		err := conn.QueryRow(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", key).Scan(&held)
		if err == nil && !held {
			err = errors.New(
				"the lock of the migration was lost: the connection goes through a pgbouncer with transaction pooling (connect " +
					"to PostgreSQL itself)")
		}
		return err
	}, nil
}
