package ui

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/format"
)

// partRow is what one engine counted of a group over the period.
type partRow struct {
	Engine, Good, Bad, Note string
	Stale                   bool
}

// partRows are those of a service level; none unless this is a view.
func (ui *Handler) partRows(r *sla.SLOReport, now time.Time) (out []partRow) {
	if ui.Opt.Parts == nil {
		return nil
	}
	for _, p := range ui.Opt.Parts(r) {
		row := partRow{Engine: format.Safe(p.Engine, format.MaxTitle), Good: format.NoValue,
			Bad: format.NoValue, Stale: p.Stale}
		if p.Known {
			row.Good, row.Bad = format.Count(p.Counts.Good), format.Count(p.Counts.Bad)
		}
		switch {
		case p.Stale && p.Answered.IsZero():
			row.Note = "missing, and it has not answered yet"
		case p.Stale:
			row.Note = "stale: its last answer is " + format.Duration(now.Sub(p.Answered)) + " old, and not in the numbers"
		case p.Other && !p.Known:
			row.Note = "all its groups are taken, so its events of this group are in __other__"
		case !p.Known:
			row.Note = "no event of this group"
		}
		out = append(out, row)
	}
	return out
}
