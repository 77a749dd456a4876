package slo

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrDuration is returned for text that is not a duration such as 90s, 1h30m or 30d.
var ErrDuration = errors.New("want a duration such as 250ms, 90s, 5m, 1h30m, 7d or 4w")

var units = []struct {
	name string
	d    time.Duration
}{
	{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
	{"ms", time.Millisecond},
}

// ParseDuration reads a duration in Prometheus' notation, largest unit first:
// 4w, 30d, 1h30m, 250ms. A day is 24 hours. Negative durations are refused.
func ParseDuration(s string) (time.Duration, error) {
	bad := func() (time.Duration, error) { return 0, fmt.Errorf("%q: %w", s, ErrDuration) }
	if s == "0" {
		return 0, nil
	}
	rest, next := s, 0
	var total time.Duration
	for rest != "" {
		n := 0
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		u := n
		for u < len(rest) && rest[u] >= 'a' && rest[u] <= 'z' {
			u++
		}
		v, err := strconv.ParseInt(rest[:n], 10, 64)
		if err != nil {
			return bad()
		}
		for next < len(units) && units[next].name != rest[n:u] {
			next++
		}
		if next == len(units) || v > int64((math.MaxInt64-total)/units[next].d) {
			return bad()
		}
		total += time.Duration(v) * units[next].d
		next++
		rest = rest[u:]
	}
	if s == "" {
		return bad()
	}
	return total, nil
}

// ParseTime reads a time in RFC 3339, in which T and Z may be lower-case.
func ParseTime(s string) (time.Time, error) { return time.Parse(time.RFC3339, strings.ToUpper(s)) }

// FormatDuration prints a duration in the notation of ParseDuration. Whole days
// are days (30d), anything else its largest units (1h30m); less than a
// millisecond is rounded away.
func FormatDuration(d time.Duration) string {
	if d < time.Millisecond {
		return "0s"
	}
	var b strings.Builder
	for _, u := range units[1:] {
		if n := d / u.d; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.d
		}
	}
	return b.String()
}
