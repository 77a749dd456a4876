package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
)

// reportBudget is how long a report may take to be made.
const reportBudget = 30 * time.Second

// ErrNoHistory means that the engine keeps no history to report from.
var ErrNoHistory = errors.New("this engine keeps no history, so there is nothing to report from")

// Source is where the numbers of a report come from.
type Source struct {
	Counts history.CountsFunc // nil: there is no history
	Kept   KeptFunc           // nil: limits dropped nothing

	Incidents IncidentsFunc // nil: incidents are not known

	// Onsets are incidents of which only the ID, the onset and what they affected is known; not asked if there are
	// Incidents.
	Onsets OnsetsFunc

	Annotations   AnnotationsFunc // nil: there are none
	LedgerOptions LedgerOptions
}

// Seal names the records that a report was made of: all of them up to a position. What it says of incidents, forecasts
// and annotations follows from other data, too.
type Seal struct {
	Position  uint64    // number of the last record
	Digest    string    // of the records; "" if the log is not retained
	Evaluated time.Time // the time as of which they were evaluated
}

// Maker makes reports and keeps the last few, so that page, CSV and JSON of one period show the same numbers and
// cost one read. It makes one report at a time.
type Maker struct {
	mu   sync.Mutex
	keys []string
	m    map[string]*Report
}

const keptReports = 6

