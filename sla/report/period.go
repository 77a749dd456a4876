package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
)

// Period is an ISO week or a month, in no zone yet.
type Period struct {
	Unit slo.CalendarUnit // slo.Week or slo.Month
	year int              // of a week the ISO year
	n    int              // week 1 to 53, month 1 to 12
}

var periodForm = regexp.MustCompile(`^(\d{4})-(W\d{2}|\d{2})$`)

// ParsePeriod reads a period such as 2026-W47 (an ISO week, from Monday) or 2026-11
// (a month).
func ParsePeriod(s string) (Period, error) {
	m := periodForm.FindStringSubmatch(s)
	if m == nil {
		return Period{}, fmt.Errorf("period %.80q: want an ISO week such as 2026-W47, a month such as 2026-11, or %s", s,
			strings.Join(RelativePeriods, ", "))
	}
	year, _ := strconv.Atoi(m[1]) // the form has digits only
	p := Period{Unit: slo.Month, year: year}
	if m[2][0] == 'W' {
		p.Unit, m[2] = slo.Week, m[2][1:]
	}
	p.n, _ = strconv.Atoi(m[2])
	switch y, w := p.Noon().ISOWeek(); {
	case year < 1970:
		return p, fmt.Errorf("period %s: want a year from 1970 on", s)
	case p.Unit == slo.Month && (p.n < 1 || p.n > 12):
		return p, fmt.Errorf("period %s: want a month from 01 to 12", s)
	case p.Unit == slo.Week && (p.n < 1 || y != year || w != p.n):
		return p, fmt.Errorf("period %s: %d has no such week", s, year)
	}
	return p, nil
}

// RelativePeriods are the names that ResolvePeriod knows besides the forms of ParsePeriod.
var RelativePeriods = []string{"last-week", "this-week", "last-month", "this-month"}

// ResolvePeriod reads a period as ParsePeriod does, or one by its name, such as last-month, as of the date in a zone. A
// nil zone is UTC.
func ResolvePeriod(s string, now time.Time, zone *time.Location) (Period, error) {
	if zone == nil {
		zone = time.UTC
	}
	when, unit, _ := strings.Cut(s, "-")
	if !slices.Contains(RelativePeriods, s) {
		return ParsePeriod(s)
	}
	p := PeriodOf(slo.CalendarUnit(unit), now.In(zone))
	if when == "last" {
		p = p.Shift(-1)
	}
	return p, nil
}

// PeriodOf is the period of a unit that contains the date that a time shows.
func PeriodOf(unit slo.CalendarUnit, t time.Time) Period {
	if unit == slo.Week {
		y, w := t.ISOWeek()
		return Period{unit, y, w}
	}
	return Period{slo.Month, t.Year(), int(t.Month())}
}

// Noon is noon of a day in the middle of the period.
func (p Period) Noon() time.Time {
	if p.Unit == slo.Month {
		return time.Date(p.year, time.Month(p.n), 15, 12, 0, 0, 0, time.UTC)
	}
	jan4 := time.Date(p.year, time.January, 4, 12, 0, 0, 0, time.UTC) // is always in week 1
	monday := jan4.AddDate(0, 0, -(int(jan4.Weekday())+6)%7)
	return monday.AddDate(0, 0, 7*(p.n-1)+3)
}

func (p Period) String() string {
	if p.Unit == slo.Week {
		return fmt.Sprintf("%04d-W%02d", p.year, p.n)
	}
	return fmt.Sprintf("%04d-%02d", p.year, p.n)
}

// Shift is the period n later; earlier for a negative n.
func (p Period) Shift(n int) Period {
	if p.Unit == slo.Week {
		return PeriodOf(p.Unit, p.Noon().AddDate(0, 0, 7*n))
	}
	return PeriodOf(p.Unit, p.Noon().AddDate(0, n, 0))
}

// In is the time of the period in a zone.
func (p Period) In(loc *time.Location) slo.Span {
	y, m, d := p.Noon().Date()
	at := time.Date(y, m, d, 12, 0, 0, 0, loc)
	w := slo.Window{Calendar: p.Unit, Location: loc}
	return slo.Span{From: w.Start(at), To: w.End(at)}
}

