package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
)

// reportBudget is how long a report may take to be made.
const reportBudget = 30 * time.Second

// errNoCounts means that the engine keeps no history to report from.
var errNoCounts = errors.New("this engine keeps no history, so there is nothing to report from")

// reportCache keeps the last reports, so that page, CSV and JSON of one period show
// the same numbers and cost one read. At most one report is made at a time.
type reportCache struct {
	mu   sync.Mutex
	keys []string
	m    map[string]*periodReport
}

const keptReports = 6

// periodReport makes a report, or finds it made from the same engine report.
func (w *Web) periodReport(ctx context.Context, v view, ask reportAsk) (*periodReport, error) {
	if w.opt.Counts == nil {
		return nil, errNoCounts
	}
	zone := ""
	if ask.zone != nil {
		zone = ask.zone.String()
	}
	key := fmt.Sprintf("%d/%d/%s/%q/%s", v.rep.Version, v.rep.Time.UnixNano(), ask.period, ask.service, zone)
	c := &w.reports
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.m[key]; r != nil {
		return r, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err // who asked has gone while another report was made
	}
	ctx, cancel := context.WithTimeout(ctx, reportBudget)
	defer cancel()
	r, err := w.buildReport(ctx, v.rep, ask)
	if err != nil {
		return nil, err
	}
	if c.m == nil {
		c.m = map[string]*periodReport{}
	}
	if len(c.keys) >= keptReports {
		delete(c.m, c.keys[0])
		c.keys = c.keys[1:]
	}
	c.keys, c.m[key] = append(c.keys, key), r
	return r, nil
}

// reporter makes one report.
type reporter struct {
	reportAsk
	rep   *sla.Report
	zones map[slo.ID]*time.Location // of the agreements that SLOs are part of
	parts map[string]covered        // of the period, by zone
	days  map[string][]slo.Span     // of those
	l     history.Batch
}

func (w *Web) buildReport(ctx context.Context, rep *sla.Report, ask reportAsk) (*periodReport, error) {
	b := &reporter{reportAsk: ask, rep: rep, zones: map[slo.ID]*time.Location{}, parts: map[string]covered{}, days: map[string][]slo.Span{}}
	out := &periodReport{reportAsk: ask, now: rep.Time}
	b.findZones()

	type sloPart struct {
		counts, events *history.Series
		rows           []*sla.SLOReport
	}
	var slos []sloPart
	for i := 0; i < len(rep.SLOs); {
		rows := slosOf(rep, rep.SLOs[i].SLO.ID)
		i += max(1, len(rows))
		if len(rows) == 0 || !b.wants(rows[0].SLO.ID.Service()) {
			continue
		}
		s, slice := rows[0].SLO, rows[0].Slice
		zone := b.zoneOf(s)
		steps := b.steps(zone)
		p := sloPart{rows: rows}
		groups := make([]slo.Group, len(rows))
		for k, r := range rows {
			groups[k] = r.Group
		}
		p.counts = b.l.Add(string(s.ID), zone.String(), history.GridOf(steps, func(sp slo.Span) []slo.Span { return history.Excluded(s, sp, slice) }), groups)
		if slice > 0 && len(steps) > 0 {
			whole := []slo.Span{{From: steps[0].From, To: steps[len(steps)-1].To}}
			p.events = b.l.Add(sla.EventsID(s.ID), zone.String(), history.Grid{Span: whole[0], Steps: whole}, groups)
		}
		slos = append(slos, p)
	}
	var books []*scorebook
	for _, a := range agreements(rep) {
		if b.wants(a.Service) {
			zone := b.zoneOfSLA(a)
			books = append(books, newScorebook(rep, a, b.steps(zone), zone.String(), nil, &b.l))
		}
	}
	var limits []*history.Series
	for i := range rep.Limits {
		l := rep.Limits[i].Limit
		if !b.wants(l.Service) {
			continue
		}
		zone := b.zoneOfService(l.Service)
		g := history.Grid{Span: b.part(zone).span}
		if g.Duration() > 0 {
			g.Steps = []slo.Span{g.Span}
		}
		limits = append(limits, b.l.Add(sla.LimitID(l.Service, l.Name), zone.String(), g, []slo.Group{nil}))
	}
	if err := b.l.Run(ctx, w.opt.Counts); err != nil {
		return nil, err
	}
	kept, err := w.keptShares(ctx, &b.l)
	if err != nil {
		return nil, err
	}

	for _, p := range slos {
		for k, r := range p.rows {
			out.slos = append(out.slos, b.slo(r, p.counts, p.events, k, kept))
		}
	}
	for i, at := 0, 0; i < len(rep.Limits); i++ {
		if b.wants(rep.Limits[i].Limit.Service) {
			out.limits = append(out.limits, b.limit(&rep.Limits[i], limits[at], kept))
			at++
		}
	}
	for _, book := range books {
		for i := range rep.SLAs {
			if r := &rep.SLAs[i]; r.SLA == book.agreement {
				out.slas = append(out.slas, b.sla(r, book, out.limits, kept))
			}
		}
	}
	if len(b.parts) == 0 {
		b.part(cmp.Or(b.zone, time.UTC))
	}
	for _, p := range b.parts {
		out.begun = out.begun || p.span.Duration() > 0
		out.running = out.running || p.running
	}
	return out, nil
}

