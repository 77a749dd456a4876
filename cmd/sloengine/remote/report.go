package remote

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/api/v1"
)

// newReport is the command report: what happened in a week or month, from a running engine.
func newReport(s cli.Streams) *cobra.Command {
	var (
		period, service, agreement, zone, out string
		days                                  bool
	)
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "report",
		Short: "Print the report of a running engine for a week or month",
		Long: `report shows which objectives were met in a week or month and what the agreements
scored, both without planned maintenance and raw. The period may still be running. The
report covers the data that the engine retains. If a part of it has expired, the line
shows the time since which it counts.

A week is an ISO week and starts on Monday. Days and periods begin in the time zone of
the calendar window of the SLO or agreement, or in UTC if it has none. --zone sets
another time zone for all of them.

-o html and -o text print the report as it is mailed, beside the period before. With
--days, -o csv writes one line for each day of each group of an SLO or agreement,
for spreadsheets and BI tools. docs/reports.md lists the columns.`,
		Example: `  sloengine report
  sloengine report --period 2026-W47
  sloengine report --period 2026-11 --agreement shop/gold --zone Europe/Moscow
  sloengine report --period last-week --days -o csv --out days.csv`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if days && o.Format != "json" && o.Format != "csv" {
				return cli.Usagef("--days requires -o json or -o csv")
			}
			path, q := "/api/v1/report", url.Values{"period": {period}}
			for name, value := range map[string]string{"service": service, "agreement": agreement, "zone": zone} {
				if value != "" {
					q.Set(name, value)
				}
			}
			switch {
			case days && o.Format == "csv":
				path += "/days.csv"
			case days:
				q.Set("days", "true")
			case o.Format == "csv" || o.Format == "html" || o.Format == "text":
				q.Set("format", o.Format)
			}
			return toFile(out, s.Out, func(w io.Writer) error {
				return o.engine.download(c.Context(), path, q, func(r io.Reader) error {
					if o.Format != "table" {
						_, err := io.Copy(w, r)
						return err
					}
					var p v1.PeriodReport
					if err := json.NewDecoder(r).Decode(&p); err != nil {
						return fmt.Errorf("decode report: %w", err)
					}
					return printReport(w, &p)
				})
			})
		},
	}
	f := c.Flags()
	o.engine.AddFlags(f)
	f.StringVar(&period, "period", "last-month", "ISO week such as 2026-W47, month such as 2026-11, or "+cli.Alternatives(report.RelativePeriods))
	f.StringVar(&service, "service", "", "only this service")
	f.StringVar(&agreement, "agreement", "", "only this agreement (service/name) and the SLOs that it is made of")
	f.StringVar(&zone, "zone", "", "time zone of the period, such as Europe/Moscow")
	f.BoolVar(&days, "days", false, "include the numbers of each day (requires -o json or -o csv)")
	f.StringVar(&out, "out", "", "file to write (default: standard output)")
	o.AddOutput(f, "table", "json", "csv", "html", "text")
	c.AddCommand(newReportSend(s))
	return c
}

