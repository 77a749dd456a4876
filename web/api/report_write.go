package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/site"
)

// reportPolicy lets the report of a mail have its inline styles, and nothing else.
const reportPolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; " +
	"form-action 'none'"

// ErrNoReport means that the engine has not evaluated anything yet.
var ErrNoReport = errors.New("there is no report yet")

// WrittenReport is a report in all forms.
type WrittenReport struct {
	mailOutput
	CSV, JSON []byte
	Running   bool         // the period is not over in the zones of all lines
	Seal      *report.Seal // nil without one
}

// WriteReport makes a report and writes it in all forms, as the API would answer. The title is that of a scheduled
// report.
func (api *Handler) WriteReport(ctx context.Context, title string, ask report.Query) (*WrittenReport, error) {
	v := api.View()
	if v.Rep == nil {
		return nil, ErrNoReport
	}
	if api.Opt.Seal == nil {
		r, before, err := bothReports(ctx, &api.Reports, api.ReportSource(), v.Rep, ask)
		if err != nil {
			return nil, err
		}
		return writeAll(mailInput{Title: title, Report: r, Before: before, Page: api.reportPage(ask)}, v, nil, nil)
	}
	var r, before *report.Report
	latest := v.Rep
	seal, err := api.Opt.Seal(ctx, latest.Time, func(rep *sla.Report, from report.Source) (err error) {
		rep.Version = latest.Version
		copyOutlooks(rep, latest)
		all := api.ReportSource()
		all.Counts, all.Kept = from.Counts, from.Kept
		if all.Annotations != nil {
			all.Annotations = report.MadeBy(latest.Time, all.Annotations)
		}
		v.Rep = rep
		r, before, err = bothReports(ctx, new(report.Maker), all, rep, ask)
		return err
	})
	if err != nil {
		return nil, err
	}
	return writeAll(mailInput{Title: title, Report: r, Before: before, Page: api.reportPage(ask)}, v, seal,
		&api.Opt.Ledger)
}

// WriteSealed writes a report of the past in all forms, as far as it follows from the log.
func WriteSealed(ctx context.Context, from report.Source, rep *sla.Report, ask report.Query,
	seal *report.Seal) (*WrittenReport, error) {
	r, before, err := bothReports(ctx, new(report.Maker), from, rep, ask)
	if err != nil {
		return nil, err
	}
	return writeAll(mailInput{Report: r, Before: before, Whole: true}, site.View{Rep: rep}, seal, &from.LedgerOptions)
}

// bothReports makes a report, and the one of the period before.
func bothReports(ctx context.Context, m *report.Maker, from report.Source, rep *sla.Report,
	ask report.Query) (r, before *report.Report, err error) {
	if r, err = m.Make(ctx, from, rep, ask); err != nil {
		return nil, nil, err
	}
	ask.Period = ask.Period.Shift(-1)
	before, err = m.Make(ctx, from, rep, ask)
	return r, before, err
}

// copyOutlooks gives a report the forecasts of another one.
func copyOutlooks(to, from *sla.Report) {
	type line struct {
		slo   *slo.SLO
		group string
	}
	known := map[line]*sla.Outlook{}
	for i := range from.SLOs {
		known[line{from.SLOs[i].SLO, from.SLOs[i].Group.Key()}] = from.SLOs[i].Outlook
	}
	to.Outlooks = from.Outlooks
	for i := range to.SLOs {
		to.SLOs[i].Outlook = known[line{to.SLOs[i].SLO, to.SLOs[i].Group.Key()}]
	}
}

func writeAll(in mailInput, v site.View, seal *report.Seal,
	ledger *report.LedgerOptions) (out *WrittenReport, err error) {
	r := in.Report
	out = &WrittenReport{Running: r.Running, Seal: seal}
	if out.mailOutput, err = writeMail(in); err != nil {
		return nil, err
	}
	if out.CSV, err = reportCSV(r); err != nil {
		return nil, err
	}
	whole := newPeriodReport(r, v, seal != nil)
	if seal != nil {
		whole.Log = &v1.ReportLog{Position: seal.Position, Digest: seal.Digest, Evaluated: seal.Evaluated}
		whole.Accounts, whole.Deployment = ledger.Order(), ledger.AfterDeployment().Seconds()
	}
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(whole); err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	out.JSON = buf.Bytes()
	return out, nil
}

// writeReport writes a report for people, beside the one of the period before.
func (api *Handler) writeReport(ctx context.Context, in mailInput,
	v site.View) (out mailOutput, err error) {
	r := in.Report
	ask := r.Query
	ask.Period = ask.Period.Shift(-1)
	if in.Before, err = api.Reports.Make(ctx, api.ReportSource(), v.Rep, ask); err != nil {
		return out, err
	}
	in.Page = api.reportPage(r.Query)
	return writeMail(in)
}

// reportPage is the address of a report's page; "" if that of the engine is not known.
func (api *Handler) reportPage(ask report.Query) string {
	if api.Opt.ExternalURL == "" {
		return ""
	}
	return strings.TrimRight(api.Opt.ExternalURL, "/") + "/report?" + site.ReportValues(ask).Encode()
}
