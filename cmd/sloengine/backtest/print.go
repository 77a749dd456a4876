package backtest

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo"
)

// table is a table of any format.
type table struct {
	Title  string
	Header []string
	Rows   [][]string
}

// page is a result as texts and tables, which every format but JSON prints.
type page struct {
	Title  string
	Lines  []string
	Tables []table
	Notes  []string
}

func (x *command) print(r *backtest.Result) error {
	if x.Format == "json" {
		return x.Print(r, nil)
	}
	return x.write(newPage(r))
}

func (x *command) write(p *page) error {
	switch x.Format {
	case "markdown":
		return p.markdown(x.Out)
	case "html":
		return htmlPage.Execute(x.Out, p)
	}
	return p.text(x.Out)
}

func newPage(r *backtest.Result) *page {
	p := &page{Title: "Backtest"}
	p.Lines = append(p.Lines, fmt.Sprintf("From %s to %s: %s, %d evaluations of each spec.", backtest.TimeText(r.From),
		backtest.TimeText(r.To), cli.Plural(int(r.Events), "event"), r.Ticks))
	if r.Down > 0 {
		p.Lines = append(p.Lines, fmt.Sprintf(
			"The engine was down for %s of it, or nothing is retained: no alert was evaluated.",
			slo.FormatDuration(time.Duration(r.Down)*time.Second)))
	}
	p.Tables = append(p.Tables, scoreTable("All", r.Total))
	for _, s := range r.Subjects {
		title := s.ID
		if s.Kind != backtest.KindSLO {
			title = s.Kind + " " + s.ID
		}
		p.Tables = append(p.Tables, scoreTable(title, s.Pair))
		if t := dayTable(title, s.Pair); len(t.Rows) > 0 {
			p.Tables = append(p.Tables, t)
		}
		if t := proposalTable(title, s.Pair); len(t.Rows) > 0 {
			p.Tables = append(p.Tables, t)
		}
		if t := alertTable(title, s.Pair); len(t.Rows) > 0 {
			p.Tables = append(p.Tables, t)
		}
	}
	if len(r.Incidents) > 0 {
		t := table{Title: "Incidents", Header: []string{"ID", "SERVICE", "SLOS", "ONSET", "END"}}
		for _, i := range r.Incidents {
			t.Rows = append(t.Rows, []string{i.ID, i.Service, strings.Join(i.SLOs, ", "),
				backtest.TimeText(i.Onset), endText(i.End)})
		}
		p.Tables = append(p.Tables, t)
	}
	p.Notes = append(unobserved(r.Missing), r.Notes...)
	return p
}

func unobserved(missing []string) (notes []string) {
	for _, m := range missing {
		notes = append(notes, "Unobserved, since it could not be read: "+m+".")
	}
	return notes
}

