package remote

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/web/annotations"
)

// newAnnotate is the command annotate: what happened when, for the charts.
func newAnnotate(s cli.Streams) *cobra.Command {
	var service, kind, author, at string
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "annotate TEXT",
		Short: "Note a deployment or anything else on the charts of a service",
		Long: `annotate adds an annotation: a vertical line on the charts of the service, or of all
services without --service. The engine adds one by itself when its spec changes. It
retains 5000 annotations for up to 400 days.

A second call with the same text, kind, service and --at adds nothing. If the engine
requires tokens, adding needs the permission annotate, for the service or for all of them,
and deleting needs the permission operate.`,
		Example: `  sloengine annotate --service shop "v1.2.3 deployed"
  sloengine annotate --kind note --at 20m "load test begins"
  sloengine annotate list --service shop`,
		Args: cli.OneArg("TEXT"),
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{"text": args[0], "kind": kind}
			if service != "" {
				body["service"] = service
			}
			if author == "" {
				author = os.Getenv("USER")
			}
			if author != "" {
				body["author"] = author
			}
			if at != "" {
				when, err := timeFlag(at, time.Now())
				if err != nil {
					return cli.Usagef("invalid --at %w", err)
				}
				body["at"] = when
			}
			var got annotation.Annotation
			if err := o.engine.act(c.Context(), annotations.Path, body, &got); err != nil {
				return err
			}
			return o.PrintText(got, o.Out, "%s", got.ID)
		},
	}
	o.AddOutput(c.PersistentFlags(), "table", "json", "yaml")
	o.engine.AddFlags(c.PersistentFlags())
	f := c.Flags()
	f.StringVar(&service, "service", "", "service that the annotation is about (default: all)")
	cli.AddChoice(f, &kind, "kind", "", "what it is", string(annotation.Deployment), string(annotation.Note))
	f.StringVar(&author, "author", "", "who notes it (default: $USER)")
	f.StringVar(&at, "at", "", "when it happened: a time in RFC 3339, or an age such as 20m (default: now)")
	c.AddCommand(newAnnotateList(o), newAnnotateDelete(o))
	return c
}

func newAnnotateList(o *engineCommand) *cobra.Command {
	var service, from, to string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List annotations, the latest first",
		Example: "  sloengine annotate list --service shop --from 7d",
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			q := given(map[string]string{"service": service})
			if err := addTimes(q, from, to); err != nil {
				return err
			}
			var got annotations.List
			if err := o.engine.Read(c.Context(), annotations.Path, q, &got); err != nil {
				return err
			}
			return o.Print(got, func() error {
				t := &cli.Table{Columns: []cli.Column{{Name: "ID"}, {Name: "AT"}, {Name: "KIND"}, {Name: "SERVICE", Shrink: true},
					{Name: "AUTHOR", Shrink: true, Drop: 1}, {Name: "TEXT", Shrink: true}}}
				for _, a := range got.Items {
					t.Add("", cli.Printable(a.ID), cli.TimeCell(a.At), cli.Printable(string(a.Kind)), cli.Printable(a.Service),
						cli.Printable(a.Author), cli.Printable(a.Text))
				}
				return t.Write(o.Out, cli.ScreenOf(o.Out))
			})
		},
	}
	f := c.Flags()
	f.StringVar(&service, "service", "", "those about this service, or about all")
	f.StringVar(&from, "from", "", "from this time on: RFC 3339, or an age such as 7d")
	f.StringVar(&to, "to", "", "before this time")
	return c
}

func newAnnotateDelete(o *engineCommand) *cobra.Command {
	return &cobra.Command{
		Use:     "delete ID...",
		Short:   "Delete annotations",
		Example: "  sloengine annotate delete 4hq2xk7m5vzt3c6r",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, ids []string) error {
			return actOnEach[annotation.Annotation](c.Context(), o, annotations.Path, ids, "delete")
		},
	}
}
