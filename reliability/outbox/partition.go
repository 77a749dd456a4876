package outbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const defaultPartition = "_default"

// partitions creates those that today and the days after it lack, and the default partition, which takes the rows of
// days that have none, so that writers do not fail when maintenance did not run.
func (p *planner) partitions(today time.Time) {
	days := p.c.daysWithout(p.l.days(today))
	if !p.c.exists {
		p.add("CREATE TABLE %s PARTITION OF %s DEFAULT", p.c.name.With(defaultPartition), p.c.name)
	} else if !slices.ContainsFunc(p.c.partitions, func(x Partition) bool { return x.Default }) {
		p.attach(p.c.name.With(defaultPartition), "DEFAULT")
	}
	for _, d := range days {
		name := p.c.name.With(d.Format("_p20060102"))
		values := fmt.Sprintf("FOR VALUES FROM ('%s') TO ('%s')", boundText(d), boundText(d.Add(day)))
		if p.c.exists {
			p.attach(name, values)
		} else {
			p.add("CREATE TABLE %s PARTITION OF %s %s", name, p.c.name, values)
		}
	}
}

// attach adds a partition to a table in use: unlike CREATE TABLE .. PARTITION OF, it does not block its writers.
func (p *planner) attach(name Name, values string) {
	p.add("CREATE TABLE %s (LIKE %s INCLUDING ALL EXCLUDING IDENTITY)", name, p.c.name)
	p.add("ALTER TABLE %s ATTACH PARTITION %s %s", p.c.name, name, values)
	p.steps[len(p.steps)-1].creates = name.Text()
}

func boundText(t time.Time) string { return t.Format("2006-01-02 15:04:05+00") }

// days are today and those ahead.
func (l *Layout) days(today time.Time) (days []time.Time) {
	if !l.Today.IsZero() {
		today = l.Today
	}
	today = today.UTC().Truncate(day)
	for i := range l.Ahead + 1 {
		days = append(days, today.Add(time.Duration(i)*day))
	}
	return days
}

// daysWithout are the days that no partition covers, except those of which the default partition has rows already.
func (c *catalog) daysWithout(days []time.Time) (out []time.Time) {
	for _, d := range days {
		end := d.Add(day)
		covered := false
		for i := range c.partitions {
			x := &c.partitions[i]
			switch {
			case x.Default:
				covered = covered || x.occupied[d]
			case (x.To.IsZero() || x.To.After(d)) && (x.From.IsZero() || x.From.Before(end)):
				covered = true
			}
		}
		if !covered {
			out = append(out, d)
		}
	}
	return out
}

// readOccupied finds out of which days the default partition has rows.
func (c *catalog) readOccupied(ctx context.Context, tx pgx.Tx, created Column, days []time.Time) error {
	for i := range c.partitions {
		x := &c.partitions[i]
		if !x.Default {
			continue
		}
		x.occupied = map[time.Time]bool{}
		for _, d := range days {
			var there bool
			sql := fmt.Sprintf("SELECT EXISTS (SELECT 1 FROM %s WHERE %s >= '%s' AND %s < '%s')", x.Name, created, boundText(d),
				created, boundText(d.Add(day)))
			if err := tx.QueryRow(ctx, sql).Scan(&there); err != nil {
				return fmt.Errorf("read partition %s: %w", x.Name.Text(), err)
			}
			x.occupied[d] = there
		}
	}
	return nil
}

func today(ctx context.Context, tx pgx.Tx) (d time.Time, err error) {
	if err = tx.QueryRow(ctx, "SELECT (now() AT TIME ZONE 'UTC')::date").Scan(&d); err != nil {
		return d, fmt.Errorf("read the database's date: %w", err)
	}
	return d, nil
}
