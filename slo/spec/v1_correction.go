package spec

import (
	"time"

	"github.com/sloengine/sloengine/slo"
)

const maxCorrection = 366 * day

func (d *draft) readCorrection(v *value) {
	v.call("correction")
	o := v.object("name", "start", "duration", "rrule", "timezone", "slos", "author", "reason", "description")
	if o == nil {
		return
	}
	c := &correctionDraft{at: v.at()}
	if n := o.need("name", "give it a name such as `name: db upgrade`"); n != nil {
		c.at = n.at()
		c.Name = n.filled()
	}
	if a := o.need("author", "say who decided it"); a != nil {
		c.Author = a.filled()
	}
	if a := o.need("reason", "say why the time does not count"); a != nil {
		c.Reason = a.filled()
	}
	started := false
	if s := o.need("start", "say when it begins, such as `start: 2026-11-22T01:00:00Z`"); s != nil {
		c.Start, started = s.instant()
	}
	if z := o.get("timezone"); z != nil {
		if loc, ok := z.zone(); ok {
			c.Start = c.Start.In(loc)
		} else {
			started = false
		}
	}
	lasts := false
	if t := o.need("duration", "say how long it lasts, such as `duration: 2h`"); t != nil {
		c.Duration, lasts = t.duration(time.Second, maxCorrection)
	}
	if started && lasts {
		c.checkStep(v)
	}
	if t := o.get("rrule"); t != nil {
		if text, ok := t.text(); ok && started && lasts {
			c.readRRule(t, text)
		}
	}
	if l := o.get("slos"); l != nil {
		items, _ := l.list()
		if len(items) == 0 && l.isList() {
			l.errorf("name some, or remove the key to correct all SLOs of the service", "slos is empty")
		}
		for _, i := range items {
			if name, ok := i.name(); ok {
				c.slos = append(c.slos, named{name, i.at()})
			}
		}
	}
	d.corrections = append(d.corrections, c)
}

// checkStep warns where more time is taken out than was written.
func (c *correctionDraft) checkStep(v *value) {
	exact := slo.Span{From: c.Start, To: c.Start.Add(c.Duration)}
	taken := exact.RoundOut(slo.CorrectionStep)
	if taken == exact {
		return
	}
	const layout = "2006-01-02T15:04Z07:00"
	v.warnf("begin and end it on a multiple of 5m", "%s: the engine takes out whole five minutes, so the time from %s to %s is taken out",
		v.what, taken.From.Format(layout), taken.To.Format(layout))
}

func (c *correctionDraft) readRRule(v *value, text string) {
	r, err := parseRRule(text, c.Start, c.Duration)
	if err != nil {
		v.errorf(`want an RFC 5545 rule such as "FREQ=MONTHLY;BYDAY=1SU"`, "rrule: %s", printable(err.Error()))
		return
	}
	c.RRule, c.Between = text, r.between
	if first := r.starts[0]; !first.Equal(c.Start) {
		v.warnf("let `start` be the first time it happens", "rrule: start does not fit the rule, so the first time is %s", first.Format(time.RFC3339))
	}
}

// filled is text that says something.
func (v *value) filled() string {
	s, ok := v.text()
	if ok && s == "" {
		v.errorf("fill it in", "%s is empty", v.what)
	}
	return s
}

func (d *draft) readLimit(v *value) {
	v.call("limit")
	o := v.object("name", "match", "warning", "critical", "each", "description")
	if o == nil {
		return
	}
	before := v.r.errors
	l := &limitDraft{Limit: &slo.Limit{Service: d.service}, at: v.at()}
	if n := o.need("name", "give it a short name such as `name: checkout`"); n != nil {
		l.at = n.at()
		l.Name, _ = n.limitName()
	}
	if m := o.need("match", `say which events it is about, such as match: '{type="task"}'`); m != nil {
		if sel, ok := m.selector(d.service); ok {
			l.match, l.Match = &sel, sel.Selector
		}
	}
	if w := o.get("warning"); w != nil {
		l.Warning, _ = w.duration(time.Millisecond, maxWindow)
	}
	if c := o.get("critical"); c != nil {
		l.Critical, _ = c.duration(time.Millisecond, maxWindow)
		if l.Warning > 0 && l.Critical > 0 && l.Warning >= l.Critical {
			c.errorf("let critical be the longer one", "%s: critical (%s) must be longer than warning (%s)", v.what, slo.FormatDuration(l.Critical), slo.FormatDuration(l.Warning))
		}
	}
	if e := o.get("each"); e != nil {
		l.Each, _ = e.choice("warning", "critical")
	}
	switch timed := o.has("warning") || o.has("critical"); {
	case o.has("each") && timed:
		o.r.errorf(o.keyAt("each"), "keep either each, or warning and critical", "%s: each makes every match a violation, so durations mean nothing", v.what)
	case !o.has("each") && !timed && len(o.meant) == 0:
		v.errorf("add warning or critical with a duration, or `each: critical`", "%s: nothing says what breaks it", v.what)
	}
	l.ok = v.r.errors == before
	d.limits = append(d.limits, l)
}

// limitName is a name that may hold capital letters, for limits are commonly
// called after tasks such as createApplication.
func (v *value) limitName() (string, bool) {
	s, ok := v.text()
	if !ok {
		return "", false
	}
	if len(s) > maxName || !namePattern.MatchString(lower(s)) {
		v.errorf("use letters, digits, dot, dash and underscore", "%s: %q is not a name", v.what, clip(s))
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
