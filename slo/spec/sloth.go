package spec

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// The versions of Sloth's two formats, the plain one and the Kubernetes resource.
const (
	SlothVersion    = "prometheus/v1"
	SlothAPIVersion = "sloth.slok.dev/v1"
)

// slothDialect is what the two formats spell differently.
type slothDialect struct {
	errorQuery, totalQuery, errorRatioQuery, pageAlert, ticketAlert, plugins string

	other map[string]string // spellings of the other dialect, which old files have too
}

var slothPlain = slothDialect{
	"error_query", "total_query", "error_ratio_query", "page_alert", "ticket_alert", "slo_plugins",
	map[string]string{
		"errorQuery": "error_query", "totalQuery": "total_query", "errorRatioQuery": "error_ratio_query",
		"pageAlert": "page_alert", "ticketAlert": "ticket_alert", "info_labels": "infoLabels",
	},
}

var slothKubernetes = slothDialect{
	"errorQuery", "totalQuery", "errorRatioQuery", "pageAlert", "ticketAlert", "sloPlugins",
	map[string]string{
		"error_query": "errorQuery", "total_query": "totalQuery", "error_ratio_query": "errorRatioQuery",
		"page_alert": "pageAlert", "ticket_alert": "ticketAlert", "info_labels": "infoLabels",
	},
}

func (l *loader) addSloth(d *draft) {
	if d != nil {
		l.drafts = append(l.drafts, d)
		l.sloth = append(l.sloth, d)
	}
}

// slothDocument reads Sloth's plain format.
func slothDocument(v *yamldoc.Value) *draft {
	o := v.Object("version", "service", "labels", "slos", "slo_plugins")
	if o == nil {
		return nil
	}
	return slothSpec(o, slothPlain)
}

// slothResource reads Sloth's Kubernetes resource. Its metadata are the cluster's
// and its status is Sloth's: neither says anything about SLOs.
func slothResource(v *yamldoc.Value) *draft {
	spec := v.Object("apiVersion", "kind", "metadata", "spec", "status").Need("spec", "add the service and its SLOs").
		Object("service", "labels", "slos", "sloPlugins")
	if spec == nil {
		return nil
	}
	return slothSpec(spec, slothKubernetes)
}

func slothSpec(o *yamldoc.Object, is slothDialect) *draft {
	d := &draft{at: placeOf(o, "service"), labelAt: map[string]Position{}, perDocument: true}
	d.service, _ = readForeignName(o.Need("service", "name the service, such as `service: shop`"))
	if l := o.Get("labels"); l != nil {
		d.labels, d.labelAt = readInfoLabels(l)
	}
	readSLOPlugins(o, is.plugins)
	eachItem(o.Need("slos", "add the SLOs of the service"), func(i *yamldoc.Value) { d.readSlothSLO(i, is) })
	return d
}

func (d *draft) readSlothSLO(v *yamldoc.Value, is slothDialect) {
	call(v, "slo")
	s := newSLODraft(d.service, d.labels, nil)
	s.groupsKnown = true
	ks := keys{
		at("name", foreignID{s}).need("give it a short name such as `name: availability`"),
		at("description", prose{&s.Description}),
		at("objective", percentage{&s.Objective}).need("set the objective in percent, such as `objective: 99.9`"),
		at("labels", s.ownLabels()),
		at("infoLabels", s.ownLabels()),
		at("sli", custom{in: func(v *yamldoc.Value) { s.readSlothSLI(v, is) }}).need("add an SLI: events, raw or plugin"),
		at("alerting", custom{in: func(v *yamldoc.Value) { s.readSlothAlerting(v, is) }}),
		at("interval", later{}),
		at("plugins", later{}),
	}
	o := v.ObjectOr(is.other, ks.names()...)
	if o == nil {
		return
	}
	before := v.Errors()
	ks.readFrom(o)
	s.at, s.objectiveAt = placeOf(o, "name"), placeOf(o, "objective")
	readSLOPlugins(o, "plugins")
	if o.Has("interval") {
		o.KeyWarnf("interval", "remove it", "%s: the generator sets the interval of rule groups, not the spec", o.What)
	}
	s.ok = v.Errors() == before
	d.slos = append(d.slos, s)
}

