package main

import (
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/sla/report"
)

// newReportSend is the command report send: a scheduled report, now and by hand.
func newReportSend(s streams) *cobra.Command {
	var period string
	o := &engineCommand{printer: printer{streams: s}}
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
		Args: oneArg("NAME"),
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
	o.engine.add(f)
	f.StringVar(&period, "period", "", "ISO week such as 2026-W47, month such as 2026-11, or "+alternatives(report.RelativePeriods)+" (default: the last one of the report that is over)")
	o.addOutput(f, "table", "json", "yaml")
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
	err := o.print(got, func() error {
		w := newTable(o.out)
		fmt.Fprintln(w, "TARGET\tPERIOD\tTOOK\tRESULT")
		for _, t := range got.Targets {
			result := "sent"
			if !t.OK {
				result = "failed: " + printable(t.Error)
			}
			took := time.Duration(t.Seconds * float64(time.Second)).Round(time.Millisecond)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", printable(t.Kind+" "+t.Name), printable(got.Period), took, result)
		}
		return w.Flush()
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d targets did not accept the report", failed, len(got.Targets))
	}
	return err
}
