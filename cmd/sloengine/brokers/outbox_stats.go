package brokers

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/outbox"
)

func newOutboxStats(o *outboxCommand) *cobra.Command {
	c := &cobra.Command{
		Use:   "stats",
		Short: "Show the state of the table: rows by status and topic, latency, leases",
		Long: `stats shows how many rows are in which state, the age of the oldest pending one, the same
by topic and event type with the latency of the last hour (from the creation of a row to
its completion, among the 100,000 newest rows), and which relay has leases of how many
buckets. In a table of more than a million rows, the number of completed rows is an
estimate.`,
		Example: `  sloengine outbox stats --dsn-file dsn
  sloengine outbox stats --dsn-file dsn -o json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.connect(c.Context(), outbox.NeedManage, func() error {
				s, err := outbox.ReadStats(c.Context(), o.conn, o.table)
				if err != nil {
					return err
				}
				return o.Print(s, func() error { return o.statsTable(s) })
			})
		},
	}
	o.AddOutput(c.Flags(), "table", "json", "yaml")
	return c
}

// latencyCell prints seconds, and a dash without any.
func latencyCell(s *float64) string {
	if s == nil {
		return "-"
	}
	return cli.Seconds(*s).String()
}

func (o *outboxCommand) statsTable(s *outbox.Stats) error {
	about := ""
	if s.Estimated {
		about = "about "
	}
	fmt.Fprintf(o.Out, "pending %d (%d of them failed at least once), failed %d, completed %s%d\n", s.Pending, s.Waiting,
		s.Failed, about, s.Completed)
	if s.Oldest != nil {
		fmt.Fprintf(o.Out, "oldest pending row: %s, %s old\n", cli.TimeCell(*s.Oldest), cli.Seconds(s.Age))
	}
	fmt.Fprintf(o.Out, "last hour: %d completed, latency p50 %s, p95 %s\n", s.Recent.Completed, latencyCell(s.Recent.P50),
		latencyCell(s.Recent.P95))
	w := cli.NewTable(o.Out)
	if len(s.Topics) > 0 {
		fmt.Fprintln(w, "\nTOPIC\tTYPE\tPENDING\tFAILED\tCOMPLETED IN THE LAST HOUR\tP50\tP95")
		for _, x := range s.Topics {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\n", cli.Cell(x.Topic), cli.Cell(x.Type), x.Pending, x.Failed,
				x.Recent.Completed, latencyCell(x.Recent.P50), latencyCell(x.Recent.P95))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if len(s.Relays) > 0 {
		fmt.Fprintln(w, "\nRELAY\tBUCKETS\tLEASE UNTIL\tSEEN")
		for _, r := range s.Relays {
			until, seen := "-", "-"
			if r.Until != nil {
				until = cli.TimeCell(*r.Until)
			}
			if r.SeenAt != nil {
				seen = cli.TimeCell(*r.SeenAt)
			}
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", cli.Cell(r.Name), r.Buckets, until, seen)
		}
	}
	if s.Unleased > 0 {
		fmt.Fprintf(w, "\n%d of %d buckets have no relay\n", s.Unleased, outbox.Buckets)
	}
	return w.Flush()
}
