package remote

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/incidents"
)

const incidentsPath = "/api/v1/incidents"

// incidentPage is how many incidents one request asks for.
const incidentPage = 200

// newIncident is the command incident: what a running engine's API offers about incidents.
func newIncident(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "incident",
		Short: "List, acknowledge and describe the incidents of a running engine",
		Long: `An incident opens when a page fires, or by hand. Tickets and warnings open incidents of
severity warning. Alerts of the same service within 10 minutes join the incident. It is
resolved when its alerts are, or by hand.

If the engine requires tokens, list, show, measure and export need the permission read,
and the other commands need the permission operate.`,
		Example: `  sloengine incident list --state unresolved
  sloengine incident show INC-2026-11-0007
  sloengine incident ack INC-2026-11-0007 --by Ann --team ops
  sloengine incident note INC-2026-11-0007 "db-7 was restarted"
  sloengine incident update INC-2026-11-0007 --public --status identified "A disk is full. We free it."
  sloengine incident edit INC-2026-11-0007 --severity warning --owner Bob
  sloengine incident measure --from 30d
  sloengine incident export -o csv > incidents.csv
  sloengine incident erase --person "Ann Example"`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var engine Client
	engine.AddFlags(c.PersistentFlags())
	c.AddCommand(
		newIncidentList(s, &engine), newIncidentShow(s, &engine), newIncidentMeasure(s, &engine),
		newIncidentExport(s, &engine),
		newIncidentOpen(s, &engine), newIncidentErase(s, &engine),
	)
	c.AddCommand(newIncidentActs(s, &engine)...)
	return c
}

// incidentFilter are the flags that choose incidents.
type incidentFilter struct{ state, severity, service, from, to string }

func (i *incidentFilter) add(f *pflag.FlagSet) {
	f.StringVar(&i.state, "state", "", "only this state: open, acknowledged, unresolved or resolved")
	f.StringVar(&i.severity, "severity", "", "only this severity: critical or warning")
	f.StringVar(&i.service, "service", "", "only incidents of this service")
	i.addTimes(f)
}

func (i *incidentFilter) addTimes(f *pflag.FlagSet) {
	f.StringVar(&i.from, "from", "", "start: a time in RFC 3339, or an age such as 30d")
	f.StringVar(&i.to, "to", "", "end: a time in RFC 3339, or an age such as 7d")
}

// params are what the flags say, by the names of the API.
func (i *incidentFilter) params() (url.Values, error) {
	q := given(map[string]string{"state": i.state, "severity": i.severity, "service": i.service})
	return q, addTimes(q, i.from, i.to)
}

func newIncidentList(s cli.Streams, engine *Client) *cobra.Command {
	var filter incidentFilter
	limit := 100
	p := &cli.Printer{Streams: s}
	c := &cobra.Command{
		Use:   "list",
		Short: "List incidents, the one that was opened last first",
		Args:  cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			q, err := filter.params()
			if err != nil {
				return err
			}
			if limit < 1 {
				return cli.Usagef("invalid --limit %d (want at least 1)", limit)
			}
			items := []incidents.Item{}
			if _, err := list(c.Context(), engine, incidentsPath, q, limit, incidentPage, func(part page[incidents.Item]) error {
				items = append(items, part.Items...)
				return nil
			}); err != nil {
				return err
			}
			return p.Print(items, func() error { return printIncidents(s.Out, items) })
		},
	}
	filter.add(c.Flags())
	p.AddOutput(c.Flags(), "table", "json", "yaml")
	c.Flags().IntVar(&limit, "limit", limit, "maximum number of incidents")
	return c
}

func printIncidents(out io.Writer, items []incidents.Item) error {
	tw := cli.NewTable(out)
	fmt.Fprintln(tw, "ID\tSEVERITY\tSTATE\tSERVICE\tONSET\tDETECTION\tRESPONSE\tDURATION\tTITLE")
	for i := range items {
		x := &items[i]
		response := "-"
		if x.ResponseSeconds != nil {
			response = secondsText(*x.ResponseSeconds)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cli.Cell(x.ID), x.Severity, x.State, cli.Cell(x.Service),
			cli.TimeCell(x.Onset),
			secondsText(x.DetectionSeconds), response, secondsText(x.DurationSeconds), cli.Cell(x.Title))
	}
	return tw.Flush()
}