// scoreTable has a row for each figure, and the two specs side by side.
func scoreTable(title string, pair backtest.Pair) table {
	t := table{Title: title, Header: []string{"", "BEFORE", "AFTER"}}
	row := func(name string, of func(*backtest.Side) string) {
		cells := []string{name}
		for _, s := range []*backtest.Side{pair.Before, pair.After} {
			if s == nil {
				cells = append(cells, "-")
			} else {
				cells = append(cells, of(s))
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	if s := pair.After; s != nil && s.Objective != "" || pair.Before != nil && pair.Before.Objective != "" {
		row("objective", func(s *backtest.Side) string { return s.Objective + "% over " + s.Window })
	}
	row("pages", func(s *backtest.Side) string { return fmt.Sprint(s.Score.Pages) })
	row("pages per week", func(s *backtest.Side) string { return fmt.Sprintf("%.1f", s.Score.PagesPerWeek) })
	row("pages at night", func(s *backtest.Side) string { return fmt.Sprint(s.Score.NightPages) })
	row("tickets", func(s *backtest.Side) string { return fmt.Sprint(s.Score.Tickets) })
	row("precision", func(s *backtest.Side) string { return cli.Decimal(s.Score.Precision, 2) })
	row("recall", func(s *backtest.Side) string {
		return fmt.Sprintf("%s (%d of %d)", cli.Decimal(s.Score.Recall, 2), s.Score.Found, s.Score.Incidents)
	})
	row("median detection", func(s *backtest.Side) string { return secondsText(s.Score.Detection) })
	row("median reset", func(s *backtest.Side) string { return secondsText(s.Score.Reset) })
	return t
}

// dayTable has the budgets by day, with coverage where less than the whole window was observed.
func dayTable(title string, pair backtest.Pair) table {
	t := table{Title: title + ": error budget left", Header: []string{"DAY", "BEFORE", "AFTER"}}
	cell := func(s *backtest.Side, date string) string {
		if s == nil {
			return "-"
		}
		for _, d := range s.Days {
			if d.Date != date {
				continue
			}
			text := "no data"
			if d.Remaining != nil {
				text = cli.Percent(d.Remaining, 1)
			}
			if d.Coverage < 0.995 {
				text += fmt.Sprintf(" (%.0f%% observed)", 100*d.Coverage)
			}
			return text
		}
		return "-"
	}
	seen := map[string]bool{}
	for _, s := range []*backtest.Side{pair.After, pair.Before} {
		if s == nil {
			continue
		}
		for _, d := range s.Days {
			if !seen[d.Date] {
				seen[d.Date] = true
				t.Rows = append(t.Rows, []string{d.Date, cell(pair.Before, d.Date), cell(pair.After, d.Date)})
			}
		}
	}
	return t
}

func proposalTable(title string, pair backtest.Pair) table {
	t := table{Title: title + ": chance of an exhausted budget within a quarter", Header: []string{"OBJECTIVE", "CHANCE"}}
	if pair.After == nil {
		return t
	}
	for _, p := range pair.After.Proposals {
		t.Rows = append(t.Rows, []string{p.Objective + "%", cmp.Or(p.Why, cli.Percent(p.Exhausted, 0))})
	}
	return t
}

func alertTable(title string, pair backtest.Pair) table {
	t := table{Title: title + ": alerts",
		Header: []string{"SPEC", "ALERT", "SEVERITY", "GROUP", "START", "END", "INCIDENT"}}
	for i, s := range []*backtest.Side{pair.Before, pair.After} {
		if s == nil {
			continue
		}
		for _, a := range s.Alerts {
			severity := "ticket"
			if a.Page {
				severity = "page"
			}
			start := backtest.TimeText(a.Start)
			if a.Before {
				start = "before"
			}
			t.Rows = append(t.Rows, []string{
				[]string{"before", "after"}[i], a.Name, severity, strings.Join(a.Group, ", "), start, endText(a.End), a.Incident,
			})
		}
	}
	return t
}

func endText(t *time.Time) string {
	if t == nil {
		return "ongoing"
	}
	return backtest.TimeText(*t)
}

func secondsText(s *float64) string {
	if s == nil {
		return "-"
	}
	return cli.Seconds(*s).Round(time.Second).String()
}

func (p *page) text(w io.Writer) error {
	for _, l := range p.Lines {
		fmt.Fprintln(w, l)
	}
	for _, t := range p.Tables {
		fmt.Fprintf(w, "\n%s\n", cli.Printable(t.Title))
		tab := cli.NewTable(w)
		for _, row := range append([][]string{t.Header}, t.Rows...) {
			cells := make([]string, len(row))
			for i, c := range row {
				cells[i] = cli.Cell(c)
			}
			fmt.Fprintln(tab, strings.Join(cells, "\t"))
		}
		if err := tab.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	for _, n := range p.Notes {
		if _, err := fmt.Fprintln(w, cli.Printable(n)); err != nil {
			return err
		}
	}
	return nil
}

// inMarkdown keeps a text from being read as Markdown or HTML.
var inMarkdown = strings.NewReplacer(
	"\\", "\\\\", "|", "\\|", "`", "\\`", "*", "\\*", "_", "\\_", "<", "&lt;", ">", "&gt;",
	"[", "\\[", "\n", " ")

func (p *page) markdown(w io.Writer) error {
	text := func(s string) string { return inMarkdown.Replace(cli.Printable(s)) }
	fmt.Fprintf(w, "## %s\n\n", p.Title)
	for _, l := range p.Lines {
		fmt.Fprintf(w, "%s\n", text(l))
	}
	for _, t := range p.Tables {
		fmt.Fprintf(w, "\n### %s\n\n", text(t.Title))
		for i, row := range append([][]string{t.Header}, t.Rows...) {
			cells := make([]string, len(row))
			for k, c := range row {
				cells[k] = text(c)
			}
			fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
			if i == 0 {
				fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(row)))
			}
		}
	}
	_, err := fmt.Fprintln(w)
	for _, n := range p.Notes {
		_, err = fmt.Fprintf(w, "- %s\n", text(n))
	}
	return err
}

var htmlPage = template.Must(template.New("backtest").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
<style>body{font:14px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse}th,td{text-align:left;padding:.2rem .8rem;border-bottom:1px solid #ccc}</style></head>
<body><h1>{{.Title}}</h1>
{{range .Lines}}<p>{{.}}</p>
{{end}}{{range .Tables}}<h2>{{.Title}}</h2>
<table><tr>{{range .Header}}<th>{{.}}</th>{{end}}</tr>
{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table>
{{end}}<ul>{{range .Notes}}<li>{{.}}</li>
{{end}}</ul></body></html>
`))
