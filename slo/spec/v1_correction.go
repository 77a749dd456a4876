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
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

const maxCorrection = 366 * day

func (c *correctionDraft) keys() keys {
	return keys{
		at("name", textual(&c.Name, filled, &textDoc)).need("give it a name such as `name: db upgrade`"),
		at("start", single[time.Time]{&c.Start, (*yamldoc.Value).Instant, instantText, &instantDoc}).need(
			"set when it begins, such as `start: 2026-11-22T01:00:00Z`"),
		at("duration", length{&c.Duration, time.Second, maxCorrection}).need("set how long it lasts, such as `duration: 2h`"),
		at("rrule", laterText{to: &c.RRule, is: &ruleDoc}),
		at("timezone", custom{
			in: func(v *yamldoc.Value) {
				loc, ok := v.Zone()
				if c.lost = !ok; ok {
					c.Start = c.Start.In(loc)
				}
			},
			out: func(*encoder) *yamlgen.Node {
				if zone := c.Start.Location().String(); zone != "UTC" && zone != "Local" {
					return textNode(zone)
				}
				return nil
			},
			is: func() doc { return zoneDoc },
		}),
		at("slos", names(&c.slos, "name some, or remove the key to correct all SLOs of the service")),
		at("author", textual(&c.Author, filled, &textDoc)).need("name who decided it"),
		at("reason", textual(&c.Reason, filled, &textDoc)).need("add why the time does not count"),
		at("description", unused()),
	}
}

func instantText(t time.Time) string { return t.Format(time.RFC3339Nano) }

func (c *correctionDraft) read(ks keys, o *yamldoc.Object) {
	ks.readFrom(o)
	c.at = placeOf(o, "name")
	whole := !c.Start.IsZero() && !c.lost && c.Duration > 0
	if whole {
		c.checkStep(o.Value)
	}
	t := o.Get("rrule")
	if text, ok := t.Text(); ok && whole {
		c.readRRule(t, text)
	}
}

// checkStep warns where more time is taken out than was written.
func (c *correctionDraft) checkStep(v *yamldoc.Value) {
	exact := slo.Span{From: c.Start, To: c.Start.Add(c.Duration)}
	taken := exact.RoundOut(slo.CorrectionStep)
	if taken == exact {
		return
	}
	const layout = "2006-01-02T15:04Z07:00"
	v.Warnf("let it begin and end at multiples of 5m",
		"%s: corrections exclude whole steps of 5m, so the time from %s to %s is excluded",
		v.What, taken.From.Format(layout), taken.To.Format(layout))
}

func (c *correctionDraft) readRRule(v *yamldoc.Value, text string) {
	r, err := parseRRule(text, c.Start, c.Duration)
	if err != nil {
		v.Errorf(`want an RFC 5545 rule such as "FREQ=MONTHLY;BYDAY=1SU"`, "rrule: %s", yamldoc.Printable(err.Error()))
		return
	}
	c.RRule, c.Between = text, r.between
	if first := r.starts[0]; !first.Equal(c.Start) {
		v.Warnf("set `start` to the first occurrence", "rrule: start does not match the rule, so the first occurrence is %s",
			first.Format(time.RFC3339))
	}
}

// filled is text that says something.
func filled(v *yamldoc.Value) (string, bool) {
	s, ok := v.Text()
	if ok && s == "" {
		v.Errorf("fill it in", "%s is empty", v.What)
	}
	return s, ok
}

func (l *thresholdDraft) keys() keys {
	return keys{
		at("name", textual(&l.Name, readThresholdName, &anyCaseDoc)).need("give it a short name such as `name: checkout`"),
		at("match", matchers{to: &l.Match, sel: &l.match, service: l.Service}).need(
			`select the events it applies to, such as match: '{type="task"}'`),
		at("warning", length{&l.Warning, time.Millisecond, maxWindow}),
		at("critical", length{&l.Critical, time.Millisecond, maxWindow}),
		at("each", word[string]{&l.Each, []string{"warning", "critical"}}),
		at("group_by", groupNames{to: &l.GroupBy}),
		maxGroups(&l.MaxGroups),
		at("description", unused()),
	}
}

func (l *thresholdDraft) read(ks keys, o *yamldoc.Object) {
	ks.readFrom(o)
	l.at = placeOf(o, "name")
	if c := o.Get("critical"); c != nil && l.Warning > 0 && l.Critical > 0 && l.Warning >= l.Critical {
		c.Errorf("set critical to the longer duration", "%s: critical (%s) must be longer than warning (%s)",
			o.What, slo.FormatDuration(l.Critical), slo.FormatDuration(l.Warning))
	}
	l.GroupBy, l.MaxGroups, _ = readGrouping(o, false)
	switch timed := o.Has("warning") || o.Has("critical"); {
	case o.Has("each") && timed:
		o.KeyErrorf("each", "keep each, or warning and critical",
			"%s: with each, every match is a violation, so durations have no effect", o.What)
	case !o.Has("each") && !timed && !o.Misspelt():
		o.Errorf("add warning or critical with a duration, or `each: critical`",
			"%s: neither each nor a duration is set", o.What)
	}
}

// readThresholdName reads a name that may hold capital letters: thresholds are commonly named after tasks such as
// createApplication.
func readThresholdName(v *yamldoc.Value) (string, bool) {
	s, ok := v.Text()
	if !ok {
		return "", false
	}
	if len(s) > maxName || !namePattern.MatchString(lower(s)) {
		v.Errorf("use letters, digits, dots, dashes and underscores", "%s: invalid name %q", v.What, yamldoc.Clip(s))
		return "", false
	}
	return s, true
}

// lower folds ASCII only: other letters are no part of names.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

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