// secondsText prints a duration to the second.
func secondsText(s float64) string {
	return slo.FormatDuration(time.Duration(s * float64(time.Second)).Round(time.Second))
}

func newIncidentShow(s cli.Streams, engine *Client) *cobra.Command {
	p := &cli.Printer{Streams: s}
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show one incident with its timeline",
		Args:  cli.OneArg("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			var x incidents.Item
			if err := engine.Read(c.Context(), incidentsPath+"/"+url.PathEscape(args[0]), nil, &x); err != nil {
				return err
			}
			return p.Print(x, func() error { return printIncident(s.Out, &x) })
		},
	}
	p.AddOutput(c.Flags(), "table", "json", "yaml")
	return c
}

// printIncident writes the facts, and then what happened in the order of time.
func printIncident(out io.Writer, x *incidents.Item) error {
	fmt.Fprintf(out, "%s  %s, %s, %s, %s\n%s\n\n", cli.Printable(x.ID), x.Severity, x.State, x.Status,
		cli.Printable(x.Service), cli.Printable(x.Title))
	type event struct {
		at   time.Time
		text string
	}
	events := []event{{x.Onset, "onset, by " + x.OnsetBy}}
	opened := "opened by " + cli.Printable(x.OpenedBy)
	if x.Automated {
		opened = "first alert"
	}
	events = append(events, event{x.Detected, opened + " after " + secondsText(x.DetectionSeconds)})
	for _, a := range x.Alerts {
		events = append(events, event{a.Fired, "alert " + cli.Printable(a.Name) + " fires " + cli.Cell(a.SLO)})
		if !a.Resolved.IsZero() {
			events = append(events, event{a.Resolved, "alert " + cli.Printable(a.Name) + " is resolved " + cli.Cell(a.SLO)})
		}
	}
	if x.Paged != nil {
		events = append(events, event{*x.Paged, "first paging alert after " + secondsText(x.Paged.Sub(x.Onset).Seconds())})
	}
	if x.Ack != nil {
		events = append(events, event{x.Ack.Time, "acknowledged by " + cli.Printable(x.Ack.By) + " " +
			cli.Printable(x.Ack.Team) + " after " + secondsText(*x.ResponseSeconds)})
	}
	for _, n := range x.Notes {
		events = append(events, event{n.Time, "note by " + cli.Printable(n.By) + ": " + cli.Printable(n.Text)})
	}
	for _, u := range x.Updates {
		text := "update by " + cli.Printable(u.By)
		if u.Status != "" {
			text += ", " + string(u.Status)
		}
		events = append(events, event{u.Time, text + ": " + cli.Printable(u.Text)})
	}
	for _, e := range x.Edits {
		text := "edited by " + cli.Printable(e.By) + ":"
		for _, field := range [][2]string{{"title", e.Title}, {"severity", string(e.Severity)}, {"owner", e.Owner}} {
			if field[1] != "" {
				text += " " + field[0] + " " + cli.Printable(field[1])
			}
		}
		events = append(events, event{e.Time, text})
	}
	if x.Resolved != nil {
		text := "resolved by " + cli.Printable(x.Resolved.By)
		if x.Resolved.Automated {
			text = "resolved with its alerts"
		}
		events = append(events, event{x.Resolved.Time, text})
	}
	order.By(events, func(a, b *event) int { return a.at.Compare(b.at) })
	tw := cli.NewTable(out)
	for _, e := range events {
		fmt.Fprintf(tw, "%s\t%s\n", cli.TimeCell(e.at), e.text)
	}
	if x.More > 0 {
		fmt.Fprintf(tw, "\tand %s more\n", cli.Plural(x.More, "alert"))
	}
	for _, spent := range x.Spent {
		fmt.Fprintf(tw, "budget\t%s %s: %d of %d bad, %.2f %% of the error budget\n", cli.Cell(spent.SLO),
			cli.Cell(fmt.Sprint(spent.Group)), spent.Bad, spent.Valid, 100*spent.Budget)
	}
	if c := x.Costs; c != nil {
		for i := range c.Sums {
			fmt.Fprintf(tw, "cost\t%s\n", slo.Money{Amount: c.Sums[i].Amount.Amount, Currency: c.Sums[i].Currency})
		}
		for _, note := range c.Notes() {
			fmt.Fprintf(tw, "\t%s\n", cli.Cell(note))
		}
	}
	if x.PostMortem != "" {
		fmt.Fprintf(tw, "post-mortem\t%s\n", cli.Cell(x.PostMortem))
	}
	return tw.Flush()
}

