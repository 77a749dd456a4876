package slo

import (
	"fmt"
	"strings"
	"time"
)

// Schedule is a set of weekly open hours in a time zone, such as
// "Mon-Fri 09:00-18:00 Europe/Moscow". The zero Schedule is always open.
type Schedule struct {
	days     [7]bool // by time.Weekday
	from, to int     // minutes since midnight, from < to <= 24*60
	loc      *time.Location
	text     string
}

var weekdays = map[string]time.Weekday{
	"Sun": time.Sunday, "Mon": time.Monday, "Tue": time.Tuesday, "Wed": time.Wednesday,
	"Thu": time.Thursday, "Fri": time.Friday, "Sat": time.Saturday,
}

// ParseSchedule reads "DAYS HH:MM-HH:MM ZONE". DAYS is a comma-separated list of
// Mon..Sun and ranges of them (Fri-Mon wraps over the week's end); ZONE is an
// IANA name. The hours must not pass midnight; 24:00 is the day's end.
func ParseSchedule(s string) (Schedule, error) {
	f := strings.Fields(s)
	if len(f) != 3 {
		return Schedule{}, fmt.Errorf("%q: want open hours such as \"Mon-Fri 09:00-18:00 Europe/Moscow\"", s)
	}
	sc := Schedule{text: strings.Join(f, " ")}
	for part := range strings.SplitSeq(f[0], ",") {
		a, b, ranged := strings.Cut(part, "-")
		if !ranged {
			b = a
		}
		first, ok1 := weekdays[a]
		last, ok2 := weekdays[b]
		if !ok1 || !ok2 {
			return Schedule{}, fmt.Errorf("%q: days are Mon, Tue, Wed, Thu, Fri, Sat, Sun, ranges and lists of them", part)
		}
		for d := first; ; d = (d + 1) % 7 {
			sc.days[d] = true
			if d == last {
				break
			}
		}
	}
	a, b, _ := strings.Cut(f[1], "-")
	var err1, err2 error
	sc.from, err1 = clock(a)
	sc.to, err2 = clock(b)
	if err1 != nil || err2 != nil || sc.from >= sc.to {
		return Schedule{}, fmt.Errorf("%q: want hours such as 09:00-18:00, the second later than the first", f[1])
	}
	loc, err := time.LoadLocation(f[2])
	if err != nil || f[2] == "Local" {
		return Schedule{}, fmt.Errorf("%q: unknown time zone; want an IANA name such as Europe/Moscow or UTC", f[2])
	}
	sc.loc = loc
	return sc, nil
}

func clock(s string) (int, error) {
	if s == "24:00" {
		return 24 * 60, nil
	}
	t, err := time.Parse("15:04", s)
	if err != nil {
		return 0, err
	}
	return t.Hour()*60 + t.Minute(), nil
}

// Always reports whether the schedule has no closed hours.
func (s Schedule) Always() bool { return s.loc == nil }

// Covers reports whether the span lies wholly inside the open hours of one day.
// Where the clocks are set back, both edges are at the first of the two times.
func (s Schedule) Covers(sp Span) bool {
	if s.Always() {
		return true
	}
	t := sp.From.In(s.loc)
	if !s.days[t.Weekday()] {
		return false
	}
	y, m, d := t.Date()
	begin := clockTime(y, m, d, s.from, s.loc)
	end := clockTime(y, m, d, s.to, s.loc)
	return !sp.From.Before(begin) && !sp.To.After(end)
}

// On gives the open hours of the day that t is on; ok is false if the schedule is closed on that day or has no hours.
func (s Schedule) On(t time.Time) (hours Span, ok bool) {
	if s.Always() {
		return Span{}, false
	}
	t = t.In(s.loc)
	if !s.days[t.Weekday()] {
		return Span{}, false
	}
	y, m, d := t.Date()
	return Span{From: clockTime(y, m, d, s.from, s.loc), To: clockTime(y, m, d, s.to, s.loc)}, true
}

// Location is the zone of the hours; nil if the schedule is always open.
func (s Schedule) Location() *time.Location { return s.loc }

// String is the schedule as written; "" if it is always open.
func (s Schedule) String() string { return s.text }
