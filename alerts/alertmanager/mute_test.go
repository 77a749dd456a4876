package alertmanager

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/teambition/rrule-go"

	"github.com/sloengine/sloengine/slo"
)

var zones = map[string]*time.Location{}

// holds reads an interval as Alertmanager's documentation says.
func (iv interval) holds(t testing.TB, at time.Time) bool {
	if iv.Location != "" {
		loc, ok := zones[iv.Location]
		if !ok {
			var err error
			loc, err = time.LoadLocation(iv.Location)
			require.NoError(t, err)
			zones[iv.Location] = loc
		}
		at = at.In(loc)
	} else {
		at = at.UTC()
	}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		return n
	}
	ranges := func(list []string, ok func(a, b int) bool) bool {
		return len(list) == 0 || slices.ContainsFunc(list, func(s string) bool {
			a, b, ranged := strings.Cut(s, ":")
			if !ranged {
				b = a
			}
			return ok(number(a), number(b))
		})
	}
	within := func(x int) func(a, b int) bool { return func(a, b int) bool { return a <= x && x <= b } }
	minute := 60*at.Hour() + at.Minute()
	clock := func(s string) int { return 60*number(s[:2]) + number(s[3:]) }
	inTimes := len(iv.Times) == 0 || slices.ContainsFunc(iv.Times, func(r timeRange) bool {
		return clock(r.Start) <= minute && minute < clock(r.End)
	})
	inWeek := len(iv.Weekdays) == 0 || slices.Contains(iv.Weekdays, strings.ToLower(at.Weekday().String()))
	last := time.Date(at.Year(), at.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	inMonth := ranges(iv.DaysOfMonth, func(a, b int) bool {
		if a < 0 {
			a += last + 1
		}
		if b < 0 {
			b += last + 1
		}
		return a <= at.Day() && at.Day() <= b
	})
	return inTimes && inWeek && inMonth && ranges(iv.Months, within(int(at.Month()))) &&
		ranges(iv.Years, within(at.Year()))
}

// recurring makes a correction whose occurrences rrule-go lists.
func recurring(t testing.TB, rule string, start time.Time, d time.Duration) slo.Correction {
	c := slo.Correction{Name: rule, Start: start, Duration: d, RRule: rule}
	if rule == "" {
		return c
	}
	opt, err := rrule.StrToROptionInLocation(rule, start.Location())
	require.NoError(t, err)
	opt.Dtstart = start
	r, err := rrule.NewRRule(*opt)
	require.NoError(t, err)
	c.Between = func(sp slo.Span) []slo.Span {
		var out []slo.Span
		for _, at := range r.Between(sp.From.Add(-d), sp.To, true) {
			if o := (slo.Span{From: at, To: at.Add(d)}); o.To.After(sp.From) && o.From.Before(sp.To) {
				out = append(out, o)
			}
		}
		return out
	}
	return c
}

