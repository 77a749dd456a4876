package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sloengine/sloengine/sla/report"
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
	Running   bool // the period is not over in the zones of all lines
}

// WriteReport makes a report and writes it in all forms, as the API would answer. The title is that of a scheduled
// report.
func (api *Handler) WriteReport(ctx context.Context, title string, ask report.Query) (*WrittenReport, error) {
	v := api.View()
	if v.Rep == nil {
		return nil, ErrNoReport
	}
	r, err := api.Reports.Make(ctx, api.ReportSource(), v.Rep, ask)
	if err != nil {
		return nil, err
	}
	out := &WrittenReport{Running: r.Running}
	if out.mailOutput, err = api.writeReport(ctx, mailInput{Title: title, Report: r}, v); err != nil {
		return nil, err
	}
	if out.CSV, err = reportCSV(r); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(newPeriodReport(r, v, false)); err != nil {
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
	if api.Opt.ExternalURL != "" {
		in.Page = strings.TrimRight(api.Opt.ExternalURL, "/") + "/report?" + site.ReportValues(r.Query).Encode()
	}
	return writeMail(in)
}
