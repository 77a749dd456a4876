package ui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// Bounds of the tables that attribute the used budget.
const (
	attributionShown  = 10  // shown
	attributionAsked  = 100 // groups whose counts of the range are read: those that were worst over the window
	attributionValues = 5   // of one attribute
)

// share is one attribute value or group, and its share of the bad events.
type share struct {
	Labels   []format.Label
	Href     string
	Here     bool
	Bad      string
	Part     string // of all bad events
	Gauge    chart.Gauge
	Consumed string // of the budget
	Left     string // groups: of their own budget, over the window
	Mark     chart.Mark

	bad  uint64
	cost float64
}

// Attribution says which groups and attributes used the budget of a range.
type Attribution struct {
	Range     string
	Groups    []share // of the SLO, worst first
	More      int     // groups that are left out
	Rest      *share  // what those have together; nil if none is left out, or not all were read
	Partly    bool    // more groups than were read
	GroupNote string

	Attributes []attribute
	Since      format.Stamp // the attributes are counted from then on
	Until      format.Stamp
	Why        string // there are no attributes, or not these
	Known      string // address of the range that they are known for; "" if it is this one, or none
}

type attribute struct {
	Name   string
	Values []share
	More   int
	Rest   *share // the values that are left out
}

// WorstGroups lists the groups of an SLO that lost most over the window, at most attributionAsked, and how many it has.
func WorstGroups(rep *sla.Report, id slo.ID) (out []*sla.SLOReport, total int) {
	out = site.RowsOf(rep, id)
	total = len(out)
	slices.SortStableFunc(out, func(a, b *sla.SLOReport) int { return cmp.Compare(b.Raw.Counts.Bad, a.Raw.Counts.Bad) })
	return out[:min(len(out), attributionAsked)], total
}

// GroupShares says what part each group has in the losses of a range. The share
// of the budget is of the group's own, over its window.
func (ui *Handler) GroupShares(here *sla.SLOReport, groups []*sla.SLOReport, of []history.Point) []share {
	type loss struct {
		r    *sla.SLOReport
		p    history.Point
		cost float64
	}
	var list []loss
	var all float64
	for i, r := range groups {
		if i >= len(of) {
			break
		}
		l := loss{r, of[i], of[i].Net.Loss(r.SLO)}
		all += l.cost
		list = append(list, l)
	}
	order.By(list, func(a, b *loss) int { return cmp.Compare(b.cost, a.cost) })
	var out []share
	var costs []float64
	for _, l := range list {
		costs = append(costs, l.cost)
	}
	parts, active := format.Parts(costs), ui.ActiveAlerts()
	for i, l := range list {
		s := share{Labels: format.Labels(l.r.SLO.GroupBy, l.r.Group), Href: ui.SLOHref(l.r), Here: l.r == here,
			Bad: format.Count(l.p.Net.Bad), Part: parts[i], Consumed: format.NoValue, Left: format.NoValue,
			Mark: chart.LevelMark(l.r, active.Paging(l.r)), bad: l.p.Net.Bad, cost: l.cost}
		if all > 0 {
			s.Gauge = chart.NewGauge(l.cost/all, "bad", s.Part+" of the bad events")
		}
		if l.r.Budget.HasData {
			s.Left = format.Percent(l.r.Budget.Remaining, 1)
			s.Consumed = format.Percent(chart.Spent(l.r, l.cost), 1)
		}
		out = append(out, s)
	}
	return out
}

// knownLabels are the labels that traffic counters have besides dimensions.
var knownLabels = []string{"service", "type", "outcome", "severity"}

// Unattributable explains why the traffic counters of a service do not show which of their events an SLO counts as bad.
// It is "" if they do.
func Unattributable(s *slo.SLO, dimensions []string) string {
	switch s.Indicator.Kind {
	case slo.KindEvents:
	case slo.KindLatency:
		return "Attributes are counted without durations, so slow and fast events cannot be distinguished. To see the " +
			"share of an attribute, group the SLO by it."
	case slo.KindRatio:
		return "What the numerator is short of uses this budget, and missing events have no attributes. To see the share " +
			"of an attribute, group the SLO by it."
	case slo.KindApdex:
		return "Attributes are counted without durations, so satisfied and frustrated events cannot be distinguished. To " +
			"see the share of an attribute, group the SLO by it."
	case slo.KindThroughput, slo.KindVolume:
		return "Missing events use this budget, and missing events have no attributes."
	case slo.KindCompletion:
		return "Work that is not finished in time has no event of its own. To see the share of an attribute of the start " +
			"event, group the SLO by it."
	default:
		return "The events of this SLO are counted by Prometheus, not by this engine."
	}
	known := append(slices.Clone(knownLabels), dimensions...)
	for _, m := range append(slices.Clone(s.Indicator.Valid), s.Indicator.Bad...) {
		if !slices.Contains(known, m.Name) {
			return fmt.Sprintf(
				"The SLO selects events by %s, which is not a dimension of the service. Add it to the dimensions of the service "+
					"in the spec.", format.Safe(m.Name, format.MaxName))
		}
	}
	return ""
}

