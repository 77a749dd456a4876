package spec

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
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
	at        *yamldoc.Value
	page      bool
	severity  string
	threshold float64 // burn rate
	lookback  time.Duration
	after     time.Duration
	targets   []string
}

func (a *openAlerts) any() bool { return a != nil && (len(a.conditions) > 0 || a.noData) }

// readPolicies reads the alert policies, in place or by reference.
func (p *openSpec) readPolicies(v *yamldoc.Value) *openAlerts {
	a := &openAlerts{}
	items, _ := v.List()
	for _, i := range items {
		i.What = "alertPolicy"
		d := p.inlineOr(i, openKindPolicy, "alertPolicyRef")
		if d != nil && d.spec != nil {
			p.readPolicy(a, d)
		}
	}
	return a
}

func (p *openSpec) readPolicy(a *openAlerts, d *openObject) {
	o := d.spec.Object("description", "alertWhenNoData", "alertWhenResolved", "alertWhenBreaching",
		"conditions", "notificationTargets")
	if o == nil {
		return
	}
	var targets []string
	eachItem(o.Get("notificationTargets"), func(i *yamldoc.Value) {
		i.What = "notificationTarget"
		if t := p.inlineOr(i, openKindTarget, "targetRef"); t != nil {
			t.spec.Object("description", "target").Need("target", "name the target, such as `target: slack`").Text()
			targets = append(targets, t.name) // alerts carry the name
		}
	})
	breaching := true
	if v := o.Get("alertWhenBreaching"); v != nil {
		breaching = v.Bool()
	} else if !o.Has("alertWhenBreaching") {
		o.Warnf("add `alertWhenBreaching: true`", "%s: alertWhenBreaching is missing, assuming true", o.What)
	}
	if o.Get("alertWhenNoData").Bool() {
		a.noData = true
		a.targets = append(a.targets, targets...)
	}
	if v := o.Get("alertWhenResolved"); v != nil && !v.Bool() {
		v.Warnf("write `send_resolved: false` at its receiver",
			"alertWhenResolved: the Alertmanager receiver decides whether resolved alerts are sent")
	}
	eachItem(o.Need("conditions", "add a condition"), func(i *yamldoc.Value) {
		i.What = "condition"
		c := p.inlineOr(i, openKindCondition, "conditionRef")
		if c == nil || c.spec == nil {
			return
		}
		if x, ok := c.readCondition(); ok && breaching {
			x.targets = targets
			a.conditions = append(a.conditions, x)
		}
	})
}

// openSeverities say which of the two severities those of other systems are.
var openSeverities = map[string]bool{"page": true, "critical": true, "ticket": false, "warning": false}

func (d *openObject) readCondition() (openCondition, bool) {
	c := openCondition{at: d.spec}
	o := d.spec.Object("description", "severity", "condition")
	if o == nil {
		return c, false
	}
	v := o.Need("severity", "want page or ticket")
	var ok, known bool
	c.severity, ok = v.Text()
	if c.page, known = openSeverities[strings.ToLower(c.severity)]; ok && !known {
		v.Errorf("want page or critical if somebody must act now, ticket or warning if it can wait",
			"unknown severity %q", yamldoc.Clip(c.severity))
	}
	ok = ok && known
	in := o.Need("condition", "add kind, threshold, lookbackWindow and alertAfter").
		Object("kind", "op", "threshold", "lookbackWindow", "alertAfter")
	if k := in.Get("kind"); k != nil && !strings.EqualFold(k.Raw(), "burnrate") {
		k.Errorf("want burnrate", "condition: unknown kind %q", yamldoc.Clip(k.Raw()))
		ok = false
	}
	if x := in.Get("op"); x != nil {
		word, good := x.Choice(comparisonWords...)
		if good && (word == "lt" || word == "lte") {
			x.Errorf("want gt or gte", "condition: alerts on a low burn rate are not supported")
			good = false
		}
		ok = ok && good
	}
	const need = "set the burn rate that must be exceeded, such as `threshold: 14.4`"
	t := in.Need("threshold", need)
	x, good := t.Number(0, 100_000)
	if good && x == 0 {
		t.Errorf(need, "condition: with a threshold of 0 the alert never resolves")
		good = false
	}
	c.threshold, ok = x, ok && good
	c.lookback, good = readShorthand(in.Need("lookbackWindow", "set the long window, such as `lookbackWindow: 1h`"),
		minShort, maxWindow)
	ok = ok && good
	if w := in.Get("alertAfter"); w != nil {
		x, good := readShorthand(w, 0, day)
		c.after, ok = x, ok && good
	}
	return c, ok
}

// of makes the alerting of one SLO. Its tiers look at one window each: both
// windows of the tier are the same.
func (a *openAlerts) of(s *sloDraft, o *yamldoc.Object) slo.Alerting {
	out := slo.Alerting{
		Page: slo.AlertSettings{Disabled: true}, Ticket: slo.AlertSettings{Disabled: true},
		NoData: slo.AlertSettings{Disabled: true},
	}
	if a == nil {
		return out
	}
	if a.noData {
		out.NoData = slo.AlertSettings{Labels: targetLabels("", a.targets)}
	}
	period := s.Window.Nominal()
	var set [2]*openCondition
	for i := range a.conditions {
		c := &a.conditions[i]
		to, n := &out.Ticket, 0
		if c.page {
			to, n = &out.Page, 1
		}
		t := slo.Tier{
			Page: c.page, Long: c.lookback, Short: c.lookback, Share: c.threshold * float64(c.lookback) / float64(period)}
		if slices.Contains(out.Tiers, t) {
			continue
		}
		labels := targetLabels(c.severity, c.targets)
		switch first := set[n]; {
		case first == nil:
			set[n] = c
			*to = slo.AlertSettings{For: c.after, Labels: labels}
		case first.after != c.after:
			c.at.Errorf("use the same for all conditions of a severity, or split the SLO",
				"condition: alertAfter is %s, but %s for another %s condition of the SLO", slo.FormatDuration(c.after),
				slo.FormatDuration(first.after), severityName(c.page))
		case !maps.Equal(to.Labels, labels):
			c.at.Errorf("use the same for all conditions of a severity, or split the SLO",
				"condition: severity and notification targets differ from another %s condition of the SLO", severityName(c.page))
		}
		if t.Share >= 10 {
			c.at.Errorf("use a lower threshold or a shorter lookbackWindow",
				"condition: a burn rate of %g over %s uses more than nine budgets", c.threshold, slo.FormatDuration(c.lookback))
			continue
		}
		out.Tiers = append(out.Tiers, t)
	}
	if len(out.Tiers) > maxTiers {
		o.Errorf("", "objective: at most %d alert conditions, got %d", maxTiers, len(out.Tiers))
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