// foreignID is the ID of an SLO of another format, whose name may hold more.
type foreignID struct{ *sloDraft }

func (i foreignID) read(v *yamldoc.Value) {
	if name, ok := readForeignName(v); ok {
		i.ID = slo.NewID(i.service, name)
	}
}

func (i foreignID) write(e *encoder) *yamlgen.Node { return ownID{i.sloDraft, &i.ID}.write(e) }
func (foreignID) shape() shape.Shape               { return nameDoc }

// merged is a with b, which wins. It may change a.
func merged(a, b map[string]string) map[string]string {
	switch {
	case b == nil:
		return a
	case len(a) == 0:
		return b
	}
	maps.Copy(a, b)
	return a
}

func (s *sloDraft) readSlothSLI(v *yamldoc.Value, is slothDialect) {
	o := v.Object("events", "raw", "plugin")
	if o == nil {
		return
	}
	if len(o.Keys) == 0 {
		v.Errorf("want events, raw or plugin", "sli is empty")
	}
	if o.Known() > 1 {
		v.Errorf("keep one, and write a second SLO for the other", "sli: events, raw and plugin exclude each other")
		return
	}
	s.readSLIPlugin(o.Get("plugin"))
	in := o.Get("events").ObjectOr(is.other, is.errorQuery, is.totalQuery)
	bad, ok1 := readWindowedQuery(in.Need(is.errorQuery, "add the query of the failed events"))
	total, ok2 := readWindowedQuery(in.Need(is.totalQuery, "add the query of all events"))
	if ok1 && ok2 {
		s.kindKnown = true
		s.readEventQueries(bad, nil, total)
	}
	in = o.Get("raw").ObjectOr(is.other, is.errorRatioQuery)
	if ratio, ok := readWindowedQuery(in.Need(is.errorRatioQuery, "add the query of the failure ratio")); ok {
		s.kindKnown = true
		s.readRatioQuery(ratio, false)
	}
}

func (s *sloDraft) readSlothAlerting(v *yamldoc.Value, is slothDialect) {
	a := &s.Alerting
	var labels, notes map[string]string
	alertLabels := func(v *yamldoc.Value) map[string]string { return readAlertLabels(v, s.GroupBy) }
	ks := keys{
		at("name", textual(&a.Name, readAlertName, &textDoc)),
		at("labels", labelSet{&labels, alertLabels}),
		at("annotations", labelSet{&notes, readAnnotations}),
		at(is.pageAlert, later{}), // those of Sloth's own examples are empty
		at(is.ticketAlert, later{}),
	}
	o := v.ObjectOr(is.other, ks.names()...)
	if o == nil {
		return
	}
	ks.readFrom(o)
	for key, to := range map[string]*slo.AlertSettings{is.pageAlert: &a.Page, is.ticketAlert: &a.Ticket} {
		to.Labels, to.Annotations = maps.Clone(labels), maps.Clone(notes)
		in := o.Field(key)
		if in == nil || in.IsNull() {
			continue
		}
		var own slo.AlertSettings
		x := (keys{
			at("disable", truth{to: &to.Disabled}),
			at("labels", labelSet{&own.Labels, alertLabels}),
			at("annotations", labelSet{&own.Annotations, readAnnotations}),
			at("for", length{&to.For, 0, day}),
		}).read(in)
		if word, ok := own.Labels["disable"]; ok {
			x.Get("labels").Warnf("write `disable: "+word+"` beside labels", "%s: disable is read as a label", key)
		}
		to.Labels, to.Annotations = merged(to.Labels, own.Labels), merged(to.Annotations, own.Annotations)
	}
	// Who wants no alert wants none of missing data either.
	a.NoData.Disabled = a.Page.Disabled && a.Ticket.Disabled
}

