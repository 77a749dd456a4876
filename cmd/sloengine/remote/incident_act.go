package remote

import (
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/web/incidents"
)

// actOnIncident sends an operation and prints the state of the incident.
func actOnIncident(c *cobra.Command, p *cli.Printer, engine *Client, path string, body map[string]any) error {
	if by, ok := body["by"].(string); ok {
		who, err := engine.actor(by, "--by", false)
		if err != nil {
			return err
		}
		body["by"] = who
	}
	var x incidents.Item
	if err := engine.act(c.Context(), path, body, &x); err != nil {
		return err
	}
	return p.PrintText(x, p.Out, "%s  %s  %s", cli.Printable(x.ID), x.State, cli.Printable(x.Title))
}

// addBy adds the flag that says who acts.
func addBy(c *cobra.Command, by *string) {
	c.Flags().StringVar(by, "by", "", "your name (default: $USER)")
}

func newIncidentOpen(s cli.Streams, engine *Client) *cobra.Command {
	var service, severity, team, by, onset, key string
	var public bool
	p := &cli.Printer{Streams: s}
	c := &cobra.Command{
		Use:   "open TITLE",
		Short: "Open an incident by hand",
		Example: `  sloengine incident open "Checkout is slow" --service shop --onset 20m --by Ann
  sloengine incident open "Planned test" --severity warning --key test-2026-11`,
		Args: cli.OneArg("TITLE"),
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{"title": args[0], "service": service, "severity": severity, "team": team,
				"by": by, "public": public}
			if onset != "" {
				at, err := timeFlag(onset, time.Now())
				if err != nil {
					return cli.Usagef("invalid --onset %w", err)
				}
				body["onset"] = at
			}
			if key != "" {
				body["key"] = key
			}
			return actOnIncident(c, p, engine, incidentsPath, body)
		},
	}
	f := c.Flags()
	f.StringVar(&service, "service", "", "service that fails")
	cli.AddChoice(f, &severity, "severity", "", "severity", "critical", "warning")
	f.StringVar(&team, "team", "", "team that the incident belongs to")
	f.StringVar(&onset, "onset", "", "when it started: a time in RFC 3339, or an age such as 20m (default: now)")
	f.StringVar(&key, "key", "", "opens no second incident with the same key")
	f.BoolVar(&public, "public", false, "show the incident on the public page")
	addBy(c, &by)
	p.AddOutput(f, "table", "json", "yaml")
	return c
}

// newIncidentActs makes the commands that change one incident.
func newIncidentActs(s cli.Streams, engine *Client) []*cobra.Command {
	var out []*cobra.Command
	command := func(use, short, operation string, args int, body func(args []string) map[string]any) *cobra.Command {
		p := &cli.Printer{Streams: s}
		c := &cobra.Command{
			Use: use, Short: short,
			Args: func(c *cobra.Command, given []string) error {
				if len(given) != args {
					return cli.Usagef("'%s' takes %s; see '%s --help'", c.CommandPath(), use[len(c.Name())+1:], c.CommandPath())
				}
				return nil
			},
			RunE: func(c *cobra.Command, args []string) error {
				return actOnIncident(c, p, engine, incidentsPath+"/"+url.PathEscape(args[0])+"/"+operation, body(args))
			},
		}
		p.AddOutput(c.Flags(), "table", "json", "yaml")
		out = append(out, c)
		return c
	}
	var ackBy, ackTeam, noteBy, updateBy, updateStatus, resolveBy, title string
	var public, hide bool
	ack := command("ack ID", "Acknowledge an incident", "ack", 1, func([]string) map[string]any {
		return map[string]any{"by": ackBy, "team": ackTeam}
	})
	addBy(ack, &ackBy)
	ack.Flags().StringVar(&ackTeam, "team", "", "your team")
	addBy(command("note ID TEXT", "Add a note in Markdown for the team", "note", 2, func(args []string) map[string]any {
		return map[string]any{"by": noteBy, "text": args[1]}
	}), &noteBy)
	update := command("update ID TEXT", "Add an update in Markdown for those concerned", "update", 2,
		func(args []string) map[string]any {
			return map[string]any{"by": updateBy, "text": args[1], "public": public, "status": updateStatus}
		})
	addBy(update, &updateBy)
	update.Flags().StringVar(&updateStatus, "status", "",
		"status that the update sets: investigating, identified, monitoring or resolved")
	update.Flags().BoolVar(&public, "public", false, "show the update on the public page, if the incident is public")
	addBy(command("resolve ID", "Resolve an incident by hand", "resolve", 1, func([]string) map[string]any {
		return map[string]any{"by": resolveBy}
	}), &resolveBy)
	var edit struct{ by, title, severity, owner string }
	change := command("edit ID", "Change the title, severity or owner of an incident", "edit", 1,
		func([]string) map[string]any {
			return map[string]any{"by": edit.by, "title": edit.title, "severity": edit.severity, "owner": edit.owner}
		})
	addBy(change, &edit.by)
	change.Flags().StringVar(&edit.title, "title", "", "new title")
	change.Flags().StringVar(&edit.severity, "severity", "", "new severity: critical or warning")
	change.Flags().StringVar(&edit.owner, "owner", "", "who works on it now")
	publish := command("publish ID", "Show an incident on the public page", "publish", 1, func([]string) map[string]any {
		return map[string]any{"public": !hide, "title": title}
	})
	publish.Flags().StringVar(&title, "title", "", "title on the public page (default: the one that it has)")
	publish.Flags().BoolVar(&hide, "hide", false, "hide it again")
	command("post-mortem ID URL", "Link the post-mortem; an empty URL removes the link", "post-mortem", 2,
		func(args []string) map[string]any {
			return map[string]any{"url": args[1]}
		})
	return out
}

func newIncidentErase(s cli.Streams, engine *Client) *cobra.Command {
	var person string
	p := &cli.Printer{Streams: s}
	c := &cobra.Command{
		Use:   "erase [ID]",
		Short: "Remove personal data from one incident or from all",
		Long: `erase replaces names of people, and what they wrote, by "(removed)". With --person it is
the data of one person, and texts of others that mention the name. Without an ID it is
the data of that person in all incidents. This cannot be undone. The log holds the
original records until checkpoints have replaced them, and backups hold what they held.`,
		Example: `  sloengine incident erase --person "Ann Example"
  sloengine incident erase INC-2026-11-0007`,
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{}
			if person != "" {
				body["person"] = person
			}
			path, what := incidentsPath+"/erase", "all incidents"
			result := struct {
				Incident string `json:"incident,omitempty"` // all of them without it
				Person   string `json:"person,omitempty"`
			}{Person: person}
			switch {
			case len(args) > 1:
				return cli.Usagef("'%s' takes at most one ID; see '%s --help'", c.CommandPath(), c.CommandPath())
			case len(args) == 1:
				path, what, result.Incident = incidentsPath+"/"+url.PathEscape(args[0])+"/erase", cli.Printable(args[0]), args[0]
			case person == "":
				return cli.Usagef("set --person or an ID; see '%s --help'", c.CommandPath())
			}
			var done any
			if err := engine.act(c.Context(), path, body, &done); err != nil {
				return err
			}
			return p.PrintText(result, s.Out, "personal data removed from %s", what)
		},
	}
	p.AddOutput(c.Flags(), "table", "json", "yaml")
	c.Flags().StringVar(&person, "person", "", "only the data of this person, exactly as the name was given")
	return c
}
