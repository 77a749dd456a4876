package remote

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/audit"
	"github.com/sloengine/sloengine/slo"
)

// newAudit is the command audit: what people changed on an engine.
func newAudit(s cli.Streams) *cobra.Command {
	var action, token, since string
	var limit int
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "audit",
		Short: "List what people changed on an engine: who, when and with what result",
		Long: `audit lists reloads, silences, replays, discards, purges, erasures, operations on incidents,
backups and reports that were sent by hand, the newest first. Failed attempts are listed, too.
If the engine requires tokens, it needs the permission operate.`,
		Example: `  sloengine audit --since 7d --action dlq
  sloengine audit --token ann -o json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			params := given(map[string]string{"action": action, "token": token})
			if since != "" {
				d, err := slo.ParseDuration(since)
				if err != nil || d <= 0 {
					return cli.Usagef("invalid --since (want a duration above 0, such as 7d)")
				}
				params.Set("from", time.Now().Add(-d).UTC().Format(time.RFC3339))
			}
			if limit < 1 {
				return cli.Usagef("invalid --limit (want at least 1)")
			}
			got := app.AuditList{Items: []audit.Entry{}}
			_, err := list(c.Context(), &o.engine, app.AuditPath, params, limit, 500, func(p page[audit.Entry]) error {
				got.Items = append(got.Items, p.Items...)
				return nil
			})
			if err != nil {
				return err
			}
			return o.Print(got, func() error {
				w := cli.NewTable(o.Out)
				fmt.Fprintln(w, "TIME\tACTION\tRESULT\tTOKEN\tFROM\tDETAIL")
				for _, e := range got.Items {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.Time.UTC().Format(time.RFC3339), cli.Printable(e.Action),
						cli.Printable(e.Result), cli.Printable(e.Token), cli.Printable(e.Remote), cli.Printable(e.Detail))
				}
				return w.Flush()
			})
		},
	}
	o.engine.AddFlags(c.Flags())
	o.AddOutput(c.Flags(), "table", "json", "yaml")
	c.Flags().StringVar(&action, "action", "", "list an action only, such as dlq.replay, or a kind of them, such as dlq")
	c.Flags().StringVar(&token, "token", "", "list the actions with the token of this name only")
	c.Flags().StringVar(&since, "since", "", "list the actions of this time only, such as 7d")
	c.Flags().IntVar(&limit, "limit", 100, "most entries to list")
	return c
}
