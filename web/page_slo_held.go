package web

import (
	"slices"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// holdBack says on the page of an SLO which of its alerts are held back, and why:
// at their tier, or below all tiers.
func (ui *UI) holdBack(r *sla.SLOReport, tiers []alerts.Tier, p *sloPage) {
	for _, h := range ui.Held(site.AlertFilter{SLO: r.SLO.ID}) {
		if len(h.Group) > 0 && !slices.Equal(h.Group, r.Group) {
			continue
		}
		var why []string
		for _, x := range h.Why {
			why = append(why, x.String())
		}
		at := slices.IndexFunc(tiers, func(t alerts.Tier) bool { return h.Tier != "" && t.Name == h.Tier })
		if at >= 0 && at < len(p.Tiers) {
			p.Tiers[at].On, p.Tiers[at].Verdict, p.Tiers[at].Held = false, "held back", why
			continue
		}
		for _, text := range why {
			p.Held = append(p.Held, format.Safe(h.Name, format.MaxName)+" is held back: "+text)
		}
	}
}
