package remote

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/silences"
)

// newSilence is the command silence: which alerts the engine's own receivers do not hear of.
func newSilence(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "silence",
		Short: "List, add and expire silences of the engine's own receivers",
		Long: `A silence mutes the notifications of the engine's receivers for the alerts that it matches,
until it ends. The alerts stay visible on the page and in the API. With Alertmanagers,
silence alerts there.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	o.AddOutput(c.PersistentFlags(), "table", "json", "yaml")
	c.AddCommand(newSilenceAdd(o), newSilenceList(o), newSilenceExpire(o))
	return c
}

func newSilenceAdd(o *engineCommand) *cobra.Command {
	var lasts, author, comment string
	c := &cobra.Command{
		Use:   "add MATCHER...",
		Short: "Silence the alerts that match all matchers",
		Long: `Matchers have Alertmanager's syntax: name="value", name!="value", name=~"RE", name!~"RE".
If the engine requires tokens, it needs the permission operate.`,
		Example: `  sloengine silence add 'service="shop"' 'severity=~"page|ticket"' --for 2h --comment 'known, SHOP-12'`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			d, err := slo.ParseDuration(lasts)
			if err != nil || d <= 0 {
				return cli.Usagef("invalid --for (want a duration above 0, such as 2h)")
			}
			if author, err = o.engine.actor(author, "--author", true); err != nil {
				return err
			}
			body := map[string]any{"matchers": strings.Join(args, ","), "ends_at": time.Now().Add(d).UTC(), "comment": comment}
			if author != "" {
				body["author"] = author
			}
			var got silences.Status
			if err := o.engine.act(c.Context(), silences.Path, body, &got); err != nil {
				return err
			}
			return o.PrintText(got, o.Out, "%s", got.ID)
		},
	}
	o.engine.AddFlags(c.Flags())
	c.Flags().StringVar(&lasts, "for", "1h", "time until the silence ends")
	c.Flags().StringVar(&author, "author", "", "who silences (default: $USER)")
	c.Flags().StringVar(&comment, "comment", "", "why, required")
	return c
}

func newSilenceList(o *engineCommand) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the silences",
		Example: "  sloengine silence list --all",
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var got silences.List
			if err := o.engine.Read(c.Context(), silences.Path, nil, &got); err != nil {
				return err
			}
			shown := silences.List{Items: []silences.Status{}}
			for _, s := range got.Items {
				if all || s.State != silence.Expired {
					shown.Items = append(shown.Items, s)
				}
			}
			return o.Print(shown, func() error {
				w := cli.NewTable(o.Out)
				fmt.Fprintln(w, "ID\tSTATE\tMATCHERS\tENDS\tAUTHOR\tCOMMENT")
				for _, s := range shown.Items {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cli.Printable(s.ID), s.State, cli.Printable(s.Matchers),
						s.Ends.UTC().Format(time.RFC3339), cli.Printable(s.Author), cli.Printable(s.Comment))
				}
				return w.Flush()
			})
		},
	}
	o.engine.AddFlags(c.Flags())
	c.Flags().BoolVar(&all, "all", false, "list the silences of the last five days that have ended, too")
	return c
}

func newSilenceExpire(o *engineCommand) *cobra.Command {
	c := &cobra.Command{
		Use:     "expire ID...",
		Short:   "End silences now",
		Long:    "If the engine requires tokens, it needs the permission operate.",
		Example: "  sloengine silence expire 4hq2xk7m5vzt3c6r",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, ids []string) error {
			return actOnEach[silences.Status](c.Context(), o, silences.Path, ids, "expire")
		},
	}
	o.engine.AddFlags(c.Flags())
	return c
}
