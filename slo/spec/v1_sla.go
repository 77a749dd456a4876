package spec

import (
	"fmt"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

func (d *draft) readSLA(v *yamldoc.Value) {
	call(v, "sla")
	o := v.Object("name", "description", "group_by", "window", "score", "components", "no_data", "alerts", "alert_window")
	if o == nil {
		return
	}
	before := v.Errors()
	a := &slaDraft{Agreement: &sla.Agreement{Service: d.service, Method: sla.Attainment, NoData: sla.NoDataExclude}, at: v.At()}
	a.Window = slo.Window{Rolling: defaultWindow}
	if n := o.Need("name", "give it a short name such as `name: gold`"); n != nil {
		a.at = n.At()
		a.Name, _ = readName(n)
	}
	if t := o.Get("description"); t != nil {
		a.Description, _ = t.Text()
	}
	if g := o.Get("group_by"); g != nil {
		a.GroupBy, _ = readGroupLabels(g, true) // its SLOs have all of them, so these are checked there
		if len(a.GroupBy) == 0 && g.Len() == 0 {
			g.Errorf("remove the key", "group_by is empty")
		}
		for i, l := range a.GroupBy {
			at := g.At()
			if len(a.GroupBy) == g.Len() {
				at = g.Item(i).At()
			}
			a.groups = append(a.groups, named{l, at})
		}
	}
	if w := o.Get("window"); w != nil {
		if win, ok := readWindow(w); ok {
			a.Window = win
		}
	}
	if s := o.Get("score"); s != nil {
		if m, ok := s.Choice(string(sla.Attainment), string(sla.Ratio), string(sla.Bands)); ok {
			a.Method = sla.Method(m)
		}
	}
	if n := o.Get("no_data"); n != nil {
		if p, ok := n.Choice(string(sla.NoDataExclude), string(sla.NoDataGood), string(sla.NoDataBad)); ok {
			a.NoData = sla.NoData(p)
		}
	}
	if c := o.Need("components", "name the SLOs it is made of, such as `components: {availability: {slo: availability, weight: 40}}`"); c != nil {
		a.readComponents(c, d.service)
	}
	a.readAlerts(o)
	a.ok = v.Errors() == before
	d.slas = append(d.slas, a)
}

func (a *slaDraft) readAlerts(o *yamldoc.Object) {
	if v := o.Get("alerts"); v != nil {
		if al := v.Object("warning", "critical", "catalogue", "severities"); al != nil {
			if w := al.Get("warning"); w != nil {
				a.Warning, _ = w.Number(0, 100)
			}
			if c := al.Get("critical"); c != nil {
				a.Critical, _ = c.Number(0, 100)
				if a.Warning > 0 && a.Critical >= a.Warning {
					c.Errorf("scores fall, so warning must be the higher one", "alerts: critical (%v) must be below warning (%v)", a.Critical, a.Warning)
				}
			}
			if c := al.Get("catalogue"); c != nil {
				a.catalogue = readCatalogue(c)
			}
			if s := al.Get("severities"); s != nil {
				words, _ := s.Choice("ticket", "seed")
				a.SeedSeverities = words == "seed"
			}
			if len(al.Keys) == 0 {
				v.Errorf("add `warning: 95` or remove the key", "alerts is empty")
			}
		}
	}
	w := o.Get("alert_window")
	if w == nil {
		return
	}
	d, ok := readDuration(w, 5*time.Minute, maxWindow)
	if !ok {
		return
	}
	a.AlertWindow = d
	if a.Window.Rolling > 0 && d >= a.Window.Rolling || a.Window.Calendar != "" && d >= a.Window.Nominal() {
		w.Errorf("use a shorter one such as 1h", "alert_window: want less than the window (%s), got %s", a.Window, slo.FormatDuration(d))
	}
	if !o.Has("alerts") {
		w.Errorf("add `alerts: {warning: 95, critical: 90}` or remove it", "alert_window requires alerts")
	}
}

// catalogue reads the chosen entries: names, or {name: error_rate, slos: [api]}.
func readCatalogue(v *yamldoc.Value) []catalogueDraft {
	items, _ := v.List()
	if v.IsList() && len(items) == 0 {
		v.Errorf("name some, such as [latency, error_rate], or remove the key", "catalogue is empty")
	}
	var out []catalogueDraft
	seen := map[string]bool{}
	for _, i := range items {
		var c catalogueDraft
		n := i
		if i.IsMapping() {
			call(i, "catalogue")
			o := i.Object("name", "slos")
			if n = o.Need("name", "name an entry of the catalogue"); n == nil {
				continue
			}
			if l := o.Get("slos"); l != nil {
				names, _ := l.List()
				if l.IsList() && len(names) == 0 {
					l.Errorf("name some, or remove the key for all SLOs of the right kind", "slos is empty")
				}
				for _, x := range names {
					if s, ok := readName(x); ok {
						c.slos = append(c.slos, named{s, x.At()})
					}
				}
			}
		}
		name, ok := n.Choice(sla.CatalogueNames()...)
		if !ok {
			continue
		}
		if seen[name] {
			n.Errorf("keep one, which can name several SLOs", "catalogue: %s is listed twice", name)
			continue
		}
		seen[name] = true
		c.name = name
		out = append(out, c)
	}
	return out
}

func (a *slaDraft) readComponents(v *yamldoc.Value, service string) {
	o := v.Open()
	if o == nil {
		return
	}
	if len(o.Keys) == 0 {
		v.Errorf("name at least one SLO", "components is empty")
	}
	a.weightsAt = v.At()
	for _, k := range o.Keys {
		if !namePattern.MatchString(k) || len(k) > maxName {
			v.ErrorfAt(o.KeyAt(k), "use a-z, 0-9, dots, dashes and underscores", "components: invalid name %q", yamldoc.Clip(k))
			continue
		}
		c := componentDraft{ok: true}
		c.Name = k
		if in := o.Get(k); in != nil {
			in.What = "component " + k
			c.read(in, o.KeyAt(k), service)
			a.components = append(a.components, c)
		}
	}
}

func (c *componentDraft) read(v *yamldoc.Value, keyAt Position, service string) {
	o := v.Object("slo", "weight", "bands")
	if o == nil {
		c.ok = false
		return
	}
	c.slo = named{c.Name, keyAt}
	if s := o.Get("slo"); s != nil {
		name, ok := readName(s)
		c.ok = c.ok && ok
		c.slo = named{name, s.At()}
	} else if o.Has("slo") {
		c.ok = false
	}
	c.SLO = slo.NewID(service, c.slo.name)
	if w := o.Need("weight", "set its weight, such as `weight: 40`"); w != nil {
		x, ok := w.Number(0, 1e9)
		if ok && x <= 0 {
			w.Errorf("remove the component if it should not count", "%s: weight must be greater than 0", v.What)
		}
		c.Weight = x
	}
	if b := o.Get("bands"); b != nil {
		c.bandsAt = b.At()
		c.Bands = readBands(b)
	}
}

// bands reads steps: rising thresholds, falling scores, the last one for the rest.
func readBands(v *yamldoc.Value) []sla.Band {
	items, _ := v.List()
	if v.IsList() && len(items) < 2 {
		v.Errorf("write at least [{p95: 5m, score: 100}, {score: 0}]", "bands: want at least two steps, got %d", len(items))
		return nil
	}
	var out []sla.Band
	whole := true
	for i, item := range items {
		b, ok := readBand(item, i == len(items)-1)
		if !ok {
			whole = false
			continue
		}
		if n := len(out); n > 0 && whole {
			switch prev := out[n-1]; {
			case b.Threshold > 0 && b.Threshold <= prev.Threshold:
				item.Errorf("order the steps from the shortest time to the longest", "bands: %s does not come after %s", slo.FormatDuration(b.Threshold), slo.FormatDuration(prev.Threshold))
			case b.Score >= prev.Score:
				item.Errorf("a slower step must score less", "bands: score %v is not below %v, the score of the step before", b.Score, prev.Score)
			}
		}
		out = append(out, b)
	}
	return out
}

func readBand(v *yamldoc.Value, last bool) (sla.Band, bool) {
	v.What = "band"
	o := v.Open()
	if o == nil {
		return sla.Band{}, false
	}
	var b sla.Band
	ok := true
	for _, k := range o.Keys {
		switch {
		case k == "score":
		case strings.HasPrefix(k, "p"):
			q, err := slo.ParsePercent(k[1:])
			switch {
			case err != nil || q.Ratio() < 0.5 || q.Ratio() > 0.999:
				v.ErrorfAt(o.KeyAt(k), "want p50 to p99.9, such as p95", "bands: %q is not a quantile", yamldoc.Clip(k))
				ok = false
				continue
			case b.Quantile > 0:
				v.ErrorfAt(o.KeyAt(k), "write one step for each", "bands: a step has only one quantile")
				ok = false
				continue
			}
			b.Quantile = q.Ratio()
			t := o.Get(k)
			if t == nil {
				ok = false
				continue
			}
			d, good := readDuration(t, time.Millisecond, maxWindow)
			b.Threshold, ok = d, ok && good
		default:
			v.ErrorfAt(o.KeyAt(k), "write a step such as {p95: 5m, score: 100}", "bands: unknown key %q", yamldoc.Clip(k))
			ok = false
		}
	}
	switch {
	case last && b.Quantile > 0:
		v.Errorf("add a step such as {score: 0} for everything slower", "bands: the last step must have no threshold")
		ok = false
	case !last && b.Quantile == 0 && ok:
		v.Errorf("only the last step has no threshold", "bands: the step has no quantile such as p95")
		ok = false
	}
	s := o.Need("score", "set the score of the step, 0 to 100")
	if s == nil {
		return b, false
	}
	x, good := s.Number(0, 100)
	b.Score = x
	return b, ok && good
}

func weightText(x float64) string { return fmt.Sprintf("%.6g", x) }
