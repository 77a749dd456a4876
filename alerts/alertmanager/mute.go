package alertmanager

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/slo"
)

const (
	dayMinutes = 24 * 60
	// maxDates bounds how many occurrences of a recurrence are spelt out by date.
	maxDates = 200
	// maxMuteDays bounds how long one occurrence of a recurrence may be.
	maxMuteDays = 7
)

// muting turns a correction into time intervals. Occurrences are measured by the
// clock on the wall, as Alertmanager does. Those where the clocks change, from and
// until given, are listed by date in addition, so that all of them is muted. The
// hour that the clocks skip or repeat may be muted as well. Seconds are widened to
// whole minutes.
//
// The note, if not empty, says what the reader has to know about the intervals;
// without any intervals it says why there are none.
func muting(c slo.Correction, from, until time.Time) (out []interval, note string) {
	if c.RRule == "" {
		return dated([]slo.Span{{From: c.Start, To: c.Start.Add(c.Duration)}}), ""
	}
	zone, named := zoneName(c.Start)
	r, why := parseRule(c.RRule, c.Start)
	switch {
	case why != "":
	case !named:
		why = "its time zone has no name"
	default:
		if out, ok := r.intervals(c, zone); ok {
			if c.Between != nil && from.Before(until) {
				odd := c.Between(slo.Span{From: from, To: until})
				odd = slices.DeleteFunc(odd, func(s slo.Span) bool { return !atChange(s, c.Start.Location()) })
				out = append(out, dated(odd)...)
			}
			return out, r.early(c)
		}
		why = fmt.Sprintf("it lasts %s past the end of a month, or too long", slo.FormatDuration(c.Duration))
	}
	if c.Between == nil {
		return nil, why
	}
	upper := strings.ToUpper(c.RRule)
	if strings.Contains(upper, "COUNT=") || strings.Contains(upper, "UNTIL=") {
		if all := c.Between(slo.Span{From: c.Start, To: c.Start.AddDate(100, 0, 0)}); len(all) <= maxDates {
			return dated(all), ""
		}
	}
	if from.IsZero() || !from.Before(until) {
		return nil, why
	}
	some := c.Between(slo.Span{From: from, To: until})
	if len(some) > maxDates {
		return nil, fmt.Sprintf("%s, and it happens %d times until %s", why, len(some), until.UTC().Format(time.DateOnly))
	}
	return dated(some),
		fmt.Sprintf(
			"it is listed by date, because Alertmanager can't recur like that (%s). Generate the configuration again before %s",
			why, until.UTC().Format(time.DateOnly))
}

// atChange reports whether the clocks change in a span, or it began at a time that they skip.
func atChange(s slo.Span, zone *time.Location) bool {
	change, _ := s.To.Add(-1).In(zone).ZoneBounds()
	if change.IsZero() {
		return false
	}
	_, before := change.Add(-1).Zone()
	_, after := change.Zone()
	return s.From.Before(change.Add(time.Duration(max(0, after-before)) * time.Second))
}

// early warns of occurrences before the correction begins: intervals begin with a
// year.
func (r *rule) early(c slo.Correction) string {
	for t := time.Date(c.Start.Year(), 1, 1, 12, 0, 0, 0,
		time.UTC); t.YearDay() < c.Start.YearDay(); t = t.AddDate(0, 0, 1) {
		if r.onDay(t) {
			return fmt.Sprintf(
				"it begins on %s, but notifications are muted from the start of that year on, because Alertmanager cannot "+
					"express more than years", c.Start.Format(time.DateOnly))
		}
	}
	return ""
}

// intervals spells a rule by the calendar; ok is false if its length does not let
// it.
func (r rule) intervals(c slo.Correction, zone string) (out []interval, ok bool) {
	seconds := c.Start.Second()
	if c.Start.Nanosecond() > 0 {
		seconds++
	}
	length := ceilMinutes(time.Duration(seconds)*time.Second + c.Duration)
	days := []rule{r}
	for day := 0; len(days) > 0; day++ {
		if day > maxMuteDays {
			return nil, false
		}
		var times []timeRange
		for _, start := range r.times {
			if a, b := start-day*dayMinutes, start+length-day*dayMinutes; b > 0 && a < dayMinutes {
				times = append(times, newTimeRange(max(0, a), min(dayMinutes, b)))
			}
		}
		if len(times) == 0 {
			return out, true
		}
		var next []rule
		for _, d := range days {
			out = append(out, d.interval(times, c.Start.Year(), zone))
		}
		if r.times[len(r.times)-1]+length <= (day+1)*dayMinutes {
			return out, true
		}
		for _, d := range days {
			more, ok := d.next()
			if !ok {
				return nil, false
			}
			next = append(next, more...)
		}
		days = next
	}
	return out, true
}

func (r rule) interval(times []timeRange, year int, zone string) interval {
	iv := interval{Times: times, Location: zone, Years: []string{fmt.Sprintf("%d:9999", year)}}
	if len(times) == 1 && times[0] == newTimeRange(0, dayMinutes) {
		iv.Times = nil // all day
	}
	for _, d := range r.weekdays {
		iv.Weekdays = append(iv.Weekdays, strings.ToLower(d.String()))
	}
	for _, d := range r.days {
		iv.DaysOfMonth = append(iv.DaysOfMonth, numberRange(d.from, d.to))
	}
	for _, m := range r.months {
		iv.Months = append(iv.Months, strconv.Itoa(m))
	}
	return iv
}

