package brokers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os/user"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/source/rabbitmq"
)

// rabbitTimeout bounds connecting to a broker.
const rabbitTimeout = 30 * time.Second

// maxPeek is how many messages peek shows at most.
const maxPeek = 1000

// rabbitCommand is what the commands below rabbitmq share.
type rabbitCommand struct {
	cli.Printer
	file, source, queue string
}

// NewRabbitMQ is the command rabbitmq: the queues of the sources in engine.yaml.
func NewRabbitMQ(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "rabbitmq",
		Short: "Show, peek into and purge the RabbitMQ queues of engine.yaml",
		Long: `rabbitmq works with the queues of the sources rabbitmq and rabbitmq_dead_letters in
engine.yaml. It connects to the broker with their settings and needs no running engine.`,
		Example: `  sloengine rabbitmq show -c engine.yaml
  sloengine rabbitmq peek -c engine.yaml --source workers --limit 5
  sloengine rabbitmq purge -c engine.yaml --source workers --yes`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	o := &rabbitCommand{Printer: cli.Printer{Streams: s}}
	f := c.PersistentFlags()
	f.StringVarP(&o.file, "config", "c", "", "engine settings (engine.yaml), with sources")
	f.StringVar(&o.source, "source", "", "only this source; required if there are several to choose from")
	o.AddOutput(f, "table", "json", "yaml")
	c.AddCommand(newRabbitShow(o), newRabbitPeek(o), newRabbitPurge(o))
	return c
}

// sources are the sources of RabbitMQ that the flags choose.
func (o *rabbitCommand) sources(c *cobra.Command) ([]*config.RabbitMQ, error) {
	if o.file == "" {
		return nil, cli.Usagef("missing -c FILE, the engine settings; see '%s --help'", c.CommandPath())
	}
	settings, err := config.Load(o.file)
	if err != nil {
		return nil, err
	}
	var out []*config.RabbitMQ
	for i := range settings.Sources {
		s := &settings.Sources[i]
		if c.Flags().Changed("source") && s.Name != o.source {
			continue
		}
		r, err := s.RabbitMQ(nil)
		if err != nil {
			return nil, err
		}
		if r != nil {
			out = append(out, r)
		}
	}
	switch {
	case len(out) > 0:
		return out, nil
	case c.Flags().Changed("source"):
		return nil, cli.Usagef("%s has no source %q of RabbitMQ", o.file, o.source)
	}
	return nil, fmt.Errorf("%s has no source of RabbitMQ: add rabbitmq or rabbitmq_dead_letters under sources", o.file)
}

func (o *rabbitCommand) one(c *cobra.Command) (s *config.RabbitMQ, queue string, err error) {
	list, err := o.sources(c)
	if err != nil {
		return nil, "", err
	}
	if len(list) > 1 {
		names := make([]string, len(list))
		for i, s := range list {
			names[i] = s.Name
		}
		return nil, "", cli.Usagef("%s has %d sources of RabbitMQ; choose one with --source (%s)", o.file, len(list),
			strings.Join(names, ", "))
	}
	if c.Flags().Changed("queue") && o.queue == "" {
		return nil, "", cli.Usagef("--queue is empty (omit it for the queue that the source consumes)")
	}
	if queue = o.queue; queue == "" {
		queue = list[0].Queue()
	}
	return list[0], queue, nil
}

// on connects to the broker of a source for the time of f.
func on(ctx context.Context, s *config.RabbitMQ, f func(*amqp.Connection) error) error {
	ctx, cancel := context.WithTimeout(ctx, rabbitTimeout)
	defer cancel()
	conn, err := s.Client.Dial(ctx)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", s.Client.Address(), err)
	}
	defer conn.Close()
	return f(conn)
}

// shownSource is what show prints of a source.
type shownSource struct {
	Source string `json:"source"`
	Broker string `json:"broker"`
	VHost  string `json:"vhost"`
	*rabbitmq.Inspection
}

func newRabbitShow(o *rabbitCommand) *cobra.Command {
	return &cobra.Command{
		Use:   "show -c engine.yaml",
		Short: "Show queues, depths and consumers, and how they differ from the settings",
		Long: `show compares the queues and exchanges of the broker with the settings and changes
nothing. It needs the permission configure, because RabbitMQ shows the arguments of a
queue only to a user who declares it again.

Exit codes: 0 the broker is as the settings want, 1 failure, 2 wrong usage, 3 something
is missing or differs.`,
		Example: `  sloengine rabbitmq show -c engine.yaml -o json`,
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := o.sources(c)
			if err != nil {
				return err
			}
			rows, problems := []shownSource{}, 0
			for _, s := range list {
				row := shownSource{Source: s.Name, Broker: s.Client.Address(), VHost: s.Client.VHost()}
				err := on(c.Context(), s, func(conn *amqp.Connection) (err error) {
					row.Inspection, err = s.Inspect(conn, time.Now().UTC())
					return err
				})
				if err != nil {
					return fmt.Errorf("source %s: %w", s.Name, err)
				}
				problems += len(row.Problems())
				rows = append(rows, row)
			}
			if err := o.Print(rows, func() error { return o.showTable(rows) }); err != nil {
				return err
			}
			if problems > 0 {
				return cli.ErrFindings
			}
			return nil
		},
	}
}

