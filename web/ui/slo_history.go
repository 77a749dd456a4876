package ui

import (
	"context"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/site"
)

// historyBudget is how long a page waits for its history. The page itself does
// not fail without it.
const historyBudget = 3 * time.Second

// sloHistory is everything that the charts of a page are drawn from, read at one
// position of the log.
type sloHistory struct {
	now   time.Time
	row   *sla.SLOReport // the group that the page is about
	zone  *time.Location
	tiers []alerts.Tier // of the burn-rate chart

	main, period, days, burn history.Grid
	worst                    []*sla.SLOReport
	groups                   int // of the SLO
	attribution              history.Grid
	bands                    []string
	ledger                   *slo.LedgerPlan // of the window; nil if nothing can be charged

	answers []fold.ReadResult
}

// The order of the queries.
const (
	askMain = iota
	askBurn
	askPeriod
	askDays
	askAttribution
	askLatency // and more: counters of durations, and last the ledger
)

func newSLOHistory(rep *sla.Report, r *sla.SLOReport, rng sloRange, tiers []alerts.Tier) *sloHistory {
	s := r.SLO
	out := func(sp slo.Span) []slo.Span { return history.Excluded(s, sp, r.Slice) }
	h := &sloHistory{now: rep.Time.UTC(), row: r, zone: history.ZoneOf(s)}
	h.main = history.NewGrid(rng.Span, rng.Step, nil)
	h.tiers = chart.BurnWindows(tiers, rng.Span, rng.Step)
	if len(h.tiers) > 0 {
		before := time.Duration(0)
		for _, t := range h.tiers {
			before = max(before, t.Long)
		}
		// Its steps end where the range ends, so that the last values are the present ones.
		n := (rng.Duration()+before+rng.Step-1)/rng.Step + 1
		sp := slo.Span{From: rng.To.Add(-n * rng.Step), To: rng.To}
		h.burn = history.NewGrid(sp, rng.Step, out(sp))
	}
	period := slo.Span{From: r.Period.From.UTC(), To: r.Period.To.UTC()}
	h.period = history.NewGrid(period, history.StepFor(period, h.now, r.Slice), out(period))
	h.days = history.DayGrid(h.now, h.zone, chart.CalendarDays, out)
	// whatever is drawn of it is drawn by its own periods, and nothing burns faster
	if s.Indicator.Kind == slo.KindVolume {
		for _, g := range []*history.Grid{&h.main, &h.period, &h.days} {
			span, unit := g.Span, slo.Window{Calendar: s.Indicator.Calendar, Location: s.Indicator.Location}
			*g = history.GridOf(history.Periods(s, span, h.now), out)
			g.Span, g.Step = span, unit.Nominal()
		}
		h.tiers = nil
	}
	h.worst, h.groups = WorstGroups(rep, s.ID)
	h.attribution = history.Grid{Span: rng.Span, Steps: []slo.Span{rng.Span}}
	h.attribution.Exclude(out(rng.Span))
	if s.Indicator.Kind == slo.KindLatency {
		if r.Slice > 0 {
			h.bands = append(h.bands, sla.EventsID(s.ID))
		}
		h.bands = append(h.bands, history.BandCounters(rep, s.ID)...)
	}
	return h
}

func (h *sloHistory) queries(r *sla.SLOReport) []fold.ReadRequest {
	id, one := string(r.SLO.ID), []slo.Group{r.Group}
	var all []slo.Group
	for _, x := range h.worst {
		all = append(all, x.Group)
	}
	qs := []fold.ReadRequest{
		h.main.Query(id, one), h.burn.Query(id, one), h.period.Query(id, one), h.days.Query(id, one),
		h.attribution.Query(id, all),
	}
	for _, b := range h.bands {
		qs = append(qs, h.main.Query(b, one))
	}
	if h.ledger != nil {
		grid := history.Grid{Span: h.ledger.Span, Steps: h.ledger.Pieces}
		qs = append(qs, grid.Query(id, one))
	}
	return qs
}

// points reads the answer of one group to one query.
func (h *sloHistory) points(g *history.Grid, ask, group int) []history.Point {
	a := &h.answers[ask]
	var bins [][]uint64
	if group < len(a.Groups) {
		bins = a.Groups[group]
	}
	r := h.row
	if ask == askAttribution {
		r = h.worst[group]
	}
	return g.Points(r.SLO, r.Group, a, bins)
}

// sources are the counters of durations over the range.
func (h *sloHistory) sources(r *sla.SLOReport) []history.HistogramSource {
	var out []history.HistogramSource
	add := func(a *fold.ReadResult) {
		if a.Known && !a.Sliced && len(a.Edges) > 0 && len(a.Groups) == 1 && len(a.Groups[0]) >= len(h.main.Steps) {
			out = append(out, history.HistogramSource{Edges: a.Edges, Bins: a.Groups[0][:len(h.main.Steps)]})
		}
	}
	if r.Slice == 0 {
		add(&h.answers[askMain])
	}
	for i := range h.bands {
		add(&h.answers[askLatency+i])
	}
	return out
}

