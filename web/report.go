package web

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// reportPeriod is an ISO week or a month, in no zone yet.
type reportPeriod struct {
	unit slo.CalendarUnit // slo.Week or slo.Month
	year int              // of a week the ISO year
	n    int              // week 1 to 53, month 1 to 12
}

var periodForm = regexp.MustCompile(`^(\d{4})-(W\d{2}|\d{2})$`)

// parsePeriod reads a period such as 2026-W47 (an ISO week, from Monday) or 2026-11
// (a month).
func parsePeriod(s string) (reportPeriod, error) {
	m := periodForm.FindStringSubmatch(s)
	if m == nil {
		return reportPeriod{}, fmt.Errorf("period %q: want an ISO week such as 2026-W47, or a month such as 2026-11", format.Safe(s, format.MaxName))
	}
	year, _ := strconv.Atoi(m[1]) // the form has digits only
	p := reportPeriod{unit: slo.Month, year: year}
	if m[2][0] == 'W' {
		p.unit, m[2] = slo.Week, m[2][1:]
	}
	p.n, _ = strconv.Atoi(m[2])
	switch y, w := p.noon().ISOWeek(); {
	case year < 1970:
		return p, fmt.Errorf("period %s: want a year from 1970 on", s)
	case p.unit == slo.Month && (p.n < 1 || p.n > 12):
		return p, fmt.Errorf("period %s: want a month from 01 to 12", s)
	case p.unit == slo.Week && (p.n < 1 || y != year || w != p.n):
		return p, fmt.Errorf("period %s: %d has no such week", s, year)
	}
	return p, nil
}

// periodOf is the period of a unit that contains the date that a time shows.
func periodOf(unit slo.CalendarUnit, t time.Time) reportPeriod {
	if unit == slo.Week {
		y, w := t.ISOWeek()
		return reportPeriod{unit, y, w}
	}
	return reportPeriod{slo.Month, t.Year(), int(t.Month())}
}

// noon is noon of a day in the middle of the period.
func (p reportPeriod) noon() time.Time {
	if p.unit == slo.Month {
		return time.Date(p.year, time.Month(p.n), 15, 12, 0, 0, 0, time.UTC)
	}
	jan4 := time.Date(p.year, time.January, 4, 12, 0, 0, 0, time.UTC) // is always in week 1
	monday := jan4.AddDate(0, 0, -(int(jan4.Weekday())+6)%7)
	return monday.AddDate(0, 0, 7*(p.n-1)+3)
}

func (p reportPeriod) String() string {
	if p.unit == slo.Week {
		return fmt.Sprintf("%04d-W%02d", p.year, p.n)
	}
	return fmt.Sprintf("%04d-%02d", p.year, p.n)
}

// shift is the period n later; earlier for a negative n.
func (p reportPeriod) shift(n int) reportPeriod {
	if p.unit == slo.Week {
		return periodOf(p.unit, p.noon().AddDate(0, 0, 7*n))
	}
	return periodOf(p.unit, p.noon().AddDate(0, n, 0))
}

// in is the time of the period in a zone.
func (p reportPeriod) in(loc *time.Location) slo.Span {
	y, m, d := p.noon().Date()
	at := time.Date(y, m, d, 12, 0, 0, 0, loc)
	w := slo.Window{Calendar: p.unit, Location: loc}
	return slo.Span{From: w.Start(at), To: w.End(at)}
}

// title is the period in words.
func (p reportPeriod) title() string {
	if p.unit == slo.Week {
		return fmt.Sprintf("Week %d of %d", p.n, p.year)
	}
	return p.noon().Format("January 2006")
}

// dates are the first and the last day in words.
func (p reportPeriod) dates() string {
	sp := p.in(time.UTC)
	last := sp.To.Add(-time.Hour)
	switch {
	case sp.From.Year() != last.Year():
		return sp.From.Format("2 January 2006") + " to " + last.Format("2 January 2006")
	case sp.From.Month() != last.Month():
		return sp.From.Format("2 January") + " to " + last.Format("2 January 2006")
	}
	return sp.From.Format("2") + " to " + last.Format("2 January 2006")
}

// verdict says how a period went.
type verdict string

const (
	attained    verdict = "attained"
	missed      verdict = "missed"
	noData      verdict = "no_data"
	informative verdict = "informative" // of the group of all others, which was promised nothing
)

func (v verdict) mark() mark {
	switch v {
	case attained:
		return mark{"ok", "attained"}
	case missed:
		return mark{"bad", "missed"}
	case informative:
		return mark{"none", "informs only"}
	}
	return mark{"none", "no data"}
}

// reportAsk is what a report is asked for.
type reportAsk struct {
	period  reportPeriod
	service string         // "" for all
	zone    *time.Location // nil: that of each agreement and service level
}

// periodReport is what happened in a period, by what the engine still keeps of it.
type periodReport struct {
	reportAsk
	now     time.Time // of the engine's report that it was made with
	begun   bool      // in the westernmost zone of the report
	running bool      // in some zone
	slos    []sloResult
	slas    []slaResult
	limits  []limitResult
}

// covered is the part of a period that a line of a report is about.
type covered struct {
	zone     *time.Location
	span     slo.Span  // of the period, up to now
	running  bool      // the period is not over
	keptFrom time.Time // later than span.From: what happened before is not kept any more
	coverage float64   // of span, in [0,1]: the share that was observed, times the share of events that no limit dropped
}

// sloResult is one group of an SLO over a period.
type sloResult struct {
	covered
	now       *sla.SLOReport
	verdict   verdict
	net, raw  slo.Budget // the budget as if the period were the window; net: without planned maintenance
	events    uint64     // raw, in events even where slices are judged
	corrected time.Duration
	days      []dayResult
	worst     int // index into days of the one that lost most; -1 if nothing was lost
}

type dayResult struct {
	date     string // in the zone
	net, raw history.Tally
	share    float64 // of what the period lost
}

// slaResult is one group of an agreement over a period.
type slaResult struct {
	covered
	sla.SLAReport
	verdict    verdict
	violations sla.Violations // of the limits of its service, of all groups
	days       []dayScore
}

// limitResult is one limit over a period.
type limitResult struct {
	covered
	now        *sla.LimitReport
	violations sla.Violations
}
