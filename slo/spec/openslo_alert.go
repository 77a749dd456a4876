package spec

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// targetLabel is the label of alerts that names the notification targets, for
// routes of Alertmanager to match.
const targetLabel = "notification_target"

// openAlerts are the alert policies of an SLO, taken together.
type openAlerts struct {
	conditions []openCondition
	noData     bool
	targets    []string // of the policies that say alertWhenNoData
}

type openCondition struct {
	at        *value
	page      bool
	severity  string
	threshold float64 // burn rate
	lookback  time.Duration
	after     time.Duration
	targets   []string
}

func (a *openAlerts) any() bool { return a != nil && (len(a.conditions) > 0 || a.noData) }

// readPolicies reads the alert policies, in place or by reference.
func (p *openSpec) readPolicies(v *value) *openAlerts {
	a := &openAlerts{}
	items, _ := v.list()
	for _, i := range items {
		i.what = "alertPolicy"
		d := p.inlineOr(i, openKindPolicy, "alertPolicyRef")
		if d != nil && d.spec != nil {
			p.readPolicy(a, d)
		}
	}
	return a
}

func (p *openSpec) readPolicy(a *openAlerts, d *openObject) {
	o := d.spec.object("description", "alertWhenNoData", "alertWhenResolved", "alertWhenBreaching", "conditions", "notificationTargets")
	if o == nil {
		return
	}
	var targets []string
	if v := o.get("notificationTargets"); v != nil {
		items, _ := v.list()
		for _, i := range items {
			i.what = "notificationTarget"
			if t := p.inlineOr(i, openKindTarget, "targetRef"); t != nil {
				t.readTarget()
				targets = append(targets, t.name)
			}
		}
	}
	breaching := true
	if v := o.get("alertWhenBreaching"); v != nil {
		breaching = v.bool()
	} else if !o.has("alertWhenBreaching") {
		o.warnf("add `alertWhenBreaching: true`", "%s: alertWhenBreaching is missing; true is taken", o.what)
	}
	if v := o.get("alertWhenNoData"); v != nil && v.bool() {
		a.noData = true
		a.targets = append(a.targets, targets...)
	}
	if v := o.get("alertWhenResolved"); v != nil && !v.bool() {
		v.warnf("write `send_resolved: false` at its receiver", "alertWhenResolved: whether a resolved alert is sent is said at the receiver of Alertmanager")
	}
	v := o.need("conditions", "add a condition")
	if v == nil {
		return
	}
	items, _ := v.list()
	for _, i := range items {
		i.what = "condition"
		c := p.inlineOr(i, openKindCondition, "conditionRef")
		if c == nil || c.spec == nil {
			continue
		}
		if x, ok := c.readCondition(); ok && breaching {
			x.targets = targets
			a.conditions = append(a.conditions, x)
		}
	}
}

// readTarget reads a notification target, of which alerts carry the name.
func (d *openObject) readTarget() {
	if d.spec == nil {
		return
	}
	if o := d.spec.object("description", "target"); o != nil {
		if t := o.need("target", "say what it is, such as `target: slack`"); t != nil {
			t.text()
		}
	}
}

// openSeverities say which of the two severities those of other systems are.
var openSeverities = map[string]bool{"page": true, "critical": true, "ticket": false, "warning": false}

