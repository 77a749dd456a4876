package alertmanager

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/teambition/rrule-go"
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

// parseRule reads an RFC 5545 rule that recurs from start, in whose zone it is meant. The reason says why a rule
// cannot be expressed by the calendar alone; "" means that it can.
func parseRule(text string, start time.Time) (r rule, reason string) {
	o, err := rrule.StrToROptionInLocation(text, start.Location())
	if err != nil {
		return r, "it is invalid: " + err.Error()
	}
	switch {
	case o.Interval > 1:
		return r, fmt.Sprintf("it happens only every %d periods (INTERVAL)", o.Interval)
	case o.Count > 0:
		return r, "it ends some day (COUNT)"
	case !o.Until.IsZero():
		return r, "it ends some day (UNTIL)"
	case len(o.Bysecond) > 0 && !slices.Equal(o.Bysecond, []int{0}):
		return r, "it counts seconds (BYSECOND)"
	case len(o.Bysetpos) > 0:
		return r, "of its BYSETPOS"
	case len(o.Byyearday) > 0:
		return r, "of its BYYEARDAY"
	case len(o.Byweekno) > 0:
		return r, "of its BYWEEKNO"
	}
	r.months = sorted(o.Bymonth)
	for _, d := range o.Bymonthday {
		r.days = append(r.days, dayRange{d, d})
	}
	r.starts(o.Byhour, o.Byminute, start)

	var ordinals []dayRange
	for _, d := range o.Byweekday {
		if d.N() < -5 || d.N() > 5 {
			return r, "BYDAY=" + d.String() + " is not understood"
		}
		r.weekdays = append(r.weekdays, weekday(d))
		if d.N() != 0 {
			ordinals = append(ordinals, nth(d.N()))
		}
	}
	r.weekdays = sorted(r.weekdays)
	switch o.Freq {
	case rrule.DAILY, rrule.WEEKLY:
		if len(ordinals) > 0 {
			return r, "BYDAY counts weekdays, which means nothing in " + o.Freq.String()
		}
		if o.Freq == rrule.WEEKLY && len(r.weekdays) == 0 && len(r.days) == 0 {
			r.weekdays = []time.Weekday{start.Weekday()}
		}
	case rrule.MONTHLY, rrule.YEARLY:
		anyDay := len(o.Byweekday) == 0 && len(o.Bymonthday) == 0
		if o.Freq == rrule.YEARLY && len(r.months) == 0 {
			if len(ordinals) > 0 {
				return r, "it counts the weekdays of a year"
			}
			if anyDay {
				r.months = []int{int(start.Month())}
			}
		}
		if anyDay {
			r.days = []dayRange{{start.Day(), start.Day()}}
		}
		if len(ordinals) > 0 {
			if len(o.Bymonthday) > 0 {
				return r, "it has both BYMONTHDAY and counted weekdays"
			}
			// 1SU,2MO would need a pair of its own for each weekday.
			if len(r.weekdays) > 1 && !sameOrdinals(o.Byweekday) {
				return r, "it counts several weekdays differently"
			}
			for _, d := range ordinals {
				if !slices.Contains(r.days, d) {
					r.days = append(r.days, d)
				}
			}
		}
	default:
		return r, "of FREQ=" + o.Freq.String()
	}
	for _, d := range r.days {
		if d.from == 0 || d.from < -31 || d.from > 31 {
			return r, fmt.Sprintf("%d is no day of a month", d.from)
		}
	}
	return r, ""
}

func sorted[T cmp.Ordered](list []T) []T { return slices.Compact(slices.Sorted(slices.Values(list))) }

// weekday is a day of the week, which the library counts from Monday.
func weekday(d rrule.Weekday) time.Weekday { return time.Weekday((d.Day() + 1) % 7) }

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
	r.times = sorted(r.times)
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
func sameOrdinals(byday []rrule.Weekday) bool {
	per := map[int][]int{}
	for _, d := range byday {
		per[d.Day()] = append(per[d.Day()], d.N())
	}
	var first []int
	for _, ns := range per {
		ns = sorted(ns)
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
