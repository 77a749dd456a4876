package state

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// begin notes when the windows of a group's alerts began to burn. The shortest of
// all windows tells the beginning, for it moves first; the alert's own short one
// tells the end, so that a few good minutes do not make a new beginning. Where events come late, it may be only their
// receive time that shows it.
func (st *step) begin(row *row, r *sla.SLOReport) {
	burns := func(b *slo.Burn) bool { return b != nil && b.HasData && b.Rate > 1 }
	seen := burns(r.Burn(slo.BurnWindows[0]))
	hot := seen || r.Received != nil && burns(r.Condition(slo.BurnWindows[0], slices.Max(slo.BurnWindows)))
	if !hot && row.begun == nil {
		return
	}
	if row.begun == nil {
		row.begun = make([]int64, len(row.plan))
	}
	any := false
	for k := range row.plan {
		c := &row.plan[k]
		w := c.Tier.Short
		switch c.Kind {
		case alerts.LiveBurn:
		case alerts.LiveRatio:
			w = c.Window
		default:
			continue
		}
		switch {
		case hot && row.begun[k] == 0:
			row.begun[k] = st.beginning(r, seen).UnixNano()
		case !hot && row.begun[k] != 0:
			if !burns(r.Burn(w)) && !burns(r.Condition(w, c.Window)) {
				row.begun[k] = 0
			}
		}
		any = any || row.begun[k] != 0
	}
	if !any {
		row.begun = nil
	}
}

// beginning estimates when a burn began that the last report did not show. If
// there is no such report, or event times do not show it in the shortest window,
// it is the left edge of the shortest window that holds bad events, and all those
// of the next.
func (st *step) beginning(r *sla.SLOReport, seen bool) time.Time {
	if seen && !st.gap {
		return st.last
	}
	var w time.Duration
	for i := range r.Burns {
		b := &r.Burns[i]
		if b.Period {
			break
		}
		w = b.Window
		if i+1 < len(r.Burns) && b.Counts.Bad > 0 && r.Burns[i+1].Counts.Bad == b.Counts.Bad {
			break
		}
	}
	return st.now.Add(-w)
}

// firstBad is when what a condition tells of began; zero if that is not known
// any better than by the condition itself.
func (st *step) firstBad(row *row, k int) time.Time {
	if row.begun == nil || row.begun[k] == 0 {
		return time.Time{}
	}
	return time.Unix(0, row.begun[k]).In(st.now.Location())
}
