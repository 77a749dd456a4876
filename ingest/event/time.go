package event

import (
	"math"
	"time"
)

// ParseTime reads an RFC 3339 time such as 2026-11-20T09:00:00.123+03:00 as
// Unix nanoseconds. T and Z may be lower-case, any number of fractional digits may
// follow (those beyond the ninth are cut off), and a leap second, which is the last
// of a day in UTC, counts as the second before it.
// Times that int64 cannot hold become its least or greatest value.
func ParseTime(b []byte) (ns int64, ok bool) {
	// 2006-01-02T15:04:05Z
	// 0123456789012345678
	if len(b) < 20 || b[4] != '-' || b[7] != '-' || b[10]|0x20 != 't' || b[13] != ':' || b[16] != ':' {
		return 0, false
	}
	high, ok1 := twoDigits(b[0:2])
	low, ok2 := twoDigits(b[2:4])
	month, ok3 := twoDigits(b[5:7])
	day, ok4 := twoDigits(b[8:10])
	hour, ok5 := twoDigits(b[11:13])
	minute, ok6 := twoDigits(b[14:16])
	second, ok7 := twoDigits(b[17:19])
	year := high*100 + low
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7) ||
		month < 1 || month > 12 || day < 1 || day > daysIn(year, month) ||
		hour > 23 || minute > 59 || second > 60 {
		return 0, false
	}
	leap := second == 60
	if leap {
		second = 59
	}
	i, fraction := 19, 0
	if b[i] == '.' {
		i++
		from, unit := i, 100_000_000
		for ; i < len(b) && isDigit(b[i]); i++ {
			fraction += int(b[i]-'0') * unit
			unit /= 10
		}
		if i == from {
			return 0, false
		}
	}
	offset, ok := parseOffset(b[i:])
	if !ok {
		return 0, false
	}
	seconds := int64(daysSinceEpoch(year, month, day))*86400 + int64(hour*3600+minute*60+second-offset)
	if leap && (seconds+1)%86400 != 0 {
		return 0, false
	}
	return unixNano(seconds, int64(fraction)), true
}

// parseOffset reads Z or an offset such as +03:00, as seconds east of UTC.
func parseOffset(b []byte) (seconds int, ok bool) {
	if len(b) == 1 && b[0]|0x20 == 'z' {
		return 0, true
	}
	if len(b) != 6 || b[0] != '+' && b[0] != '-' || b[3] != ':' {
		return 0, false
	}
	hours, ok1 := twoDigits(b[1:3])
	minutes, ok2 := twoDigits(b[4:6])
	if !ok1 || !ok2 || hours > 23 || minutes > 59 {
		return 0, false
	}
	seconds = hours*3600 + minutes*60
	if b[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

func twoDigits(b []byte) (n int, ok bool) {
	return int(b[0]-'0')*10 + int(b[1]-'0'), isDigit(b[0]) && isDigit(b[1])
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// daysSinceEpoch counts the days from 1970-01-01 in the Gregorian calendar. It
// lets the year begin in March, so that the leap day comes last.
func daysSinceEpoch(year, month, day int) int {
	year += 400 // keeps the divisions below on positive numbers
	if month <= 2 {
		year--
		month += 12
	}
	const toEpoch = 719468 + 400*365 + 97
	return year*365 + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - toEpoch
}

func unixNano(seconds, fraction int64) int64 {
	switch {
	case seconds > math.MaxInt64/1_000_000_000-1:
		return math.MaxInt64
	case seconds < math.MinInt64/1_000_000_000+1:
		return math.MinInt64
	}
	return seconds*1_000_000_000 + fraction
}

const (
	leastMillis = 100_000_000_000     // numbers from here on are milliseconds: 1e11 s is the year 5138
	leastMicros = 100_000_000_000_000 // and from here on cannot be meant: 1e14 ms is the year 5138 too
)

// parseUnix reads a number of Unix seconds, or of milliseconds from 1e11 on, as
// nanoseconds, rounded to the nearest.
func parseUnix(text []byte) (ns int64, ok bool) {
	scale := 9
	if whole := parseDecimal(text, 0); !whole.ok || whole.whole >= leastMicros {
		return 0, false
	} else if whole.whole >= leastMillis {
		scale = 6
	}
	d := parseDecimal(text, scale)
	n := int64(math.MaxInt64)
	if d.ok && d.rounded() < math.MaxInt64 {
		n = int64(d.rounded())
	}
	if d.negative {
		return -n, true
	}
	return n, true
}

// parseSpan reads a duration whose unit is 10^scale nanoseconds: scale 6
// for milliseconds, 9 for seconds. It is refused if negative or beyond MaxDuration.
func parseSpan(text []byte, scale int) (ns int64, ok bool) {
	if ns, ok := parseDigits(text, scale); ok {
		return ns, ns <= int64(MaxDuration)
	}
	d := parseDecimal(text, scale)
	if !d.ok || d.rounded() > uint64(MaxDuration) || d.negative && !(d.whole == 0 && d.exact) {
		return 0, false
	}
	return int64(d.rounded()), true
}

// parseDigits is parseDecimal for the most common form: up to nine digits and nothing else, with a
// scale of at most 9.
func parseDigits(text []byte, scale int) (v int64, ok bool) {
	if len(text) > 9 {
		return 0, false
	}
	for _, c := range text {
		if !isDigit(c) {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return v * int64(pow10[scale]), true
}

// shownTime is the time of the event as errors say it. One that int64 cannot hold is shown as
// it was sent.
func (d *Decoder) shownTime() string {
	if d.f.farTime != nil {
		return quote(d.f.farTime)
	}
	return showTime(d.f.time)
}

func showTime(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339) }
