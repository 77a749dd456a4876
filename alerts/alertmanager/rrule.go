package alertmanager

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rule is a recurrence as far as it can be said in weekdays, days of the month
// and months. An empty list means any.
type rule struct {
	weekdays []time.Weekday
	days     []dayRange // of the month; negative ones count from its end
	months   []int
	times    []int // minutes of the day at which it starts
}

// dayRange is a range of days of the month, both ends included; both are positive
// or both negative.
type dayRange struct{ from, to int }

// parseRule reads an RFC 5545 rule that recurs from start, in whose zone it is
// meant. The reason says why a rule can't be told by the calendar alone; "" means
// that it can.
func parseRule(text string, start time.Time) (r rule, reason string) {
	parts := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimPrefix(text, "RRULE:"), ";") {
		if part == "" {
			continue
		}
		k, v, _ := strings.Cut(part, "=")
		parts[strings.ToUpper(k)] = strings.ToUpper(v)
	}
	take := func(k string) string {
		v := parts[k]
		delete(parts, k)
		return v
	}
	freq := take("FREQ")
	take("WKST") // matters with an interval only
	if n := take("INTERVAL"); n != "" && n != "1" {
		return r, "it happens only every " + n + " periods (INTERVAL)"
	}
	hours, minutes := numbers(take("BYHOUR")), numbers(take("BYMINUTE"))
	r.months = numbers(take("BYMONTH"))
	byday, bymonthday := take("BYDAY"), numbers(take("BYMONTHDAY"))
	if s := take("BYSECOND"); s != "" && s != "0" {
		return r, "it counts seconds (BYSECOND)"
	}
	for _, k := range []string{"COUNT", "UNTIL"} {
		if parts[k] != "" {
			return r, "it ends some day (" + k + ")"
		}
	}
	for k := range parts {
		return r, "of its " + k
	}
	slices.Sort(r.months)
	for _, d := range bymonthday {
		r.days = append(r.days, dayRange{d, d})
	}
	r.starts(hours, minutes, start)

	var ordinals []dayRange
	for item := range strings.SplitSeq(byday, ",") {
		if item == "" {
			continue
		}
		day, n, ok := weekday(item)
		if !ok {
			return r, "BYDAY=" + item + " is not understood"
		}
		if !slices.Contains(r.weekdays, day) {
			r.weekdays = append(r.weekdays, day)
		}
		if n != 0 {
			ordinals = append(ordinals, nth(n))
		}
	}
	slices.Sort(r.weekdays)
	switch freq {
	case "DAILY", "WEEKLY":
		if len(ordinals) > 0 {
			return r, "BYDAY counts weekdays, which means nothing in " + freq
		}
		if freq == "WEEKLY" && len(r.weekdays) == 0 && len(r.days) == 0 {
			r.weekdays = []time.Weekday{start.Weekday()}
		}
	case "MONTHLY", "YEARLY":
		if freq == "YEARLY" && len(r.months) == 0 {
			if byday != "" && len(ordinals) > 0 {
				return r, "it counts the weekdays of a year"
			}
			if byday == "" && len(bymonthday) == 0 {
				r.months = []int{int(start.Month())}
			}
		}
		if byday == "" && len(bymonthday) == 0 {
			r.days = []dayRange{{start.Day(), start.Day()}}
		}
		if len(ordinals) > 0 {
			if len(bymonthday) > 0 {
				return r, "it has both BYMONTHDAY and counted weekdays"
			}
			// 1SU,2MO would need a pair of its own for each weekday.
			if len(r.weekdays) > 1 && !sameOrdinals(byday) {
				return r, "it counts several weekdays differently"
			}
			for _, d := range ordinals {
				if !slices.Contains(r.days, d) {
					r.days = append(r.days, d)
				}
			}
		}
	default:
		return r, "of FREQ=" + freq
	}
	for _, d := range r.days {
		if d.from == 0 || d.from < -31 || d.from > 31 {
			return r, fmt.Sprintf("%d is no day of a month", d.from)
		}
	}
	return r, ""
}