// alertName is the name of an alert rule.
func readAlertName(v *yamldoc.Value) (string, bool) {
	s, ok := v.Text()
	if ok && (s == "" || len(s) > maxName || strings.ContainsAny(s, "\n\t")) {
		v.Errorf("write a name such as CheckoutErrors", "%s: invalid alert name %q", v.What, yamldoc.Clip(s))
		return "", false
	}
	return s, ok
}

// readAlertLabels reads the user's labels of alerts of an SLO. They cannot be labels that tell alerts apart.
func readAlertLabels(v *yamldoc.Value, groupBy []string) map[string]string {
	groups := series.GroupLabels(groupBy)
	out, _ := readLabelMap(v, func(name string) string {
		switch {
		case slices.Contains(groups, name):
			return "the label of the SLO's groups: alerts of two groups would be one"
		case name == series.LabelService:
			return "set by the engine"
		}
		switch name { // the severity is the user's, and no rule tells alerts apart by the others
		case series.LabelSeverity, series.LabelSLO, series.LabelSLA, series.LabelResult, series.LabelWindow, series.LabelLE:
			return ""
		}
		return series.Reserved(name)
	})
	return out
}

// annotations are texts with the names of labels; they may hold templates.
func readAnnotations(v *yamldoc.Value) map[string]string {
	o := v.Open()
	if o == nil {
		return nil
	}
	out := map[string]string{}
	for _, k := range o.Keys {
		if !labelPattern.MatchString(k) || len(k) > maxName {
			v.ErrorfAt(o.KeyAt(k), "use letters, digits and underscores, not beginning with a digit",
				"%s: invalid annotation name %q", v.What, yamldoc.Clip(k))
			continue
		}
		if s, ok := o.Get(k).Text(); ok {
			out[k] = s
		}
	}
	return out
}

// slothWindows is Sloth's AlertWindows: the period of all its SLOs, and their
// burn-rate tiers.
type slothWindows struct {
	at     *yamldoc.Value
	period time.Duration
	tiers  []slo.Tier
}

func (l *loader) slothWindows(v *yamldoc.Value) {
	o := v.Object("apiVersion", "kind", "metadata", "spec").Need("spec", "add sloPeriod, page and ticket").
		Object("sloPeriod", "page", "ticket")
	if o == nil {
		return
	}
	w := &slothWindows{at: v}
	w.period, _ = readDuration(o.Need("sloPeriod", "set the period of the SLOs, such as `sloPeriod: 30d`"),
		minWindow, maxWindow)
	for _, kind := range []string{"page", "ticket"} {
		speeds := o.Need(kind, "add quick and slow").Object("quick", "slow")
		for _, speed := range []string{"quick", "slow"} {
			x := speeds.Need(speed, "add errorBudgetPercent, shortWindow and longWindow")
			tier := slo.Tier{Page: kind == "page"}
			long, short, budget := burnKeys(&tier, "longWindow", "shortWindow", "errorBudgetPercent")
			if t := (keys{budget, short, long}).read(x); t != nil {
				checkTier(t, &tier, "longWindow", "shortWindow")
				w.tiers = append(w.tiers, tier)
			}
		}
	}
	l.windows = append(l.windows, w)
}

// applySlothWindows gives the SLOs of Sloth the one period and the tiers that
// were read with them.
func (l *loader) applySlothWindows() {
	if len(l.windows) == 0 {
		return
	}
	for _, w := range l.windows[1:] {
		w.at.Errorf("keep the one in use", "duplicate AlertWindows, first defined at %s:%d", l.windows[0].at.At().File,
			l.windows[0].at.At().Line)
	}
	w := l.windows[0]
	if len(l.sloth) == 0 {
		w.at.Warnf("load it together with the SLOs", "AlertWindows apply to SLOs of Sloth, but none is loaded")
	}
	for _, d := range l.sloth {
		for _, s := range d.slos {
			s.Window, s.Alerting.Tiers = slo.Window{Rolling: w.period}, w.tiers
		}
	}
}