// toFile has a file written atomically, or writes to stdout if it has no name.
func toFile(name string, stdout io.Writer, write func(io.Writer) error) error {
	if name == "" || name == "-" {
		return write(stdout)
	}
	if err := fsys.WriteAtomic(fsys.OS(), name, write); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// observed is the share of the period that was observed, and since when.
func observed(c *v1.Covered) string {
	out := cli.Percent(&c.Coverage, 1)
	if c.KeptFrom != nil {
		out += " since " + c.KeptFrom.UTC().Format("2006-01-02 15:04Z")
	}
	if c.Rounded {
		out += ", whole hours"
	}
	return out
}

// took prints a duration in seconds.
func took(s *float64) string {
	if s == nil {
		return "-"
	}
	return secondsText(*s)
}

func printReport(out io.Writer, r *v1.PeriodReport) error {
	switch {
	case !r.Begun:
		_, err := fmt.Fprintf(out, "%s has not begun yet.\n", cli.Printable(r.Period))
		return err
	case len(r.SLOs)+len(r.SLAs)+len(r.Thresholds) == 0:
		_, err := fmt.Fprintln(out, "There is nothing to report on: no SLO, agreement or event threshold.")
		return err
	}
	state := ""
	if r.Running {
		state = ", not over yet"
	}
	fmt.Fprintf(out, "%s%s\n", cli.Printable(r.Period), state)
	tw := cli.NewTable(out)
	if len(r.SLAs) > 0 {
		fmt.Fprintln(tw, "\nVERDICT\tAGREEMENT\tGROUP\tSCORE\tWORST COMPONENT\tCOVERAGE")
		for i := range r.SLAs {
			x := &r.SLAs[i]
			score, worst := cli.Decimal(x.Score, 2), "-"
			if x.Missing > 0 {
				score += " (" + cli.Decimal(x.Low, 2) + " to " + cli.Decimal(x.High, 2) + ")"
			}
			for _, c := range x.Components {
				if x.Worst != nil && c.Name == *x.Worst {
					worst = cli.Printable(c.Name) + " cost " + cli.Decimal(c.Lost, 2)
				}
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", cli.Words(x.Verdict), cli.Printable(x.Service+"/"+x.SLA.SLA), cli.GroupText(x.Group), score, worst, observed(&x.Covered))
		}
	}
	if len(r.SLOs) > 0 {
		fmt.Fprintln(tw, "\nVERDICT\tSLO\tGROUP\tOBJECTIVE\tINDICATOR\tRAW\tBUDGET SPENT\tGOOD\tBAD\tEVENTS\tWORST DAY\tCOVERAGE")
		for i := range r.SLOs {
			x := &r.SLOs[i]
			worst := "-"
			if d := x.WorstDay; d != nil {
				worst = cli.Printable(d.Date) + " (" + cli.Percent(&d.Share, 0) + ")"
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s%%\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", cli.Words(x.Verdict), cli.Printable(string(x.ID)), cli.GroupText(x.Group), cli.Printable(x.Percent),
				cli.Percent(x.Budget.SLI, 3), cli.Percent(x.Raw.SLI, 3), cli.Percent(x.Budget.Consumed, 1), x.Budget.Counts.Good, x.Budget.Counts.Bad, x.Events, worst, observed(&x.Covered))
		}
	}
	printForecasts(tw, r.SLOs)
	printCosts(tw, r.Costs)
	if len(r.Thresholds) > 0 {
		fmt.Fprintln(tw, "\nEVENT THRESHOLD\tWITHIN\tWARNINGS\tCRITICAL\tCOVERAGE")
		for i := range r.Thresholds {
			x := &r.Thresholds[i]
			fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%s\n", cli.Printable(x.Service+"/"+x.Name), x.Violations.Within, x.Violations.Warning, x.Violations.Critical, observed(&x.Covered))
			for _, g := range x.Groups {
				fmt.Fprintf(tw, "  %s\t%d\t%d\t%d\t\n", cli.GroupText(g.Group), g.Violations.Within, g.Violations.Warning, g.Violations.Critical)
			}
		}
	}
	if r.Incidents != nil && len(r.Incidents.Items) > 0 {
		fmt.Fprintln(tw, "\nSEVERITY\tINCIDENT\tTITLE\tSERVICE\tONSET\tDETECTION\tRESPONSE\tDURATION\tBUDGET SPENT")
		for _, x := range r.Incidents.Items {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cli.Printable(x.Severity), cli.Printable(x.ID), cli.Printable(x.Title), cli.Printable(x.Service), x.Onset.UTC().Format(time.RFC3339),
				took(&x.Detection), took(x.Response), took(&x.Duration), cli.Percent(x.Spent, 1))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if r.Costs != nil {
		fmt.Fprintln(out)
		for _, note := range r.Costs.Notes() {
			fmt.Fprintln(out, cli.Printable(note))
		}
	}
	if r.Incidents != nil {
		fmt.Fprintf(out, "\n%d incidents and %d of severity warning, median detection %s, median response %s\n",
			r.Incidents.Critical, r.Incidents.Warnings, took(r.Incidents.Detection), took(r.Incidents.Response))
	}
	counts := map[string]int{}
	for i := range r.SLOs {
		counts[r.SLOs[i].Verdict]++
	}
	_, err := fmt.Fprintf(out, "\n%d of %d objectives met, %d breached, %d without data\n",
		counts["met"], counts["met"]+counts["breached"], counts["breached"], counts["no_data"])
	return err
}

// printCosts prints what violations cost, and what each currency adds up to.
func printCosts(out io.Writer, c *sla.Costs) {
	if c == nil {
		return
	}
	fmt.Fprintln(out, "\nCOST\tSLO\tBAD\tPRICE")
	for i := range c.SLOs {
		x := &c.SLOs[i]
		fmt.Fprintf(out, "%s %s\t%s\t%d\t%s\n", cli.Printable(x.Amount.In(x.Currency)), cli.Printable(x.Currency), cli.Printable(string(x.SLO)), x.Bad, cli.Printable(x.Basis))
	}
	for i := range c.Sums {
		x := &c.Sums[i]
		text := ""
		if x.Baseline != nil && x.Saving != nil {
			text = "before " + x.Baseline.In(x.Currency) + ", saving " + x.Saving.In(x.Currency)
		}
		if x.Return != nil {
			text += ", return " + cli.Percent(x.Return, 0)
		}
		fmt.Fprintf(out, "%s %s\tall\t\t%s\n", cli.Printable(x.Amount.In(x.Currency)), cli.Printable(x.Currency), text)
	}
}

// printForecasts prints the forecasts for the end of a calendar window, or for a week ahead.
func printForecasts(out io.Writer, slos []v1.ReportSLO) {
	head := "\nFORECAST\tGROUP\tAHEAD\tBUDGET THEN\tEMPTY UNTIL THEN\tPACE\n"
	for i := range slos {
		x := &slos[i]
		if x.Forecast == nil {
			continue
		}
		ahead, then, empty := "-", "-", "-"
		if n := len(x.Forecast.Points); n > 0 {
			p := &x.Forecast.Points[n-1]
			ahead, then, empty = took(&p.Seconds), cli.Percent(&p.Low, 0)+" to "+cli.Percent(&p.High, 0), cli.Percent(&p.Exhausted, 0)
		}
		fmt.Fprintf(out, "%s%s\t%s\t%s\t%s\t%s\t%s\n", head, cli.Printable(string(x.ID)), cli.GroupText(x.Group), ahead, then, empty, cli.Printable(x.Forecast.Summary))
		head = ""
	}
}

// newReportSend is the command report send: a scheduled report, now and by hand.
func newReportSend(s cli.Streams) *cobra.Command {
	var period string
	o := &engineCommand{Printer: cli.Printer{Streams: s}}
	c := &cobra.Command{
		Use:   "send NAME",
		Short: "Have a running engine send a report of engine.yaml now",
		Long: `send has a running engine make a report that is configured under reports in engine.yaml, and
send it once to each of its addresses, webhooks and folders. The scheduled report is
sent all the same when it is due.

The exit code is 0 if all of them accepted the report. If the engine requires tokens, it
needs the permission operate.`,
		Example: `  sloengine report send gold-monthly
  sloengine report send gold-monthly --period 2026-10`,
		Args: cli.OneArg("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			var got app.SentReport
			body := map[string]string{}
			if period != "" {
				body["period"] = period
			}
			if err := o.engine.act(c.Context(), app.ReportPath+url.PathEscape(args[0])+"/send", body, &got); err != nil {
				return err
			}
			return o.printSent(&got)
		},
	}
	f := c.Flags()
	o.engine.AddFlags(f)
	f.StringVar(&period, "period", "", "ISO week such as 2026-W47, month such as 2026-11, or "+cli.Alternatives(report.RelativePeriods)+" (default: the last one of the report that is over)")
	o.AddOutput(f, "table", "json", "yaml")
	return c
}

// printSent prints where a report went. It fails unless every target accepted it.
func (o *engineCommand) printSent(got *app.SentReport) error {
	failed := 0
	for _, t := range got.Targets {
		if !t.OK {
			failed++
		}
	}
	err := o.Print(got, func() error {
		w := cli.NewTable(o.Out)
		fmt.Fprintln(w, "TARGET\tPERIOD\tTOOK\tRESULT")
		for _, t := range got.Targets {
			result := "sent"
			if !t.OK {
				result = "failed: " + cli.Printable(t.Error)
			}
			took := time.Duration(t.Seconds * float64(time.Second)).Round(time.Millisecond)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", cli.Printable(t.Kind+" "+t.Name), cli.Printable(got.Period), took, result)
		}
		return w.Flush()
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d targets did not accept the report", failed, len(got.Targets))
	}
	return err
}
