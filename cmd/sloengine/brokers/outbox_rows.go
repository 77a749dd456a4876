package brokers

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/slo"
)

// maxOutboxList is how many rows list shows at most.
const maxOutboxList = 100_000

// outboxRow is a row in JSON. It has no payload, which may be confidential.
type outboxRow struct {
	ID             int64           `json:"id"`
	CreatedAt      time.Time       `json:"created_at"`
	Status         string          `json:"status"`
	IdempotencyKey string          `json:"idempotency_key"`
	AggregateType  string          `json:"aggregate_type"`
	AggregateID    string          `json:"aggregate_id"`
	EventType      string          `json:"event_type"`
	Topic          string          `json:"topic"`
	Key            string          `json:"key"`
	Bytes          int             `json:"payload_bytes"`
	Headers        json.RawMessage `json:"headers,omitempty"`
	Attempts       int             `json:"attempts"`
	NextAttemptAt  *time.Time      `json:"next_attempt_at,omitempty"`
	Error          string          `json:"error,omitempty"`
	CompletedAt    *time.Time      `json:"completed_at,omitempty"`
}

func newOutboxList(o *outboxCommand) *cobra.Command {
	var f outbox.Filter
	var older string
	c := &cobra.Command{
		Use:   "list",
		Short: "List rows that are not published",
		Long: `list shows the oldest rows that are PENDING or FAILED, or those of --status: pending,
waiting (pending after a failed attempt), failed, completed (the newest first), and
processing in tables whose rows are claimed one by one. Payloads are not shown.`,
		Example: `  sloengine outbox list --dsn-file dsn
  sloengine outbox list --dsn-file dsn --status failed,waiting --type OrderCreated -o json
  sloengine outbox list --dsn-file dsn --status pending --older-than 10m`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if f.Limit < 1 || f.Limit > maxOutboxList {
				return cli.Usagef("invalid --limit %d (want 1 to %d)", f.Limit, maxOutboxList)
			}
			if older != "" {
				if f.OlderThan, err = slo.ParseDuration(older); err != nil || f.OlderThan <= 0 {
					return cli.Usagef("invalid --older-than %q (want a duration such as 10m)", older)
				}
			}
			for i, s := range f.Statuses {
				f.Statuses[i] = strings.ToUpper(s)
				if !slices.Contains(outbox.Statuses(), f.Statuses[i]) {
					return cli.Usagef("invalid --status %q (want %s)", s, strings.ToLower(cli.Alternatives(outbox.Statuses())))
				}
			}
			return o.connect(c.Context(), outbox.NeedManage, func() error {
				found, err := outbox.List(c.Context(), o.conn, o.table, f)
				if err != nil {
					return err
				}
				rows := make([]outboxRow, len(found))
				for i, r := range found {
					rows[i] = outboxRow{
						r.ID, r.CreatedAt, r.Status, r.IdempotencyKey, r.AggregateType, r.AggregateID, r.EventType,
						r.Topic, r.Key, len(r.Payload),
						r.Headers, r.Attempts, r.NextAttemptAt, r.Error, r.CompletedAt,
					}
				}
				return o.Print(rows, func() error { return o.listTable(rows) })
			})
		},
	}
	flags := c.Flags()
	flags.StringSliceVar(
		&f.Statuses, "status", nil, "only rows in these states: "+strings.ToLower(cli.Alternatives(outbox.Statuses())))
	flags.StringVar(&older, "older-than", "", "only rows created before this long ago, such as 10m")
	flags.StringVar(&f.Type, "type", "", "only rows of this event type")
	flags.IntVar(&f.Limit, "limit", outbox.DefaultLimit, "maximum number of rows")
	o.AddOutput(flags, "table", "json", "yaml")
	return c
}

func (o *outboxCommand) listTable(rows []outboxRow) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(o.Out, "no rows")
		return err
	}
	w := cli.NewTable(o.Out)
	fmt.Fprintln(w, "ID\tCREATED\tSTATUS\tATTEMPTS\tNEXT ATTEMPT\tTOPIC\tTYPE\tKEY\tIDEMPOTENCY KEY\tERROR")
	for _, r := range rows {
		next := "-"
		if r.NextAttemptAt != nil {
			next = cli.TimeCell(*r.NextAttemptAt)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, cli.TimeCell(r.CreatedAt),
			cli.Cell(r.Status), r.Attempts, next,
			cli.Cell(r.Topic), cli.Cell(r.EventType), cli.Cell(r.Key), cli.Cell(r.IdempotencyKey), cli.Cell(r.Error))
	}
	return w.Flush()
}

func newOutboxRetry(o *outboxCommand) *cobra.Command {
	var f outbox.Filter
	var all bool
	c := &cobra.Command{
		Use:   "retry (ID... | --all [--type TYPE])",
		Short: "Publish FAILED rows again, and waiting ones at once",
		Long: `retry makes FAILED rows PENDING again, with all their attempts, and rows that wait for
their next attempt due at once. Other rows stay as they are. The command writes an audit
line to standard error.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 some of the rows could not be retried.`,
		Example: `  sloengine outbox retry --dsn-file dsn 4711 4712
  sloengine outbox retry --dsn-file dsn --all --type OrderCreated`,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case all == (len(args) > 0):
				return cli.Usagef("set either the IDs of rows, or --all; see '%s --help'", c.CommandPath())
			case f.Type != "" && !all:
				return cli.Usagef("--type is for --all")
			case len(args) > maxOutboxIDs:
				return cli.Usagef("%d IDs are too many (at most %d)", len(args), maxOutboxIDs)
			}
			for _, a := range args {
				id, err := strconv.ParseInt(a, 10, 64)
				if err != nil {
					return cli.Usagef("invalid ID %q (want the number that list shows)", a)
				}
				if !slices.Contains(f.IDs, id) {
					f.IDs = append(f.IDs, id)
				}
			}
			return o.connect(c.Context(), outbox.NeedManage, func() error { return o.retry(c, f) })
		},
	}
	flags := c.Flags()
	flags.BoolVar(&all, "all", false, "all rows that are FAILED or waiting")
	flags.StringVar(&f.Type, "type", "", "with --all: only rows of this event type")
	o.AddOutput(flags, "table", "json", "yaml")
	return c
}

