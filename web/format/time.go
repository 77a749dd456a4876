package format

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Seconds converts seconds to a duration.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Milliseconds prints seconds as milliseconds, and NoValue for what has not been measured.
func Milliseconds(s float64) string {
	if s <= 0 {
		return NoValue
	}
	return strconv.FormatFloat(s*1000, 'f', 2, 64) + " ms"
}

// Took prints a duration of an event by its two largest units.
func Took(d time.Duration) string {
	switch {
	case d <= 0:
		return "0"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return Duration(d.Round(time.Second))
}

// Minute prints a time to the minute, as short as the day allows.
func Minute(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	y, m, d := t.Date()
	if ny, nm, nd := now.Date(); y == ny && m == nm && d == nd {
		return t.Format("15:04 UTC")
	}
	return t.Format("2006-01-02 15:04 UTC")
}

// Span prints a span to the minute.
func Span(sp slo.Span) string {
	from, to := sp.From.UTC(), sp.To.UTC()
	if from.Format(time.DateOnly) == to.Format(time.DateOnly) {
		return from.Format("2006-01-02 15:04") + " to " + to.Format("15:04 UTC")
	}
	return from.Format("2006-01-02 15:04") + " to " + to.Format("2006-01-02 15:04 UTC")
}

// Duration prints a duration by its two largest units, such as 2d 3h.
func Duration(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	type unit struct {
		d    time.Duration
		name string
	}
	units := []unit{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.d {
			continue
		}
		s := fmt.Sprintf("%d%s", d/u.d, u.name)
		if i+1 < len(units) {
			if rest := d % u.d / units[i+1].d; rest > 0 {
				s += fmt.Sprintf(" %d%s", rest, units[i+1].name)
			}
		}
		return s
	}
	return "0s"
}

// Stamp is a time on a page: machine-readable, exact, and as short as the day allows.
type Stamp struct{ ISO, Text string }

// NewStamp is the stamp of t. A zero time has an empty one.
func NewStamp(t, now time.Time) Stamp {
	if t.IsZero() {
		return Stamp{}
	}
	t, now = t.UTC(), now.UTC()
	layout := "2006-01-02 15:04:05 UTC"
	if y, m, d := t.Date(); y == now.Year() && m == now.Month() && d == now.Day() {
		layout = "15:04:05 UTC"
	}
	return Stamp{ISO: t.Format(time.RFC3339), Text: t.Format(layout)}
}

// Ago prints how long before now t was.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return Duration(now.Sub(t)) + " ago"
}

// Window describes an SLO window, such as "this month" or "last 30 days".
func Window(w slo.Window) string {
	if w.Calendar != "" {
		return "this " + string(w.Calendar)
	}
	const day = 24 * time.Hour
	if w.Rolling >= day && w.Rolling%day == 0 {
		return "last " + Plural(int(w.Rolling/day), "day")
	}
	return "last " + slo.FormatDuration(w.Rolling)
}
