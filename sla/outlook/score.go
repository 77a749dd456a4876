package outlook

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
)

// onTime is how long after its time a forecast can still be checked. Less than that changes of a budget within an hour.
const onTime = 2 * time.Minute

// open is a forecast whose time has not come. It is zero if there is none.
type open struct {
	Due       time.Time `json:"due"`
	Low       float64   `json:"low"`
	High      float64   `json:"high"`
	WindowEnd bool      `json:"window_end,omitempty"`

	truth float64   // of a calendar window: what remained last
	seen  time.Time // when that was
}

// begin notes the points of a forecast of whose lead time none is open.
func (k *Keeper) begin(g *group, f *forecast.Forecast) {
	for i := range f.Points {
		p := &f.Points[i]
		h := slices.Index(forecast.LeadNames[:], p.LeadName())
		if h < 0 || !g.open[h].Due.IsZero() || p.WindowEnd && p.Ahead < time.Hour {
			continue
		}
		g.open[h] = open{Due: f.Time.Add(p.Ahead), Low: p.Low, High: p.High, WindowEnd: p.WindowEnd}
		k.records[g.slo.ID][h].Made++
		k.changed = true
	}
}

// check compares the forecasts whose time has come with what remains of the budgets, and gives every group its row.
func (k *Keeper) check(r *sla.Report) {
	for _, g := range k.groups {
		x := find(r, &shownGroup{at: g.at, slo: g.slo, group: g.values})
		if x == nil {
			continue // the report is of another spec than the choice; the next one is not
		}
		g.report, g.burning = x, burning(x)
		for h := range g.open {
			o := &g.open[h]
			if o.Due.IsZero() {
				continue
			}
			score := &k.records[g.slo.ID][h]
			after := r.Time.Sub(o.Due)
			switch {
			case after < 0 && o.WindowEnd && x.Budget.HasData:
				o.truth, o.seen = x.Budget.Remaining, r.Time // the budget is another one at the end
				continue
			case after < 0:
				continue
			case o.WindowEnd && o.Due.Sub(o.seen) <= onTime:
				score.Check(o.Low, o.High, o.truth)
			case !o.WindowEnd && after <= onTime && x.Budget.HasData:
				score.Check(o.Low, o.High, x.Budget.Remaining)
			default:
				score.Missed++
			}
			*o, k.changed = open{}, true
		}
	}
}

// drop gives up the open forecasts of a group that is not forecast any more, or has changed.
func (k *Keeper) drop(g *group) {
	if record := k.records[g.slo.ID]; record != nil {
		for h := range g.open {
			if !g.open[h].Due.IsZero() {
				record[h].Missed++
				k.changed = true
			}
		}
	}
}