func newIncidentMeasure(s cli.Streams, engine *Client) *cobra.Command {
	var filter incidentFilter
	p := &cli.Printer{Streams: s}
	c := &cobra.Command{
		Use:   "measure",
		Short: "Compare detection and response with the baselines of the spec",
		Long: `measure compares the mean detection and response times of the incidents of a time, the
last 30 days by default, with the baselines of the spec. A change of -94 % means that the
mean is 94 % shorter than the shorter end of the baseline.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			q, err := filter.params()
			if err != nil {
				return err
			}
			var m incident.Measures
			if err := engine.Read(c.Context(), incidentsPath+"/measures", q, &m); err != nil {
				return err
			}
			return p.Print(m, func() error { return printMeasures(s.Out, &m) })
		},
	}
	filter.addTimes(c.Flags())
	p.AddOutput(c.Flags(), "table", "json", "yaml")
	return c
}

func printMeasures(out io.Writer, m *incident.Measures) error {
	fmt.Fprintf(out, "%s from %s to %s, %d opened by an alert\n", cli.Plural(m.Incidents, "incident"),
		cli.TimeCell(m.From), cli.TimeCell(m.To), m.Automated)
	fmt.Fprintf(out, "%s, %d announced by a warning\n\n", cli.Plural(m.Warned.Violations, "violation"), m.Warned.Warned)
	tw := cli.NewTable(out)
	fmt.Fprintln(tw, "SERVICE\tBASELINE\tOF\tBEFORE\tTARGET\tINCIDENTS\tMEAN\tMAX\tWITHIN TARGET\tVERDICT")
	for _, x := range m.Comparisons {
		mean, most, target := "-", "-", "-"
		if x.Now.Count > 0 {
			mean, most = secondsText(x.Now.Mean), secondsText(x.Now.Max)
		}
		if x.Target > 0 {
			target = secondsText(x.Target)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s to %s\t%s\t%d\t%s\t%s\t%d\t%s\n", cli.Cell(x.Service), cli.Cell(x.Baseline), x.Of,
			secondsText(x.From), secondsText(x.To), target,
			x.Now.Count, mean, most, x.Within, verdictText(&x))
	}
	return tw.Flush()
}

// verdictText is such as "met (-94 %, goal -50 %)".
func verdictText(c *incident.Comparison) string {
	if c.Change == nil {
		return c.Verdict
	}
	return fmt.Sprintf("%s (%+.0f %%, goal %+.0f %%)", c.Verdict, 100**c.Change, 100*c.Goal)
}

func newIncidentExport(s cli.Streams, engine *Client) *cobra.Command {
	var filter incidentFilter
	var format string
	c := &cobra.Command{
		Use:   "export",
		Short: "Write all incidents as JSON or CSV",
		Long: `export writes incidents to standard output: as JSON, one complete incident per line with
its alerts, notes and updates, or as CSV, one line per incident.`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			q, err := filter.params()
			if err != nil {
				return err
			}
			if format == "csv" {
				return engine.download(c.Context(), incidentsPath+".csv", q, func(r io.Reader) error {
					_, err := io.Copy(s.Out, r)
					return err
				})
			}
			_, err = list(c.Context(), engine, incidentsPath, q, incident.MaxIncidents, incidentPage,
				func(part page[incidents.Item]) error {
					for i := range part.Items {
						var whole json.RawMessage
						if err := engine.Read(c.Context(), incidentsPath+"/"+url.PathEscape(part.Items[i].ID), nil, &whole); err != nil {
							return err
						}
						if _, err := fmt.Fprintln(s.Out, cli.PlainJSON(string(whole))); err != nil {
							return err
						}
					}
					return nil
				})
			return err
		},
	}
	filter.add(c.Flags())
	cli.AddChoice(c.Flags(), &format, "output", "o", "output format", "json", "csv")
	return c
}