func (b *reporter) wants(service string) bool { return b.service == "" || b.service == service }

// agreements are those of a report, each once, in its order.
func agreements(rep *sla.Report) []*sla.Agreement {
	var out []*sla.Agreement
	for i := range rep.SLAs {
		if a := rep.SLAs[i].SLA; len(out) == 0 || out[len(out)-1] != a {
			out = append(out, a)
		}
	}
	return out
}

// findZones notes in which zone each SLO is part of an agreement.
func (b *reporter) findZones() {
	for _, a := range agreements(b.rep) {
		for _, c := range a.Components {
			if b.zones[c.SLO] == nil && a.Window.Calendar != "" {
				b.zones[c.SLO] = history.Zone(a.Window)
			}
		}
	}
}

// zoneOf is the zone of an SLO's days: what was asked for, that of its own calendar
// window, that of an agreement it is part of, or UTC.
func (b *reporter) zoneOf(s *slo.SLO) *time.Location {
	switch {
	case b.zone != nil:
		return b.zone
	case s.Window.Calendar != "" && s.Window.Location != nil:
		return s.Window.Location
	case b.zones[s.ID] != nil:
		return b.zones[s.ID]
	}
	return time.UTC
}

func (b *reporter) zoneOfSLA(a *sla.Agreement) *time.Location {
	if b.zone != nil {
		return b.zone
	}
	return history.Zone(a.Window)
}

// zoneOfService is the zone of a service's limits: that of its first agreement.
func (b *reporter) zoneOfService(service string) *time.Location {
	for _, a := range agreements(b.rep) {
		if a.Service == service {
			return b.zoneOfSLA(a)
		}
	}
	if b.zone != nil {
		return b.zone
	}
	return time.UTC
}

// part is the part of the period in a zone that is over.
func (b *reporter) part(zone *time.Location) covered {
	if c, ok := b.parts[zone.String()]; ok {
		return c
	}
	sp := b.period.in(zone)
	c := covered{zone: zone, span: sp, running: b.rep.Time.Before(sp.To)}
	if c.running {
		c.span.To = b.rep.Time.UTC()
		if c.span.To.Before(sp.From) {
			c.span.To = sp.From
		}
	}
	b.parts[zone.String()] = c
	return c
}

// steps are the days of the period in a zone.
func (b *reporter) steps(zone *time.Location) []slo.Span {
	days, ok := b.days[zone.String()]
	if !ok {
		days = history.Days(b.part(zone).span, zone)
		b.days[zone.String()] = days
	}
	return days
}

