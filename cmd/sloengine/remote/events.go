package remote

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/api/v1"
)

// eventFlags select events.
type eventFlags struct {
	slo, where, last string
	bad, good, why   bool
	limit            int
}

// newEvents is the command events.
func newEvents(s cli.Streams) *cobra.Command {
	var f eventFlags
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use: "events --slo SERVICE/SLO [--bad] [--good] [--why]",
		Short: "Show the events of an SLO that a running engine counted as bad or good, and what is different about the " +
			"bad ones",
		Long: `events reads the log of an engine and its history, latest event first. The definition of the
SLO in force says which events are bad. Without --good and --bad it shows the bad ones.

--why compares the attributes of the bad events with those of the good events of the same
minutes. A value is named if chance would make any value so frequent with a probability of
at most 1%. Attributes with more than 1,000 values are left out.

If the engine requires tokens, the command needs the permission read.`,
		Example: `  sloengine events --slo shop/checkout --bad --last 6h --where '{bank="X"}'
  sloengine events --slo shop/checkout --last 10m --why`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			params, err := f.params()
			if err != nil {
				return err
			}
			var got v1.Events
			if err := o.engine.Read(c.Context(), api.EventsPath(slo.ID(f.slo)), params, &got); err != nil {
				return err
			}
			return o.Print(got, func() error { return f.print(o.Out, &got) })
		},
	}
	o.engine.AddFlags(c.Flags())
	o.AddOutput(c.Flags(), "table", "json", "yaml")
	fl := c.Flags()
	fl.StringVar(&f.slo, "slo", "", "SLO, as SERVICE/SLO")
	fl.StringVar(&f.where, "where", "", `only events with these values, such as '{bank="X",outcome!="success"}'`)
	fl.StringVar(&f.last, "last", "1h", "how far back")
	fl.BoolVar(&f.bad, "bad", false, "show bad events")
	fl.BoolVar(&f.good, "good", false, "show good events")
	fl.BoolVar(&f.why, "why", false, "show what is different about the bad events")
	fl.IntVar(&f.limit, "limit", 50, "number of events of each kind")
	return c
}

func (f *eventFlags) params() (url.Values, error) {
	if _, err := sloFlag(f.slo); err != nil {
		return nil, err
	}
	p := url.Values{"last": {f.last}, "limit": {strconv.Itoa(f.limit)}, "compare": {strconv.FormatBool(f.why)}}
	switch {
	case f.good && f.bad:
		p.Set("verdict", "all")
	case f.good:
		p.Set("verdict", "good")
	}
	if f.where != "" {
		p.Set("where", f.where)
	}
	return p, nil
}

func (f *eventFlags) print(out io.Writer, got *v1.Events) error {
	if c := got.Compare; c != nil {
		fmt.Fprintf(out, "burn rate %.3g, %.0f bad events of %.0f. %s\n", c.Burn, c.Bad, c.Bad+c.Good, cli.Printable(c.Text))
		if len(c.Differences) > 0 {
			w := cli.NewTable(out)
			fmt.Fprintln(w, "VALUE\tOF BAD\tOF GOOD\tLIFT\tBURN RATE WITHOUT")
			for i := range c.Differences {
				d := &c.Differences[i]
				fmt.Fprintf(w, "%s\t%.3g%%\t%.3g%%\t%.3g\t%.3g\n",
					cli.Printable(strings.Join(append([]string{d.Attribute + "=" + d.Value}, d.Same...), " ")),
					100*d.OfBad, 100*d.OfGood, d.Lift, d.Burn)
			}
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	if len(got.Bad)+len(got.Good) > 0 {
		w := cli.NewTable(out)
		fmt.Fprintln(w, "TIME\tVERDICT\tTYPE\tDURATION\tRECEIVED\tTRACE\tATTRIBUTES")
		for _, list := range []struct {
			verdict string
			events  []v1.FoundEvent
		}{{"bad", got.Bad}, {"good", got.Good}} {
			for i := range list.events {
				printEvent(w, list.verdict, &list.events[i])
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	} else if !f.why {
		fmt.Fprintln(out, "no such events")
	}
	if got.Since != nil && got.Since.After(got.From) {
		fmt.Fprintf(out, "the log reaches back to %s only\n", got.Since.Format(time.RFC3339))
	}
	if got.Unread != "" {
		fmt.Fprintf(out, "not all was read: %s\n", cli.Printable(got.Unread))
	}
	return nil
}

func printEvent(w io.Writer, verdict string, e *v1.FoundEvent) {
	duration := "-"
	if e.Duration != nil {
		duration = cli.Seconds(*e.Duration).String()
	}
	var attrs []string
	for _, name := range slices.Sorted(maps.Keys(e.Attributes)) {
		attrs = append(attrs, name+"="+e.Attributes[name])
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Time.Format(time.RFC3339Nano), verdict,
		cli.Printable(e.Type), duration, e.Received.Format(time.RFC3339), cmp.Or(e.Trace, "-"),
		cli.Printable(strings.Join(attrs, " ")))
}
