package ui

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/blindspot"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
)

type burnRow struct {
	Window, Rate, RawRate, Good, Bad string
	Bar                              burnBar
	Fast, Over                       bool
}

// burnBar is a burn rate on the asinh axis that all rows of a table share, with the
// thresholds of its window.
type burnBar struct {
	Width string // 0 to 100
	Class string
	Label string
	One   string // where 1x is
	Marks []string
}

// tierRow is a pair of windows that alerts watch.
type tierRow struct {
	Kind, Long, Short, Factor, Share, LongRate, ShortRate, Verdict string
	For                                                            string
	On                                                             bool
	Held                                                           []string // why its alert does not start
}

// condition finds the burn rate over a window that an alert goes by whose long window is given.
func condition(r *sla.SLOReport, d, long time.Duration) (slo.Burn, bool) {
	return found(r.Condition(d, long))
}

func found(b *slo.Burn) (slo.Burn, bool) {
	if b == nil {
		return slo.Burn{}, false
	}
	return *b, b.HasData
}

func BurnRows(r *sla.SLOReport, tiers []alerts.Tier) []burnRow {
	all := slices.Clone(r.Burns)
	for _, b := range r.TierBurns {
		at := slices.IndexFunc(all, func(x slo.Burn) bool { return x.Period || x.Window > b.Window })
		all = slices.Insert(all, max(0, at), b)
	}
	top := 20.0
	for _, b := range all {
		if b.HasData {
			top = max(top, b.Rate)
		}
	}
	for _, t := range tiers {
		top = max(top, t.Factor)
	}
	sc := chart.Scale{Max: top * 1.1, Height: 100, Asinh: true}
	x := func(v float64) string { return chart.Coord(100 - sc.Y(v)) }
	var out []burnRow
	for _, b := range all {
		row := burnRow{Window: slo.FormatDuration(b.Window), Rate: format.NoValue, Good: format.Count(b.Counts.Good),
			Bad: format.Count(b.Counts.Bad)}
		row.Bar = burnBar{Width: "0", Class: "none", Label: "no data", One: x(1)}
		if b.Period {
			row.Window = "period (" + r.SLO.Window.String() + ")"
		}
		var limits []string
		for _, t := range tiers {
			if b.Period || t.Long != b.Window && t.Short != b.Window {
				continue
			}
			limits = append(limits, t.Severity+" above "+format.BurnRate(t.Factor))
			row.Bar.Marks = append(row.Bar.Marks, x(t.Factor))
			row.Over = row.Over || b.HasData && b.Rate > t.Factor
		}
		if b.HasData {
			row.Rate, row.Fast = format.BurnRate(b.Rate), b.Rate > 1
			row.Bar.Width, row.Bar.Class, row.Bar.Label = x(b.Rate), chart.BurnClass(b.Rate), format.BurnRate(b.Rate)
			if len(limits) > 0 {
				row.Bar.Label += ", " + strings.Join(limits, ", ")
			}
		}
		for _, raw := range r.RawBurns {
			if r.Corrected > 0 && raw.Window == b.Window && raw.Period == b.Period && raw.HasData {
				row.RawRate = unlessSame(format.BurnRate(raw.Rate), row.Rate)
			}
		}
		out = append(out, row)
	}
	return out
}

func TierRows(r *sla.SLOReport, tiers []alerts.Tier) []tierRow {
	text := func(b slo.Burn, ok bool) string {
		if !ok {
			return format.NoValue
		}
		return format.BurnRate(b.Rate)
	}
	var out []tierRow
	for _, t := range tiers {
		long, ok1 := condition(r, t.Long, t.Long)
		short, ok2 := condition(r, t.Short, t.Long)
		x := tierRow{
			Kind: t.Severity, Long: slo.FormatDuration(t.Long), Short: slo.FormatDuration(t.Short),
			Share:  format.Percent(t.Share, 0),
			Factor: format.BurnRate(t.Factor), LongRate: text(long, ok1), ShortRate: text(short, ok2),
			Verdict: "below threshold",
		}
		if t.For > 0 {
			x.For = slo.FormatDuration(t.For)
		}
		if !ok1 {
			x.Verdict = "no data"
		}
		if ok1 && ok2 && long.Rate > t.Factor && short.Rate > t.Factor {
			x.On, x.Verdict = true, "firing"
		}
		out = append(out, x)
	}
	return out
}

// Burning reports whether some pair of windows burns faster than its factor.
func Burning(r *sla.SLOReport) bool {
	s := r.SLO
	all := s.Alerting.Tiers
	if len(all) == 0 {
		all = slo.Tiers
	}
	period := s.Window.Nominal()
	for _, t := range all {
		if t.Long >= period || t.Page && s.Alerting.Page.Disabled || !t.Page && s.Alerting.Ticket.Disabled {
			continue
		}
		f := t.Factor(period)
		long, ok1 := condition(r, t.Long, t.Long)
		short, ok2 := condition(r, t.Short, t.Long)
		if ok1 && ok2 && long.Rate > f && short.Rate > f {
			return true
		}
	}
	return false
}

// blindPart is the section about outages that no alert sees.
type blindPart struct {
	None  string // why there is nothing to say
	Zone  string
	Spans []blindspot.Span
}

// newBlindPart is nil for groups that never alert, and while their usual traffic is unknown.
func (ui *Handler) newBlindPart(r *sla.SLOReport, now time.Time) *blindPart {
	if r.Informative || r.Outlook == nil || r.Outlook.Week == nil {
		return nil
	}
	zone, ahead := now.In(history.ZoneOf(r.SLO)).Zone()
	e := ui.blind.get(r.SLO, *r.Outlook.Week)
	if e.why != "" {
		return &blindPart{None: sentence(e.why)}
	}
	return &blindPart{Zone: zone, Spans: blindspot.Spans(e.hours, time.Duration(ahead)*time.Second)}
}

// blindCache keeps the blind spots of groups that were looked at last, which take a tenth of a second to find.
type blindCache struct {
	mu sync.Mutex
	m  map[blindKey]blindEntry
}

// blindKey is all that blind spots follow from. A usual week changes by the hour.
type blindKey struct {
	slo  *slo.SLO
	week forecast.Week
}

type blindEntry struct {
	hours []blindspot.Hour
	why   string
}

// maxBlind bounds the cache, 6 KiB for each entry.
const maxBlind = 500

func (c *blindCache) get(s *slo.SLO, week forecast.Week) blindEntry {
	key := blindKey{s, week}
	c.mu.Lock()
	e, ok := c.m[key]
	c.mu.Unlock()
	if ok {
		return e
	}
	w := blindspot.Week(week)
	e.hours, e.why = blindspot.Find(s, &w)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxBlind {
		c.m = map[blindKey]blindEntry{}
	}
	c.m[key] = e
	return e
}
