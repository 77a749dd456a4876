package spec

import (
	"regexp"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/slo"
)

var shorthandPattern = regexp.MustCompile(`^([0-9]{1,5})([mhdwMQY])$`)

// longUnits are those whose length the calendar decides.
var longUnits = map[string]struct {
	nominal time.Duration
	unit    slo.CalendarUnit
}{
	"M": {30 * day, slo.Month}, "Q": {90 * day, slo.Quarter}, "Y": {365 * day, slo.Year},
}

// shorthand reads OpenSLO's durations: 12h, 4w, and 1M, 1Q and 1Y as 30, 90 and
// 365 days. It takes those of this program too.
func (v *value) shorthand(lo, hi time.Duration) (time.Duration, bool) {
	m := shorthandPattern.FindStringSubmatch(v.n.Value)
	if m == nil {
		return v.duration(lo, hi)
	}
	long, ok := longUnits[m[2]]
	if !ok {
		return v.duration(lo, hi)
	}
	n, _ := strconv.Atoi(m[1])
	d := time.Duration(n) * long.nominal
	if d < lo || d > hi {
		v.errorf("", "%s: want %s to %s, got %s", v.what, slo.FormatDuration(lo), slo.FormatDuration(hi), v.n.Value)
		return 0, false
	}
	v.warnf("write "+slo.FormatDuration(d), "%s: %s is taken as %s", v.what, v.n.Value, slo.FormatDuration(d))
	return d, true
}

// openWindow reads the one window of timeWindow.
func (o *object) openWindow() slo.Window {
	usual := slo.Window{Rolling: defaultWindow}
	if !o.has("timeWindow") && !o.meant["timeWindow"] {
		o.warnf("add `timeWindow: [{duration: 30d, isRolling: true}]`", "%s: timeWindow is missing; 30d is taken", o.what)
		return usual
	}
	v := o.get("timeWindow")
	if v == nil {
		return usual
	}
	items, ok := v.list()
	if !ok {
		return usual
	}
	if len(items) != 1 {
		v.errorf("write an SLO for each", "timeWindow: want exactly one, got %d", len(items))
		return usual
	}
	w := items[0].object("duration", "isRolling", "calendar")
	if w == nil {
		return usual
	}
	d := w.need("duration", "say how long it is, such as `duration: 30d`")
	if d == nil {
		return usual
	}
	rolling := !w.has("calendar")
	if r := w.get("isRolling"); r != nil {
		rolling = r.bool()
		switch {
		case rolling && w.has("calendar"):
			r.errorf("remove calendar, or write `isRolling: false`", "timeWindow: a rolling window has no calendar")
			return usual
		case !rolling && !w.has("calendar"):
			r.errorf("add `calendar: {startTime: ..., timeZone: ...}`", "timeWindow: a window that does not roll needs a calendar")
			return usual
		}
	}
	if rolling {
		if d, ok := d.shorthand(minWindow, maxWindow); ok {
			return slo.Window{Rolling: d}
		}
		return usual
	}
	if c := w.get("calendar"); c != nil {
		if win, ok := c.openCalendar(d); ok {
			return win
		}
	}
	return usual
}

// openCalendar reads a window that begins at startTime and again after each
// duration. Days, weeks, months, quarters and years that begin where those of the
// calendar do can be had.
func (v *value) openCalendar(duration *value) (slo.Window, bool) {
	o := v.object("startTime", "timeZone")
	if o == nil {
		return slo.Window{}, false
	}
	loc, ok := time.UTC, false
	if z := o.need("timeZone", "say whose midnight is meant, such as `timeZone: UTC`"); z != nil {
		loc, ok = z.zone()
	}
	start := o.need("startTime", "say when one begins, such as `startTime: 2026-01-01 00:00:00`")
	if start == nil || !ok {
		return slo.Window{}, false
	}
	text, ok := start.text()
	if !ok {
		return slo.Window{}, false
	}
	var t time.Time
	var err error
	for _, layout := range []string{time.DateTime, "2006-01-02T15:04:05", time.RFC3339, time.DateOnly} {
		if t, err = time.Parse(layout, text); err == nil {
			break
		}
	}
	if err != nil {
		start.errorf("write it such as 2026-01-01 00:00:00", "startTime: %q is not a time", clip(text))
		return slo.Window{}, false
	}
	unit, ok := duration.calendarUnit()
	if !ok {
		return slo.Window{}, false
	}
	if h, m, s := t.Clock(); h != 0 || m != 0 || s != 0 {
		start.errorf("let it begin at 00:00:00", "startTime: windows begin at midnight here")
		return slo.Window{}, false
	}
	fits, hint := true, ""
	switch unit {
	case slo.Week:
		fits, hint = t.Weekday() == time.Monday, "let it begin on a Monday"
	case slo.Month:
		fits, hint = t.Day() == 1, "let it begin on the first day of a month"
	case slo.Quarter:
		fits, hint = t.Day() == 1 && t.Month()%3 == 1, "let it begin on the first of January, April, July or October"
	case slo.Year:
		fits, hint = t.YearDay() == 1, "let it begin on the first of January"
	}
	if !fits {
		start.errorf(hint, "startTime: a %s of the calendar does not begin on %s", unit, t.Format(time.DateOnly))
		return slo.Window{}, false
	}
	return slo.Window{Calendar: unit, Location: loc}, true
}

// calendarUnit reads a duration that is a unit of the calendar.
func (v *value) calendarUnit() (slo.CalendarUnit, bool) {
	if s, ok := v.text(); ok {
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
		v.errorf("take 1d, 1w, 1M, 1Q or 1Y, or a rolling window", "duration: a window of %s does not fit the calendar", printable(clip(s)))
	}
	return "", false
}
