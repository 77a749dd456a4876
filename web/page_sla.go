package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// shownCards is how many agreements the first page shows.
const shownCards = 6

// slaCard is one agreement in one group.
type slaCard struct {
	Mark       mark
	Service    string
	Name       string
	Title      string
	Group      []label
	Window     string
	Method     string
	Score      string
	Range      string // what it could be, if something is missing
	Summary    string
	Segments   []bar
	BarLabel   string
	Components []componentRow
}

type componentRow struct {
	Name      string
	Href      string
	Note      string
	Weight    string
	Indicator string
	Objective string
	Points    string
	Lost      string
	Worst     bool
	Missing   bool
}

func slaMark(r *sla.SLAReport) mark {
	switch {
	case !r.HasData || r.Level == sla.LevelNoData:
		return mark{"none", "no data"}
	case r.Level == sla.LevelCritical:
		return mark{"bad", "critical"}
	case r.Level == sla.LevelWarning:
		return mark{"risk", "warning"}
	case r.Breached:
		return mark{"risk", "breached"}
	}
	return mark{"ok", "met"}
}

// scoreText rounds down to two decimals, as a score of 99.999 is not 100.
func scoreText(x float64) string {
	return strings.TrimSuffix(strings.TrimSuffix(percent(x/100, 2), "%"), ".00")
}

// worstFirst lists the agreements of a service (of all if ""), worst first.
func worstFirst(rep *sla.Report, service string) []*sla.SLAReport {
	var out []*sla.SLAReport
	for i := range rep.SLAs {
		if service == "" || rep.SLAs[i].SLA.Service == service {
			out = append(out, &rep.SLAs[i])
		}
	}
	rank := map[string]int{"bad": 0, "risk": 1, "none": 2, "ok": 3}
	slices.SortStableFunc(out, func(a, b *sla.SLAReport) int {
		return cmp.Or(rank[slaMark(a).Shape]-rank[slaMark(b).Shape], cmp.Compare(a.Score, b.Score))
	})
	return out
}

func (w *Web) newCard(rep *sla.Report, r *sla.SLAReport) slaCard {
	a := r.SLA
	card := slaCard{
		Mark: slaMark(r), Service: show(a.Service, shownName), Name: show(a.Name, shownName), Title: show(a.Description, shownTitle),
		Group: newLabels(a.GroupBy, r.Group), Window: a.Window.String(), Method: string(a.Method), Score: noValue,
	}
	if r.HasData {
		card.Score = scoreText(r.Score)
	}
	if r.Missing > 0 {
		card.Range = scoreText(r.Low) + " to " + scoreText(r.High)
	}
	worst := worstComponent(r)
	switch {
	case r.Missing == len(r.Components):
		card.Summary = "No component has data."
	case worst != nil:
		card.Summary = fmt.Sprintf("%s cost most: %s points.", show(worst.Name, shownName), scoreText(worst.Lost))
	default:
		card.Summary = "Nothing lost."
	}
	if r.Missing > 0 && r.Missing < len(r.Components) {
		what := map[sla.NoData]string{sla.NoDataExclude: "left out", sla.NoDataGood: "taken as good", sla.NoDataBad: "taken as bad"}[a.NoData]
		card.Summary += fmt.Sprintf(" %d without data, %s.", r.Missing, what)
	}

	x := 0.0
	for i := range r.Components {
		c := &r.Components[i]
		width := 100 * c.Weight
		won := width * min(1, max(0, c.Points))
		title := fmt.Sprintf("%s: %s of %s", c.Name, scoreText(won), scoreText(width))
		if !c.HasData {
			won = 0
			title = c.Name + ": no data"
		}
		gap := min(0.6, width/4) // a thin gap tells neighbours apart
		if i == len(r.Components)-1 {
			gap = 0
		}
		lost, class := width-won, "lost"
		if !c.HasData {
			class = "missing"
		}
		if lost < 2*gap+0.01 {
			won, lost = width, 0 // too little to be seen beside the gap
		}
		for _, b := range []struct {
			x, w  float64
			class string
		}{{x, won, "won"}, {x + won, lost, class}} {
			if b.x+b.w == x+width {
				b.w -= gap
			}
			if b.w > 0 {
				seg := rect(b.x, 0, b.w, 10, b.class)
				seg.Title = show(title, shownTitle)
				card.Segments = append(card.Segments, seg)
			}
		}
		x += width
		card.Components = append(card.Components, w.newComponent(rep, r, c, c == worst))
	}
	card.BarLabel = "Points by component: " + card.Summary
	return card
}