func (d *openObject) readCondition() (openCondition, bool) {
	c := openCondition{at: d.spec}
	o := d.spec.object("description", "severity", "condition")
	if o == nil {
		return c, false
	}
	ok := true
	if v := o.need("severity", "want page or ticket"); v == nil {
		ok = false
	} else if s, good := v.text(); good {
		c.severity = s
		page, known := openSeverities[strings.ToLower(s)]
		if !known {
			v.errorf("want page or critical for what needs a person now, ticket or warning for what can wait", "severity: %q is not known", clip(s))
		}
		c.page, ok = page, known
	}
	v := o.need("condition", "add kind, threshold, lookbackWindow and alertAfter")
	if v == nil {
		return c, false
	}
	in := v.object("kind", "op", "threshold", "lookbackWindow", "alertAfter")
	if in == nil {
		return c, false
	}
	if k := in.get("kind"); k != nil {
		if !strings.EqualFold(k.n.Value, "burnrate") {
			k.errorf("want burnrate", "condition: kind %q is not known", clip(k.n.Value))
			ok = false
		}
	}
	if x := in.get("op"); x != nil {
		word, good := x.choice(comparisonWords...)
		if good && (word == "lt" || word == "lte") {
			x.errorf("want gt or gte", "condition: an alert on a low burn rate cannot be made")
			good = false
		}
		ok = ok && good
	}
	if t := in.need("threshold", "say which burn rate is too much, such as `threshold: 14.4`"); t != nil {
		x, good := t.number(0, 100_000)
		if good && x == 0 {
			t.errorf("say which burn rate is too much, such as `threshold: 14.4`", "condition: with a threshold of 0 the alert never ends")
			good = false
		}
		c.threshold, ok = x, ok && good
	} else {
		ok = false
	}
	if w := in.need("lookbackWindow", "say how far it looks back, such as `lookbackWindow: 1h`"); w != nil {
		x, good := w.shorthand(minShort, maxWindow)
		c.lookback, ok = x, ok && good
	} else {
		ok = false
	}
	if w := in.get("alertAfter"); w != nil {
		x, good := w.shorthand(0, day)
		c.after, ok = x, ok && good
	}
	return c, ok
}

// of makes the alerting of one SLO. Its tiers look at one window each: both
// windows of the tier are the same.
func (a *openAlerts) of(s *sloDraft, o *object) slo.Alerting {
	out := slo.Alerting{
		Page: slo.AlertSettings{Disabled: true}, Ticket: slo.AlertSettings{Disabled: true}, NoData: slo.AlertSettings{Disabled: true},
	}
	if a == nil {
		return out
	}
	if a.noData {
		out.NoData = slo.AlertSettings{Labels: targetLabels("", a.targets)}
	}
	period := nominal(s.Window)
	var set [2]*openCondition
	for i := range a.conditions {
		c := &a.conditions[i]
		to, n := &out.Ticket, 0
		if c.page {
			to, n = &out.Page, 1
		}
		t := slo.Tier{Page: c.page, Long: c.lookback, Short: c.lookback, Share: c.threshold * float64(c.lookback) / float64(period)}
		if slices.Contains(out.Tiers, t) {
			continue
		}
		labels := targetLabels(c.severity, c.targets)
		switch first := set[n]; {
		case first == nil:
			set[n] = c
			*to = slo.AlertSettings{For: c.after, Labels: labels}
		case first.after != c.after:
			c.at.errorf("let all conditions of a severity have the same, or split the SLO", "condition: alertAfter is %s here and %s for another %s condition of the SLO", slo.FormatDuration(c.after), slo.FormatDuration(first.after), severityName(c.page))
		case !maps.Equal(to.Labels, labels):
			c.at.errorf("let all conditions of a severity have the same, or split the SLO", "condition: severity and notification targets are others than for another %s condition of the SLO", severityName(c.page))
		}
		if t.Share >= 10 {
			c.at.errorf("take a lower threshold or a shorter lookbackWindow", "condition: a burn rate of %g over %s is more than nine budgets", c.threshold, slo.FormatDuration(c.lookback))
			continue
		}
		out.Tiers = append(out.Tiers, t)
	}
	if len(out.Tiers) > maxTiers {
		o.errorf("", "objective: at most %d alert conditions, got %d", maxTiers, len(out.Tiers))
	}
	return out
}

func severityName(page bool) string {
	if page {
		return "page"
	}
	return "ticket"
}

// targetLabels are the labels by which a route finds an alert's targets. The
// severity is one only where it has a name of its own.
func targetLabels(severity string, targets []string) map[string]string {
	out := map[string]string{}
	if severity != "" && severity != "page" && severity != "ticket" {
		out["severity"] = severity
	}
	targets = slices.Clone(targets)
	slices.Sort(targets)
	if targets = slices.Compact(targets); len(targets) > 0 {
		out[targetLabel] = strings.Join(targets, ",")
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
