package remote

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app/reports"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/sla/report"
)

// newReport is the command report: what happened in a week or month, from a running engine.
func newReport(s cli.Streams) *cobra.Command {
	var (
		period, service, agreement, zone, out string
		days                                  bool
	)
	var past pastReport
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

The table has each line beside that of the period before, as has the mail of a report,
which -o html prints. With --days, -o csv writes one line for each day of each group
of an SLO or agreement, for spreadsheets and BI tools. docs/reference/days.md lists the columns.

With --data-dir, the report is made from the retained log of an engine, which may be running,
up to the record --as-of. The same log gives the same bytes later, and on another machine.
It has no incidents, forecasts and budget ledger.`,
		Example: `  sloengine report
  sloengine report --period 2026-W47
  sloengine report --period 2026-11 --agreement shop/gold --zone Europe/Moscow
  sloengine report --period last-week --days -o csv --out days.csv
  sloengine report --period 2026-10 --data-dir data --as-of 48151 -o json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if days && o.Format != "json" && o.Format != "csv" {
				return cli.Usagef("--days requires -o json or -o csv")
			}
			switch {
			case past.dataDir == "" && (c.Flags().Changed("as-of") || len(past.files) > 0):
				return cli.Usagef("--as-of and -f require --data-dir")
			case past.dataDir != "" && days:
				return cli.Usagef("--days is for a running engine: -o json has the days with --data-dir, too")
			case past.dataDir != "":
				return toFile(out, s.Out, func(w io.Writer) error {
					return past.write(c.Context(), s, period, service, agreement, zone, o.Format, w)
				})
			}
			path := "/api/v1/report"
			q := given(map[string]string{"service": service, "agreement": agreement, "zone": zone})
			q.Set("period", period)
			switch {
			case days && o.Format == "csv":
				path += "/days.csv"
			case days:
				q.Set("days", "true")
			case o.Format == "table":
				q.Set("format", "text")
			case o.Format != "json":
				q.Set("format", o.Format)
			}
			return toFile(out, s.Out, func(w io.Writer) error {
				return o.engine.download(c.Context(), path, q, func(r io.Reader) error {
					_, err := io.Copy(w, r)
					return err
				})
			})
		},
	}
	f := c.Flags()
	o.engine.AddFlags(f)
	f.StringVar(&period, "period", "last-month",
		"ISO week such as 2026-W47, month such as 2026-11, or "+cli.Alternatives(report.RelativePeriods))
	f.StringVar(&service, "service", "", "only this service")
	f.StringVar(&agreement, "agreement", "", "only this agreement (service/name) and the SLOs that it is made of")
	f.StringVar(&zone, "zone", "", "time zone of the period, such as Europe/Moscow")
	f.BoolVar(&days, "days", false, "include the numbers of each day (requires -o json or -o csv)")
	f.StringVar(&out, "out", "", "file to write (default: standard output)")
	f.StringVar(&past.dataDir, "data-dir", "", "make the report from the log in this data directory")
	f.Uint64Var(&past.at, "as-of", 0, "number of the last record to read (requires --data-dir; default: all)")
	past.files.Add(f)
	o.AddOutput(f, "table", "json", "csv", "html", "text")
	c.AddCommand(newReportSend(s), newReportVerify(s))
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
			var got reports.Sent
			body := map[string]string{}
			if period != "" {
				body["period"] = period
			}
			if err := o.engine.act(c.Context(), reports.Path+url.PathEscape(args[0])+"/send", body, &got); err != nil {
				return err
			}
			return o.printSent(&got)
		},
	}
	f := c.Flags()
	o.engine.AddFlags(f)
	f.StringVar(&period, "period", "", "ISO week such as 2026-W47, month such as 2026-11, or "+
		cli.Alternatives(report.RelativePeriods)+" (default: the last one of the report that is over)")
	o.AddOutput(f, "table", "json", "yaml")
	return c
}

// printSent prints where a report went. It fails unless every target accepted it.
func (o *engineCommand) printSent(got *reports.Sent) error {
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
