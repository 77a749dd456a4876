package api

import (
	"cmp"
	"strings"
)

// mailTable is a part of a report: lines about things of one kind.
type mailTable struct {
	Title   string
	Columns []mailColumn
	Rows    [][]mailCell
	More    int // lines that are left out

	most     int  // lines at most
	compared bool // with the period before
}

// left adds columns of text.
func (t *mailTable) left(names ...string) *mailTable { return t.columns(mailColumn{}, names) }

// right adds columns of numbers.
func (t *mailTable) right(names ...string) *mailTable {
	return t.columns(mailColumn{Number: true}, names)
}

// before adds columns about the period before, if there is one to compare with.
func (t *mailTable) before(names ...string) *mailTable {
	return t.columns(mailColumn{Number: true, hidden: !t.compared}, names)
}

// columns adds columns of a kind. A name may be followed by a slash and the name in plain text.
func (t *mailTable) columns(kind mailColumn, names []string) *mailTable {
	for _, name := range names {
		kind.Name, kind.Plain, _ = strings.Cut(name, "/")
		t.Columns = append(t.Columns, kind)
	}
	return t
}

// mailColumn is a column of a table.
type mailColumn struct {
	Name   string
	Plain  string // name in plain text, if it is another one
	Number bool

	hidden   bool
	textOnly bool
}

// Head is the name in plain text.
func (c mailColumn) Head() string { return strings.ToUpper(cmp.Or(c.Plain, c.Name)) }

type mailCell struct {
	Text   string
	Color  string // of a state in words; the word is always there
	Number bool
}

// add adds a line, unless the table is full. A cell is a text or a cell, one for each column.
func (t *mailTable) add(cells ...any) {
	if len(t.Rows) == t.most {
		t.More++
		return
	}
	row := make([]mailCell, len(cells))
	for i, c := range cells {
		if text, ok := c.(string); ok {
			c = mailCell{Text: text}
		}
		row[i] = c.(mailCell)
	}
	t.Rows = append(t.Rows, row)
}

// mailForms are the tables with the columns of HTML, or of plain text.
func mailForms(all []mailTable, text bool) []mailTable {
	out := make([]mailTable, len(all))
	for i := range all {
		out[i] = all[i].form(text)
	}
	return out
}

// form is the table with the columns of HTML, or of plain text.
func (t *mailTable) form(text bool) mailTable {
	out := mailTable{Title: t.Title, More: t.More, Rows: make([][]mailCell, len(t.Rows))}
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