// Make makes a report, or finds it made from the same engine report.
func (c *Maker) Make(ctx context.Context, from Source, rep *sla.Report, ask Query) (*Report, error) {
	if from.Counts == nil {
		return nil, ErrNoHistory
	}
	zone := ""
	if ask.Zone != nil {
		zone = ask.Zone.String()
	}
	key := fmt.Sprintf("%d/%d/%s/%q/%q/%s", rep.Version, rep.Time.UnixNano(), ask.Period, ask.Service, ask.Agreement, zone)
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
	r, err := build(ctx, from, rep, ask)
	if err != nil {
		return nil, err
	}
	if c.m == nil {
		c.m = map[string]*Report{}
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
	Query
	rep   *sla.Report
	zones map[slo.ID]*time.Location // of the agreements that SLOs are part of
	parts map[string]Covered        // of the period, by zone
	days  map[string][]slo.Span     // of those
	l     history.Batch
}

func newReporter(rep *sla.Report, ask Query) *reporter {
	b := &reporter{Query: ask, rep: rep, zones: map[slo.ID]*time.Location{}, parts: map[string]Covered{},
		days: map[string][]slo.Span{}}
	b.findZones()
	return b
}

func build(ctx context.Context, from Source, rep *sla.Report, ask Query) (*Report, error) {
	b := newReporter(rep, ask)
	out := &Report{Query: ask, now: rep.Time}

	type sloPart struct {
		counts, events *history.Series
		rows           []*sla.SLOReport
	}
	var slos []sloPart
	for i := 0; i < len(rep.SLOs); {
		rows := Rows(rep, rep.SLOs[i].SLO.ID)
		i += max(1, len(rows))
		if len(rows) == 0 || !b.wantsSLO(rows[0].SLO.ID) {
			continue
		}
		s, slice := rows[0].SLO, rows[0].Slice
		zone := b.zoneOf(s)
		steps := b.stepsOf(s)
		p := sloPart{rows: rows}
		groups := make([]slo.Group, len(rows))
		for k, r := range rows {
			groups[k] = r.Group
		}
		p.counts = b.l.Add(string(s.ID), zone.String(), history.GridOf(steps, func(sp slo.Span) []slo.Span {
			return history.Excluded(s, sp, slice)
		}), groups)
		if slice > 0 && len(steps) > 0 {
			whole := []slo.Span{{From: steps[0].From, To: steps[len(steps)-1].To}}
			p.events = b.l.Add(sla.EventsID(s.ID), zone.String(), history.Grid{Span: whole[0], Steps: whole}, groups)
		}
		slos = append(slos, p)
	}
	var books []*PeriodScores
	for _, a := range Agreements(rep) {
		if b.wantsAgreement(a) {
			zone := b.zoneOfSLA(a)
			books = append(books, NewPeriodScores(rep, a, b.steps(zone), zone.String(), nil, &b.l))
		}
	}
	var thresholds []*history.Series
	for i := range rep.Thresholds {
		l := rep.Thresholds[i].Threshold
		if !b.wants(l.Service) {
			continue
		}
		zone := b.zoneOfService(l.Service)
		g := history.Grid{Span: b.part(zone).Span}
		if g.Duration() > 0 {
			g.Steps = []slo.Span{g.Span}
		}
		groups := []slo.Group{nil}
		if len(l.GroupBy) > 0 {
			groups = groups[:0]
			for _, x := range rep.Thresholds[i].Groups {
				groups = append(groups, x.Group)
			}
		}
		thresholds = append(thresholds, b.l.Add(sla.ThresholdID(l.Service, l.Name), zone.String(), g, groups))
	}
	if err := b.l.Run(ctx, from.Counts); err != nil {
		return nil, err
	}
	kept, err := from.keptShares(ctx, &b.l)
	if err != nil {
		return nil, err
	}

	for _, p := range slos {
		for k, r := range p.rows {
			out.SLOs = append(out.SLOs, b.slo(r, p.counts, p.events, k, kept))
		}
	}
	if err := from.fillLedgers(ctx, rep, out.SLOs); err != nil {
		return nil, err
	}
	for i, at := 0, 0; i < len(rep.Thresholds); i++ {
		if b.wants(rep.Thresholds[i].Threshold.Service) {
			out.Thresholds = append(out.Thresholds, b.threshold(&rep.Thresholds[i], thresholds[at], kept))
			at++
		}
	}
	for _, book := range books {
		for i := range rep.SLAs {
			if r := &rep.SLAs[i]; r.SLA == book.agreement {
				out.SLAs = append(out.SLAs, b.sla(r, book, out.Thresholds, kept))
			}
		}
	}
	out.Incidents = b.incidents(from.Incidents)
	if len(b.parts) == 0 {
		b.part(cmp.Or(b.Zone, time.UTC))
	}
	for _, p := range b.parts {
		out.Begun = out.Begun || p.Span.Duration() > 0
		out.Running = out.Running || p.Running
	}
	return out, nil
}

// wants reports whether the query is about a service.
func (q *Query) wants(service string) bool {
	return (q.Service == "" || q.Service == service) && (q.Agreement == "" || q.Agreement.Service() == service)
}

func (q *Query) wantsAgreement(a *sla.Agreement) bool {
	return q.wants(a.Service) && (q.Agreement == "" || q.Agreement == slo.NewID(a.Service, a.Name))
}

// wantsSLO reports whether the query is about an SLO. That of an agreement may be of another service.
func (b *reporter) wantsSLO(id slo.ID) bool {
	if b.Agreement == "" {
		return b.wants(id.Service())
	}
	for _, a := range Agreements(b.rep) {
		if b.wantsAgreement(a) && slices.ContainsFunc(a.Components, func(c sla.Component) bool { return c.SLO == id }) {
			return true
		}
	}
	return false
}

// Agreements are those of a report, each once, in its order.
func Agreements(rep *sla.Report) []*sla.Agreement {
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
	for _, a := range Agreements(b.rep) {
		for _, c := range a.Components {
			if b.zones[c.SLO] == nil && a.Window.Calendar != "" {
				b.zones[c.SLO] = history.Zone(a.Window)
			}
		}
	}
}

// CalendarZone is the zone of the calendar windows of the agreements that a query is about, if they share one, or else
// UTC.
func CalendarZone(rep *sla.Report, ask Query) *time.Location {
	var zone *time.Location
	if rep == nil {
		return time.UTC
	}
	for _, a := range Agreements(rep) {
		if !ask.wantsAgreement(a) || a.Window.Calendar == "" {
			continue
		}
		z := history.Zone(a.Window)
		if zone != nil && zone.String() != z.String() {
			return time.UTC
		}
		zone = z
	}
	return cmp.Or(zone, time.UTC)
}

// zoneOf is the zone of an SLO's days: what was asked for, that of its own calendar
// window, that of an agreement it is part of, or UTC.
func (b *reporter) zoneOf(s *slo.SLO) *time.Location {
	switch {
	case b.Zone != nil:
		return b.Zone
	case s.Indicator.Kind == slo.KindVolume:
		return s.Indicator.Location
	case s.Window.Calendar != "" && s.Window.Location != nil:
		return s.Window.Location
	case b.zones[s.ID] != nil:
		return b.zones[s.ID]
	}
	return time.UTC
}

func (b *reporter) zoneOfSLA(a *sla.Agreement) *time.Location {
	if b.Zone != nil {
		return b.Zone
	}
	return history.Zone(a.Window)
}

// zoneOfService is the zone of a service's event thresholds: that of its first agreement.
func (b *reporter) zoneOfService(service string) *time.Location {
	for _, a := range Agreements(b.rep) {
		if a.Service == service {
			return b.zoneOfSLA(a)
		}
	}
	if b.Zone != nil {
		return b.Zone
	}
	return time.UTC
}

// part is the part of the period in a zone that is over.
func (b *reporter) part(zone *time.Location) Covered {
	if c, ok := b.parts[zone.String()]; ok {
		return c
	}
	sp := b.Period.In(zone)
	out := Covered{Zone: zone, Span: sp, Running: b.rep.Time.Before(sp.To)}
	if out.Running {
		out.Span.To = b.rep.Time.UTC()
		if out.Span.To.Before(sp.From) {
			out.Span.To = sp.From
		}
	}
	b.parts[zone.String()] = out
	return out
}

// steps are the days of the period in a zone.
func (b *reporter) steps(zone *time.Location) []slo.Span {
	days, ok := b.days[zone.String()]
	if !ok {
		days = history.Days(b.part(zone).Span, zone)
		b.days[zone.String()] = days
	}
	return days
}

// stepsOf are what the report of an SLO consists of: the days of its zone, or the periods that its volume is judged
// over.
func (b *reporter) stepsOf(s *slo.SLO) []slo.Span {
	zone := b.zoneOf(s)
	if s.Indicator.Kind == slo.KindVolume {
		return history.Periods(s, b.part(zone).Span, b.rep.Time.UTC())
	}
	return b.steps(zone)
}

// slo sums up one group of an SLO.
func (b *reporter) slo(r *sla.SLOReport, e, events *history.Series, at int, kept keptShares) SLO {
	s := r.SLO
	out := SLO{Covered: b.part(b.zoneOf(s)), Now: r, Worst: -1}
	out.KeptFrom, out.NewFrom = e.KeptFrom(), e.Began(b.rep.Time)
	out.Coverage = e.Share(between(e.Grid.Steps)) * kept.of(e)
	raw, net := e.Bins(at)
	in := history.ComponentInput(s)
	read := history.NewReader(s, r.Group, &e.Answer)
	var sumRaw, sumNet history.Tally
	for i, sp := range e.Grid.Steps {
		d := Day{Date: sp.From.In(out.Zone).Format(time.DateOnly), Rounded: !e.Exact(sp, r.Slice)}
		out.Rounded = out.Rounded || d.Rounded
		if i < len(raw) {
			d.Raw, d.Net = read.Tallies(sp, raw[i], net[i])
			history.AddBins(&in, e.Answer.Sliced, net[i], d.Net)
		}
		sumRaw, sumNet = sumRaw.Plus(d.Raw), sumNet.Plus(d.Net)
		out.Days = append(out.Days, d)
	}
	loss := sumNet.Loss(s)
	for i := range out.Days {
		d := &out.Days[i]
		if mine := d.Net.Loss(s); mine > 0 && loss > 0 {
			d.Share = mine / loss
			if out.Worst < 0 || mine > out.Days[out.Worst].Net.Loss(s) {
				out.Worst = i
			}
		}
	}
	for _, sp := range e.Grid.Out {
		out.Corrected += sp.Duration()
	}
	out.Raw, out.Net = sumRaw.Budget(s), sumNet.Budget(s)
	out.Events = sumRaw.Valid() / s.Indicator.Kind.Unit()
	if s.Indicator.Kind == slo.KindVolume {
		events = e
	}
	if events != nil {
		all, _ := events.Bins(at)
		out.Events = 0
		for _, bins := range all {
			for _, n := range bins {
				out.Events += n
			}
		}
	}
	errors, known := in.ErrorRatio()
	switch {
	case !known:
		out.Verdict = NoData
	case r.Informative:
		out.Verdict = Informative
	case sla.Attain(s.Objective, errors) < 1:
		out.Verdict = Breached
	default:
		out.Verdict = Met
	}
	return out
}

// sla scores one group of an agreement.
func (b *reporter) sla(r *sla.SLAReport, book *PeriodScores, thresholds []Threshold, kept keptShares) SLA {
	out := SLA{Covered: b.part(b.zoneOfSLA(r.SLA))}
	first, keptFrom := book.whole()
	last := len(book.steps)
	if out.KeptFrom = keptFrom; !keptFrom.IsZero() && first < last {
		out.KeptFrom = book.steps[first].From // a day of which a part is gone is left out too
	}
	out.SLAReport = book.Score(r.Group, first, last)
	out.Coverage = 1
	for i, c := range book.components {
		if c.counts == nil {
			continue
		}
		whole := c.counts.Share(between(book.steps)) * kept.of(c.counts)
		out.Components[i].Coverage = whole
		out.Coverage = min(out.Coverage, whole)
		if began := c.counts.Began(b.rep.Time); began.After(out.NewFrom) {
			out.NewFrom = began
		}
	}
	if last == 0 {
		out.Coverage = 0
	}
	out.Rounded = !book.exact(between(book.steps))
	for i := range book.steps {
		out.Days = append(out.Days, DayScore{Span: book.steps[i], Report: book.Score(r.Group, i, i+1), Kept: i >= first})
	}
	for _, l := range thresholds {
		if l.Now.Threshold.Service == r.SLA.Service {
			out.Violations.Within += l.Violations.Within
			out.Violations.Warning += l.Violations.Warning
			out.Violations.Critical += l.Violations.Critical
		}
	}
	switch {
	case !out.HasData, out.Missing == len(out.Components) && !(out.Breached && out.Coverage > 0):
		out.Verdict = NoData // also where missing data is bad, if the engine saw nothing of the period
	case out.Informative:
		out.Verdict = Informative
	case out.Breached:
		out.Verdict = Breached
	default:
		out.Verdict = Met
	}
	return out
}

// threshold counts the violations of one event threshold.
func (b *reporter) threshold(r *sla.ThresholdReport, e *history.Series, kept keptShares) Threshold {
	out := Threshold{Covered: b.part(b.zoneOfService(r.Threshold.Service)), Now: r}
	out.KeptFrom, out.NewFrom = e.KeptFrom(), e.Began(b.rep.Time)
	out.Coverage, out.Rounded = e.Share(between(e.Grid.Steps))*kept.of(e), !e.Exact(e.Grid.Span, 0)
	count := func(group int) (v sla.Violations) {
		rows, _ := e.Bins(group)
		for _, bins := range rows {
			addViolations(&v, r.Threshold, e.Answer.Edges, bins)
		}
		return v
	}
	if len(r.Threshold.GroupBy) == 0 {
		out.Violations = count(0)
		return out
	}
	for k := range r.Groups {
		g := ThresholdGroup{r.Groups[k].Group, count(k)}
		out.Violations.Add(g.Violations)
		out.Groups = append(out.Groups, g)
	}
	return out
}

// addViolations puts the bins of an event threshold where they belong: the first is within it, the
// others broke it at one level each.
func addViolations(v *sla.Violations, l *slo.Threshold, edges []time.Duration, bins []uint64) {
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
