package receivers

import (
	"maps"
	"time"

	amalert "github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/common/model"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/reliability/remote"
)

// watchdogID stands for the alert that always fires. It is no fingerprint of an alert.
const watchdogID = "watchdog"

// headline is the annotation of paging alerts that says what fails in their incident.
const headline = "headline"

// item is an alert that fires, or has resolved and is in a group still.
type item struct {
	alert  state.Alert
	labels model.LabelSet // with the external ones
	texts  *alerts.Texts  // of the watchdog; nil: ask the alert
	route  route
	group  string // its key
	by     model.LabelSet
	roles  []role
	seen   uint64    // the round in which it fired
	onset  time.Time // zero if no role needs it
}

// role is what an alert is for one inhibition rule.
type role struct {
	rule           int
	source, target bool
	cause          bool   // the source is a declared cause of the target
	equal          string // values of the labels that must be equal
}

// newItem finds the place of an alert.
func (p *plan) newItem(a *state.Alert) *item {
	it := &item{alert: *a, labels: p.labels(a)}
	r := p.root.Match(it.labels)[0] // the root matches everything
	it.by = groupLabels(r, it.labels)
	it.group = r.Key() + ":" + it.by.String()
	o := &r.RouteOpts
	it.route = route{receiver: o.Receiver, wait: o.GroupWait, interval: o.GroupInterval, repeat: o.RepeatInterval,
		mutes: o.MuteTimeIntervals}
	for i := range p.rules {
		rule := &p.rules[i]
		x := role{rule: i, source: rule.source.Matches(it.labels), target: rule.target.Matches(it.labels),
			cause: rule.cause}
		if !x.source && !x.target {
			continue
		}
		for _, name := range rule.equal {
			x.equal += string(it.labels[model.LabelName(name)]) + "\xff"
		}
		it.roles = append(it.roles, x)
	}
	return it
}

// labels are those of an alert, with the external ones.
func (p *plan) labels(a *state.Alert) model.LabelSet {
	out := make(model.LabelSet, len(a.Labels)+len(p.settings.ExternalLabels))
	for name, value := range p.settings.ExternalLabels {
		if value != "" {
			out[model.LabelName(name)] = model.LabelValue(value)
		}
	}
	for _, l := range a.Labels {
		if l.Value != "" { // an empty label is none
			out[model.LabelName(l.Name)] = model.LabelValue(l.Value)
		}
	}
	return out
}

func groupLabels(r *dispatch.Route, all model.LabelSet) model.LabelSet {
	out := model.LabelSet{}
	for name, value := range all {
		if _, ok := r.RouteOpts.GroupBy[name]; ok || r.RouteOpts.GroupByAll {
			out[name] = value
		}
	}
	return out
}

// firing reports whether the alert goes on.
func (it *item) firing() bool { return it.alert.State == state.Firing }

// message is the alert as Alertmanager's library takes it. Values that came with events are escaped for the place where
// the message is shown.
func (it *item) message(show escape, incident Incident, linked bool, now time.Time) *amalert.Alert {
	out := &amalert.Alert{UpdatedAt: now}
	out.Labels, out.StartsAt = maps.Clone(it.labels), it.alert.FiredAt
	if show != nil {
		for _, l := range it.alert.Labels {
			if name := model.LabelName(l.Name); it.alert.Foreign(l) && string(it.labels[name]) == l.Value {
				out.Labels[name] = model.LabelValue(show(l.Value))
			}
		}
	}
	if !it.firing() {
		out.EndsAt = it.alert.ResolvedAt
		if out.EndsAt.Before(out.StartsAt) { // the clock was set back in between
			out.StartsAt = out.EndsAt
		}
	}
	out.Annotations = model.LabelSet{}
	texts := it.alert.Show(show)
	if it.texts != nil {
		own, shown := map[string]string{}, map[string]string{}
		for name, value := range it.labels {
			own[string(name)], shown[string(name)] = string(value), string(out.Labels[name])
		}
		texts = it.texts.Show(own, shown, 1)
	}
	for _, a := range texts {
		if most := maxTexts[a.Name]; show != nil && most > 0 {
			a.Value = remote.Shorten(a.Value, most)
		}
		out.Annotations[model.LabelName(a.Name)] = model.LabelValue(a.Value)
		if a.Name == "page" {
			out.GeneratorURL = a.Value
		}
	}
	if linked {
		for name, value := range map[model.LabelName]string{"incident": incident.URL, "acknowledge": incident.AckURL} {
			if value != "" {
				out.Annotations[name] = model.LabelValue(value)
			}
		}
	}
	if linked && incident.Headline != nil && it.alert.Urgent {
		if show == nil {
			show = func(value string) string { return value }
		}
		if text := incident.Headline(now, show); text != "" {
			out.Annotations[headline] = model.LabelValue(remote.Shorten(text, maxTexts["summary"]))
		}
	}
	return out
}

// watchdog is the alert that always fires; nil without one.
func (p *plan) watchdog(starts time.Time) *item {
	l := &p.settings.Watchdog
	if l.Alert == "" {
		return nil
	}
	a := state.Alert{Fingerprint: watchdogID, Name: l.Alert, State: state.Firing, FiredAt: starts, ActiveSince: starts}
	a.Labels = append(a.Labels, state.Label{Name: "alertname", Value: l.Alert})
	for name, value := range l.Labels {
		a.Labels = append(a.Labels, state.Label{Name: name, Value: value})
	}
	it := p.newItem(&a)
	it.texts = l.Texts
	return it
}
