package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/alerts/receivers"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
)

// testAlertName is the alert of notify test. No rule has it.
const testAlertName = "SloengineTest"

// newNotify is the command notify: what concerns the delivery of alerts.
func newNotify(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "notify",
		Short: "Send a test alert to the Alertmanagers or a receiver of engine.yaml",
		Args:  cli.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newNotifyTest(s))
	return c
}

// notifyResult is what became of the test alert at one Alertmanager.
type notifyResult struct {
	Name    string  `json:"name" yaml:"name"`
	URL     string  `json:"url,omitempty" yaml:"url,omitempty"` // not of a receiver: it may be a secret
	OK      bool    `json:"ok" yaml:"ok"`
	Seconds float64 `json:"seconds" yaml:"seconds"`
	Error   string  `json:"error,omitempty" yaml:"error,omitempty"`
}

func newNotifyTest(s cli.Streams) *cobra.Command {
	o := &cli.Printer{Streams: s}
	var file, severity, receiver string
	var lasts time.Duration
	c := &cobra.Command{
		Use:   "test -c engine.yaml",
		Short: "Send a test alert to every configured Alertmanager and print the responses",
		Long: `test sends the alert ` + testAlertName + ` once to every Alertmanager under notifications in
engine.yaml, with its credentials and the external labels. The command reads the
settings from the file and needs no running engine. The alert resolves after --for.

With --receiver, the alert goes through every integration of that receiver of the
engine's own instead, once and without grouping.

The exit code is 0 if all of them accepted the alert. Whether somebody is
notified depends on the routes of Alertmanager: set --severity to the severity of
the alerts whose route you want to try.`,
		Example: `  sloengine notify test -c engine.yaml
  sloengine notify test -c engine.yaml --severity page
  sloengine notify test -c engine.yaml --receiver oncall`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return cli.Usagef("missing -c FILE, the engine settings; see '%s --help'", c.CommandPath())
			}
			if lasts <= 0 {
				return cli.Usagef("invalid --for (want a duration above 0)")
			}
			settings, err := config.Load(file)
			if err != nil {
				return err
			}
			n := settings.NotifySettings()
			if receiver == "" && len(n.Peers) == 0 {
				return fmt.Errorf(
					"%s names no Alertmanager: add notifications: {alertmanagers: [{url: \"http://127.0.0.1:9093\"}]}", file)
			}
			host, err := os.Hostname()
			if err != nil {
				host = "unknown"
			}
			now := time.Now()
			labels := map[string]string{"alertname": testAlertName, "severity": severity,
				series.LabelKind: "engine", "host": host}
			texts := map[string]string{"summary": "Test alert of sloengine on " + host,
				"description": "Sent by sloengine notify test. Nothing is wrong."}
			var got []notify.Result
			if receiver != "" {
				var s receivers.Settings
				if s, err = settings.ReceiverSettings(rules.Spec{}, now, now.Add(time.Hour)); err == nil {
					got, err = receivers.SendTest(c.Context(), receivers.Options{Settings: s}, receiver, labels, texts, now)
				}
			} else {
				texts["description"] += " It resolves at " + now.Add(lasts).UTC().Format(time.RFC3339) + "."
				got, err = notify.SendOnce(c.Context(), notify.Options{Settings: n}, labels, texts, now, now.Add(lasts))
			}
			if err != nil {
				return err
			}
			return printNotified(o, got)
		},
	}
	f := c.Flags()
	f.StringVarP(&file, "config", "c", "", "engine settings (engine.yaml), with notifications")
	o.AddOutput(f, "table", "json", "yaml")
	f.StringVar(&receiver, "receiver", "", "send through this receiver of notifications.receivers")
	f.StringVar(&severity, "severity", alerts.SeverityInfo, "label severity of the alert")
	f.DurationVar(&lasts, "for", 5*time.Minute, "time until the alert resolves at an Alertmanager")
	return c
}

// printNotified prints the results. It fails unless every Alertmanager accepted the alert.
func printNotified(o *cli.Printer, got []notify.Result) error {
	rows, failed := make([]notifyResult, len(got)), 0
	for i, r := range got {
		rows[i] = notifyResult{Name: r.Name, URL: r.URL, OK: r.Err == nil, Seconds: r.Took.Seconds()}
		if r.Err != nil {
			rows[i].Error = r.Err.Error()
			failed++
		}
	}
	err := o.Print(rows, func() error {
		w := cli.NewTable(o.Out)
		fmt.Fprintln(w, "TARGET\tURL\tTOOK\tRESULT")
		for _, r := range rows {
			result := "accepted"
			if !r.OK {
				result = "failed: " + cli.Printable(r.Error)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, r.URL, cli.Seconds(r.Seconds), result)
		}
		return w.Flush()
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d targets did not accept the alert", failed, len(got))
	}
	return err
}