// Attribute fills in the attribute values of the bad events that arrived between two times. The counters know the time
// of receipt, not that of the events.
func (b *Attribution) Attribute(r *sla.SLOReport, grown []history.Growth) {
	s := r.SLO
	var dimensions []string
	for _, g := range grown {
		for _, n := range g.Names {
			if !slices.Contains(dimensions, n) {
				dimensions = append(dimensions, n)
			}
		}
	}
	if b.Why = Unattributable(s, dimensions); b.Why != "" {
		return
	}
	var apart []string // labels of the group that the counters lack
	for _, n := range s.GroupBy {
		if !slices.Contains(knownLabels, n) && !slices.Contains(dimensions, n) {
			apart = append(apart, format.Safe(n, format.MaxName))
		}
	}
	switch { // what is of other groups, too, does not stand beside numbers of this one
	case r.Group.IsOther():
		b.Why = "This group combines several values, which the counters of attributes do not distinguish."
		return
	case len(apart) > 0:
		b.Why = "The counters of attributes are not split by " + strings.Join(apart, ", ") +
			", so the attributes of this group are unknown. Add it to the dimensions of the service."
		return
	}

	bad := map[string]map[string]uint64{} // attribute: value: bad events
	var all uint64
	for i := range grown {
		g := &grown[i]
		if !s.Indicator.Valid.Matches(g.Get) || !s.Indicator.Bad.Matches(g.Get) || !inGroup(g, r) {
			continue
		}
		all += g.Count
		for _, n := range append([]string{"type", "outcome", "severity"}, g.Names...) {
			if slices.Contains(s.GroupBy, n) {
				continue // the same for all of them
			}
			if bad[n] == nil {
				bad[n] = map[string]uint64{}
			}
			bad[n][g.Get(n)] += g.Count
		}
	}
	if all == 0 {
		b.Why = strings.TrimSpace("No bad event was received in this range. " + b.Why)
		return
	}
	for _, n := range slices.Sorted(maps.Keys(bad)) {
		values := slices.SortedFunc(maps.Keys(bad[n]), func(x, y string) int {
			return cmp.Or(cmp.Compare(bad[n][y], bad[n][x]), cmp.Compare(x, y))
		})
		if len(values) == 1 && slices.Contains(knownLabels, n) {
			continue // it was selected, or says nothing
		}
		a := attribute{Name: format.Safe(n, format.MaxName)}
		for _, v := range values {
			k := bad[n][v]
			x := share{Labels: format.Labels([]string{n}, []string{v}), Bad: format.Count(k), Consumed: format.NoValue,
				bad: k, cost: float64(k)}
			if r.Budget.HasData && r.Slice == 0 {
				x.Consumed = format.Percent(chart.Spent(r, float64(k)), 1)
			}
			a.Values = append(a.Values, x)
		}
		a.More = max(0, len(values)-attributionValues)
		a.Values, a.Rest = firstShares(a.Values, func(i int, _ share) bool { return i < attributionValues })
		for i := range a.Values {
			a.Values[i].Gauge = chart.NewGauge(a.Values[i].cost/float64(all), "bad", a.Values[i].Part+" of the bad events")
		}
		b.Attributes = append(b.Attributes, a)
	}
	if len(b.Attributes) == 0 {
		b.Why = strings.TrimSpace(
			"All bad events were of the same kind, and the service has no further dimensions. To see which attributes are " +
				"affected, add them to dimensions in the spec. " + b.Why)
	}
}

// firstShares splits off what a table leaves out. The parts of all rows, with one for the rest, add up to 100.0%.
func firstShares(all []share, shown func(i int, s share) bool) (first []share, rest *share) {
	var costs []float64
	for i, s := range all {
		if shown(i, s) {
			first, costs = append(first, s), append(costs, s.cost)
			continue
		}
		if rest == nil {
			rest = &share{}
		}
		rest.bad, rest.cost = rest.bad+s.bad, rest.cost+s.cost
	}
	if rest != nil {
		costs = append(costs, rest.cost)
	}
	for i, text := range format.Parts(costs) {
		if i == len(first) {
			rest.Bad, rest.Part = format.Count(rest.bad), text
		} else {
			first[i].Part = text
		}
	}
	return first, rest
}

func inGroup(g *history.Growth, r *sla.SLOReport) bool {
	for i, n := range r.SLO.GroupBy {
		if i < len(r.Group) && g.Get(n) != r.Group[i] {
			return false
		}
	}
	return true
}

// fillAttributes fills in what the traffic log knows of a range.
func (ui *Handler) fillAttributes(b *Attribution, r *sla.SLOReport, rng slo.Span, now time.Time) {
	if why := Unattributable(r.SLO, nil); why != "" && r.SLO.Indicator.Kind != slo.KindEvents {
		b.Why = why
		return
	}
	if ui.Opt.Traffic == nil {
		b.Why = "This engine does not count traffic by attribute."
		return
	}
	grown, from, to := ui.Opt.Traffic.Between(r.SLO.ID.Service(), rng.From, rng.To)
	if from.IsZero() {
		b.Why = "Traffic by attribute is only known since the process started, and not for this range."
		if _, from, to := ui.Opt.Traffic.Between(r.SLO.ID.Service(), now.Add(-longestRange), now); !from.IsZero() {
			b.Known = ui.rangeHref(r, from, to) + "#attribution"
		}
		return
	}
	if slack := max(2*time.Minute, rng.Duration()/10); from.Sub(rng.From) > slack || rng.To.Sub(to) > slack {
		b.Why = "Traffic by attribute is known for " + format.Span(slo.Span{From: from, To: to}) +
			", which is not this range."
		b.Known = ui.rangeHref(r, from, to) + "#attribution"
		return
	}
	b.Since, b.Until = format.NewStamp(from, now), format.NewStamp(to, now)
	b.Attribute(r, grown)
}
