package cli

import (
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// Screen is what a command prints a table on.
type Screen struct {
	Width  int  // in cells; 0: no limit, as in a file or a pipe
	Colour bool // escape sequences are understood
}

// ScreenOf finds out about a stream. Only a terminal has a width and colours, and none has colours if NO_COLOR is set.
func ScreenOf(w io.Writer) Screen {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return Screen{}
	}
	s := Screen{Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		s.Width = width
	}
	return s
}

// Colour of a cell, as the parameter of an escape sequence; "" for none.
type Colour string

// The colours of states.
const (
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Faint  Colour = "2"
)

// Column of a Table.
type Column struct {
	Name string
	// Drop leaves the column out where the table is too wide, the highest one first; 0: never.
	Drop int
	// Shrink cuts long cells off where it still is too wide.
	Shrink bool
	// Prefix ends what goes into the header of a table that is too wide if all cells begin with it; "": nothing does.
	Prefix string
}

// Table is aligned columns that fit a screen.
type Table struct {
	Columns []Column
	rows    [][]string
	colours []Colour // of the first cell of each row
}

const (
	// wellShrunk is the width to which a column is cut before another one is left out.
	wellShrunk = 24
	// minShrunk is the least width that a column is cut to.
	minShrunk = 8
)

// Add adds a row with a cell for each column. The colour is that of the first cell. Cells must not hold what moves
// a cursor.
func (t *Table) Add(c Colour, cells ...string) {
	t.rows, t.colours = append(t.rows, cells), append(t.colours, c)
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Write prints the table, with its header, unless it has no rows.
func (t *Table) Write(w io.Writer, s Screen) error {
	if len(t.rows) == 0 {
		return nil
	}
	t = t.shared(s.Width)
	shown, widths := t.fit(s.Width)
	var out strings.Builder
	line := func(c Colour, cell func(column int) string) {
		for i, column := range shown {
			text := cut(cell(column), widths[column])
			pad := strings.Repeat(" ", widths[column]-uniseg.StringWidth(text))
			if s.Colour && i == 0 && c != "" {
				text = "\x1b[" + string(c) + "m" + text + "\x1b[0m"
			}
			out.WriteString(text)
			if i < len(shown)-1 {
				out.WriteString(pad + "  ")
			}
		}
		out.WriteByte('\n')
	}
	line("", func(column int) string { return t.Columns[column].Name })
	for i, row := range t.rows {
		line(t.colours[i], func(column int) string { return row[column] })
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// shared is the table without what all cells of a column begin with, if it is too wide with that.
func (t *Table) shared(width int) *Table {
	if _, widths := t.fit(0); width == 0 || len(t.rows) < 2 || total(widths) <= width {
		return t
	}
	short := Table{Columns: slices.Clone(t.Columns), colours: t.colours}
	for _, row := range t.rows {
		short.rows = append(short.rows, slices.Clone(row))
	}
	for i, c := range t.Columns {
		prefix, _, found := strings.Cut(t.rows[0][i], c.Prefix)
		prefix += c.Prefix
		if !found || c.Prefix == "" || slices.ContainsFunc(t.rows, func(row []string) bool {
			return !strings.HasPrefix(row[i], prefix)
		}) {
			continue
		}
		short.Columns[i].Name = c.Name + " OF " + strings.TrimSuffix(prefix, c.Prefix)
		for _, row := range short.rows {
			row[i] = strings.TrimPrefix(row[i], prefix)
		}
	}
	return &short
}

// total is the width of columns beside one another.
func total(widths []int) (n int) {
	for _, w := range widths {
		n += w + 2
	}
	return n - 2
}

// fit chooses the columns that are shown and their widths.
func (t *Table) fit(width int) (shown, widths []int) {
	widths = make([]int, len(t.Columns))
	for i, c := range t.Columns {
		empty := true
		for _, row := range t.rows {
			widths[i] = max(widths[i], uniseg.StringWidth(row[i]))
			empty = empty && row[i] == ""
		}
		widths[i] = max(widths[i], len(c.Name))
		if width == 0 || !empty {
			shown = append(shown, i)
		}
	}
	if width == 0 {
		return shown, widths
	}
	excess := func(shrunk int) int {
		total := 2 * (len(shown) - 1)
		for _, i := range shown {
			if t.Columns[i].Shrink {
				total += min(widths[i], shrunk)
			} else {
				total += widths[i]
			}
		}
		return total - width
	}
	for excess(wellShrunk) > 0 {
		at := -1
		for i, column := range shown {
			if drop := t.Columns[column].Drop; drop > 0 && (at < 0 || drop > t.Columns[shown[at]].Drop) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		shown = slices.Delete(shown, at, at+1)
	}
	for excess(math.MaxInt) > 0 {
		widest := -1
		for _, column := range shown {
			if t.Columns[column].Shrink && widths[column] > minShrunk && (widest < 0 || widths[column] > widths[widest]) {
				widest = column
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return shown, widths
}

// cut shortens a text to that many cells.
func cut(text string, width int) string {
	if uniseg.StringWidth(text) <= width {
		return text
	}
	var b strings.Builder
	left := width - 1
	for g := uniseg.NewGraphemes(text); g.Next() && g.Width() <= left; left -= g.Width() {
		b.WriteString(g.Str())
	}
	return b.String() + "…"
}
