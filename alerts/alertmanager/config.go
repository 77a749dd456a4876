package alertmanager

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// Options say who is notified. Only Receivers is required.
type Options struct {
	Receivers Receivers
	Names     rules.Naming // of the alerts

	// From and Until bound the dates by which a recurrence is listed that
	// Alertmanager can't recur by itself. With zero values it is not muted.
	From, Until time.Time

	// Header is written above the document as a comment.
	Header string
}

// standard is the timing where nothing else is said: pages after the time in which the page of their cause may arrive,
// and again every four hours, tickets after they have lasted a little, good news once.
var standard = map[Class]struct{ wait, interval, repeat time.Duration }{
	Critical: {30 * time.Second, 5 * time.Minute, 4 * time.Hour},
	Warning:  {2 * time.Minute, 5 * time.Minute, 4 * time.Hour},
	Recovery: {30 * time.Second, 5 * time.Minute, 24 * time.Hour},
}

// Timing of the alert that always fires. It is repeated every time that its group is due.
const (
	watchdogInterval = time.Minute
	watchdogRepeat   = 50 * time.Second
)

// Timing of what no class takes.
const (
	rootWait     = 30 * time.Second
	rootInterval = 5 * time.Minute
	rootRepeat   = 4 * time.Hour
)

// Config writes the whole configuration as one YAML document. It fails if the
// receivers are not valid. The findings tell of maintenance that does not mute.
func Config(in rules.Spec, o Options) ([]byte, []alerts.Finding, error) {
	if err := o.Receivers.Validate(); err != nil {
		return nil, nil, fmt.Errorf("receivers: %w", err)
	}
	if !o.Until.IsZero() && !o.From.Before(o.Until) {
		return nil, nil, errors.New("alertmanager: From must be before Until")
	}
	g := generator{in: in, opt: o, mutes: newMutes(in.SLOs, o.From, o.Until)}
	g.severities()
	doc := &document{Route: g.root(), InhibitRules: g.inhibit(), TimeIntervals: g.mutes.intervals}
	if s := o.Receivers.SMTP; s != nil {
		doc.Global = &global{SMTPSmarthost: s.Smarthost, SMTPFrom: s.From, SMTPAuthUsername: s.Username,
			SMTPAuthPassFile: s.PasswordFile}
		if s.TLS != nil && !*s.TLS {
			no := false
			doc.Global.SMTPRequireTLS = &no
		}
	}
	m := g.messages()
	for _, r := range o.Receivers.Receivers {
		doc.Receivers = append(
			doc.Receivers, newReceiver(r, m, !o.Receivers.onlyGoodNews(r.Name) && r.Name != o.Receivers.Watchdog))
	}
	if o.Receivers.Watchdog == "" {
		doc.Receivers = append(doc.Receivers, receiver{Name: doc.Route.Routes[0].Receiver})
	}
	return yamlgen.Document(o.Header, doc), g.mutes.findings, nil
}

type generator struct {
	in    rules.Spec
	opt   Options
	mutes *mutes
	class map[Class][]string // severities of each class
}

// severities collects the values of the label severity: the usual ones, those of the seed where an agreement has them,
// and what the spec gives pages and tickets of its own. With the names of Sloth, sloth_severity tells pages and tickets
// apart.
func (g *generator) severities() {
	g.class = map[Class][]string{
		Critical: {alerts.SeverityPage},
		Warning:  {alerts.SeverityTicket},
		Recovery: {alerts.SeverityInfo},
	}
	if slices.ContainsFunc(g.in.Agreements, func(a *sla.Agreement) bool { return a.SeedSeverities }) {
		g.class[Critical] = append(g.class[Critical], alerts.SeverityCritical)
		g.class[Warning] = append(g.class[Warning], alerts.SeverityWarning)
	}
	if g.opt.Names == rules.Sloth {
		return
	}
	add := func(c Class, labels map[string]string) {
		own := labels[series.LabelSeverity]
		for _, have := range g.class {
			if own == "" || slices.Contains(have, own) {
				return
			}
		}
		g.class[c] = append(g.class[c], own)
	}
	for _, s := range g.in.SLOs {
		add(Critical, s.Alerting.Page.Labels)
	}
	for _, s := range g.in.SLOs {
		add(Warning, s.Alerting.Ticket.Labels)
	}
	for _, list := range g.class {
		slices.Sort(list)
	}
}