// maxOutboxIDs is how many rows retry takes one by one.
const maxOutboxIDs = 1000

func (o *outboxCommand) retry(c *cobra.Command, f outbox.Filter) error {
	// What cannot be retried is looked up first, since what was retried looks like it afterwards.
	refused := []string{}
	if len(f.IDs) > 0 {
		rows, err := outbox.List(c.Context(), o.conn, o.table, outbox.Filter{IDs: f.IDs, Limit: maxOutboxIDs})
		if err != nil {
			return err
		}
		for _, id := range f.IDs {
			i := slices.IndexFunc(rows, func(r outbox.Row) bool { return r.ID == id })
			switch {
			case i < 0:
				refused = append(refused, fmt.Sprintf("row %d does not exist", id))
			case rows[i].Status == outbox.Completed:
				refused = append(refused, fmt.Sprintf("row %d is COMPLETED (see sloengine outbox replay)", id))
			case rows[i].Status != outbox.Failed && rows[i].NextAttemptAt == nil:
				refused = append(refused, fmt.Sprintf("row %d is %s and due already", id, rows[i].Status))
			}
		}
	}
	n, err := outbox.Retry(c.Context(), o.conn, o.table, f)
	o.audit("retry", "ids", f.IDs, "type", f.Type, "rows", n, "err", err)
	if err != nil {
		return err
	}
	result := struct {
		Retried int64    `json:"retried"`
		Refused []string `json:"refused"`
	}{n, refused}
	err = o.Print(result, func() error {
		fmt.Fprintf(o.Out, "retried %s\n", cli.Plural(int(n), "row"))
		for _, r := range refused {
			fmt.Fprintln(o.Out, cli.Printable(r))
		}
		return nil
	})
	if err == nil && len(refused) > 0 {
		err = cli.ErrFindings
	}
	return err
}

func newOutboxReplay(o *outboxCommand) *cobra.Command {
	var s outbox.Span
	var from, to string
	var yes, dry bool
	c := &cobra.Command{
		Use:   "replay --from TIME --to TIME [--type TYPE]",
		Short: "Publish COMPLETED rows again, under the same keys",
		Long: `replay makes rows PENDING again that were created within a time range and are COMPLETED.
The relay publishes them once more with the same idempotency keys, so consumers that
recognise these take them once. Before it changes anything, it shows the number of rows
and asks, unless --yes is set. The command writes an audit line to standard error.`,
		Example: `  sloengine outbox replay --dsn-file dsn --from 2026-11-20T09:00:00Z --to 2026-11-20T10:00:00Z
  sloengine outbox replay --dsn-file dsn --from 2026-11-20T09:00:00Z --to 2026-11-20T10:00:00Z --type OrderCreated ` +
			`--yes`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if s.From, err = slo.ParseTime(from); err != nil {
				return cli.Usagef("invalid --from %q (want a time such as 2026-11-20T09:00:00Z)", from)
			}
			if s.To, err = slo.ParseTime(to); err != nil || !s.To.After(s.From) {
				return cli.Usagef("invalid --to %q (want a time after --from, such as 2026-11-20T10:00:00Z)", to)
			}
			return o.connect(c.Context(), outbox.NeedManage, func() error { return o.replay(c, s, yes, dry) })
		},
	}
	f := c.Flags()
	f.StringVar(&from, "from", "", "rows created from this time on (required)")
	f.StringVar(&to, "to", "", "rows created before this time (required)")
	f.StringVar(&s.Type, "type", "", "only rows of this event type")
	f.BoolVar(&yes, "yes", false, "do not ask")
	f.BoolVar(&dry, "dry-run", false, "show the number of rows and change nothing")
	o.AddOutput(f, "table", "json", "yaml")
	return c
}

func (o *outboxCommand) replay(c *cobra.Command, s outbox.Span, yes, dry bool) error {
	n, err := outbox.CountCompleted(c.Context(), o.conn, o.table, s)
	if err != nil {
		return err
	}
	result := struct {
		Completed int64 `json:"completed"`
		Replayed  int64 `json:"replayed"`
	}{Completed: n}
	if !dry && n > 0 {
		if !yes {
			fmt.Fprintf(o.Err, "publish %s of %s again? [y/N] ", cli.Plural(int(n), "row"), cli.Printable(o.table.Name.Text()))
			answer, err := bufio.NewReader(io.LimitReader(o.In, 100)).ReadString('\n')
			if !slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
				if err != nil {
					return errors.New("nothing was changed (add --yes where there is no terminal)")
				}
				return errors.New("nothing was changed")
			}
		}
		result.Replayed, err = outbox.Replay(c.Context(), o.conn, o.table, s)
		o.audit("replay", "from", s.From.UTC(), "to", s.To.UTC(), "type", s.Type, "rows", result.Replayed, "err", err)
		if err != nil {
			return err
		}
	}
	return o.Print(result, func() error {
		if dry {
			_, err = fmt.Fprintf(o.Out, "%s would be published again\n", cli.Plural(int(n), "row"))
		} else {
			_, err = fmt.Fprintf(o.Out, "%s will be published again\n", cli.Plural(int(result.Replayed), "row"))
		}
		return err
	})
}
