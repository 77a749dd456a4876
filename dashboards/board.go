package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// columns is how wide Grafana's grid is; rowHeight is that of a row's title line.
const (
	gridColumns = 24
	rowHeight   = 1
)

// board lays panels out as one reads: from left to right, then the next line,
// which begins below the tallest panel of the line before.
type board struct {
	model
	x, y, tall int
}

func (b *board) nextID() int { return len(b.Panels) + 1 }

// breakLine ends a line of panels and lets the last one fill what is left of it.
func (b *board) breakLine() {
	if b.x > 0 {
		b.Panels[len(b.Panels)-1].GridPos.W += gridColumns - b.x
	}
	b.x, b.y, b.tall = 0, b.y+b.tall, 0
}

// row begins a part of the dashboard.
func (b *board) row(title string) {
	b.breakLine()
	open := false
	b.Panels = append(b.Panels, &panel{
		ID: b.nextID(), Type: "row", Title: title, Collapsed: &open,
		GridPos: gridPos{X: 0, Y: b.y, W: gridColumns, H: rowHeight},
	})
	b.y += rowHeight
}

// add places a panel of the given size.
func (b *board) add(width, height int, p *panel) {
	if b.x+width > gridColumns {
		b.breakLine()
	}
	p.ID = b.nextID()
	p.GridPos = gridPos{X: b.x, Y: b.y, W: width, H: height}
	b.Panels = append(b.Panels, p)
	b.x += width
	b.tall = max(b.tall, height)
}

// dropIdle leaves out the hidden variables that no query of this board uses,
// which depends on the spec.
func (b *board) dropIdle() {
	b.Templating.List = slices.DeleteFunc(b.Templating.List, func(v variable) bool {
		return v.Type == "constant" && !slices.ContainsFunc(b.Panels, func(p *panel) bool {
			return slices.ContainsFunc(p.Targets, func(t target) bool { return strings.Contains(t.Expr, `"$`+v.Name+`"`) })
		})
	})
}

// encode gives the JSON as people like to compare it: indented, a line for each
// value, and ending in a line break.
func (b *board) encode() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(b.model); err != nil {
		return nil, fmt.Errorf("encode dashboard %s: %w", b.UID, err)
	}
	return visible(out.Bytes()), nil
}

// visible escapes what cannot be seen, and what YAML does not take as it is, so
// that the JSON can stand in a ConfigMap and be reviewed. Names in a spec may
// hold such characters; the structure of JSON never does.
func visible(in []byte) []byte {
	var out []byte
	for _, r := range string(in) {
		switch {
		case r == '\n' || r < 0x7f:
			out = append(out, string(r)...)
		case r > 0xffff:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		case !unicode.IsGraphic(r):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, string(r)...)
		}
	}
	return out
}
