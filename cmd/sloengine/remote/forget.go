package remote

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/counting"
)

func newForget(s cli.Streams) *cobra.Command {
	var restart, unreadable, dryRun bool
	var attribute string
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "forget SERVICE | --attribute NAME=VALUE",
		Short: "Forget the counts and ids of a service, or erase the data of one person",
		Long: `forget deletes the parked counts of a service (those of SLOs that are no longer in
the spec) and its event ids. Events that you send again afterwards are counted again.

The engine refuses to forget a service of the running spec. Remove the service and
reload first, or set --restart, which restarts its SLOs from zero. You can restore
forgotten counts only by sending the events again. If a sender retries an old event on
its own, the event is added to the new counts.

With --attribute, forget erases what the engine holds of one person: dead letters with an
event that has the attribute with this value, samples of rejected events, titles, notes and updates of incidents that
mention the value, and the keys of work in flight that are the value. Counts hold no person and stay. Set --dry-run ` +
			`first.

In the history of the log, a token takes the place of the value, and ids and trace ids of these
events go, too. What is still in the log is erased when it is moved to the history, or deleted with
its segment if nothing is retained. A value that an SLO groups by, or that makes a difference to a
matcher, stays there, and forget says so. Sinks, brokers, backups and exports are not searched.
To keep an attribute out of the log from now on, use redact in engine.yaml.`,
		Example: `  sloengine forget shopp
  sloengine forget shop --restart && sloengine send --backfill --service shop january.log
  sloengine forget --attribute customer=42 --dry-run`,
		Args: func(c *cobra.Command, args []string) error {
			if attribute != "" {
				return cli.NoArgs(c, args)
			}
			return cli.OneArg("SERVICE")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if attribute != "" {
				return erase(c, o, app.Erasure{Unreadable: unreadable, DryRun: dryRun}, attribute)
			}
			if unreadable || dryRun {
				return cli.Usagef("--unreadable and --dry-run need --attribute")
			}
			var done counting.Forgotten
			if err := o.engine.act(c.Context(), "/api/v1/forget", counting.ForgetRequest{Service: args[0], Restart: restart},
				&done); err != nil {
				return err
			}
			return o.PrintText(done, s.Out, "forgot %s: %s dropped, %s restarted from zero", cli.Printable(done.Service),
				cli.Plural(done.Parked, "parked generation"), cli.Plural(done.Restarted, "generation"))
		},
	}
	o.engine.AddFlags(c.Flags())
	o.AddOutput(c.Flags(), "table", "json")
	c.Flags().StringVar(&attribute, "attribute", "",
		"erase the data of one person: an attribute of events and its value, such as customer=42")
	c.Flags().BoolVar(&unreadable, "unreadable", false,
		"with --attribute, erase dead letters that are no readable event and in which the name and the value stand, too")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "with --attribute, show what would be erased")
	c.Flags().BoolVar(&restart, "restart", false, "forget a service of the running spec, too: its SLOs restart from zero")
	return c
}

func newRedact(s cli.Streams) *cobra.Command {
	var retained, dryRun bool
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "redact --retained",
		Short: "Apply the redact rules of engine.yaml to the history of the log",
		Long: `redact applies the rules of redact in engine.yaml, as the engine has loaded them, to the events
that it has retained. Rules alone are about new events only. What is still in the log is redacted when
it is moved to the history.

The engine refuses it if a rule is about an attribute by which the spec counts.`,
		Example: "  sloengine redact --retained --dry-run",
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !retained {
				return cli.Usagef("redact needs --retained: new events are redacted by the engine")
			}
			var done app.Erased
			if err := o.engine.act(c.Context(), app.ErasePath, app.Erasure{Redact: true, DryRun: dryRun}, &done); err != nil {
				return err
			}
			return o.Print(done, func() error { printHistory(o.Out, &done); return nil })
		},
	}
	o.engine.AddFlags(c.Flags())
	o.AddOutput(c.Flags(), "table", "json")
	c.Flags().BoolVar(&retained, "retained", false, "redact the history of the log")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be searched")
	return c
}

// erase removes what the engine holds of the person who has the attribute with a value.
func erase(c *cobra.Command, o *engineCommand, r app.Erasure, attribute string) error {
	name, value, ok := strings.Cut(attribute, "=")
	if !ok || name == "" || value == "" {
		return cli.Usagef("invalid --attribute (want NAME=VALUE, such as customer=42)")
	}
	r.Attribute, r.Value = name, value
	var done app.Erased
	if err := o.engine.act(c.Context(), app.ErasePath, r, &done); err != nil {
		return err
	}
	return o.Print(done, func() error {
		verb := "erased"
		if done.DryRun {
			verb = "would erase"
		}
		fmt.Fprintf(o.Out, "%s %s, %s of rejected events, texts of %s, and %s of work in flight\n", verb,
			cli.Plural(done.DeadLetters, "dead letter"),
			cli.Plural(done.Samples, "sample"), cli.Plural(done.Incidents, "incident"), cli.Plural(done.InFlight, "key"))
		if done.Unreadable > 0 && r.Unreadable {
			fmt.Fprintf(o.Out, "%s %s unreadable\n", verb, cli.Plural(done.Unreadable, "dead letter"))
		} else if done.Unreadable > 0 {
			fmt.Fprintf(o.Out, "%s unreadable with the name and the value in the text, and left (--unreadable erases them)\n",
				cli.Plural(done.Unreadable, "dead letter"))
		}
		if done.LogRanges > 0 {
			fmt.Fprintf(o.Out, "%s not searched, because each stands for a range of the log: replay or discard them\n",
				cli.Plural(done.LogRanges, "dead letter"))
		}
		printHistory(o.Out, &done)
		fmt.Fprintln(o.Out, "sinks, brokers, backups and exports may hold the value and were not searched")
		return nil
	})
}

// printHistory says what happens to the value in the log and its history.
func printHistory(out io.Writer, done *app.Erased) {
	switch h := &done.History; {
	case h.Refused != "":
		fmt.Fprintf(out, "the log and its history are left as they are, because counts would differ: %s\n",
			cli.Printable(h.Refused))
	case done.DryRun:
		fmt.Fprintf(out, "would search %s of history, and %s of the log once they are moved there\n",
			cli.Plural(h.Files, "file"), cli.Plural(int(h.Log), "record"))
	default:
		fmt.Fprintf(out, "changed %s of the history, %s are still to be searched, and %s of the log once they are moved "+
			"there\n", cli.Plural(int(h.Events), "event"), cli.Plural(h.Files, "file"), cli.Plural(int(h.Log), "record"))
		if h.Damaged > 0 {
			fmt.Fprintf(out, "%s of the history cannot be read and may hold the value\n", cli.Plural(h.Damaged, "block"))
		}
		if !h.Done {
			fmt.Fprintln(out, "the erasure continues, also after a restart: repeat the command to see how far it is")
		}
	}
}