func (o *rabbitCommand) showTable(rows []shownSource) error {
	w := cli.NewTable(o.Out)
	fmt.Fprintln(w, "SOURCE\tQUEUE\tMESSAGES\tCONSUMERS\tARGUMENTS")
	for _, s := range rows {
		for _, q := range s.Queues {
			if q.Missing {
				fmt.Fprintf(w, "%s\t%s\t-\t-\tdoes not exist\n", cli.Printable(s.Source), cli.Cell(q.Name))
				continue
			}
			var args []string
			for _, name := range slices.Sorted(maps.Keys(q.Arguments)) {
				args = append(args, strings.TrimPrefix(name, "x-")+"="+q.Arguments[name])
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", cli.Printable(s.Source), cli.Cell(q.Name), q.Messages, q.Consumers,
				cli.Printable(strings.Join(args, " ")))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range rows {
		for _, f := range s.Findings {
			if _, err := fmt.Fprintf(o.Out, "%s: %s\n", cli.Printable(s.Source), cli.Printable(f.String())); err != nil {
				return err
			}
		}
	}
	return nil
}

func newRabbitPeek(o *rabbitCommand) *cobra.Command {
	limit := 10
	c := &cobra.Command{
		Use:   "peek -c engine.yaml",
		Short: "Show messages of a queue and leave them there",
		Long: `peek shows the messages at the head of a queue, by default the one that the source
consumes, with the deaths in their x-death header. The messages return to the queue. The
broker marks them as redelivered, and a quorum queue counts one delivery. Messages that a
consumer holds are not shown.`,
		Example: `  sloengine rabbitmq peek -c engine.yaml --source workers
  sloengine rabbitmq peek -c engine.yaml --source workers --queue worker.1.executions --limit 50 -o json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxPeek {
				return cli.Usagef("invalid --limit %d (want 1 to %d)", limit, maxPeek)
			}
			s, queue, err := o.one(c)
			if err != nil {
				return err
			}
			var got []rabbitmq.Peeked
			err = on(c.Context(), s, func(conn *amqp.Connection) (err error) {
				got, err = rabbitmq.Peek(conn, queue, limit)
				return err
			})
			if err != nil {
				return err
			}
			return o.Print(got, func() error { return o.peekTable(got) })
		},
	}
	f := c.Flags()
	f.StringVar(&o.queue, "queue", "", "the queue; by default the one that the source consumes")
	f.IntVar(&limit, "limit", limit, "maximum number of messages")
	return c
}

func (o *rabbitCommand) peekTable(got []rabbitmq.Peeked) error {
	if len(got) == 0 {
		_, err := fmt.Fprintln(o.Out, "no messages")
		return err
	}
	w := cli.NewTable(o.Out)
	fmt.Fprintln(w, "MESSAGE\tBYTES\tREDELIVERED\tDIED IN\tREASON\tDEATHS\tSINCE\tBODY")
	for _, m := range got {
		queue, reason, since := "-", "-", "-"
		if len(m.Deaths) > 0 {
			d := m.Deaths[0]
			queue, reason, since = cli.Cell(d.Queue), cli.Cell(d.Reason), cli.TimeCell(d.Time)
		}
		fmt.Fprintf(w, "%s\t%d\t%t\t%s\t%s\t%d\t%s\t%s\n", cli.Cell(m.MessageID), m.Bytes, m.Redelivered, queue, reason,
			m.Deaths.Total(), since, cli.Cell(m.Body))
	}
	return w.Flush()
}

func newRabbitPurge(o *rabbitCommand) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "purge -c engine.yaml --yes",
		Short: "Delete the messages of a queue permanently; their failures are never counted",
		Long: `purge deletes all messages that are ready in a queue, by default the one that the source
consumes. Messages that a consumer holds stay. The command writes an audit line to
standard error with the operating-system user, the broker, the queue and the number of
messages.`,
		Example: `  sloengine rabbitmq purge -c engine.yaml --source workers --yes`,
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, queue, err := o.one(c)
			if err != nil {
				return err
			}
			if !yes {
				return cli.Usagef("purge deletes all messages of queue %s permanently; add --yes to confirm", cli.Printable(queue))
			}
			n := 0
			err = on(c.Context(), s, func(conn *amqp.Connection) (err error) {
				n, err = rabbitmq.Purge(conn, queue)
				return err
			})
			who := "unknown"
			if u, e := user.Current(); e == nil {
				who = u.Username
			}
			audit := slog.New(slog.NewTextHandler(o.Err, nil))
			audit.Info("audit", "action", "rabbitmq.purge", "user", who, "broker", s.Client.Address(), "vhost", s.Client.VHost(),
				"queue", queue, "purged", n, "err", err)
			if err != nil {
				return err
			}
			result := struct {
				Queue  string `json:"queue"`
				Purged int    `json:"purged"`
			}{queue, n}
			return o.PrintText(result, o.Out, "purged %d from queue %s", n, cli.Printable(queue))
		},
	}
	f := c.Flags()
	f.StringVar(&o.queue, "queue", "", "the queue; by default the one that the source consumes")
	f.BoolVar(&yes, "yes", false, "confirm the deletion")
	return c
}