// historyFailed is shown in place of the charts.
const historyFailed = "The history could not be read. The numbers on this page come from the last report. Reload the " +
	"page in a moment."

// fillHistory reads the history of a group and draws everything that is made of it.
func (ui *Handler) fillHistory(ctx context.Context, v site.View, r *sla.SLOReport, rng sloRange, tiers []alerts.Tier,
	marks []chart.Moment, p *sloPage) {
	if ui.Opt.Counts == nil {
		p.HistNote = "This engine has no history."
		return
	}
	h, from := newSLOHistory(v.Rep, r, rng, tiers), ui.ReportSource()
	h.ledger = from.LedgerPlan(v.Rep, r, r.Period)
	ctx, cancel := context.WithTimeout(ctx, historyBudget)
	defer cancel()
	queries := h.queries(r)
	answers, err := ui.Opt.Counts.Ask(ctx, queries)
	if err != nil {
		ui.Opt.LogError("read history of "+string(r.SLO.ID), err)
		p.HistNote = historyFailed
		return
	}
	h.answers = answers
	main := &h.answers[askMain]
	if !main.Known || len(main.Groups) == 0 || main.Groups[0] == nil {
		p.HistNote =
			"This group has no history yet because no valid event has arrived. The charts begin with its first event."
		return
	}
	behind := chart.NewShades(r.SLO, rng.Span, r.Slice, main).Marked(chart.MomentsIn(marks, rng.Span))
	if len(h.period.Steps) > 0 {
		p.BurnDown = chart.NewBurnDown(r, &h.period, h.points(&h.period, askPeriod, 0),
			chart.NewShades(r.SLO, h.period.Span, r.Slice, main).Marked(chart.MomentsIn(marks, h.period.Span)), v.Now)
	}
	if len(p.BurnDown.Plots) == 0 {
		p.BurnDown.Note = "Nothing was counted in the window, so there is no budget to spend."
	}
	p.Events = chart.NewEvents(r, &h.main, h.points(&h.main, askMain, 0), behind, v.Now)
	if len(p.Events.Plots) == 0 {
		p.Events.Note = emptyRange(main, rng.Span)
	}
	if len(h.tiers) > 0 {
		p.Burn = chart.NewBurnChart(r.SLO, rng.Span, &h.burn, h.points(&h.burn, askBurn, 0), h.tiers, behind, v.Now)
		if len(p.Burn.Plots) == 0 {
			p.Burn.Note = emptyRange(main, rng.Span)
		}
	} else {
		p.Burn.Note = "No alert window is a multiple of the step of this range. Choose another range."
		if len(tiers) == 0 {
			p.Burn.Note = "No burn-rate alert watches this SLO."
		}
	}
	if r.SLO.Indicator.Kind == slo.KindLatency {
		f := chart.NewLatency(r, &h.main, h.sources(r), behind, v.Now)
		if len(f.Plots) == 0 {
			f.Note = emptyRange(main, rng.Span)
		}
		p.Latency = &f
	}
	if r.SLO.Indicator.Kind != slo.KindVolume { // whose periods are days already, or longer
		p.Daily = chart.NewDailySpend(r, &h.days, h.points(&h.days, askDays, 0), h.zone, marks)
	}
	p.Calendar = chart.NewCalendar(r, &h.days, h.points(&h.days, askDays, 0), h.zone)
	p.Calendar.Mark(marks)
	p.Attribution = ui.newAttribution(r, h, rng, v)
	if h.ledger != nil {
		a := &answers[len(answers)-1]
		p.Ledger = ui.NewLedger(history.NewLedger(r.SLO, h.ledger, a, a.Groups[0]), r.SLO, r.Budget)
	}
}

// emptyRange explains why a range has no data, and what to do.
func emptyRange(a *fold.ReadResult, sp slo.Span) string {
	switch {
	case a.Oldest.After(sp.From) && !a.Oldest.Before(sp.To):
		return "Counts of this range are no longer retained. Choose a later range."
	case history.Seen(a, sp) < 0.01:
		return "The engine did not count in this range: it was not running, or the SLO was not in its spec. " +
			"Choose another range, or backfill the events."
	}
	return "Nothing was counted in this range. Choose a longer range, or check that the service sends events."
}

func (ui *Handler) newAttribution(r *sla.SLOReport, h *sloHistory, rng sloRange, v site.View) *Attribution {
	b := &Attribution{}
	if len(r.SLO.GroupBy) > 0 {
		var ps []history.Point
		for i := range h.worst {
			pt := history.Point{}
			if got := h.points(&h.attribution, askAttribution, i); len(got) == 1 {
				pt = got[0]
			}
			ps = append(ps, pt)
		}
		all := ui.GroupShares(r, h.worst, ps)
		b.Groups, b.Rest = firstShares(all, func(i int, s share) bool { return i < attributionShown || s.Here })
		b.More, b.Partly = h.groups-len(b.Groups), h.groups > len(h.worst)
	} else {
		b.GroupNote =
			"This SLO has no groups. With group_by in the spec, each value of an attribute has its own budget, and " +
				"its share is shown here."
	}
	ui.fillAttributes(b, r, rng.Span, v.Now)
	return b
}