func (w *Web) newComponent(rep *sla.Report, r *sla.SLAReport, c *sla.ComponentReport, worst bool) componentRow {
	out := componentRow{
		Name: show(c.Name, shownName), Note: show(c.Note, shownName), Weight: trimPercent(c.Weight), Worst: worst, Missing: !c.HasData,
		Indicator: "no data", Objective: trimPercent(c.Objective), Points: noValue, Lost: noValue,
	}
	if c.HasData {
		out.Indicator, out.Points, out.Lost = percent(c.Indicator, 2), strings.Replace(percent(c.Points, 1), ".0%", "%", 1), scoreText(c.Lost)
	}
	// The component's SLO may be grouped finer than the agreement: link to all of it.
	q := map[string][]string{"slo": {string(c.SLO)}}
	if target := find(rep, c.SLO, r.Group); target != nil && slices.Equal(target.SLO.GroupBy, r.SLA.GroupBy) {
		out.Href = w.sloHref(target)
	} else {
		out.Href = w.href("/", q)
	}
	return out
}

func find(rep *sla.Report, id slo.ID, g slo.Group) *sla.SLOReport {
	i, ok := slices.BinarySearchFunc(rep.SLOs, id, func(r sla.SLOReport, id slo.ID) int { return cmp.Compare(r.SLO.ID, id) })
	for ; ok && i < len(rep.SLOs) && rep.SLOs[i].SLO.ID == id; i++ {
		if slices.Equal(rep.SLOs[i].Group, g) {
			return &rep.SLOs[i]
		}
	}
	return nil
}

// trimPercent prints a ratio that a person wrote as a percentage.
func trimPercent(x float64) string {
	return strconv.FormatFloat(x*100, 'g', 6, 64) + "%"
}

type slasPage struct {
	layout
	Cards []slaCard
	Shown string
	Prev  string
	Next  string
}

func (w *Web) slasPage(c *gin.Context) {
	v := w.view()
	if fresh(c, v.tag("slas", c.Request.URL.RawQuery)) {
		refreshHeader(c)
		return
	}
	p := slasPage{layout: w.layout(c, v, "Agreements", "slas")}
	if v.rep != nil {
		q := c.Request.URL.Query()
		all := worstFirst(v.rep, q.Get("service"))
		start, _ := strconv.Atoi(q.Get("start"))
		if start < 0 || start >= len(all) {
			start = 0
		}
		end := min(start+cardsPerPage, len(all))
		for _, r := range all[start:end] {
			p.Cards = append(p.Cards, w.newCard(v.rep, r))
		}
		if len(all) > 0 {
			p.Shown = fmt.Sprintf("%d to %d of %d", start+1, end, len(all))
		}
		turn := func(to int) string {
			q := keep(q, "service", "refresh")
			if to > 0 {
				q.Set("start", strconv.Itoa(to))
			}
			return w.href("/slas", q)
		}
		if start > 0 {
			p.Prev = turn(max(0, start-cardsPerPage))
		}
		if end < len(all) {
			p.Next = turn(end)
		}
	}
	w.page(c, http.StatusOK, "slas", p)
}

const cardsPerPage = 60

// limitRow is one per-event limit with its violations.
type limitRow struct {
	Service, Name, Match string
	Warning, Critical    string
	Day, Month           [2]figure // warning, critical
	Within               string
	Last                 stamp
	LastAgo              string
}

func newLimitRows(rep *sla.Report, now time.Time) []limitRow {
	var out []limitRow
	for _, l := range rep.Limits {
		r := limitRow{
			Service: show(l.Limit.Service, shownName), Name: show(l.Limit.Name, shownName), Match: show(l.Limit.Match.String(), shownTitle),
			Warning: noValue, Critical: noValue, Within: compact(l.Month.Within), Last: newStamp(l.LastEvent, now), LastAgo: ago(l.LastEvent, now),
		}
		warns, crits := l.Limit.Warning > 0, l.Limit.Critical > 0
		if warns {
			r.Warning = slo.FormatDuration(l.Limit.Warning)
		}
		if crits {
			r.Critical = slo.FormatDuration(l.Limit.Critical)
		}
		switch l.Limit.Each {
		case "warning":
			r.Warning, warns = "every one", true
		case "critical":
			r.Critical, crits = "every one", true
		}
		for to, v := range map[*[2]figure]sla.Violations{&r.Day: l.Day, &r.Month: l.Month} {
			to[0], to[1] = violations(v.Warning, warns), violations(v.Critical, crits)
		}
		out = append(out, r)
	}
	return out
}

func violations(n uint64, exists bool) figure {
	if !exists {
		return figure{Value: noValue}
	}
	return figure{Value: compact(n), Title: count(n), Bad: n > 0}
}
