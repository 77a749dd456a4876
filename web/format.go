package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sloengine/sloengine/slo"
)

// noValue stands where a number would be if there were data.
const noValue = "–"

// Lengths, in characters, to which untrusted text is cut on pages.
const (
	shownName  = 80
	shownTitle = 200
	shownText  = 600
)

// show makes untrusted text readable: control characters and those that change
// the direction of text or have no width become \u{..} escapes, broken UTF-8
// becomes \xNN, and what is longer than limit characters is cut.
func show(s string, limit int) string {
	var b strings.Builder
	n := 0
	for i := 0; i < len(s); n++ {
		if n == limit {
			b.WriteString("…")
			break
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.Is(unicode.Cf, r) || unicode.IsControl(r) || r == '\u2028' || r == '\u2029':
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// groupValue is how one value of a group is shown to people.
func groupValue(v string) string {
	switch v {
	case "":
		return slo.None
	case slo.OtherGroup:
		return "(all others)"
	}
	return show(v, shownName)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// percent prints a ratio as a percentage, rounded down so that 99.9996 never
// reads as 100.
func percent(x float64, decimals int) string {
	if !finite(x) {
		return noValue
	}
	p := math.Pow(10, float64(decimals))
	v := math.Floor(x*100*p+1e-6) / p
	if v == 0 {
		v = 0 // never "-0"
	}
	return group(strconv.FormatFloat(v, 'f', decimals, 64)) + "%"
}

// sliDecimals is how many decimals an indicator needs to be compared with its
// objective.
func sliDecimals(o slo.Objective) int {
	_, frac, _ := strings.Cut(o.Percent(), ".")
	return max(2, len(frac)+2)
}

// times prints a burn rate, such as 14.4×.
func times(x float64) string {
	switch {
	case !finite(x):
		return noValue
	case x == 0:
		return "0×"
	case x < 0.01:
		return "<0.01×"
	case x < 10:
		return strconv.FormatFloat(x, 'f', 2, 64) + "×"
	case x < 100:
		return strconv.FormatFloat(x, 'f', 1, 64) + "×"
	}
	return group(strconv.FormatFloat(x, 'f', 0, 64)) + "×"
}

// group puts thousands separators into a decimal number.
func group(s string) string {
	sign, rest := "", s
	if strings.HasPrefix(s, "-") {
		sign, rest = "−", s[1:]
	}
	whole, frac, point := strings.Cut(rest, ".")
	var b strings.Builder
	for i, r := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	if point {
		b.WriteString("." + frac)
	}
	return sign + b.String()
}

func count(n uint64) string { return group(strconv.FormatUint(n, 10)) }

// compact prints a count in at most five characters, such as 1.23M.
func compact(n uint64) string {
	if n < 10_000 {
		return count(n)
	}
	x, unit := float64(n), ""
	for _, u := range []string{"k", "M", "G", "T", "P", "E"} {
		x, unit = x/1000, u
		if x < 999.5 {
			break
		}
	}
	switch {
	case x < 9.995:
		return strconv.FormatFloat(x, 'f', 2, 64) + unit
	case x < 99.95:
		return strconv.FormatFloat(x, 'f', 1, 64) + unit
	}
	return strconv.FormatFloat(x, 'f', 0, 64) + unit
}

// perTime prints events per second in the unit that reads best.
func perTime(x float64) string {
	switch {
	case !finite(x) || x <= 0:
		return "0/s"
	case x >= 1000:
		return compact(uint64(x)) + "/s"
	case x >= 1:
		return strconv.FormatFloat(x, 'f', 1, 64) + "/s"
	case x*60 >= 1:
		return strconv.FormatFloat(x*60, 'f', 1, 64) + "/min"
	}
	return strconv.FormatFloat(x*3600, 'f', 1, 64) + "/h"
}

// size prints bytes in binary units.
func size(n uint64) string {
	if n < 1024 {
		return strconv.FormatUint(n, 10) + " B"
	}
	x, unit := float64(n), ""
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		x, unit = x/1024, u
		if x < 1023.5 {
			break
		}
	}
	return strconv.FormatFloat(x, 'f', 1, 64) + " " + unit
}

// span prints a duration by its two largest units, such as 2d 3h.
func span(d time.Duration) string {
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

// stamp is a time on a page: machine-readable, exact, and as short as the day allows.
type stamp struct{ ISO, Text string }

func newStamp(t, now time.Time) stamp {
	if t.IsZero() {
		return stamp{}
	}
	t, now = t.UTC(), now.UTC()
	layout := "2006-01-02 15:04:05 UTC"
	if y, m, d := t.Date(); y == now.Year() && m == now.Month() && d == now.Day() {
		layout = "15:04:05 UTC"
	}
	return stamp{ISO: t.Format(time.RFC3339), Text: t.Format(layout)}
}
