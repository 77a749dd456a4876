package api

import (
	"bytes"
	_ "embed"
	"fmt"
	htmltemplate "html/template"
	"strings"
	"text/tabwriter"
	texttemplate "text/template"

	"github.com/sloengine/sloengine/sla/report"
)

// mailInput is what a report is written from.
type mailInput struct {
	Title  string         // name of a scheduled report; "": none
	Report *report.Report // of the period
	Before *report.Report // of the one before it; nil: there is nothing to compare with
	Page   string         // address of the report's page; "": no link
	Whole  bool           // tables have all of their lines
}

// mailOutput is a report in both forms.
type mailOutput struct{ Subject, Text, HTML string }

//go:embed report_mail.html.tmpl
var htmlSource string

//go:embed report_mail.txt.tmpl
var textSource string

var (
	htmlForm = htmltemplate.Must(htmltemplate.New("mail").Parse(htmlSource))
	textForm = texttemplate.Must(texttemplate.New("mail").Parse(textSource))
)

// writeMail writes both forms.
func writeMail(in mailInput) (mailOutput, error) {
	m := newMailModel(&in)
	var html, text, table bytes.Buffer
	tables := m.Tables
	m.Tables = mailForms(tables, false)
	if err := htmlForm.Execute(&html, m); err != nil {
		return mailOutput{}, fmt.Errorf("write report as HTML: %w", err)
	}
	m.Tables = mailForms(tables, true)
	if err := textForm.Execute(&table, m); err != nil {
		return mailOutput{}, fmt.Errorf("write report as text: %w", err)
	}
	tw := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0) // tabs are between the cells of tables only
	if _, err := tw.Write(table.Bytes()); err != nil {
		return mailOutput{}, fmt.Errorf("write report as text: %w", err)
	}
	if err := tw.Flush(); err != nil {
		return mailOutput{}, fmt.Errorf("write report as text: %w", err)
	}
	return mailOutput{Subject: m.Subject, HTML: html.String(), Text: trimLines(text.String())}, nil
}

// trimLines takes out the padding of last cells.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
