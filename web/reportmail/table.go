package reportmail

import (
	"cmp"
	"strings"
)

// table is a part of a report: lines about things of one kind.
type table struct {
	Title   string
	Columns []column
	Rows    [][]cell
	More    int // lines that are left out

	most     int  // lines at most
	compared bool // with the period before
}

// left adds columns of text.
func (t *table) left(names ...string) *table { return t.columns(column{}, names) }

// right adds columns of numbers.
func (t *table) right(names ...string) *table { return t.columns(column{Number: true}, names) }

// before adds columns about the period before, if there is one to compare with.
func (t *table) before(names ...string) *table {
	return t.columns(column{Number: true, hidden: !t.compared}, names)
}

// columns adds columns of a kind. A name may be followed by a slash and the name in plain text.
func (t *table) columns(kind column, names []string) *table {
	for _, name := range names {
		kind.Name, kind.Plain, _ = strings.Cut(name, "/")
		t.Columns = append(t.Columns, kind)
	}
	return t
}

// column is a column of a table.
type column struct {
	Name   string
	Plain  string // name in plain text, if it is another one
	Number bool

	hidden   bool
	textOnly bool
}

// Head is the name in plain text.
func (c column) Head() string { return strings.ToUpper(cmp.Or(c.Plain, c.Name)) }

type cell struct {
	Text   string
	Color  string // of a state in words; the word is always there
	Number bool
}

// add adds a line, unless the table is full. A cell is a text or a cell, one for each column.
func (t *table) add(cells ...any) {
	if len(t.Rows) == t.most {
		t.More++
		return
	}
	row := make([]cell, len(cells))
	for i, c := range cells {
		if text, ok := c.(string); ok {
			c = cell{Text: text}
		}
		row[i] = c.(cell)
	}
	t.Rows = append(t.Rows, row)
}

// forms are the tables with the columns of HTML, or of plain text.
func forms(all []table, text bool) []table {
	out := make([]table, len(all))
	for i := range all {
		out[i] = all[i].form(text)
	}
	return out
}

// form is the table with the columns of HTML, or of plain text.
func (t *table) form(text bool) table {
	out := table{Title: t.Title, More: t.More, Rows: make([][]cell, len(t.Rows))}
	for i, c := range t.Columns {
		if c.hidden || c.textOnly && !text {
			continue
		}
		out.Columns = append(out.Columns, c)
		for k, row := range t.Rows {
			row[i].Number = c.Number
			out.Rows[k] = append(out.Rows[k], row[i])
		}
	}
	return out
}