// starts sets the times of the day. BYHOUR and BYMINUTE replace parts of the start.
func (r *rule) starts(hours, minutes []int, start time.Time) {
	if len(hours) == 0 {
		hours = []int{start.Hour()}
	}
	if len(minutes) == 0 {
		minutes = []int{start.Minute()}
	}
	for _, h := range hours {
		for _, m := range minutes {
			r.times = append(r.times, 60*h+m)
		}
	}
	slices.Sort(r.times)
	r.times = slices.Compact(r.times)
}

func numbers(list string) []int {
	var out []int
	for s := range strings.SplitSeq(list, ",") {
		if n, err := strconv.Atoi(s); err == nil && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

var dayNames = []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}

// weekday splits -1SU into Sunday and -1; n is 0 without a number.
func weekday(s string) (day time.Weekday, n int, ok bool) {
	if len(s) < 2 {
		return 0, 0, false
	}
	i := slices.Index(dayNames, s[len(s)-2:])
	if i < 0 {
		return 0, 0, false
	}
	if num := s[:len(s)-2]; num != "" {
		v, err := strconv.Atoi(num)
		if err != nil || v == 0 || v < -5 || v > 5 {
			return 0, 0, false
		}
		n = v
	}
	return time.Weekday(i), n, true
}

// nth is where the n-th weekday of a month lies: the first within the days 1 to 7.
func nth(n int) dayRange {
	if n > 0 {
		return dayRange{7*n - 6, min(31, 7*n)}
	}
	return dayRange{max(-31, 7*n), 7*n + 6}
}

// sameOrdinals reports whether every weekday of a list is counted alike, so that
// the product of weekdays and days says the same as the list.
func sameOrdinals(byday string) bool {
	per := map[time.Weekday][]int{}
	for item := range strings.SplitSeq(byday, ",") {
		d, n, _ := weekday(item)
		per[d] = append(per[d], n)
	}
	var first []int
	for _, ns := range per {
		slices.Sort(ns)
		ns = slices.Compact(ns)
		if first == nil {
			first = ns
		}
		if !slices.Equal(first, ns) {
			return false
		}
	}
	return !slices.Contains(first, 0) // a plain weekday is in every week
}

// onDay reports whether the rule recurs on the day of t.
func (r *rule) onDay(t time.Time) bool {
	if len(r.months) > 0 && !slices.Contains(r.months, int(t.Month())) {
		return false
	}
	if len(r.weekdays) > 0 && !slices.Contains(r.weekdays, t.Weekday()) {
		return false
	}
	if len(r.days) == 0 {
		return true
	}
	last := time.Date(t.Year(), t.Month()+1, 0, 12, 0, 0, 0, time.UTC).Day()
	return slices.ContainsFunc(r.days, func(d dayRange) bool {
		at := t.Day()
		if d.from < 0 {
			at -= last + 1
		}
		return at >= d.from && at <= d.to
	})
}

// next is the rule moved on by one day, for what passes midnight. The last day of
// a month is followed by the first of another, so it can become two rules; ok is
// false where lengths of months would have to be known.
func (r rule) next() (out []rule, ok bool) {
	moved := r
	moved.weekdays = nil
	for _, d := range r.weekdays {
		moved.weekdays = append(moved.weekdays, (d+1)%7)
	}
	slices.Sort(moved.weekdays)
	if len(r.days) == 0 {
		if len(r.months) > 0 { // the month's last day passes into another month
			return nil, false
		}
		return []rule{moved}, true
	}
	first := moved // what falls on the first of the month after
	moved.days = nil
	wraps := false
	for _, d := range r.days {
		switch {
		case d.to > 27:
			return nil, false
		case d.from > 0:
			moved.days = append(moved.days, dayRange{d.from + 1, d.to + 1})
		case d.to == -1:
			wraps = true
			if d.from < -1 {
				moved.days = append(moved.days, dayRange{d.from + 1, -1})
			}
		default:
			moved.days = append(moved.days, dayRange{d.from + 1, d.to + 1})
		}
	}
	if len(moved.days) > 0 {
		out = append(out, moved)
	}
	if wraps {
		first.days, first.months = []dayRange{{1, 1}}, nil
		for _, m := range r.months {
			first.months = append(first.months, m%12+1)
		}
		slices.Sort(first.months)
		out = append(out, first)
	}
	return out, true
}
