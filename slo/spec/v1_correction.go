package spec

import (
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

const maxCorrection = 366 * day

func (d *draft) readCorrection(v *yamldoc.Value) {
	call(v, "correction")
	o := v.Object("name", "start", "duration", "rrule", "timezone", "slos", "author", "reason", "description")
	if o == nil {
		return
	}
	c := &correctionDraft{at: v.At()}
	if n := o.Need("name", "give it a name such as `name: db upgrade`"); n != nil {
		c.at = n.At()
		c.Name = filled(n)
	}
	if a := o.Need("author", "name who decided it"); a != nil {
		c.Author = filled(a)
	}
	if a := o.Need("reason", "add why the time does not count"); a != nil {
		c.Reason = filled(a)
	}
	if t := o.Get("description"); t != nil {
		t.Text() // for readers of the file
	}
	started := false
	if s := o.Need("start", "set when it begins, such as `start: 2026-11-22T01:00:00Z`"); s != nil {
		c.Start, started = s.Instant()
	}
	if z := o.Get("timezone"); z != nil {
		if loc, ok := z.Zone(); ok {
			c.Start = c.Start.In(loc)
		} else {
			started = false
		}
	}
	lasts := false
	if t := o.Need("duration", "set how long it lasts, such as `duration: 2h`"); t != nil {
		c.Duration, lasts = readDuration(t, time.Second, maxCorrection)
	}
	if started && lasts {
		c.checkStep(v)
	}
	if t := o.Get("rrule"); t != nil {
		if text, ok := t.Text(); ok && started && lasts {
			c.readRRule(t, text)
		}
	}
	if l := o.Get("slos"); l != nil {
		items, _ := l.List()
		if len(items) == 0 && l.IsList() {
			l.Errorf("name some, or remove the key to correct all SLOs of the service", "slos is empty")
		}
		for _, i := range items {
			if name, ok := readName(i); ok {
				c.slos = append(c.slos, named{name, i.At()})
			}
		}
	}
	d.corrections = append(d.corrections, c)
}

// checkStep warns where more time is taken out than was written.
func (c *correctionDraft) checkStep(v *yamldoc.Value) {
	exact := slo.Span{From: c.Start, To: c.Start.Add(c.Duration)}
	taken := exact.RoundOut(slo.CorrectionStep)
	if taken == exact {
		return
	}
	const layout = "2006-01-02T15:04Z07:00"
	v.Warnf("let it begin and end at multiples of 5m", "%s: corrections exclude whole steps of 5m, so the time from %s to %s is excluded",
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
		v.Warnf("set `start` to the first occurrence", "rrule: start does not match the rule, so the first occurrence is %s", first.Format(time.RFC3339))
	}
}

// filled is text that says something.
func filled(v *yamldoc.Value) string {
	s, ok := v.Text()
	if ok && s == "" {
		v.Errorf("fill it in", "%s is empty", v.What)
	}
	return s
}

func (d *draft) readThreshold(v *yamldoc.Value) {
	call(v, "threshold")
	o := v.Object("name", "match", "warning", "critical", "each", "group_by", "max_groups", "description")
	if o == nil {
		return
	}
	before := v.Errors()
	l := &thresholdDraft{Threshold: &slo.Threshold{Service: d.service}, at: v.At()}
	if n := o.Need("name", "give it a short name such as `name: checkout`"); n != nil {
		l.at = n.At()
		l.Name, _ = readThresholdName(n)
	}
	if m := o.Need("match", `select the events it applies to, such as match: '{type="task"}'`); m != nil {
		if sel, ok := readSelector(m, d.service); ok {
			l.match, l.Match = &sel, sel.Selector
		}
	}
	if w := o.Get("warning"); w != nil {
		l.Warning, _ = readDuration(w, time.Millisecond, maxWindow)
	}
	if c := o.Get("critical"); c != nil {
		l.Critical, _ = readDuration(c, time.Millisecond, maxWindow)
		if l.Warning > 0 && l.Critical > 0 && l.Warning >= l.Critical {
			c.Errorf("set critical to the longer duration", "%s: critical (%s) must be longer than warning (%s)", v.What, slo.FormatDuration(l.Critical), slo.FormatDuration(l.Warning))
		}
	}
	if e := o.Get("each"); e != nil {
		l.Each, _ = e.Choice("warning", "critical")
	}
	if t := o.Get("description"); t != nil {
		t.Text() // for readers of the file
	}
	l.GroupBy, l.MaxGroups, _ = readGrouping(o, false)
	switch timed := o.Has("warning") || o.Has("critical"); {
	case o.Has("each") && timed:
		o.KeyErrorf("each", "keep each, or warning and critical", "%s: with each, every match is a violation, so durations have no effect", v.What)
	case !o.Has("each") && !timed && !o.Misspelt():
		v.Errorf("add warning or critical with a duration, or `each: critical`", "%s: neither each nor a duration is set", v.What)
	}
	l.ok = v.Errors() == before
	d.thresholds = append(d.thresholds, l)
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
