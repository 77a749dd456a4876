package brokers

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/postgres"
)

// outboxCommand is what the commands have in common.
type outboxCommand struct {
	cli.Printer
	database postgres.Options
	options  outbox.Options
	table    *outbox.Table
	conn     *pgx.Conn
}

// NewOutbox is the command outbox.
func NewOutbox(s cli.Streams) *cobra.Command {
	o := &outboxCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "outbox",
		Short: "Create an outbox table in PostgreSQL, and list, retry and replay its rows",
		Long: `outbox works on an outbox table: a service writes an event into it in the transaction of
its data, and sloengine relay publishes it.

The database is the one of the DSN in the file --dsn-file, such as
postgres://user:password@db:5432/shop?sslmode=verify-full, or of the variables that psql
uses: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE, PGSSLMODE and others.

A table with other names than those that migrate creates is described by --preset and
--column.`,
		Example: `  sloengine outbox migrate --dsn-file dsn --dry-run
  sloengine outbox list --dsn-file dsn --status failed
  sloengine outbox retry --dsn-file dsn 4711
  sloengine outbox stats --dsn-file dsn --table billing.outbox`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	f := c.PersistentFlags()
	f.StringVar(&o.database.DSNFile, "dsn-file", "",
		"file with the DSN of the database; without it, the variables PGHOST and so on count")
	f.StringVar(&o.database.PasswordFile, "password-file", "", "file with the password, if the DSN has none")
	f.StringVar(
		&o.options.Name, "table", "", "table, with its schema or without (default outbox, or the name of the preset)")
	f.StringVar(&o.options.Preset, "preset", "", "columns of a known table: "+cli.Alternatives(outbox.Presets()))
	f.StringToStringVar(&o.options.Columns, "column", nil,
		"name of a column, such as key=order_key, or bucket= if there is none (repeatable)")
	f.StringVar(&o.options.Topic, "topic", "", "topic of all rows, for a table without a topic column")
	c.AddCommand(newOutboxMigrate(o), newOutboxList(o), newOutboxRetry(o), newOutboxReplay(o), newOutboxStats(o),
		newOutboxCleanup(o))
	return c
}

// connect runs f with a connection, after a check of the table.
func (o *outboxCommand) connect(ctx context.Context, need outbox.Need, f func() error) (err error) {
	defer func() { err = explainOutbox(err) }()
	if o.table, err = outbox.New(o.options); err != nil {
		return cli.UsageError{Err: err}
	}
	if o.database.DSNFile == "" {
		if os.Getenv("PGHOST") == "" && os.Getenv("PGSERVICE") == "" {
			return cli.Usagef("no database: set --dsn-file, or PGHOST, PGUSER and PGDATABASE as for psql")
		}
		o.database.DSN = "application_name=sloengine" // all else comes from the environment
	}
	o.database.TransactionPooling = true // nothing is run often enough to be prepared
	if err := o.database.Validate(); err != nil {
		return cli.UsageError{Err: err}
	}
	if o.conn, err = postgres.Dial(ctx, o.database); err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = o.conn.Close(end)
	}()
	if need != 0 {
		if _, err := outbox.Check(ctx, o.conn, o.table, need); err != nil {
			return err
		}
	}
	return f()
}

// printableError is an error with foreign text in it, such as an idempotency key.
type printableError struct{ error }

func (e printableError) Error() string {
	lines := strings.Split(e.error.Error(), "\n")
	for i := range lines {
		lines[i] = cli.Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

func (e printableError) Unwrap() error { return e.error }

// explainOutbox makes errors of the database readable, and all errors printable.
func explainOutbox(err error) error {
	if err == nil || errors.Is(err, cli.ErrFindings) {
		return err
	}
	if usage := (cli.UsageError{}); errors.As(err, &usage) {
		return cli.UsageError{Err: printableError{usage.Err}}
	}
	if postgres.State(err) != "" {
		err = postgres.Explain(err)
	}
	return printableError{err}
}

// audit logs who changed rows.
func (o *outboxCommand) audit(action string, args ...any) {
	who := "unknown"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	log := slog.New(slog.NewTextHandler(o.Err, nil))
	log.Info("audit", append([]any{"action", "outbox." + action, "user", who, "database_user", o.conn.Config().User,
		"table", o.table.Name.Text()}, args...)...)
}
