package slo_test

import (
	"archive/zip"
	"flag"
	"fmt"
	"go/build"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

var everyZone = flag.Bool("slo.every-zone", false, "test all zones, not a seventh of them")

// tzdata are the zones of the tz database that comes with Go.
func tzdata(t *testing.T) (all []*time.Location) {
	z, err := zip.OpenReader(filepath.Join(build.Default.GOROOT, "lib", "time", "zoneinfo.zip"))
	require.NoError(t, err)
	defer z.Close()
	for i, f := range z.File {
		if strings.HasSuffix(f.Name, "/") || !*everyZone && i%7 != 0 {
			continue
		}
		loc, err := time.LoadLocation(f.Name)
		require.NoError(t, err)
		all = append(all, loc)
	}
	require.Greater(t, len(all), 50)
	for _, name := range []string{"Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "America/New_York"} {
		loc, err := time.LoadLocation(name)
		require.NoError(t, err)
		all = append(all, loc)
	}
	return all
}

// transitions are the changes of the clocks in a zone from 2020 to 2035, found without ZoneBounds, with the offsets before and
// after each in seconds.
func transitions(loc *time.Location, f func(at time.Time, before, after int)) {
	offset := func(t time.Time) int { _, o := t.In(loc).Zone(); return o }
	const step = 24 * 3600
	from := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for to := from + step; to < time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC).Unix(); from, to = to, to+step {
		before, after := offset(time.Unix(from, 0)), offset(time.Unix(to, 0))
		if before == after {
			continue
		}
		lo, hi := from, to
		for hi-lo > 1 {
			if mid := (lo + hi) / 2; offset(time.Unix(mid, 0)) == before {
				lo = mid
			} else {
				hi = mid
			}
		}
		f(time.Unix(hi, 0).UTC(), before, after)
	}
}

// Around every change of the clocks, a reading is the instant that RFC 5545 says, and the days of calendar windows and the
// hours of schedules begin and end when a clock first shows them.
func TestClocksAgainstTheRule(t *testing.T) {
	t.Parallel()
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	checked := 0
	for _, loc := range tzdata(t) {
		transitions(loc, func(at time.Time, before, after int) {
			old, fresh := at.Add(seconds(before)), at.Add(seconds(after)) // readings just before and from the change on
			for r := min2(old, fresh).Add(-90 * time.Minute).Truncate(15 * time.Minute); r.Before(max2(old, fresh).Add(90 * time.Minute)); r = r.Add(15 * time.Minute) {
				// The old offset holds for the readings up to the change, those in a gap included, and of those that are
				// shown twice.
				want := r.Add(-seconds(after))
				if r.Before(max2(old, fresh)) {
					want = r.Add(-seconds(before))
				}
				if got := slo.WallTime(r, loc); !got.Equal(want) {
					t.Fatalf("%s: %s is %s, want %s", loc, r.Format("2006-01-02 15:04"), got.UTC(), want)
				}
				// A schedule that opens then opens at the first instant that shows this or more.
				first := want
				if after > before && !r.Before(old) && r.Before(fresh) {
					first = at
				}
				minute := r.Hour()*60 + r.Minute()
				text := fmt.Sprintf("Mon-Sun %02d:%02d-24:00 %s", minute/60, minute%60, loc)
				if s, err := slo.ParseSchedule(text); err == nil && loc.String() != "Local" {
					noon := time.Date(r.Year(), r.Month(), r.Day(), 12, 0, 0, 0, loc)
					if hours, ok := s.On(noon); ok && noon.Day() == r.Day() && !hours.From.Equal(first) {
						t.Fatalf("%s on %s opens at %s, want %s", text, r.Format(time.DateOnly), hours.From.UTC(), first)
					}
				}
				if minute == 0 {
					day := slo.Window{Calendar: slo.Day, Location: loc}
					if got := day.Start(first); !got.Equal(first) {
						t.Fatalf("%s: the day of %s begins at %s, want %s", loc, r.Format(time.DateOnly), got.UTC(), first)
					}
				}
				checked++
			}
		})
	}
	require.Greater(t, checked, 1000)
}

func min2(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func max2(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
