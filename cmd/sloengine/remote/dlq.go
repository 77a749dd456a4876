package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/slo"
)

// newDLQ is the command dlq: what a running engine's API offers about dead letters.
func newDLQ(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "dlq",
		Short: "List, replay and discard the dead letters of a running engine",
		Long: `Dead letters are events that could not be admitted, counted or delivered, stored with
the reason. A replay returns them to where they came from (admission, fold or sink),
critical ones first, then oldest first, at the replay rate of the engine. Each event is
counted once. Events that fail again stay in the queue.

If the engine requires tokens, list, show and stats need the permission read, and the
other commands need the permission operate.`,
		Example: `  sloengine dlq stats
  sloengine dlq list --origin sink --from 2h
  sloengine dlq show sink-warehouse-900-0
  sloengine dlq replay --sink warehouse --dry-run
  sloengine dlq replay sink-warehouse-900-0 sink-warehouse-901-3
  sloengine dlq discard --reason rate_limited --to 7d
  sloengine dlq purge --older-than 30d`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	f := c.PersistentFlags()
	o.engine.AddFlags(f)
	o.AddOutput(f, "table", "json", "yaml")
	c.AddCommand(newDLQList(o), newDLQShow(o), newDLQStats(o), newDLQReplay(o), newDLQDiscard(o), newDLQPurge(o))
	return c
}

// dlqFilter are the flags that choose dead letters.
type dlqFilter struct {
	values map[string]*string
	now    func() time.Time
}

func newDLQFilter(f *pflag.FlagSet) *dlqFilter {
	d := &dlqFilter{values: map[string]*string{}, now: time.Now}
	for _, flag := range []struct{ name, usage string }{
		{"origin", "only dead letters of this origin: admission, fold or sink"},
		{"sink", "only dead letters of this sink"},
		{"service", "only events of this service"},
		{"type", "only events of this type"},
		{"severity", "only events of this severity"},
		{"reason", "only dead letters with this reason"},
		{"class", "only dead letters whose last error has this class, such as timeout"},
		{"from", "only dead letters saved at or after this time: RFC 3339, or an age such as 2h"},
		{"to", "only dead letters saved before this time: RFC 3339, or an age such as 7d"},
	} {
		d.values[flag.name] = f.String(flag.name, "", flag.usage)
	}
	return d
}

// query is what the flags say, by the names of the API. It refuses an empty value, because that is more likely an
// unset variable in a script than a request for everything.
func (d *dlqFilter) query(f *pflag.FlagSet) (map[string]string, error) {
	q := map[string]string{}
	var err error
	f.Visit(func(flag *pflag.Flag) {
		value, ok := d.values[flag.Name]
		switch {
		case !ok || err != nil:
			return
		case *value == "":
			err = cli.Usagef("--%s is empty (omit it to match all)", flag.Name)
			return
		case flag.Name == "from" || flag.Name == "to":
			at, e := timeFlag(*value, d.now())
			if e != nil {
				err = cli.Usagef("invalid --%s %w", flag.Name, e)
				return
			}
			q[flag.Name] = at.UTC().Format(time.RFC3339Nano)
			return
		case flag.Name == "origin" && !slices.Contains([]string{"admission", "fold", "sink"}, *value):
			err = cli.Usagef("invalid --origin %q (want admission, fold or sink)", *value)
		}
		q[flag.Name] = *value
	})
	return q, err
}

// timeFlag reads a time, or how long before now it was.
func timeFlag(s string, now time.Time) (time.Time, error) {
	if ago, err := slo.ParseDuration(s); err == nil && s != "0" {
		return now.Add(-ago), nil
	}
	at, err := slo.ParseTime(s)
	if err != nil {
		return at, fmt.Errorf("%q (want a time such as 2026-11-20T09:00:00Z, or an age such as 2h or 7d)", s)
	}
	return at, nil
}

func newDLQList(o *engineCommand) *cobra.Command {
	var (
		filter *dlqFilter
		limit  = 100
		order  string
		cursor string
		all    bool
	)
	c := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, newest first",
		Example: `  sloengine dlq list
  sloengine dlq list --sink warehouse --from 2h --limit 20
  sloengine dlq list --all --order oldest -o json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			q, err := filter.query(c.Flags())
			switch {
			case err != nil:
				return err
			case limit < 1:
				return cli.Usagef("invalid --limit %d (want at least 1)", limit)
			case all && c.Flags().Changed("limit"):
				return cli.Usagef("--all and --limit exclude each other")
			}
			q["order"], q["cursor"] = order, cursor
			params := given(q)
			if all {
				limit = math.MaxInt
			}
			out := &dlqPrinter{engineCommand: o}
			next, err := list(c.Context(), &o.engine, "/api/v1/dlq", params, limit, dlqPage, out.entries)
			if err != nil {
				return soFar(errors.Join(err, out.end()), out.n, "listed")
			}
			if err := out.close(); err != nil {
				return err
			}
			if next != "" {
				fmt.Fprintf(o.Err, "there are more: list them with --all, or continue with --cursor %s\n", cli.Printable(next))
			}
			return nil
		},
	}
	f := c.Flags()
	filter = newDLQFilter(f)
	f.IntVar(&limit, "limit", limit, "maximum number of dead letters to list")
	f.BoolVar(&all, "all", false, "list all matching dead letters")
	cli.AddChoice(f, &order, "order", "", "which to list first", "newest", "oldest")
	f.StringVar(&cursor, "cursor", "", "continue where an earlier list with the same filters and order ended")
	return c
}

func newDLQShow(o *engineCommand) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show one dead letter with its event",
		Example: `  sloengine dlq show sink-warehouse-900-0`,
		Args:    cli.OneArg("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkDLQID(args[0]); err != nil {
				return err
			}
			var raw json.RawMessage
			if err := o.engine.Read(c.Context(), "/api/v1/dlq/"+args[0], nil, &raw); err != nil {
				return err
			}
			return o.Print(raw, func() error {
				var e dlq.Entry
				if err := json.Unmarshal(raw, &e); err != nil {
					return fmt.Errorf("decode dead letter: %w", err)
				}
				return printEntry(o.Out, &e)
			})
		},
	}
}

func newDLQStats(o *engineCommand) *cobra.Command {
	return &cobra.Command{
		Use:     "stats",
		Short:   "Count dead letters by origin, reason and sink",
		Example: `  sloengine dlq stats -o json`,
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var raw json.RawMessage
			if err := o.engine.Read(c.Context(), "/api/v1/dlq/stats", nil, &raw); err != nil {
				return err
			}
			return o.Print(raw, func() error {
				var s dlq.Stats
				if err := json.Unmarshal(raw, &s); err != nil {
					return fmt.Errorf("decode counts: %w", err)
				}
				return printDLQStats(o.Out, s)
			})
		},
	}
}
