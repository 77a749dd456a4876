package spec

import (
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

func (d *draft) readSLA(v *value) {
	v.call("sla")
	o := v.object("name", "description", "group_by", "window", "score", "components", "no_data", "alerts", "alert_window")
	if o == nil {
		return
	}
	before := v.r.errors
	a := &slaDraft{Agreement: &sla.Agreement{Service: d.service, Method: sla.Attainment, NoData: sla.NoDataExclude}, at: v.at()}
	a.Window = slo.Window{Rolling: defaultWindow}
	if n := o.need("name", "give it a short name such as `name: gold`"); n != nil {
		a.at = n.at()
		a.Name, _ = n.name()
	}
	if t := o.get("description"); t != nil {
		a.Description, _ = t.text()
	}
	if g := o.get("group_by"); g != nil {
		// A component's score is a series with that label.
		a.GroupBy, _ = g.labelList("service", "component")
		if len(a.GroupBy) == 0 && len(g.n.Content) == 0 {
			g.errorf("remove the key", "group_by is empty")
		}
		for i, l := range a.GroupBy {
			at := g.at()
			if len(a.GroupBy) == len(g.n.Content) {
				at = newValue(g.r, g.n.Content[i], "").at()
			}
			a.groups = append(a.groups, named{l, at})
		}
	}
	if w := o.get("window"); w != nil {
		if win, ok := w.window(); ok {
			a.Window = win
		}
	}
	if s := o.get("score"); s != nil {
		if m, ok := s.choice(string(sla.Attainment), string(sla.Ratio), string(sla.Bands)); ok {
			a.Method = sla.Method(m)
		}
	}
	if n := o.get("no_data"); n != nil {
		if p, ok := n.choice(string(sla.NoDataExclude), string(sla.NoDataGood), string(sla.NoDataBad)); ok {
			a.NoData = sla.NoData(p)
		}
	}
	if c := o.need("components", "name the SLOs it is made of, such as `components: {availability: {slo: availability, weight: 40}}`"); c != nil {
		a.readComponents(c, d.service)
	}
	a.readAlerts(o)
	a.ok = v.r.errors == before
	d.slas = append(d.slas, a)
}

func (a *slaDraft) readAlerts(o *object) {
	if v := o.get("alerts"); v != nil {
		if al := v.object("warning", "critical", "catalogue"); al != nil {
			if w := al.get("warning"); w != nil {
				a.Warning, _ = w.number(0, 100)
			}
			if c := al.get("critical"); c != nil {
				a.Critical, _ = c.number(0, 100)
				if a.Warning > 0 && a.Critical >= a.Warning {
					c.errorf("scores fall, so warning is the higher one", "alerts: critical (%v) must be below warning (%v)", a.Critical, a.Warning)
				}
			}
			if c := al.get("catalogue"); c != nil {
				a.catalogue = c.catalogue()
			}
			if len(al.keys) == 0 {
				v.errorf("add `warning: 95` or remove the key", "alerts is empty")
			}
		}
	}
	w := o.get("alert_window")
	if w == nil {
		return
	}
	d, ok := w.duration(5*time.Minute, maxWindow)
	if !ok {
		return
	}
	a.AlertWindow = d
	if a.Window.Rolling > 0 && d >= a.Window.Rolling || a.Window.Calendar != "" && d >= nominal(a.Window) {
		w.errorf("take a shorter one such as 1h", "alert_window: want less than the window (%s), got %s", a.Window, slo.FormatDuration(d))
	}
	if !o.has("alerts") {
		w.errorf("add `alerts: {warning: 95, critical: 90}` or remove it", "alert_window means nothing without alerts")
	}
}

// catalogue reads the chosen entries: names, or {name: error_rate, slos: [api]}.
func (v *value) catalogue() []catalogueDraft {
	items, _ := v.list()
	if v.isList() && len(items) == 0 {
		v.errorf("name some, such as [latency, error_rate], or remove the key", "catalogue is empty")
	}
	var out []catalogueDraft
	seen := map[string]bool{}
	for _, i := range items {
		var c catalogueDraft
		n := i
		if i.isObject() {
			i.call("catalogue")
			o := i.object("name", "slos")
			if n = o.need("name", "name an entry of the catalogue"); n == nil {
				continue
			}
			if l := o.get("slos"); l != nil {
				names, _ := l.list()
				if l.isList() && len(names) == 0 {
					l.errorf("name some, or remove the key for all that it fits", "slos is empty")
				}
				for _, x := range names {
					if s, ok := x.name(); ok {
						c.slos = append(c.slos, named{s, x.at()})
					}
				}
			}
		}
		name, ok := n.choice(sla.CatalogueNames()...)
		if !ok {
			continue
		}
		if seen[name] {
			n.errorf("keep one; it can name several SLOs", "catalogue: %s is listed twice", name)
			continue
		}
		seen[name] = true
		c.name = name
		out = append(out, c)
	}
	return out
}

func (a *slaDraft) readComponents(v *value, service string) {
	o := v.open()
	if o == nil {
		return
	}
	if len(o.keys) == 0 {
		v.errorf("name at least one SLO", "components is empty")
	}
	a.weightsAt = v.at()
	for _, k := range o.keys {
		if !namePattern.MatchString(k) || len(k) > maxName {
			v.r.errorf(o.keyAt(k), "use a-z, 0-9, dot, dash and underscore", "components: %q is not a name", clip(k))
			continue
		}
		c := componentDraft{ok: true}
		c.Name = k
		if in := o.get(k); in != nil {
			in.what = "component " + k
			c.read(in, o.keyAt(k), service)
			a.components = append(a.components, c)
		}
	}
}

func (c *componentDraft) read(v *value, keyAt Position, service string) {
	o := v.object("slo", "weight", "bands")
	if o == nil {
		c.ok = false
		return
	}
	c.slo = named{c.Name, keyAt}
	if s := o.get("slo"); s != nil {
		name, ok := s.name()
		c.ok = c.ok && ok
		c.slo = named{name, s.at()}
	} else if o.has("slo") {
		c.ok = false
	}
	c.SLO = slo.NewID(service, c.slo.name)
	if w := o.need("weight", "say how much it counts, such as `weight: 40`"); w != nil {
		x, ok := w.number(0, 1e9)
		if ok && x <= 0 {
			w.errorf("remove the component if it should not count", "%s: weight must be greater than 0", v.what)
		}
		c.Weight = x
	}
	if b := o.get("bands"); b != nil {
		c.bandsAt = b.at()
		c.Bands = b.bands()
	}
}

// bands reads steps: rising thresholds, falling scores, the last one for the rest.
func (v *value) bands() []sla.Band {
	items, _ := v.list()
	if v.isList() && len(items) < 2 {
		v.errorf("write at least [{p95: 5m, score: 100}, {score: 0}]", "bands: want at least two steps, got %d", len(items))
		return nil
	}
	var out []sla.Band
	whole := true
	for i, item := range items {
		b, ok := item.band(i == len(items)-1)
		if !ok {
			whole = false
			continue
		}
		if n := len(out); n > 0 && whole {
			switch prev := out[n-1]; {
			case b.Threshold > 0 && b.Threshold <= prev.Threshold:
				item.errorf("order the steps from the shortest time to the longest", "bands: %s does not come after %s", slo.FormatDuration(b.Threshold), slo.FormatDuration(prev.Threshold))
			case b.Score >= prev.Score:
				item.errorf("a slower step must score less", "bands: score %v is not below %v, that of the step before", b.Score, prev.Score)
			}
		}
		out = append(out, b)
	}
	return out
}

func (v *value) band(last bool) (sla.Band, bool) {
	v.what = "band"
	o := v.open()
	if o == nil {
		return sla.Band{}, false
	}
	var b sla.Band
	ok := true
	for _, k := range o.keys {
		switch {
		case k == "score":
		case strings.HasPrefix(k, "p"):
			q, err := slo.ParsePercent(k[1:])
			switch {
			case err != nil || q.Ratio() < 0.5 || q.Ratio() > 0.999:
				v.r.errorf(o.keyAt(k), "want p50 to p99.9, such as p95", "bands: %q is not a quantile", clip(k))
				ok = false
				continue
			case b.Quantile > 0:
				v.r.errorf(o.keyAt(k), "write one step for each", "bands: a step has only one quantile")
				ok = false
				continue
			}
			b.Quantile = q.Ratio()
			t := o.get(k)
			if t == nil {
				ok = false
				continue
			}
			d, good := t.duration(time.Millisecond, maxWindow)
			b.Threshold, ok = d, ok && good
		default:
			v.r.errorf(o.keyAt(k), "write a step such as {p95: 5m, score: 100}", "bands: unknown key %q", clip(k))
			ok = false
		}
	}
	switch {
	case last && b.Quantile > 0:
		v.errorf("add a step such as {score: 0} for everything slower", "bands: the last step must have no threshold")
		ok = false
	case !last && b.Quantile == 0 && ok:
		v.errorf("only the last step has no threshold", "bands: the step has no quantile such as p95")
		ok = false
	}
	s := o.need("score", "say what the step is worth, 0 to 100")
	if s == nil {
		return b, false
	}
	x, good := s.number(0, 100)
	b.Score = x
	return b, ok && good
}

// nominal is the usual length of a window, for what has to be one number.
func nominal(w slo.Window) time.Duration {
	switch w.Calendar {
	case slo.Day:
		return day
	case slo.Week:
		return 7 * day
	case slo.Month:
		return 30 * day
	case slo.Quarter:
		return 91 * day
	case slo.Year:
		return 365 * day
	}
	return w.Rolling
}

func weightText(x float64) string { return fmt.Sprintf("%.6g", x) }
