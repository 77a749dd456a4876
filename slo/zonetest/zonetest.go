// Package zonetest has time zones and the days on which their clocks change, for tests. It knows the rule of RFC 5545
// without the code that it tests.
package zonetest

import (
	"archive/zip"
	"flag"
	"go/build"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var everyZone = flag.Bool("slo.every-zone", false, "test all zones, not a seventh of them")

// Change is a change of the clocks in a zone.
type Change struct {
	Zone          *time.Location
	At            time.Time
	Before, After time.Duration // offsets
}

// Changes are those from 2020 to 2035 in a sample of the zones of the tz database that comes with Go. They are found
// without Time.ZoneBounds. Of zones that change alike at the same time, the sample has one.
func Changes(t testing.TB) (all []Change) {
	z, err := zip.OpenReader(filepath.Join(build.Default.GOROOT, "lib", "time", "zoneinfo.zip"))
	require.NoError(t, err)
	defer z.Close()
	names := []string{"Europe/Berlin", "Europe/London", "Australia/Lord_Howe", "America/Santiago", "America/New_York"}
	for i, f := range z.File {
		if !strings.HasSuffix(f.Name, "/") && (*everyZone || i%7 == 0) {
			names = append(names, f.Name)
		}
	}
	seen := map[Change]bool{}
	for _, name := range names {
		loc, err := time.LoadLocation(name)
		require.NoError(t, err)
		for _, c := range changes(loc) {
			if key := (Change{At: c.At, Before: c.Before, After: c.After}); *everyZone || !seen[key] {
				seen[key] = true
				all = append(all, c)
			}
		}
	}
	require.Greater(t, len(all), 200)
	return all
}

func changes(loc *time.Location) (all []Change) {
	offset := func(at int64) time.Duration {
		_, o := time.Unix(at, 0).In(loc).Zone()
		return time.Duration(o) * time.Second
	}
	const step = 24 * 3600
	from := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	before := offset(from)
	for to := from + step; to < time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC).Unix(); from, to = to, to+step {
		after := offset(to)
		if before == after {
			continue
		}
		lo, hi := from, to
		for hi-lo > 1 {
			if mid := (lo + hi) / 2; offset(mid) == before {
				lo = mid
			} else {
				hi = mid
			}
		}
		all = append(all, Change{loc, time.Unix(hi, 0).UTC(), before, after})
		before = after
	}
	return all
}

// edges are the first and the last reading of a gap, or of what the clocks show twice. Readings are given as if they
// were UTC.
func (c Change) edges() (first, last time.Time) {
	first, last = c.At.Add(c.Before), c.At.Add(c.After)
	if last.Before(first) {
		first, last = last, first
	}
	return first, last
}

// Readings are the quarters of an hour that a clock shows, or skips, around the change.
func (c Change) Readings() (all []time.Time) {
	first, last := c.edges()
	for r := first.Add(-time.Hour).Truncate(15 * time.Minute); r.Before(last.Add(time.Hour)); r = r.Add(15 * time.Minute) {
		all = append(all, r)
	}
	return all
}

// Instant is when a reading near the change is: the old offset holds for all readings up to the change, those in a gap
// included, and for those that are shown twice.
func (c Change) Instant(reading time.Time) time.Time {
	if _, last := c.edges(); reading.Before(last) {
		return reading.Add(-c.Before)
	}
	return reading.Add(-c.After)
}

// Skipped reports whether the clocks skip a reading.
func (c Change) Skipped(reading time.Time) bool {
	first, last := c.edges()
	return c.After > c.Before && !reading.Before(first) && reading.Before(last)
}

// First is the first instant at which a clock shows a reading or a later one.
func (c Change) First(reading time.Time) time.Time {
	if c.Skipped(reading) {
		return c.At
	}
	return c.Instant(reading)
}

// Midnight is the first instant at which a clock in the zone shows a day or a later one. It looks at the clock every
// quarter of an hour. The day is given in UTC.
func Midnight(day time.Time, zone *time.Location) time.Time {
	for t := day.Add(-16 * time.Hour); ; t = t.Add(15 * time.Minute) {
		if y, m, d := t.In(zone).Date(); !time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Before(day) {
			return t
		}
	}
}

// Period goes from the last midnight of a first day up to at, to the next one after at.
func Period(first func(day time.Time) bool, at time.Time, zone *time.Location) (from, to time.Time) {
	day := at.UTC().Truncate(24*time.Hour).AddDate(0, 0, 2)
	for !first(day) || Midnight(day, zone).After(at) {
		day = day.AddDate(0, 0, -1)
	}
	from = Midnight(day, zone)
	for !first(day) || !Midnight(day, zone).After(at) {
		day = day.AddDate(0, 0, 1)
	}
	return from, Midnight(day, zone)
}
