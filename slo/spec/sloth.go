package spec

import (
	"maps"
	"strings"

	"github.com/sloengine/sloengine/slo"
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
func (r *reader) slothDocument(v *value) *draft {
	o := v.object("version", "service", "labels", "slos", "slo_plugins")
	if o == nil {
		return nil
	}
	return r.slothSpec(o, slothPlain)
}

// slothResource reads Sloth's Kubernetes resource. Its metadata are the cluster's
// and its status is Sloth's: neither says anything about SLOs.
func (r *reader) slothResource(v *value) *draft {
	o := v.object("apiVersion", "kind", "metadata", "spec", "status")
	if o == nil {
		return nil
	}
	in := o.need("spec", "say the service and its SLOs")
	if in == nil {
		return nil
	}
	spec := in.object("service", "labels", "slos", "sloPlugins")
	if spec == nil {
		return nil
	}
	return r.slothSpec(spec, slothKubernetes)
}

func (r *reader) slothSpec(o *object, is slothDialect) *draft {
	d := &draft{at: o.at(), labelAt: map[string]Position{}, perDocument: true}
	if s := o.need("service", "name the service, such as `service: shop`"); s != nil {
		d.at = s.at()
		d.service, _ = s.foreignName()
	}
	if l := o.get("labels"); l != nil {
		d.labels, d.labelAt = l.infoLabels()
	}
	o.noPlugins(is.plugins)
	eachItem(o.need("slos", "add the SLOs of the service"), func(i *value) { d.readSlothSLO(i, is) })
	return d
}

// noPlugins refuses plugins: they are programs that Sloth runs.
func (o *object) noPlugins(key string) {
	if o.has(key) {
		o.r.errorf(o.keyAt(key), "remove it, and write what it does into the spec", "%s: plugins are programs of Sloth and cannot be run here", o.what)
	}
}

func (d *draft) readSlothSLO(v *value, is slothDialect) {
	v.call("slo")
	o := v.objectOr(is.other, "name", "description", "objective", "labels", "infoLabels", "sli", "alerting", "interval", "plugins")
	if o == nil {
		return
	}
	before := v.r.errors
	s := &sloDraft{SLO: &slo.SLO{}, at: v.at(), groupsKnown: true}
	if n := o.need("name", "give it a short name such as `name: availability`"); n != nil {
		if name, ok := n.foreignName(); ok {
			s.ID, s.at = slo.NewID(d.service, name), n.at()
		}
	}
	if t := o.get("description"); t != nil {
		s.Description, _ = t.text()
	}
	if b := o.need("objective", "say how much must be good, in percent, such as `objective: 99.9`"); b != nil {
		s.objectiveAt = b.at()
		s.Objective, _ = b.objective()
	}
	s.Labels = maps.Clone(d.labels)
	for _, key := range []string{"labels", "infoLabels"} {
		if l := o.get(key); l != nil {
			own, _ := l.infoLabels()
			s.Labels = merged(s.Labels, own)
		}
	}
	o.noPlugins("plugins")
	if o.has("interval") {
		o.r.warnf(o.keyAt("interval"), "remove it", "%s: the interval of rule groups is the generator's business, not the spec's", o.what)
	}
	s.Window = slo.Window{Rolling: defaultWindow}
	s.Budgeting = slo.Budgeting{Method: slo.Occurrences}
	if in := o.need("sli", "say what is measured: events or raw"); in != nil {
		s.readSlothSLI(in, is)
	}
	if a := o.get("alerting"); a != nil {
		s.readSlothAlerting(a, is)
	}
	s.ok = v.r.errors == before
	d.slos = append(d.slos, s)
}

// merged is a with b, which wins. It may change a.
func merged(a, b map[string]string) map[string]string {
	if len(a) == 0 {
		return b
	}
	maps.Copy(a, b)
	return a
}

func (s *sloDraft) readSlothSLI(v *value, is slothDialect) {
	o := v.object("events", "raw", "plugin")
	if o == nil {
		return
	}
	if o.has("plugin") {
		o.r.errorf(o.keyAt("plugin"), "write the queries that it makes as `events`", "sli: plugins are programs of Sloth and cannot be run here")
		return
	}
	if len(o.keys) == 0 {
		v.errorf("want events or raw", "sli is empty")
	}
	if o.has("events") && o.has("raw") {
		v.errorf("keep one; write a second SLO for the other", "sli: only one of events and raw is possible")
		return
	}
	if e := o.get("events"); e != nil {
		in := e.objectOr(is.other, is.errorQuery, is.totalQuery)
		if in == nil {
			return
		}
		var bad, total *promQuery
		ok1, ok2 := false, false
		if q := in.need(is.errorQuery, "add the query of the failed ones"); q != nil {
			bad, ok1 = q.windowedQuery()
		}
		if q := in.need(is.totalQuery, "add the query of all"); q != nil {
			total, ok2 = q.windowedQuery()
		}
		if ok1 && ok2 {
			s.kindKnown = true
			s.readEventQueries(bad, nil, total)
		}
	}
	if raw := o.get("raw"); raw != nil {
		in := raw.objectOr(is.other, is.errorRatioQuery)
		if in == nil {
			return
		}
		if q := in.need(is.errorRatioQuery, "add the query of the ratio of failed ones"); q != nil {
			if ratio, ok := q.windowedQuery(); ok {
				s.kindKnown = true
				s.readRatioQuery(ratio, false)
			}
		}
	}
}

func (s *sloDraft) readSlothAlerting(v *value, is slothDialect) {
	o := v.objectOr(is.other, "name", "labels", "annotations", is.pageAlert, is.ticketAlert)
	if o == nil {
		return
	}
	a := &s.Alerting
	if n := o.get("name"); n != nil {
		a.Name, _ = n.alertName()
	}
	var labels, notes map[string]string
	if l := o.get("labels"); l != nil {
		labels = l.alertLabels()
	}
	if n := o.get("annotations"); n != nil {
		notes = n.annotations()
	}
	for _, severity := range []struct {
		key string
		to  *slo.AlertSettings
	}{{is.pageAlert, &a.Page}, {is.ticketAlert, &a.Ticket}} {
		key, to := severity.key, severity.to
		to.Labels, to.Annotations = maps.Clone(labels), maps.Clone(notes)
		in := o.field(key)
		if in == nil || in.null() {
			continue // Sloth's own examples leave it empty
		}
		own := in.object("disable", "labels", "annotations", "for")
		if own == nil {
			continue
		}
		if b := own.get("disable"); b != nil {
			to.Disabled = b.bool()
		}
		if f := own.get("for"); f != nil {
			to.For, _ = f.duration(0, day)
		}
		if l := own.get("labels"); l != nil {
			set := l.alertLabels()
			if x, ok := set["disable"]; ok {
				l.warnf("write `disable: "+x+"` beside labels", "%s: disable is taken for a label", key)
			}
			to.Labels = merged(to.Labels, set)
		}
		if n := own.get("annotations"); n != nil {
			to.Annotations = merged(to.Annotations, n.annotations())
		}
	}
	// Who wants no alert wants none of missing data either.
	a.NoData.Disabled = a.Page.Disabled && a.Ticket.Disabled
}

// alertName is the name of an alert rule.
func (v *value) alertName() (string, bool) {
	s, ok := v.text()
	if ok && (s == "" || len(s) > maxName || strings.ContainsAny(s, "\n\t")) {
		v.errorf("write a name such as CheckoutErrors", "%s: %q is not the name of an alert", v.what, clip(s))
		return "", false
	}
	return s, ok
}

// alertLabels are labels of alerts, which have some of their own.
func (v *value) alertLabels() map[string]string {
	out, _ := v.labelMap("service", "alertname")
	return out
}

// annotations are texts with the names of labels; they may hold templates.
func (v *value) annotations() map[string]string {
	o := v.open()
	if o == nil {
		return nil
	}
	out := map[string]string{}
	for _, k := range o.keys {
		if !labelPattern.MatchString(k) || len(k) > maxName {
			v.r.errorf(o.keyAt(k), "use letters, digits and underscore, no digit first", "%s: %q is not the name of an annotation", v.what, clip(k))
			continue
		}
		if t := o.get(k); t != nil {
			if s, ok := t.text(); ok {
				out[k] = s
			}
		}
	}
	return out
}