// TestMutingIsExact compares the intervals with the occurrences, around every
// edge and every eleventh hour of three years.
func TestMutingIsExact(t *testing.T) {
	utc := time.Date(2026, 1, 1, 2, 30, 0, 0, time.UTC)
	msk := time.Date(2026, 1, 1, 1, 0, 0, 0, moscow(t))
	late := time.Date(2026, 1, 1, 23, 15, 0, 0, moscow(t))
	for _, c := range []struct {
		rule     string
		start    time.Time
		duration time.Duration
	}{
		{"", utc, 2 * time.Hour},
		{"", late, 90 * time.Hour},
		{"", time.Date(2026, 1, 25, 12, 0, 30, 0, time.UTC), 40 * 24 * time.Hour},
		{"FREQ=DAILY", utc, time.Hour},
		{"FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR", late, 2 * time.Hour},
		{"FREQ=DAILY;BYMONTH=1,12", utc, time.Hour},
		{"FREQ=DAILY;BYHOUR=2,14;BYMINUTE=30", utc, time.Hour},
		{"FREQ=DAILY;BYMONTHDAY=1,15", late, 3 * time.Hour},
		{"FREQ=WEEKLY", msk, 2 * time.Hour},
		{"FREQ=WEEKLY;INTERVAL=1;BYDAY=TH,SA;WKST=SU", late, 26 * time.Hour},
		{"FREQ=WEEKLY;BYDAY=SA", late, 60 * time.Hour},
		{"FREQ=MONTHLY", utc, 24 * time.Hour},
		{"FREQ=MONTHLY;BYMONTHDAY=31", utc, time.Hour},
		{"FREQ=MONTHLY;BYMONTHDAY=-1", late, 2 * time.Hour},
		{"FREQ=MONTHLY;BYMONTHDAY=1,-2", late, 2 * time.Hour},
		{"FREQ=MONTHLY;BYDAY=1SU", msk, 2 * time.Hour},
		{"FREQ=MONTHLY;BYDAY=3TH", late, 2 * time.Hour},
		{"FREQ=MONTHLY;BYDAY=-1SU", late, 2 * time.Hour},
		{"FREQ=MONTHLY;BYDAY=-1SU;BYMONTH=1,12", late, 2 * time.Hour},
		{"FREQ=MONTHLY;BYDAY=1SU,1MO", msk, time.Hour},
		{"FREQ=MONTHLY;BYDAY=SU", msk, time.Hour},
		{"FREQ=MONTHLY;BYDAY=5FR", msk, time.Hour},
		{"FREQ=YEARLY", utc, time.Hour},
		{"FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=8", utc, 5 * time.Hour},
		{"FREQ=YEARLY;BYMONTH=12;BYDAY=-1FR", late, 5 * time.Hour},
		{"FREQ=WEEKLY;COUNT=5", utc, time.Hour},
		{"FREQ=WEEKLY;INTERVAL=2;UNTIL=20260601T000000Z", late, 3 * time.Hour},
		{"RRULE:FREQ=WEEKLY;BYDAY=MO", utc, time.Hour},
	} {
		t.Run(fmt.Sprintf("%s for %s", c.rule, c.duration), func(t *testing.T) {
			cor := recurring(t, strings.TrimPrefix(c.rule, "RRULE:"), c.start, c.duration)
			cor.RRule = c.rule
			list, note := muting(cor, time.Time{}, time.Time{})
			require.NotEmpty(t, list, note)
			require.Empty(t, note)
			first := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
			span := slo.Span{From: c.start, To: first.AddDate(3, 0, 0)}
			var all []slo.Span
			if cor.Between != nil {
				all = cor.Between(span)
			} else {
				all = []slo.Span{{From: c.start, To: c.start.Add(c.duration)}}
			}
			require.NotEmpty(t, all)
			check := func(at time.Time) {
				want := slices.ContainsFunc(all, func(s slo.Span) bool {
					return !at.Before(s.From.Truncate(time.Minute)) && at.Before(s.To)
				})
				got := slices.ContainsFunc(list, func(iv interval) bool { return iv.holds(t, at) })
				require.Equal(t, want, got, "%s", at)
			}
			for _, s := range all {
				for _, at := range []time.Time{s.From.Truncate(time.Minute).Add(-time.Second), s.From, s.To.Add(-time.Second),
					s.To.Add(time.Minute)} {
					check(at)
				}
			}
			for at := first; at.Before(span.To.AddDate(0, 0, -8)); at = at.Add(11 * time.Hour) {
				check(at)
			}
		})
	}
}

func TestNotMuted(t *testing.T) {
	start := time.Date(2026, 1, 1, 23, 0, 0, 0, time.UTC)
	for rule, want := range map[string]string{
		"FREQ=WEEKLY;INTERVAL=2":                  "INTERVAL",
		"FREQ=MONTHLY;BYDAY=MO,TU,WE;BYSETPOS=-1": "BYSETPOS",
		"FREQ=YEARLY;BYWEEKNO=20":                 "BYWEEKNO",
		"FREQ=YEARLY;BYYEARDAY=100":               "BYYEARDAY",
		"FREQ=YEARLY;BYDAY=20MO":                  "not understood",
		"FREQ=YEARLY;BYDAY=2MO":                   "weekdays of a year",
		"FREQ=MONTHLY;BYDAY=1MO,2TU":              "differently",
		"FREQ=MONTHLY;BYDAY=1MO,TU":               "differently",
		"FREQ=MONTHLY;BYDAY=1MO;BYMONTHDAY=3":     "both",
		"FREQ=MONTHLY;BYMONTHDAY=28":              "past the end of a month",
		"FREQ=DAILY;BYSECOND=30":                  "BYSECOND",
		"FREQ=DAILY;BYMONTH=1":                    "past the end of a month",
	} {
		t.Run(rule, func(t *testing.T) {
			c := slo.Correction{Start: start, Duration: 2 * time.Hour, RRule: rule}
			list, note := muting(c, time.Time{}, time.Time{})
			require.Empty(t, list)
			require.Contains(t, note, want)
		})
	}
	odd := slo.Correction{Start: start.In(time.FixedZone("", 5*3600+1800)), Duration: time.Hour, RRule: "FREQ=DAILY"}
	_, note := muting(odd, time.Time{}, time.Time{})
	require.Contains(t, note, "no name")
	whole := odd
	whole.Start = start.In(time.FixedZone("", 3*3600))
	list, _ := muting(whole, time.Time{}, time.Time{})
	require.Equal(t, "Etc/GMT-3", list[0].Location)
	require.True(t, list[0].holds(t, start.AddDate(1, 0, 0)))
}

func TestListedByDate(t *testing.T) {
	start := time.Date(2026, 1, 1, 23, 0, 0, 0, time.UTC)
	c := recurring(t, "FREQ=WEEKLY;INTERVAL=2", start, 2*time.Hour)
	until := start.AddDate(0, 6, 0)
	list, note := muting(c, start, until)
	require.Len(t, list, 26, "13 times, past midnight each")
	require.Contains(t, note, "before 2026-07-01")
	_, note = muting(recurring(t, "FREQ=DAILY;INTERVAL=2", start, time.Hour), start, start.AddDate(3, 0, 0))
	require.Contains(t, note, "times until")
}
