package brokers

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/slo"
)

func addSource(c *cobra.Command, source *string, usage string) {
	cli.AddChoice(c.Flags(), source, "source", "", usage, "none", string(outbox.SourceClaim), string(outbox.SourceXID))
}

func parseSource(s string) outbox.Source {
	if s == "none" {
		return outbox.SourceNone
	}
	return outbox.Source(s)
}

func newOutboxMigrate(o *outboxCommand) *cobra.Command {
	var l outbox.Layout
	var source string
	var dry bool
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Create the table, or add what it lacks",
		Long: `migrate creates the outbox table and those beside it: OUTBOX_buckets and OUTBOX_relays, by
which relays share the work, and OUTBOX_keys with the idempotency keys of a partitioned
table. If there is a table already, it adds missing columns, indexes and partitions. Run
it again after each update. Two at once take turns.

Indexes of a table that is in use are built without blocking its writers. A change that
has to wait for a long transaction gives up after 5 s and changes nothing.

Connect to PostgreSQL itself, not through a pgbouncer with transaction pooling.`,
		Example: `  sloengine outbox migrate --dsn-file dsn
  sloengine outbox migrate --dsn-file dsn --partitioned --source xid
  sloengine outbox migrate --dsn-file dsn --preset kafka_outbox --dry-run`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if l.Ahead < 1 || l.Ahead > maxAhead {
				return cli.Usagef("invalid --ahead %d (want 1 to %d)", l.Ahead, maxAhead)
			}
			l.Source = parseSource(source)
			return o.connect(c.Context(), 0, func() error {
				done := []migrateStep{}
				each := func(s outbox.Step) {
					done = append(done, migrateStep{s.SQL, s.Note})
					if o.Format == "table" { // at once: a step may take long
						printStep(o.Out, s)
					}
				}
				if dry {
					steps, err := outbox.Plan(c.Context(), o.conn, o.table, l)
					if err != nil {
						return err
					}
					for _, s := range steps {
						each(s)
					}
				} else if err := outbox.Migrate(c.Context(), o.conn, o.table, l, each); err != nil {
					return err
				}
				return o.Print(done, func() error {
					if len(done) == 0 {
						fmt.Fprintf(o.Err, "table %s has everything\n", cli.Printable(o.table.Name.Text()))
					}
					return nil
				})
			})
		},
	}
	f := c.Flags()
	f.BoolVar(&dry, "dry-run", false, "print the statements and change nothing")
	f.BoolVar(&l.Partitioned, "partitioned", false, "create a table with a partition for each day")
	f.IntVar(&l.Ahead, "ahead", outbox.DefaultAhead, "days after today that get a partition")
	addSource(c, &source, "add what an engine needs that reads the table directly")
	o.AddOutput(f, "table", "json", "yaml")
	return c
}

// migrateStep is one statement of migrate as JSON.
type migrateStep struct {
	SQL  string `json:"sql"`
	Note string `json:"note,omitempty"`
}

// maxAhead bounds how many partitions are made ahead.
const maxAhead = 60

func printStep(w io.Writer, s outbox.Step) {
	if s.Note != "" {
		fmt.Fprintf(w, "-- %s\n", s.Note)
	}
	fmt.Fprintf(w, "%s;\n", printableError{errors.New(s.SQL)})
}

func newOutboxCleanup(o *outboxCommand) *cobra.Command {
	var r outbox.Retention
	var source, age string
	c := &cobra.Command{
		Use:   "cleanup",
		Short: "Delete rows past their retention, and make partitions ahead",
		Long: `cleanup deletes COMPLETED rows past the retention and their idempotency keys, in small
batches. In a table with partitions by day, it makes those of the next days and drops
those past the retention. PENDING and FAILED rows stay, and with --source claim rows that
the engine has not counted.

A relay does this by itself. Run the command once a day where none runs.`,
		Example: `  sloengine outbox cleanup --dsn-file dsn --retention 3d
  sloengine outbox cleanup --dsn-file dsn --source claim --without-relay`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if r.Age, err = slo.ParseDuration(age); err != nil || r.Age < time.Minute {
				return cli.Usagef("invalid --retention %q (want a duration of at least 1m, such as 7d)", age)
			}
			if r.Ahead < 1 || r.Ahead > maxAhead {
				return cli.Usagef("invalid --ahead %d (want 1 to %d)", r.Ahead, maxAhead)
			}
			r.Source = parseSource(source)
			if r.WithoutRelay && r.Source != outbox.SourceClaim {
				return cli.Usagef("--without-relay requires --source claim, which says which rows are done")
			}
			need := outbox.NeedManage
			switch {
			case r.WithoutRelay:
				need = outbox.NeedClaim
			case r.Source == outbox.SourceClaim:
				need |= outbox.NeedClaim
			}
			return o.connect(c.Context(), need, func() error {
				m, err := outbox.Maintain(c.Context(), o.conn, o.table, r)
				o.audit("cleanup", "rows", m.Rows, "idempotency_keys", m.Keys, "created", m.Created, "dropped", m.Dropped,
					"retained", m.Retained, "err", err)
				if err != nil {
					return err
				}
				return o.Print(m, func() error { return o.cleanupTable(&m) })
			})
		},
	}
	f := c.Flags()
	f.StringVar(&age, "retention", "7d", "how long rows that are done stay")
	f.IntVar(&r.Ahead, "ahead", outbox.DefaultAhead, "days after today that get a partition")
	f.BoolVar(
		&r.WithoutRelay, "without-relay", false, "no relay marks rows: with --source claim, a row is done once it is counted")
	addSource(c, &source, "rows that an engine of this kind has not read stay")
	o.AddOutput(f, "table", "json", "yaml")
	return c
}

func (o *outboxCommand) cleanupTable(m *outbox.Maintained) error {
	fmt.Fprintf(o.Out, "deleted %s and %s\n", cli.Plural(int(m.Rows), "row"), cli.Plural(int(m.Keys), "idempotency key"))
	for _, p := range []struct {
		what  string
		names []string
	}{{"created", m.Created}, {"dropped", m.Dropped}, {"retained, since rows have to stay:", m.Retained}} {
		for _, name := range p.names {
			fmt.Fprintf(o.Out, "%s %s\n", p.what, cli.Printable(name))
		}
	}
	if m.Default {
		fmt.Fprintln(o.Out, "the default partition has rows: there was no partition for their day")
	}
	return nil
}
