package spec

import (
	"time"

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
	if t := o.Get("rrule"); t != nil {
		if text, ok := t.Text(); ok && whole {
			c.readRRule(t, text)
		}
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
