package chart

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// CalendarDays is how far back the calendar reaches, today among them.
const CalendarDays = 90

// Calendar shows a cell per day, in months.
type Calendar struct {
	Months  []month
	Zone    string
	Days    string // how many it shows
	Summary string
	Table   table
	Keys    []key

	from []time.Time // when the days begin
}

type month struct {
	Name  string
	Weeks [][7]day
}

// day is a cell; Day is "" where the month has none, or it is not in reach.
type day struct {
	Day, Value, Class, Title string
	ISO                      string
	Annotated                bool
}

// DayClass grades a day: missed is worse than its objective, failed three times
// as bad as that allows.
func DayClass(b slo.Budget) (class, word string) {
	switch {
	case b.Consumed > 3:
		return "bad", "missed by far"
	case b.Consumed > 1:
		return "risk", "missed"
	}
	return "ok", "met"
}

func NewCalendar(r *sla.SLOReport, g *history.Grid, points []history.Point, loc *time.Location) *Calendar {
	s := r.SLO
	points, before := sinceData(points, loc)
	c := &Calendar{Zone: loc.String(), Days: format.Plural(len(points), "day"),
		Table: table{Caption: "Days, newest first",
			Head: []string{"Day", "Good", "Bad", "Indicator", "Budget of the day spent", "Verdict"}}}
	var met, missed, empty int
	gone := before
	for _, p := range points {
		at := p.From.In(loc)
		y, mo, dd := at.Date()
		if n := len(c.Months); n == 0 || c.Months[n-1].Name != at.Format("January 2006") {
			c.Months = append(c.Months, month{Name: at.Format("January 2006")})
		}
		m := &c.Months[len(c.Months)-1]
		col := (int(at.Weekday()) + 6) % 7
		if len(m.Weeks) == 0 || col == 0 {
			m.Weeks = append(m.Weeks, [7]day{})
		}
		name := at.Format("Mon 2 Jan 2006")
		b := p.Net.Budget(s)
		cell := day{
			Day: strconv.Itoa(dd), Value: format.NoValue, ISO: time.Date(y, mo, dd, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)}
		row := Row{Text: name, Cells: []Cell{{Text: format.Count(p.Net.Good)}, {Text: format.Count(p.Net.Bad)},
			{Text: format.NoValue}, {Text: format.NoValue}, {}}}
		word := absence(p)
		switch {
		case b.HasData:
			cell.Class, word = DayClass(b)
			cell.Value = "100"
			if b.SLI < 1 {
				// So many decimals tell a day that met the objective from one that did not.
				v := format.Percent(b.SLI, min(3, max(1, format.Decimals(s.Objective)-1)))
				cell.Value = v[:len(v)-1] // the sign is in the caption
			}
			row.Cells[1].Hot = b.Consumed > 1
			row.Cells[2].Text, row.Cells[3].Text = format.Percent(b.SLI, format.Decimals(s.Objective)),
				format.Percent(b.Consumed, 0)
			cell.Title = fmt.Sprintf("%s: %s, %s bad of %s, %s", name, format.Percent(b.SLI, format.Decimals(s.Objective)),
				format.Count(p.Net.Bad), format.Count(p.Net.Valid()), word)
			if b.Consumed > 1 {
				missed++
			} else {
				met++
			}
		default:
			cell.Class = "none"
			if word == "no longer retained" {
				cell.Class = "unkept"
				gone++
			} else {
				empty++
			}
			cell.Title = name + ": " + word
		}
		if p.Net != p.Raw {
			cell.Title += ", planned maintenance excluded"
		}
		row.Cells[4] = Cell{word, b.HasData && b.Consumed > 1}
		m.Weeks[len(m.Weeks)-1][col] = cell
		c.Table.Rows, c.from = append(c.Table.Rows, row), append(c.from, p.From)
	}
	slices.Reverse(c.Table.Rows)
	c.Summary = fmt.Sprintf("%s met the objective, %s missed it", format.Plural(met, "day"), format.Plural(missed, "day"))
	if empty > 0 {
		c.Summary += fmt.Sprintf(", %s had no data", format.Plural(empty, "day"))
	}
	c.Summary += "."
	c.Keys = []key{{"day-ok", "met"}, {"day-risk", "missed"}, {"day-bad", "more than three times the allowed errors"},
		{"day-none", "no data"}}
	if gone > before {
		c.Keys = append(c.Keys, key{"unkept", "no longer retained"})
	}
	if gone > 0 {
		c.Summary += fmt.Sprintf(
			" Counts of the earliest %s are no longer retained: the engine retains as much as the window of the SLO "+
				"needs, so a longer window retains more.", format.Plural(gone, "day"))
		if gone == 1 {
			c.Summary = c.Summary[:len(c.Summary)-1] + "."
		}
	}
	return c
}

// maxDayTexts bounds the annotations that a day names.
const maxDayTexts = 5

// Mark marks the days of moments. Their titles are in those of the cells, and in the table.
func (c *Calendar) Mark(all []Moment) {
	texts, any := make([][]string, len(c.from)), false
	for _, m := range all {
		i, found := slices.BinarySearchFunc(c.from, m.At, time.Time.Compare)
		if !found {
			i-- // the day that began before it
		}
		if i >= 0 {
			texts[i], any = append(texts[i], m.Title), true
		}
	}
	if !any {
		return
	}
	c.Keys, c.Table.Head = append(c.Keys, key{"noted", "annotation"}), append(c.Table.Head, "Annotations")
	i := 0
	for _, m := range c.Months {
		for w := range m.Weeks {
			for d := range m.Weeks[w] {
				cell := &m.Weeks[w][d]
				if cell.Day == "" {
					continue
				}
				of := texts[i]
				if more := len(of) - maxDayTexts; more > 0 {
					of = append(of[:maxDayTexts], fmt.Sprintf("and %d more", more))
				}
				if cell.Annotated = len(of) > 0; cell.Annotated {
					cell.Title += "\n" + strings.Join(of, "\n")
				}
				row := &c.Table.Rows[len(c.Table.Rows)-1-i] // the newest is first
				row.Cells = append(row.Cells, Cell{Text: strings.Join(of, "; ")})
				i++
			}
		}
	}
}

// sinceData leaves out the days before the first data, and says how many of them had counts once that are no longer
// retained. Without data it leaves the present month.
func sinceData(points []history.Point, loc *time.Location) (kept []history.Point, gone int) {
	first := slices.IndexFunc(points, func(p history.Point) bool { return p.Raw.Valid() > 0 })
	if first < 0 && len(points) > 0 {
		month := func(p history.Point) string { return p.From.In(loc).Format("2006-01") }
		last := month(points[len(points)-1])
		first = slices.IndexFunc(points, func(p history.Point) bool { return month(p) == last })
	}
	for _, p := range points[:max(0, first)] {
		if !p.Kept {
			gone++
		}
	}
	return points[max(0, first):], gone
}
