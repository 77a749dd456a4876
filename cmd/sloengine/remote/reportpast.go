package remote

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/cmd/sloengine/app/reports"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
)

// maxReportFile bounds a file with a report.
const maxReportFile = 256 << 20

// pastReport are the flags that make a report from a data directory.
type pastReport struct {
	dataDir string
	at      uint64
	files   cli.SpecFiles
}

func (x *pastReport) open(s cli.Streams) (*reports.Past, error) {
	if x.dataDir == "" {
		return nil, cli.Usagef("no data directory given: set --data-dir DIR")
	}
	p, err := reports.OpenPast(x.dataDir)
	if err == nil && len(x.files) > 0 {
		p.Spec, err = x.files.Read(s)
	}
	return p, err
}

// write writes the report on a period as of a position of the log.
func (x *pastReport) write(ctx context.Context, s cli.Streams, period, service, agreement, zone, format string,
	to io.Writer) error {
	ask := report.Query{Service: service, Agreement: slo.ID(agreement)}
	var err error
	if zone != "" {
		if ask.Zone, err = time.LoadLocation(zone); err != nil {
			return cli.Usagef("invalid --zone: %w", err)
		}
	}
	if ask.Period, err = report.ResolvePeriod(period, time.Now(), ask.Zone); err != nil {
		return cli.Usagef("--%w", err)
	}
	p, err := x.open(s)
	if err != nil {
		return err
	}
	made, known, err := p.Report(ctx, ask, x.at)
	if err != nil {
		return err
	}
	if lost := known.Lost(ask.Period.In(time.UTC).From); lost != "" {
		stored, err := reports.Stored(x.dataDir, made.Seal.Position, &ask)
		if err != nil {
			return err
		}
		if stored == nil || format != "json" {
			return fmt.Errorf("%s, and no report of that position is stored as JSON for this query", lost)
		}
		_, _ = fmt.Fprintf(s.Err, "%s. This is the report as it was stored.\n", lost)
		made.JSON = stored
	}
	text := made.Text
	switch format {
	case "json":
		text = string(made.JSON)
	case "csv":
		text = string(made.CSV)
	case "html":
		text = made.HTML
	}
	_, err = io.WriteString(to, text)
	return err
}

// newReportVerify is the command report verify.
func newReportVerify(s cli.Streams) *cobra.Command {
	var x pastReport
	p := cli.Printer{Streams: s}
	c := &cobra.Command{
		Use:   "verify FILE --data-dir DIR",
		Short: "Compare a report that was sent with the log that it was made of",
		Long: `verify reads the JSON of a report, computes its numbers again from the log up to the position
that the report names, and prints each number that differs. It compares the retained log
with its digests, and their chain with the digest in the report. The engine may be running.

It also prints what changed since: late events, another definition or other planned
maintenance, which add up to the numbers of now.

Rebuilt counts are made again, and compared with the hash of their takeover. Incidents are
compared, and budget ledgers with the annotations of the data directory. What cannot be
computed is named: forecasts, what an open incident had cost, and what is older than the
oldest retained record. Of a line that begins before that record, whole days are compared.

The exit code is 0 if all that could be computed is equal, and 3 if something differs.`,
		Example: `  sloengine report verify gold-monthly-2026-10.json --data-dir data`,
		Args:    cli.OneArg("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			data, err := fsys.ReadFile(args[0], maxReportFile)
			if err != nil {
				return err
			}
			past, err := x.open(s)
			if err != nil {
				return err
			}
			v, err := past.Verify(c.Context(), data)
			if err != nil {
				return fmt.Errorf("%s: %w", cli.Printable(args[0]), err)
			}
			if err := p.Print(v, func() error { return printVerified(p.Out, v) }); err != nil {
				return err
			}
			if !v.Equal {
				return cli.ErrFindings
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&x.dataDir, "data-dir", "", "data directory of an engine, or a copy")
	x.files.Add(f)
	p.AddOutput(f, "table", "json", "yaml")
	return c
}

func printVerified(out io.Writer, v *reports.Verified) error {
	fmt.Fprintf(out, "Report on %s as of record %d. The log begins with record %d, received %s.\n",
		cli.Printable(v.Period), v.Position, v.First, v.Since.Format(time.RFC3339))
	fmt.Fprintf(out, "Digest of the log: %s", v.Log)
	if v.Why != "" {
		fmt.Fprintf(out, ": %s", cli.Printable(v.Why))
	}
	fmt.Fprintln(out)
	for _, d := range v.Damaged {
		fmt.Fprintf(out, "Damaged: %s\n", cli.Printable(d))
	}
	for _, r := range v.Rebuilt {
		fmt.Fprintf(out, "Rebuilt: counts of %s from record %d on took over at record %d\n", cli.Printable(string(r.SLO)),
			r.First, r.Seq)
	}
	for _, u := range v.Unknown {
		fmt.Fprintf(out, "Cannot be computed: %s\n", cli.Printable(u))
	}
	if len(v.Differences) == 0 {
		fmt.Fprintln(out, "Numbers: equal")
	}
	for _, d := range v.Differences {
		fmt.Fprintf(out, "Differs: %s is %s in the file, and %s by the log\n", cli.Printable(d.Place),
			cli.Printable(fmt.Sprint(d.File)), cli.Printable(fmt.Sprint(d.Log)))
	}
	if v.More > 0 {
		fmt.Fprintf(out, "%d more differ\n", v.More)
	}
	fmt.Fprintf(out, "\nChanged since, up to record %d", v.Until)
	if n := len(v.Specs); n > 0 {
		fmt.Fprintf(out, ", with %s", cli.Plural(n, "spec record"))
	}
	if len(v.Changes) == 0 {
		fmt.Fprintln(out, ": nothing")
		return nil
	}
	fmt.Fprintln(out, " (good/bad):")
	w := cli.NewTable(out)
	fmt.Fprintln(w, "SLO\tGROUP\tSENT\tEVENTS\tSPEC\tMAINTENANCE\tNOW")
	for i := range v.Changes {
		c := &v.Changes[i]
		of := func(x reports.Signed) string { return fmt.Sprintf("%d/%d", x.Good, x.Bad) }
		by := func(x reports.Signed) string { return fmt.Sprintf("%+d/%+d", x.Good, x.Bad) }
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cli.Printable(string(c.SLO)), cli.Printable(c.Group), of(c.Sent),
			by(c.Events), by(c.Spec), by(c.Corrections), of(c.Now))
	}
	return w.Flush()
}
