package spec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/teambition/rrule-go"

	"github.com/sloengine/sloengine/slo"
)

// maxOccurrences bounds how many times a correction may recur within the
// longest window, and how many occurrences one question is answered with.
const maxOccurrences = 10_000

// recurrence lists the occurrences of an RFC 5545 rule. It computes each once,
// in order, and keeps it: the same spans are asked for at every tick.
type recurrence struct {
	duration time.Duration
	start    time.Time // in the zone in which it recurs
	until    time.Time // zero: for ever

	mu     sync.Mutex
	next   rrule.Next
	starts []time.Time
	done   bool
}

// parseRRule checks a rule and prepares its expansion from start, in whose time
// zone it recurs.
func parseRRule(text string, start time.Time, duration time.Duration) (*recurrence, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("want a single line")
	}
	if strings.Contains(text, "DTSTART") {
		return nil, errors.New("DTSTART is not allowed: set `start` instead")
	}
	opt, err := rrule.StrToROptionInLocation(text, start.Location())
	if err != nil {
		return nil, err
	}
	// Finer rules are spelt by BYHOUR, BYMINUTE; expanding a rule by the second
	// that never matches would take for ever.
	if opt.Freq > rrule.DAILY {
		return nil, fmt.Errorf("FREQ=%s is too frequent: use DAILY with BYHOUR", opt.Freq)
	}
	if opt.Interval < 0 || opt.Interval > 1000 || isZero(text, "INTERVAL") {
		return nil, errors.New("INTERVAL must be from 1 to 1000")
	}
	if opt.Count < 0 || isZero(text, "COUNT") {
		return nil, errors.New("COUNT must be at least 1")
	}
	if !opt.Until.IsZero() && opt.Until.Before(start) {
		return nil, errors.New("UNTIL is before start")
	}
	if n := max(1, len(opt.Byhour)) * max(1, len(opt.Byminute)) * max(1, len(opt.Bysecond)); n > maxOccurrences {
		return nil, fmt.Errorf("it recurs %d times a day", n)
	}
	if len(opt.Byeaster) > 0 {
		return nil, errors.New("BYEASTER is not in RFC 5545")
	}
	// The rule is expanded as readings of a clock, which have no gaps.
	until := opt.Until
	opt.Dtstart, opt.Until = wall(start), time.Time{}
	if happens, err := everHappens(*opt); err != nil {
		return nil, err
	} else if !happens {
		return nil, errors.New("it never occurs")
	}
	next, err := iterate(*opt)
	if err != nil {
		return nil, err
	}
	r := &recurrence{duration: duration, start: start, until: until, next: next}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// isZero reports whether a rule gives a part as 0, which the library takes for one that is not there.
func isZero(text, part string) bool {
	for _, p := range strings.Split(text, ";") {
		name, value, _ := strings.Cut(strings.TrimPrefix(p, "RRULE:"), "=")
		if n, err := strconv.Atoi(value); name == part && err == nil && n == 0 {
			return true
		}
	}
	return false
}

// iterate turns a panic of the library on hostile input into an error.
func iterate(opt rrule.ROption) (next rrule.Next, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot be expanded: %v", p)
		}
	}()
	rule, err := rrule.NewRRule(opt)
	if err != nil {
		return nil, err
	}
	return rule.Iterator(), nil
}

// everHappens looks for one occurrence. The library looks until the year 9999,
// so it is asked close to it: the calendar repeats every 400 years.
func everHappens(opt rrule.ROption) (bool, error) {
	opt.Count = 0
	opt.Dtstart = opt.Dtstart.AddDate((rrule.MAXYEAR-400-opt.Dtstart.Year())/400*400, 0, 0)
	next, err := iterate(opt)
	if err != nil {
		return false, err
	}
	r := recurrence{next: next, start: opt.Dtstart}
	return r.more(), nil
}

// check expands the beginning: there must be something, and not too much.
func (r *recurrence) check() error {
	for len(r.starts) < 2*maxOccurrences && r.more() {
	}
	if len(r.starts) == 0 {
		return errors.New("it never occurs")
	}
	for i := maxOccurrences; i < len(r.starts); i++ {
		if r.starts[i].Sub(r.starts[i-maxOccurrences]) < maxWindow {
			return fmt.Errorf("it recurs more than %d times within %s", maxOccurrences, slo.FormatDuration(maxWindow))
		}
	}
	return nil
}

// more computes one occurrence; false if there is none.
func (r *recurrence) more() (ok bool) {
	if r.done {
		return false
	}
	defer func() {
		if p := recover(); p != nil {
			r.done, ok = true, false
		}
	}()
	for {
		reading, ok := r.next()
		if !ok {
			r.done = true
			return false
		}
		t := r.start
		if !reading.Equal(wall(t)) { // start may be the second of two
			t = slo.WallTime(reading, t.Location())
		}
		if !r.until.IsZero() && t.After(r.until) {
			if t.After(r.until.Add(longestGap)) {
				r.done = true
				return false
			}
			continue
		}
		at, _ := slices.BinarySearchFunc(r.starts, t, time.Time.Compare)
		r.starts = slices.Insert(r.starts, at, t)
		return true
	}
}

// longestGap bounds by how much a reading in a gap comes behind the readings after the gap: Samoa once skipped a day.
const longestGap = 24 * time.Hour

// wall is what a clock in the zone of t shows, as if it were UTC.
func wall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// between lists the occurrences that touch sp, oldest first, the last
// maxOccurrences at most. It is safe for concurrent use.
func (r *recurrence) between(sp slo.Span) []slo.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	for (len(r.starts) == 0 || r.starts[len(r.starts)-1].Before(sp.To.Add(longestGap))) && r.more() {
	}
	from, _ := slices.BinarySearchFunc(r.starts, sp.From.Add(-r.duration), time.Time.Compare)
	to, _ := slices.BinarySearchFunc(r.starts, sp.To, time.Time.Compare)
	from = max(from, to-maxOccurrences)
	var out []slo.Span
	for _, t := range r.starts[min(from, to):to] {
		if s := (slo.Span{From: t, To: t.Add(r.duration)}); s.To.After(sp.From) {
			out = append(out, s)
		}
	}
	return out
}