// severity matches the alerts of some classes by the label severity.
func (g *generator) severity(cs ...Class) string {
	var values []string
	for _, c := range cs {
		values = append(values, g.class[c]...)
	}
	slices.Sort(values)
	return oneOf(series.LabelSeverity, values)
}

// sloSeverity matches the alerts on SLOs of some classes. With the names of Sloth they have its label.
func (g *generator) sloSeverity(cs ...Class) string {
	if g.opt.Names != rules.Sloth {
		return g.severity(cs...)
	}
	values := make([]string, len(cs))
	for i, c := range cs {
		values[i] = slothSeverities[c]
	}
	return oneOf(series.LabelSlothSeverity, values)
}

// slothSeverities are the classes of the alerts that Sloth has.
var slothSeverities = map[Class]string{Critical: alerts.SeverityPage, Warning: alerts.SeverityTicket}

// groupLabels are the labels of all groups of the spec, as the series name them.
func (g *generator) groupLabels() []string {
	var out []string
	for _, s := range g.in.SLOs {
		out = append(out, series.GroupLabels(s.GroupBy)...)
	}
	for _, a := range g.in.Agreements {
		out = append(out, series.GroupLabels(a.GroupBy)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// root is the tree of routes. Its group keeps products, services and severities
// apart, and joins the tickets of one SLO in one message.
func (g *generator) root() *route {
	groupBy := slices.Concat(g.identity(), []string{series.LabelAgreement, series.LabelKind, series.LabelSeverity},
		g.groupLabels())
	if g.opt.Names == rules.Sloth {
		groupBy = append(groupBy, series.LabelSlothSeverity)
	}
	r := &route{
		Receiver: g.opt.Receivers.Default, GroupBy: groupBy,
		GroupWait: seconds(rootWait), GroupInterval: seconds(rootInterval), RepeatInterval: seconds(rootRepeat),
	}
	r.Routes = append(r.Routes, g.watchdogRoute())
	for _, c := range Classes {
		if _, ok := slothSeverities[c]; ok && g.opt.Names == rules.Sloth {
			r.Routes = append(r.Routes, g.classRoute(c, g.sloSeverity(c)))
		}
		r.Routes = append(r.Routes, g.classRoute(c, g.severity(c)))
	}
	return r
}

// causeLabels are what tells pages of different causes apart: the tiers of one SLO in one group are one message. What a
// cause takes down with it is inhibited, so a page in a group of its own is another fault, and a new message with its
// own key, which a pager takes for a new call however long the first lasts.
func (g *generator) causeLabels() []string {
	out := slices.Concat([]string{labelAlertName}, g.identity(), []string{series.LabelAgreement, labelJob, labelInstance})
	for _, name := range g.groupLabels() {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// identity are the labels that tell what an alert is about. With the names of Sloth only alerts on SLOs have its
// labels.
func (g *generator) identity() []string {
	out := []string{series.LabelService, series.LabelSLOID}
	if g.opt.Names == rules.Sloth {
		out = append(out, series.LabelSlothID)
	}
	return out
}

func (g *generator) serviceLabels() []string {
	if g.opt.Names == rules.Sloth {
		return []string{series.LabelService, series.LabelSlothService}
	}
	return []string{series.LabelService}
}

// idLabel is the label by which an alert on an SLO names it, and idOf is its value.
func (g *generator) idLabel() string {
	if g.opt.Names == rules.Sloth {
		return series.LabelSlothID
	}
	return series.LabelSLOID
}

func (g *generator) idOf(id slo.ID) string {
	return rules.Options{Names: g.opt.Names}.Identity(&slo.SLO{ID: id})[0].Value
}

// ofSLOs matches the alerts on SLOs.
func (g *generator) ofSLOs(ids []slo.ID) string {
	values := make([]string, len(ids))
	for i, id := range ids {
		values[i] = g.idOf(id)
	}
	return oneOf(g.idLabel(), values)
}

// Labels that tell engines apart.
const (
	labelJob      = "job"
	labelInstance = "instance"
)

// watchdogRoute keeps the alert that always fires from everybody but its own receiver.
func (g *generator) watchdogRoute() route {
	r := route{
		Receiver: g.opt.Receivers.Watchdog, Matchers: []string{equal(labelAlertName, alerts.NameWatchdog)},
		GroupWait: seconds(0), GroupInterval: seconds(watchdogInterval), RepeatInterval: seconds(watchdogRepeat),
	}
	for name := "watchdog"; r.Receiver == ""; name += "-nobody" {
		if !slices.ContainsFunc(g.opt.Receivers.Receivers, func(r Receiver) bool { return r.Name == name }) {
			r.Receiver = name
		}
	}
	return r
}

func (g *generator) classRoute(c Class, severity string) route {
	t := standard[c]
	own := g.opt.Receivers.Timing[c]
	if own.GroupWait != nil {
		t.wait = *own.GroupWait
	}
	if own.GroupInterval > 0 {
		t.interval = own.GroupInterval
	}
	if own.RepeatInterval > 0 {
		t.repeat = own.RepeatInterval
	}
	r := route{
		Receiver: g.opt.Receivers.receiver("", c), Matchers: []string{severity},
		GroupWait: seconds(t.wait), GroupInterval: seconds(t.interval), RepeatInterval: seconds(t.repeat),
	}
	if c == Critical {
		r.GroupBy = g.causeLabels()
	}
	special := map[string]bool{}
	for _, service := range sortedKeys(g.opt.Receivers.Services) {
		name, ok := g.opt.Receivers.Services[service][c]
		if !ok {
			continue
		}
		special[service] = true
		for _, label := range g.serviceLabels() {
			r.Routes = append(r.Routes, route{
				Receiver: name, Matchers: []string{equal(label, service)},
				Routes: g.muted(func(s string) bool { return s == service }),
			})
		}
	}
	r.Routes = append(r.Routes, g.muted(func(s string) bool { return !special[s] })...)
	return r
}

// receiver finds who is notified of a class of a service's alerts.
func (r *Receivers) receiver(service string, c Class) string {
	for _, m := range []map[Class]string{r.Services[service], r.Routes} {
		if name, ok := m[c]; ok {
			return name
		}
	}
	return r.Default
}

// onlyGoodNews reports whether a receiver is notified of recoveries and nothing
// else, so that the end of one is no news.
func (r *Receivers) onlyGoodNews(name string) bool {
	used := r.receiver("", Recovery) == name
	for _, m := range r.Services {
		used = used || m[Recovery] == name
		if m[Critical] == name || m[Warning] == name {
			return false
		}
	}
	return used && name != r.Default && r.receiver("", Critical) != name && r.receiver("", Warning) != name
}

// muted are the routes of what planned maintenance mutes: SLOs by the intervals
// that they share, and agreements all of whose components are in maintenance.
func (g *generator) muted(of func(service string) bool) []route {
	var out []route
	byIntervals := map[string]int{} // index into out
	for _, s := range g.in.SLOs {
		names := g.mutes.bySLO[s.ID]
		if len(names) == 0 || !of(s.ID.Service()) {
			continue
		}
		key := fmt.Sprintf("%q", names)
		i, ok := byIntervals[key]
		if !ok {
			i = len(out)
			byIntervals[key] = i
			out = append(out, route{Mute: names})
		}
		out[i].Matchers = append(out[i].Matchers, g.idOf(s.ID)) // joined below
	}
	for i := range out {
		slices.Sort(out[i].Matchers)
		out[i].Matchers = []string{oneOf(g.idLabel(), slices.Compact(out[i].Matchers))}
	}
	for _, a := range g.in.Agreements {
		if !of(a.Service) {
			continue
		}
		if names := g.common(a.Components); len(names) > 0 {
			out = append(out, route{Mute: names, Matchers: agreementAlerts(a)})
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
