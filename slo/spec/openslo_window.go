package spec

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

var shorthandPattern = regexp.MustCompile(`^([0-9]{1,5})([mhdwMQY])$`)

// longUnits are those whose length the calendar decides.
var longUnits = map[string]slo.CalendarUnit{"M": slo.Month, "Q": slo.Quarter, "Y": slo.Year}

// readShorthand reads OpenSLO's durations: 12h, 4w, and 1M, 1Q and 1Y by the nominal
// length of such a window. It also reads the durations of this program's own format.
func readShorthand(v *yamldoc.Value, lo, hi time.Duration) (time.Duration, bool) {
	m := shorthandPattern.FindStringSubmatch(v.Raw())
	if m == nil {
		return readDuration(v, lo, hi)
	}
	unit, ok := longUnits[m[2]]
	if !ok {
		return readDuration(v, lo, hi)
	}
	n, _ := strconv.Atoi(m[1])
	d := time.Duration(n) * slo.Window{Calendar: unit}.Nominal()
	if d < lo || d > hi {
		v.Errorf("", "%s: want %s to %s, got %s", v.What, slo.FormatDuration(lo), slo.FormatDuration(hi), v.Raw())
		return 0, false
	}
	v.Warnf("write "+slo.FormatDuration(d), "%s: %s is converted to %s", v.What, v.Raw(), slo.FormatDuration(d))
	return d, true
}

// openWindow reads the one window of timeWindow.
func readOpenWindow(o *yamldoc.Object) slo.Window {
	usual := slo.Window{Rolling: defaultWindow}
	if !o.Has("timeWindow") && !o.Meant("timeWindow") {
		o.Warnf("add `timeWindow: [{duration: 30d, isRolling: true}]`", "%s: timeWindow is missing, assuming 30d", o.What)
		return usual
	}
	v := o.Get("timeWindow")
	if v == nil {
		return usual
	}
	items, ok := v.List()
	if !ok {
		return usual
	}
	if len(items) != 1 {
		v.Errorf("write an SLO for each", "timeWindow: want exactly one, got %d", len(items))
		return usual
	}
	w := items[0].Object("duration", "isRolling", "calendar")
	if w == nil {
		return usual
	}
	d := w.Need("duration", "set its length, such as `duration: 30d`")
	if d == nil {
		return usual
	}
	rolling := !w.Has("calendar")
	if r := w.Get("isRolling"); r != nil {
		rolling = r.Bool()
		switch {
		case rolling && w.Has("calendar"):
			r.Errorf("remove calendar, or write `isRolling: false`", "timeWindow: a rolling window has no calendar")
			return usual
		case !rolling && !w.Has("calendar"):
			r.Errorf("add `calendar: {startTime: ..., timeZone: ...}`", "timeWindow: a window that is not rolling requires a calendar")
			return usual
		}
	}
	if rolling {
		if d, ok := readShorthand(d, minWindow, maxWindow); ok {
			return slo.Window{Rolling: d}
		}
		return usual
	}
	if c := w.Get("calendar"); c != nil {
		if win, ok := readOpenCalendar(c, d); ok {
			return win
		}
	}
	return usual
}

// openCalendar reads a window that begins at startTime and again after each
// duration. Days, weeks, months, quarters and years that begin where those of the
// calendar do can be had.
func readOpenCalendar(v *yamldoc.Value, duration *yamldoc.Value) (slo.Window, bool) {
	o := v.Object("startTime", "timeZone")
	if o == nil {
		return slo.Window{}, false
	}
	loc, ok := time.UTC, false
	if z := o.Need("timeZone", "set the time zone in which days begin, such as `timeZone: UTC`"); z != nil {
		loc, ok = z.Zone()
	}
	start := o.Need("startTime", "set the start of a window, such as `startTime: 2026-01-01 00:00:00`")
	if start == nil || !ok {
		return slo.Window{}, false
	}
	text, ok := start.Text()
	if !ok {
		return slo.Window{}, false
	}
	var t time.Time
	var err error
	for _, layout := range []string{time.DateTime, "2006-01-02T15:04:05", time.RFC3339, time.DateOnly} {
		if t, err = time.Parse(layout, strings.ToUpper(text)); err == nil {
			break
		}
	}
	if err != nil {
		start.Errorf("write it as in 2026-01-01 00:00:00", "startTime: %q is not a time", yamldoc.Clip(text))
		return slo.Window{}, false
	}
	unit, ok := readCalendarUnit(duration)
	if !ok {
		return slo.Window{}, false
	}
	if h, m, s := t.Clock(); h != 0 || m != 0 || s != 0 {
		start.Errorf("use a start at 00:00:00", "startTime: calendar windows must begin at midnight")
		return slo.Window{}, false
	}
	fits, hint := true, ""
	switch unit {
	case slo.Week:
		fits, hint = t.Weekday() == time.Monday, "use a start on a Monday"
	case slo.Month:
		fits, hint = t.Day() == 1, "use a start on the first day of a month"
	case slo.Quarter:
		fits, hint = t.Day() == 1 && t.Month()%3 == 1, "use a start on January 1, April 1, July 1 or October 1"
	case slo.Year:
		fits, hint = t.YearDay() == 1, "use a start on January 1"
	}
	if !fits {
		start.Errorf(hint, "startTime: a %s of the calendar does not begin on %s", unit, t.Format(time.DateOnly))
		return slo.Window{}, false
	}
	return slo.Window{Calendar: unit, Location: loc}, true
}

// calendarUnit reads a duration that is a unit of the calendar.
func readCalendarUnit(v *yamldoc.Value) (slo.CalendarUnit, bool) {
	if s, ok := v.Text(); ok {
		switch s {
		case "1d":
			return slo.Day, true
		case "1w", "7d":
			return slo.Week, true
		case "1M":
			return slo.Month, true
		case "1Q", "3M":
			return slo.Quarter, true
		case "1Y", "12M":
			return slo.Year, true
		}
		v.Errorf("use 1d, 1w, 1M, 1Q or 1Y, or a rolling window", "duration: %s is not a calendar window", yamldoc.Printable(yamldoc.Clip(s)))
	}
	return "", false
}