// dated spells occurrences by year, month and day, in UTC.
func dated(all []slo.Span) []interval {
	var out []interval
	for _, s := range all {
		from := s.From.UTC().Truncate(time.Minute)
		to := s.To.UTC()
		if t := to.Truncate(time.Minute); t.Before(to) {
			to = t.Add(time.Minute)
		}
		for from.Before(to) {
			midnight := time.Date(from.Year(), from.Month(), from.Day()+1, 0, 0, 0, 0, time.UTC)
			end := midnight
			if to.Before(end) {
				end = to
			}
			last := from // of the days in this interval
			if from.Equal(midnight.AddDate(0, 0, -1)) && end.Equal(midnight) {
				// Whole days of one month make one interval.
				for end.Month() == from.Month() && !end.AddDate(0, 0, 1).After(to) {
					last, end = end, end.AddDate(0, 0, 1)
				}
			}
			iv := interval{
				DaysOfMonth: []string{numberRange(from.Day(), last.Day())},
				Months:      []string{strconv.Itoa(int(from.Month()))},
				Years:       []string{strconv.Itoa(from.Year())},
			}
			a, b := 60*from.Hour()+from.Minute(), 60*end.Hour()+end.Minute()
			if b == 0 {
				b = dayMinutes
			}
			if a > 0 || b < dayMinutes {
				iv.Times = []timeRange{newTimeRange(a, b)}
			}
			out = append(out, iv)
			from = end
		}
	}
	return out
}

func ceilMinutes(d time.Duration) int { return int((d + time.Minute - 1) / time.Minute) }

func numberRange(a, b int) string {
	if a == b {
		return strconv.Itoa(a)
	}
	return fmt.Sprintf("%d:%d", a, b)
}

func newTimeRange(a, b int) timeRange {
	clock := func(m int) string { return fmt.Sprintf("%02d:%02d", m/60, m%60) }
	return timeRange{clock(a), clock(b)}
}

// zoneName is the IANA name of the zone in which a time is given. An offset of
// whole hours has one, too; it counts the other way round.
func zoneName(t time.Time) (name string, ok bool) {
	name = t.Location().String()
	if name == "UTC" {
		return "UTC", true
	}
	if name != "" && name != "Local" {
		if _, err := time.LoadLocation(name); err == nil {
			return name, true
		}
	}
	_, offset := t.Zone()
	switch hours := offset / 3600; {
	case name == "Local" || offset%3600 != 0 || hours < -12 || hours > 14:
		return "", false
	case hours == 0:
		return "UTC", true
	default:
		return fmt.Sprintf("Etc/GMT%+d", -hours), true
	}
}

// mutes finds the time intervals of all corrections, and which of them mute each
// SLO.
type mutes struct {
	intervals []timeInterval
	bySLO     map[slo.ID][]string
	findings  []alerts.Finding
}

func newMutes(slos []*slo.SLO, from, until time.Time) *mutes {
	m := &mutes{bySLO: map[slo.ID][]string{}}
	names := map[string]string{} // by what a correction is
	taken := map[string]bool{}
	for _, s := range slos {
		for _, c := range s.Corrections {
			key := fmt.Sprintf("%s|%q|%d|%d|%q|%q", s.ID.Service(), c.Name, c.Start.UnixNano(), c.Duration,
				c.RRule, c.Start.Location())
			name, seen := names[key]
			if !seen {
				name = m.add(s.ID, c, taken, from, until)
				names[key] = name
			}
			if name != "" && !slices.Contains(m.bySLO[s.ID], name) {
				m.bySLO[s.ID] = append(m.bySLO[s.ID], name)
			}
		}
	}
	for _, list := range m.bySLO {
		slices.Sort(list)
	}
	order.By(m.intervals, func(a, b *timeInterval) int { return strings.Compare(a.Name, b.Name) })
	return m
}

// add makes the time interval of one correction; "" if it has none.
func (m *mutes) add(subject slo.ID, c slo.Correction, taken map[string]bool, from, until time.Time) string {
	list, note := muting(c, from, until)
	if len(list) == 0 {
		if note != "" {
			m.findings = append(m.findings, alerts.Finding{SLO: subject, Severity: alerts.FindingWarning,
				Message: fmt.Sprintf("correction %q does not mute its alerts: Alertmanager's time intervals cannot express %s: %s",
					c.Name, c.RRule, note),
				Hint: "silence the alerts by hand, or let it recur daily, weekly or on days of the month"})
		}
		return ""
	}
	if note != "" {
		m.findings = append(m.findings,
			alerts.Finding{SLO: subject, Severity: alerts.FindingInfo, Message: fmt.Sprintf("correction %q: %s", c.Name, note)})
	}
	base := subject.Service() + ": " + c.Name
	name := base
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s (%d)", base, n)
	}
	taken[name] = true
	m.intervals = append(m.intervals, timeInterval{Name: name, Intervals: list})
	return name
}
