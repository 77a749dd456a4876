package slo_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

func schedule(t testing.TB, s string) slo.Schedule {
	t.Helper()
	sc, err := slo.ParseSchedule(s)
	require.NoError(t, err)
	return sc
}

func TestScheduleCovers(t *testing.T) {
	const office, weekend = "Mon-Fri 09:00-18:00 Europe/Moscow", "Fri-Mon 00:00-24:00 UTC"
	const night = "Sun 00:00-06:00 Europe/Berlin"
	for _, c := range []struct {
		name, schedule, from string
		length               time.Duration
		want                 bool
	}{
		{"first minute", office, "2026-11-20T09:00:00+03:00", time.Minute, true},
		{"minute before", office, "2026-11-20T08:59:00+03:00", time.Minute, false},
		{"half outside at the front", office, "2026-11-20T08:59:30+03:00", time.Minute, false},
		{"last minute", office, "2026-11-20T17:59:00+03:00", time.Minute, true},
		{"half outside at the end", office, "2026-11-20T17:59:30+03:00", time.Minute, false},
		{"closing time", office, "2026-11-20T18:00:00+03:00", time.Minute, false},
		{"Saturday", office, "2026-11-21T12:00:00+03:00", time.Minute, false},
		{"the day in the zone counts, not in UTC", office, "2026-11-23T06:00:00Z", time.Minute, true},
		{"whole day", office, "2026-11-20T09:00:00+03:00", 9 * time.Hour, true},
		{"over night", office, "2026-11-19T17:00:00+03:00", 17 * time.Hour, false},

		{"wraps over the week's end: Thursday", weekend, "2026-11-19T12:00:00Z", time.Minute, false},
		{"Friday", weekend, "2026-11-20T00:00:00Z", time.Minute, true},
		{"Sunday", weekend, "2026-11-22T23:59:00Z", time.Minute, true},
		{"Monday", weekend, "2026-11-23T12:00:00Z", time.Minute, true},
		{"Tuesday", weekend, "2026-11-24T00:00:00Z", time.Minute, false},
		{"not over midnight, even if both days are open", weekend, "2026-11-21T23:30:00Z", time.Hour, false},

		{"spring: 01:59 before the gap", night, "2026-03-29T01:59:00+01:00", time.Minute, true},
		{"spring: 03:00 right after it", night, "2026-03-29T03:00:00+02:00", time.Minute, true},
		{"spring: five hours only", night, "2026-03-29T00:00:00+01:00", 5 * time.Hour, true},
		{"spring: six are too many", night, "2026-03-29T00:00:00+01:00", 6 * time.Hour, false},
		{"autumn: seven hours", night, "2026-10-25T00:00:00+02:00", 7 * time.Hour, true},
		{"autumn: the hour shown twice", night, "2026-10-25T02:30:00+01:00", time.Minute, true},
		{"opens in the gap: at the skip", "Sun 02:30-06:00 Europe/Berlin", "2026-03-29T03:00:00+02:00", time.Minute, true},
		{"closes in the gap: at the skip", "Sun 00:00-02:30 Europe/Berlin", "2026-03-29T01:59:00+01:00", time.Minute, true},
		{"closes in the gap: not after", "Sun 00:00-02:30 Europe/Berlin", "2026-03-29T03:00:00+02:00", time.Minute, false},
		{"opens in the hour shown twice: at the first", "Sun 02:30-06:00 Europe/Berlin",
			"2026-10-25T02:30:00+02:00", time.Minute, true},
		{"closes in the hour shown twice: at the first", "Sun 00:00-02:30 Europe/Berlin", "2026-10-25T02:30:00+02:00",
			time.Minute, false},
		{"midnight skipped", "Sun 00:00-24:00 America/Sao_Paulo", "2018-11-04T01:00:00-02:00", 23 * time.Hour, true},
		{"until 24:00 on a day of 25 hours", "Sat 23:00-24:00 America/Sao_Paulo", "2018-02-17T23:30:00-03:00",
			30 * time.Minute, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := at(t, c.from)
			require.Equal(t, c.want, schedule(t, c.schedule).Covers(slo.Span{From: from, To: from.Add(c.length)}))
		})
	}
	var always slo.Schedule
	require.True(t, always.Always())
	require.True(t, always.Covers(slo.Span{From: time.Unix(0, 0), To: time.Unix(1e9, 0)}))
	require.Empty(t, always.String())
	require.Equal(t, office, schedule(t, "  Mon-Fri   09:00-18:00 Europe/Moscow ").String())
}

func TestParseScheduleRefuses(t *testing.T) {
	for _, s := range []string{
		"", "Mon-Fri", "Mon-Fri 09:00-18:00", "Mon-Fri 09:00-18:00 Local", "Mon-Fri 09:00-18:00 Nowhere/Atall",
		"mon-fri 09:00-18:00 UTC",
		"Mon–Fri 09:00-18:00 UTC", "Mon- 09:00-18:00 UTC", "Mon, 09:00-18:00 UTC", "Mon-Tue-Wed 09:00-18:00 UTC",
		"Mon 18:00-09:00 UTC",
		"Mon 09:00-09:00 UTC", "Mon 9-18 UTC", "Mon 09:00 UTC", "Mon 09:00-25:00 UTC", "Mon 09:60-18:00 UTC",
		"Mon 24:00-24:00 UTC", "Mon 09:00-18:00-20:00 UTC",
		"Mon 09:00-18:00 UTC extra", "Mon 09:00-18:00 ../../etc/passwd",
	} {
		_, err := slo.ParseSchedule(s)
		require.Error(t, err, s)
	}
}

// A minute is open if the clock of the zone says so.
func TestScheduleAgainstClock(t *testing.T) {
	names := []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}
	rapid.Check(t, func(t *rapid.T) {
		first, last := rapid.IntRange(0, 6).Draw(t, "first"), rapid.IntRange(0, 6).Draw(t, "last")
		from := rapid.IntRange(0, 24*60-1).Draw(t, "from")
		to := rapid.IntRange(from+1, 24*60).Draw(t, "to")
		clock := func(m int) string {
			if m == 24*60 {
				return "24:00"
			}
			return time.Date(2026, 1, 1, 0, m, 0, 0, time.UTC).Format("15:04")
		}
		name := rapid.SampledFrom(zones).Draw(t, "zone")
		loc, err := time.LoadLocation(name)
		require.NoError(t, err)
		sc, err := slo.ParseSchedule(names[first] + "-" + names[last] + " " + clock(from) + "-" + clock(to) + " " + name)
		require.NoError(t, err)

		now := time.Unix(rapid.Int64Range(1230768000, 1893456000).Draw(t, "now")/60*60, 0).In(loc)
		y, mo, d := now.Date()
		if time.Date(y, mo, d+1, 0, 0, 0, 0, loc).Sub(time.Date(y, mo, d, 0, 0, 0, 0, loc)) != 24*time.Hour {
			t.Skip("the clocks change; the table has these")
		}
		minute := now.Hour()*60 + now.Minute()
		day := int(now.Weekday())
		open := (day-first+7)%7 <= (last-first+7)%7 && minute >= from && minute < to
		require.Equal(t, open, sc.Covers(slo.Span{From: now, To: now.Add(time.Minute)}), "%s %s", sc, now)
	})
}
