package blindspot

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Span is a part of some days of the week whose hours are alike.
type Span struct {
	Days     [7]bool       // from Monday on
	From, To time.Duration // of the day, in the zone that the spans were asked for in
	Events   [2]float64    // an hour, least and most
	Outage   time.Duration // of the worst hour: the longest of the shortest that page; 0 if there is none for some hour
	Ratio    float64       // likewise
	Silent   bool          // no event is expected

	low Hour // the least outage and ratio of the span
}

// Hours are alike if their outages differ by so much or by the factor, and their ratios as well.
const (
	likeTime   = 5 * time.Minute
	likeRatio  = 0.03
	likeFactor = 2
)

// Spans merges hours that are alike, of days that are alike. The zone is that far ahead of UTC.
func Spans(hours []Hour, ahead time.Duration) []Span {
	part := ahead % time.Hour
	if part < 0 {
		part += time.Hour
	}
	shift := int((ahead - part) / time.Hour)
	of := func(day, hour int) Span {
		i := ((day*24+hour-shift)%HoursPerWeek + HoursPerWeek) % HoursPerWeek
		h := hours[i]
		s := Span{
			From: time.Duration(hour)*time.Hour + part, Events: [2]float64{h.Events, h.Events},
			Outage: h.Outage, Ratio: h.ErrorRatio, Silent: h.Events == 0, low: h,
		}
		s.To = s.From + time.Hour
		s.Days[day] = true
		return s
	}
	var kinds [][]Span // of the hours of days that are alike
	for day := range 7 {
		var today []Span
		for hour := range 24 {
			today = append(today, of(day, hour))
		}
		i := slices.IndexFunc(kinds, func(k []Span) bool {
			for hour := range k {
				if !k[hour].like(&today[hour]) {
					return false
				}
			}
			return true
		})
		if i < 0 {
			kinds = append(kinds, today)
			continue
		}
		for hour := range today {
			kinds[i][hour].add(&today[hour])
		}
	}
	var out []Span
	for _, k := range kinds {
		first := len(out)
		for i := range k {
			if n := len(out); n > first && out[n-1].like(&k[i]) {
				out[n-1].add(&k[i])
				out[n-1].To = k[i].To
			} else {
				out = append(out, k[i])
			}
		}
		// The night of days that are all alike goes on past midnight.
		if n := len(out); len(kinds) == 1 && n > 1 && out[n-1].like(&out[0]) {
			out[0].add(&out[n-1])
			out[0].From = out[n-1].From
			out = out[:n-1]
		}
	}
	return out
}

// like reports whether a span of another time can be part of s.
func (s *Span) like(o *Span) bool {
	if s.Silent || o.Silent {
		return s.Silent && o.Silent
	}
	if (s.Outage == 0) != (o.Outage == 0) || (s.Ratio == 0) != (o.Ratio == 0) {
		return false
	}
	low, high := min(s.low.Outage, o.low.Outage), max(s.Outage, o.Outage)
	least, most := min(s.low.ErrorRatio, o.low.ErrorRatio), max(s.Ratio, o.Ratio)
	return (high-low <= likeTime || float64(high) <= likeFactor*float64(low)) &&
		(most-least <= likeRatio || most <= likeFactor*least)
}

// add makes a span that is like s part of it.
func (s *Span) add(o *Span) {
	for d := range s.Days {
		s.Days[d] = s.Days[d] || o.Days[d]
	}
	s.Events = [2]float64{min(s.Events[0], o.Events[0]), max(s.Events[1], o.Events[1])}
	s.low.Outage, s.low.ErrorRatio = min(s.low.Outage, o.low.Outage), min(s.low.ErrorRatio, o.low.ErrorRatio)
	s.Outage, s.Ratio = max(s.Outage, o.Outage), max(s.Ratio, o.Ratio)
}

// When says to which hours of which days a span belongs, such as "Mon-Fri 02:00 to 05:00".
func (s *Span) When() string {
	days := s.days()
	if s.To-s.From == 24*time.Hour {
		if days == "every day" {
			return "at any time"
		}
		return days
	}
	return days + " " + clock(s.From) + " to " + clock(s.To)
}

func clock(d time.Duration) string {
	d %= 24 * time.Hour
	return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60)
}

// days names the days, runs of three and more by their ends.
func (s *Span) days() string {
	names := [...]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
	var out []string
	for d := 0; d < 7; d++ {
		if !s.Days[d] {
			continue
		}
		end := d
		for end < 6 && s.Days[end+1] {
			end++
		}
		switch {
		case end-d == 6:
			return "every day"
		case end-d >= 2:
			out = append(out, names[d]+"-"+names[end])
			d = end
		default:
			out = append(out, names[d])
		}
	}
	return strings.Join(out, ", ")
}

// Hides says what an outage must be to be invisible in a span.
func (s *Span) Hides() string {
	traffic := rate(s.Events[0])
	if most := rate(s.Events[1]); most != traffic {
		traffic += " to " + most
	}
	switch {
	case s.Silent:
		return "there is no traffic, so an outage is invisible until traffic returns"
	case s.Outage == 0:
		return fmt.Sprintf("no outage pages within %s: there are too few events (%s an hour)",
			slo.FormatDuration(Longest), traffic)
	case s.Ratio == 0:
		return fmt.Sprintf("an outage under %s is invisible (%s events an hour)", Short(s.Outage), traffic)
	}
	return fmt.Sprintf("an outage under %s is invisible, and so is an error rate under %s for an hour (%s events an hour)",
		Short(s.Outage), Percent(s.Ratio), traffic)
}

// String is the sentence about a span.
func (s *Span) String() string { return s.When() + ": " + s.Hides() }

// Short prints a duration to the minute, or to the second below ten, never too short.
func Short(d time.Duration) string {
	unit := time.Minute
	if d < 10*time.Minute {
		unit = time.Second
	}
	return slo.FormatDuration((d + unit - 1).Truncate(unit))
}

// Percent prints a share with two digits, never too small.
func Percent(ratio float64) string {
	x := 100 * ratio
	digits := math.Pow(10, 1-math.Floor(math.Log10(x)))
	const rounding = 1e-9
	return slo.FormatRatio(min(100, math.Ceil(x*digits-rounding)/digits)) + "%"
}

// rate prints events an hour with two digits, or whole ones.
func rate(x float64) string {
	if x >= 10 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}

// Hidden is the longest outage that a span hides: Outage, or more than any if none pages.
func (s *Span) Hidden() time.Duration {
	if s.Outage == 0 {
		return math.MaxInt64
	}
	return s.Outage
}

// Worst picks the span with the longest invisible outage, of those with traffic; nil if there is none.
func Worst(spans []Span) *Span {
	var worst *Span
	for i := range spans {
		if s := &spans[i]; !s.Silent && (worst == nil || s.Hidden() > worst.Hidden()) {
			worst = s
		}
	}
	return worst
}