// Title is the period in words.
func (p Period) Title() string {
	if p.Unit == slo.Week {
		return fmt.Sprintf("Week %d of %d", p.n, p.year)
	}
	return p.Noon().Format("January 2006")
}

// Dates are the first and the last day in words.
func (p Period) Dates() string {
	sp := p.In(time.UTC)
	last := sp.To.Add(-time.Hour)
	switch {
	case sp.From.Year() != last.Year():
		return sp.From.Format("2 January 2006") + " to " + last.Format("2 January 2006")
	case sp.From.Month() != last.Month():
		return sp.From.Format("2 January") + " to " + last.Format("2 January 2006")
	}
	return sp.From.Format("2") + " to " + last.Format("2 January 2006")
}

// Verdict says how a period went.
type Verdict string

// The verdicts on an objective or an agreement, over the period alone.
const (
	Met         Verdict = "met"
	Breached    Verdict = "breached"
	NoData      Verdict = "no_data"
	Informative Verdict = "informative" // of the group of all others, which was promised nothing
)

// Query is what a report is asked for.
type Query struct {
	Period  Period
	Service string // "" for all
	// service/name of an agreement: it, the SLOs it is made of, and the thresholds of its service; "" for all
	Agreement slo.ID
	Zone      *time.Location // nil: that of each agreement and service level
}

// Report is what happened in a period, by what the engine still keeps of it.
type Report struct {
	Query
	now        time.Time // of the engine's report that it was made with
	Begun      bool      // in the westernmost zone of the report
	Running    bool      // in some zone
	SLOs       []SLO
	SLAs       []SLA
	Thresholds []Threshold
	Incidents  *Incidents // nil: not known
}

// Covered is the part of a period that a line of a report is about.
type Covered struct {
	Zone     *time.Location
	Span     slo.Span  // of the period, up to now
	Running  bool      // the period is not over
	KeptFrom time.Time // later than span.From: what happened before is not kept any more
	Coverage float64   // of span, in [0,1]: the share that was observed, times the share of events that no limit dropped
	NewFrom  time.Time // later than span.From, and perhaps than span.To: nothing was counted before; zero if not new
	Rounded  bool      // a day or planned maintenance begins or ends where counts are kept by the hour only, within one
}

// SLO is one group of an SLO over a period.
type SLO struct {
	Covered
	Now       *sla.SLOReport
	Verdict   Verdict
	Net, Raw  slo.Budget // the budget as if the period were the window; net: without planned maintenance
	Events    uint64     // raw, in events even where slices are judged
	Corrected time.Duration
	Days      []Day
	Worst     int             // index into days of the one that lost most; -1 if nothing was lost
	Ledger    *history.Ledger // nil: the line spent nothing, or less than MaxLedgers others
}

type Day struct {
	Date     string // in the zone
	Net, Raw history.Tally
	Share    float64 // of what the period lost
	Rounded  bool    // as in Covered
}

// SLA is one group of an agreement over a period.
type SLA struct {
	Covered
	sla.SLAReport
	Verdict    Verdict
	Violations sla.Violations // of the event thresholds of its service, of all groups
	Days       []DayScore
}

// Threshold is one event threshold over a period.
type Threshold struct {
	Covered
	Now        *sla.ThresholdReport
	Violations sla.Violations
	Groups     []ThresholdGroup // that there are now, by the threshold's GroupBy; nil without
}

// Worst are the groups with most critical violations in the period, then most warnings; at most n, and none without
// violations.
func (r *Threshold) Worst(n int) []ThresholdGroup {
	out := slices.DeleteFunc(slices.Clone(r.Groups), func(g ThresholdGroup) bool {
		return g.Violations.Critical+g.Violations.Warning == 0
	})
	order.By(out, func(x, y *ThresholdGroup) int {
		return cmp.Or(cmp.Compare(y.Violations.Critical, x.Violations.Critical),
			cmp.Compare(y.Violations.Warning, x.Violations.Warning))
	})
	return out[:min(n, len(out))]
}

// ThresholdGroup is one group of an event threshold over a period.
type ThresholdGroup struct {
	Group      slo.Group
	Violations sla.Violations
}
