package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/slo"
)

// newDLQ is the command dlq: what a running engine's API offers about dead letters.
func newDLQ(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "dlq",
		Short: "List, replay and discard the dead letters of a running engine",
		Long: `Dead letters are events that could not be admitted, counted or delivered, with
the reason. A replay returns them to where they came from (admission, fold or
sink), oldest first and no faster than the engine is told to; they count once.
What fails again stays.

list, show and stats need a token that may read, the others one that may operate
(where tokens are on).`,
		Example: `  sloengine dlq stats
  sloengine dlq list --origin sink --from 2h
  sloengine dlq show sink-warehouse-900-0
  sloengine dlq replay --sink warehouse --dry-run
  sloengine dlq replay sink-warehouse-900-0 sink-warehouse-901-3
  sloengine dlq discard --reason rate_limited --to 7d
  sloengine dlq purge --older-than 30d`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	o := &dlqCommon{streams: s, output: "table"}
	f := c.PersistentFlags()
	o.api.add(f)
	f.StringVarP(&o.output, "output", "o", o.output, "table, json or yaml")
	c.AddCommand(newDLQList(o), newDLQShow(o), newDLQStats(o), newDLQReplay(o), newDLQDiscard(o), newDLQPurge(o))
	return c
}

// dlqCommon are the flags that all commands about dead letters have.
type dlqCommon struct {
	streams
	api    apiFlags
	output string
}

// dlqFilter are the flags that choose dead letters.
type dlqFilter struct {
	values map[string]*string
	now    func() time.Time
}

func newDLQFilter(f *pflag.FlagSet) *dlqFilter {
	d := &dlqFilter{values: map[string]*string{}, now: time.Now}
	for _, flag := range []struct{ name, usage string }{
		{"origin", "only those of this origin: admission, fold or sink"},
		{"sink", "only those of this sink"},
		{"service", "only events of this service"},
		{"type", "only events of this type"},
		{"severity", "only events of this severity"},
		{"reason", "only those of this reason"},
		{"class", "only those whose last error is of this class, such as timeout"},
		{"from", "only those saved at this time or later: RFC 3339, or how long ago, such as 2h"},
		{"to", "only those saved before this time: RFC 3339, or how long ago, such as 7d"},
	} {
		d.values[flag.name] = f.String(flag.name, "", flag.usage)
	}
	return d
}

// query is what the flags say, by the names of the API. An empty value is refused: it
// is rather a variable that a script did not set than the wish for everything.
func (d *dlqFilter) query(f *pflag.FlagSet) (map[string]string, error) {
	q := map[string]string{}
	var err error
	f.Visit(func(flag *pflag.Flag) {
		value, ok := d.values[flag.Name]
		switch {
		case !ok || err != nil:
			return
		case *value == "":
			err = usageError{fmt.Errorf("--%s: empty; leave it out to match all", flag.Name)}
			return
		case flag.Name == "from" || flag.Name == "to":
			at, e := timeFlag(*value, d.now())
			if e != nil {
				err = usageError{fmt.Errorf("--%s: %w", flag.Name, e)}
				return
			}
			q[flag.Name] = at.UTC().Format(time.RFC3339Nano)
			return
		case flag.Name == "origin" && !slices.Contains([]string{"admission", "fold", "sink"}, *value):
			err = usageError{fmt.Errorf("--origin %s: want admission, fold or sink", *value)}
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
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return at, fmt.Errorf("%q: want a time such as 2026-11-20T09:00:00Z, or how long ago, such as 2h or 7d", s)
	}
	return at, nil
}

func newDLQList(o *dlqCommon) *cobra.Command {
	var (
		filter *dlqFilter
		limit  = 100
		order  = "newest"
		cursor string
		all    bool
	)
	c := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, newest first",
		Example: `  sloengine dlq list
  sloengine dlq list --sink warehouse --from 2h --limit 20
  sloengine dlq list --all --order oldest -o json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			q, err := filter.query(c.Flags())
			switch {
			case err != nil:
				return err
			case limit < 1:
				return usageError{fmt.Errorf("--limit %d: want at least 1", limit)}
			case all && c.Flags().Changed("limit"):
				return usageError{errors.New("--all has no --limit")}
			case order != "newest" && order != "oldest":
				return usageError{fmt.Errorf("--order %s: want newest or oldest", order)}
			}
			cl, err := o.client()
			if err != nil {
				return err
			}
			params := url.Values{"order": {order}}
			for name, value := range q {
				params.Set(name, value)
			}
			if cursor != "" {
				params.Set("cursor", cursor)
			}
			if all {
				limit = int(^uint(0) >> 1)
			}
			out := newDLQPrinter(o)
			next, err := cl.deadLetters(c.Context(), params, limit, out.entries)
			if err != nil {
				return soFar(errors.Join(err, out.end()), out.n, "listed")
			}
			if err := out.close(); err != nil {
				return err
			}
			if next != "" {
				fmt.Fprintf(o.err, "more follow: --all, or --cursor %s\n", printable(next))
			}
			return nil
		},
	}
	f := c.Flags()
	filter = newDLQFilter(f)
	f.IntVar(&limit, "limit", limit, "how many to list at most")
	f.BoolVar(&all, "all", false, "list all that match")
	f.StringVar(&order, "order", order, "newest or oldest first")
	f.StringVar(&cursor, "cursor", "", "go on where an earlier list of the same filters and order ended")
	return c
}

func newDLQShow(o *dlqCommon) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show one dead letter with its event",
		Example: `  sloengine dlq show sink-warehouse-900-0`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("'%s' takes one id; see '%s --help'", c.CommandPath(), c.CommandPath())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkDLQID(args[0]); err != nil {
				return err
			}
			cl, err := o.client()
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := cl.read(c.Context(), "/api/v1/dlq/"+args[0], nil, &raw); err != nil {
				return err
			}
			return o.print(raw, func() error {
				var e dlq.Entry
				if err := json.Unmarshal(raw, &e); err != nil {
					return fmt.Errorf("read the dead letter: %w", err)
				}
				return printEntry(o.out, &e)
			})
		},
	}
}

func newDLQStats(o *dlqCommon) *cobra.Command {
	return &cobra.Command{
		Use:     "stats",
		Short:   "Count dead letters by origin, reason and sink",
		Example: `  sloengine dlq stats -o json`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cl, err := o.client()
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := cl.read(c.Context(), "/api/v1/dlq/stats", nil, &raw); err != nil {
				return err
			}
			return o.print(raw, func() error {
				var s dlq.Stats
				if err := json.Unmarshal(raw, &s); err != nil {
					return fmt.Errorf("read the counts: %w", err)
				}
				return printDLQStats(o.out, s)
			})
		},
	}
}

// client makes the client that the flags ask for.
func (o *dlqCommon) client() (*apiClient, error) {
	if !slices.Contains([]string{"table", "json", "yaml"}, o.output) {
		return nil, usageError{fmt.Errorf("-o %s: want table, json or yaml", strings.TrimSpace(o.output))}
	}
	return o.api.client()
}