// slo sums up one group of an SLO.
func (b *reporter) slo(r *sla.SLOReport, e, events *history.Series, at int, kept keptShares) sloResult {
	s := r.SLO
	out := sloResult{covered: b.part(b.zoneOf(s)), now: r, worst: -1}
	out.keptFrom = e.KeptFrom()
	out.coverage = e.Share(0, len(e.Grid.Steps)) * kept.of(e)
	raw, net := e.Bins(at)
	in := history.ComponentInput(s)
	var sumRaw, sumNet history.Tally
	for i, sp := range e.Grid.Steps {
		d := dayResult{date: sp.From.In(out.zone).Format(time.DateOnly)}
		if i < len(raw) {
			d.raw, d.net = history.NewTally(&e.Answer, raw[i]), history.NewTally(&e.Answer, net[i])
			history.AddBins(&in, e.Answer.Sliced, net[i])
		}
		sumRaw, sumNet = sumRaw.Plus(d.raw), sumNet.Plus(d.net)
		out.days = append(out.days, d)
	}
	loss := sumNet.Loss(s)
	for i := range out.days {
		d := &out.days[i]
		if mine := d.net.Loss(s); mine > 0 && loss > 0 {
			d.share = mine / loss
			if out.worst < 0 || mine > out.days[out.worst].net.Loss(s) {
				out.worst = i
			}
		}
	}
	for _, sp := range e.Grid.Out {
		out.corrected += sp.Duration()
	}
	out.raw, out.net = sumRaw.Budget(s), sumNet.Budget(s)
	out.events = sumRaw.Valid()
	if events != nil {
		all, _ := events.Bins(at)
		out.events = 0
		for _, bins := range all {
			for _, n := range bins {
				out.events += n
			}
		}
	}
	errors, known := in.ErrorRatio()
	switch {
	case !known:
		out.verdict = noData
	case r.Informative:
		out.verdict = informative
	case sla.Attain(s.Objective, errors) < 1:
		out.verdict = missed
	default:
		out.verdict = attained
	}
	return out
}

// sla scores one group of an agreement.
func (b *reporter) sla(r *sla.SLAReport, book *scorebook, limits []limitResult, kept keptShares) slaResult {
	out := slaResult{covered: b.part(b.zoneOfSLA(r.SLA))}
	first, keptFrom := book.whole()
	last := len(book.steps)
	if out.keptFrom = keptFrom; !keptFrom.IsZero() && first < last {
		out.keptFrom = book.steps[first].From // a day of which a part is gone is left out too
	}
	out.SLAReport = book.score(r.Group, first, last)
	out.coverage = 1
	for i, c := range book.components {
		if c.counts == nil {
			continue
		}
		whole := c.counts.Share(0, last) * kept.of(c.counts)
		out.Components[i].Coverage = whole
		out.coverage = min(out.coverage, whole)
	}
	if last == 0 {
		out.coverage = 0
	}
	for i := range book.steps {
		out.days = append(out.days, dayScore{Span: book.steps[i], report: book.score(r.Group, i, i+1), kept: i >= first})
	}
	for _, l := range limits {
		if l.now.Limit.Service == r.SLA.Service {
			out.violations.Within += l.violations.Within
			out.violations.Warning += l.violations.Warning
			out.violations.Critical += l.violations.Critical
		}
	}
	switch {
	case !out.HasData || out.Missing == len(out.Components):
		out.verdict = noData
	case out.Informative:
		out.verdict = informative
	case out.Breached:
		out.verdict = missed
	default:
		out.verdict = attained
	}
	return out
}

// limit counts the violations of one limit.
func (b *reporter) limit(r *sla.LimitReport, e *history.Series, kept keptShares) limitResult {
	out := limitResult{covered: b.part(b.zoneOfService(r.Limit.Service)), now: r}
	out.keptFrom = e.KeptFrom()
	out.coverage = e.Share(0, len(e.Grid.Steps)) * kept.of(e)
	rows, _ := e.Bins(0)
	for _, bins := range rows {
		addViolations(&out.violations, r.Limit, e.Answer.Edges, bins)
	}
	return out
}

// addViolations puts the bins of a limit where they belong: the first kept it, the
// others broke it at one level each.
func addViolations(v *sla.Violations, l *slo.Limit, edges []time.Duration, bins []uint64) {
	for i, n := range bins {
		critical := l.Each == "critical"
		if l.Each == "" && i > 0 && i <= len(edges) {
			critical = edges[i-1] == l.Critical
		}
		switch {
		case i == 0:
			v.Within += n
		case critical:
			v.Critical += n
		default:
			v.Warning += n
		}
	}
}
