package spec

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// newSLADraft is an agreement with what holds where it says nothing.
func newSLADraft(service string) *slaDraft {
	return &slaDraft{Agreement: &sla.Agreement{
		Service: service, Window: slo.Window{Rolling: defaultWindow}, Method: sla.Attainment, NoData: sla.NoDataExclude,
	}}
}

// agreementDraft is an agreement to be written.
func agreementDraft(a *sla.Agreement) *slaDraft {
	d := &slaDraft{Agreement: a}
	for _, c := range a.Components {
		d.components = append(d.components, componentDraft{Component: c})
	}
	for _, c := range a.Catalogue {
		x := catalogueDraft{name: c.Name}
		for _, id := range c.SLOs {
			x.slos = append(x.slos, named{name: id.Name()})
		}
		d.catalogue = append(d.catalogue, x)
	}
	return d
}

var (
	scoreWords  = []string{string(sla.Attainment), string(sla.Ratio), string(sla.Bands)}
	noDataWords = []string{string(sla.NoDataExclude), string(sla.NoDataGood), string(sla.NoDataBad)}
)

func (a *slaDraft) keys() keys {
	return keys{
		nameKey(&a.Name, "gold"),
		at("description", prose{&a.Description}),
		at("group_by", custom{
			in:  a.readGroupBy,
			out: func(*encoder) *yamlgen.Node { return textList(a.GroupBy) },
			is:  func() doc { return listShape(labelDoc) },
		}),
		at("window", window{&a.Window}).orShown("30d"),
		at("score", word[sla.Method]{&a.Method, scoreWords}).orShown(string(sla.Attainment)),
		at("components", custom{in: a.readComponents, out: a.writeComponents, is: func() doc {
			component := (&componentDraft{}).keys().shape()
			return doc{Kind: shape.Map, Of: &component, Pattern: namePattern.String()}
		}}).need("name the SLOs it is made of, such as `components: {availability: {slo: availability, weight: 40}}`"),
		at("no_data", word[sla.NoData]{&a.NoData, noDataWords}).orShown(string(sla.NoDataExclude)),
		at("alerts", a.alerts()),
		at("alert_window", length{&a.AlertWindow, 5 * time.Minute, maxWindow}),
	}
}

func (a *slaDraft) read(ks keys, o *yamldoc.Object) {
	before := o.Errors()
	ks.readFrom(o)
	a.at = placeOf(o, "name")
	if w := o.Get("alert_window"); w != nil && a.AlertWindow > 0 {
		if d := a.AlertWindow; a.Window.Rolling > 0 && d >= a.Window.Rolling ||
			a.Window.Calendar != "" && d >= a.Window.Nominal() {
			w.Errorf("use a shorter one such as 1h", "alert_window: want less than the window (%s), got %s",
				a.Window, slo.FormatDuration(d))
		}
		if !o.Has("alerts") {
			w.Errorf("add `alerts: {warning: 95, critical: 90}` or remove it", "alert_window requires alerts")
		}
	}
	a.ok = o.Errors() == before
}

func (a *slaDraft) readGroupBy(g *yamldoc.Value) {
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

func (a *slaDraft) alerts() value {
	in := inside{keys: func() keys {
		return keys{
			at("warning", number{&a.Warning, 0, 100}),
			at("critical", number{&a.Critical, 0, 100}),
			at("catalogue", custom{in: a.readCatalogue, out: a.writeCatalogue, is: func() doc {
				return listShape(eitherShape(wordsShape(sla.CatalogueNames()...), (&catalogueDraft{}).keys().shape()))
			}}),
			at("severities", custom{
				in: func(v *yamldoc.Value) {
					s, _ := v.Choice("ticket", "seed")
					a.SeedSeverities = s == "seed"
				},
				out: func(*encoder) *yamlgen.Node {
					if !a.SeedSeverities {
						return nil
					}
					return yamlgen.Text("seed")
				},
				is: func() doc { return wordsShape("ticket", "seed") },
			}).or("ticket"),
		}
	}, then: func(o *yamldoc.Object) {
		if c := o.Get("critical"); c != nil && a.Warning > 0 && a.Critical >= a.Warning {
			c.Errorf("scores fall, so warning must be the higher one", "alerts: critical (%v) must be below warning (%v)",
				a.Critical, a.Warning)
		}
		if len(o.Keys) == 0 {
			o.Errorf("add `warning: 95` or remove the key", "alerts is empty")
		}
	}}
	return custom{in: in.read, is: in.shape, out: func(e *encoder) *yamlgen.Node {
		n := in.write(e)
		if n == nil && a.AlertWindow > 0 {
			m := &yamlgen.Map{}
			m.Plain("warning", "0")
			n = m.Line()
		}
		return n
	}}
}

// keys are those of an entry that is narrowed down to some SLOs.
func (c *catalogueDraft) keys() keys {
	return keys{
		at("name", word[string]{&c.name, sla.CatalogueNames()}).need("name an entry of the catalogue"),
		at("slos", names(&c.slos, "name some, or remove the key for all SLOs of the right kind")),
	}
}

// readCatalogue reads the chosen entries: names, or {name: error_rate, slos: [api]}.
func (a *slaDraft) readCatalogue(v *yamldoc.Value) {
	if v.IsList() && v.Len() == 0 {
		v.Errorf("name some, such as [latency, error_rate], or remove the key", "catalogue is empty")
	}
	seen := map[string]bool{}
	eachItem(v, func(i *yamldoc.Value) {
		var c catalogueDraft
		n := i
		if i.IsMapping() {
			call(i, "catalogue")
			n = c.keys().read(i).Field("name")
		} else {
			word[string]{&c.name, sla.CatalogueNames()}.read(i)
		}
		switch {
		case c.name == "":
		case seen[c.name]:
			n.Errorf("keep one, which can name several SLOs", "catalogue: %s is listed twice", c.name)
		default:
			seen[c.name] = true
			a.catalogue = append(a.catalogue, c)
		}
	})
}

func (a *slaDraft) writeCatalogue(e *encoder) *yamlgen.Node {
	return lineOf(a.catalogue, func(c *catalogueDraft) *yamlgen.Node {
		if len(c.slos) == 0 {
			return yamlgen.Text(c.name)
		}
		return c.keys().write(e).Line()
	})
}

func (a *slaDraft) readComponents(v *yamldoc.Value) {
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
		if in := o.Get(k); in != nil {
			c := componentDraft{slo: named{k, o.KeyAt(k)}}
			c.Name, in.What = k, "component "+k
			x := c.keys().read(in)
			c.ok = x != nil && c.slo.name != "" && !(x.Has("slo") && x.Field("slo").IsNull())
			c.SLO = slo.NewID(a.Service, c.slo.name)
			a.components = append(a.components, c)
		}
	}
}

func (a *slaDraft) writeComponents(e *encoder) *yamlgen.Node {
	m := &yamlgen.Map{}
	for i := range a.components {
		c := &a.components[i]
		m.Set(c.Name, c.keys().write(e).Line())
	}
	return m.Node()
}

func (c *componentDraft) keys() keys {
	return keys{
		at("slo", custom{
			in: func(v *yamldoc.Value) {
				name, _ := readName(v)
				c.slo = named{name, v.At()}
			},
			out: func(*encoder) *yamlgen.Node { return yamlgen.Text(c.SLO.Name()) },
			is:  func() doc { return nameDoc },
		}),
		at("weight", weight{number{&c.Weight, 0, 1e9}, c.Name}).need("set its weight, such as `weight: 40`"),
		at("bands", custom{
			in: func(v *yamldoc.Value) {
				c.bandsAt = v.At()
				c.Bands = readBands(v)
			},
			out: func(*encoder) *yamlgen.Node { return writeBands(c.Bands) },
			is:  bandsShape,
		}),
	}
}

// weight is a number above 0.
type weight struct {
	number
	of string // the name of the component
}

func (w weight) read(v *yamldoc.Value) {
	x, ok := v.Number(w.lo, w.hi)
	if ok && x <= 0 {
		v.Errorf("remove the component if it should not count", "component %s: weight must be greater than 0", w.of)
	}
	*w.to = x
}

func (w weight) shape() shape.Shape {
	s := w.number.shape()
	s.Above = true
	return s
}

const needScore = "set the score of the step, 0 to 100"

// bandsShape describes steps, which have a key for the percentile that they are about.
func bandsShape() doc {
	step := keys{at("score", number{nil, 0, 100}).need(needScore)}.shape()
	step.Keys = append([]shape.Key{{
		Name: "p95", Pattern: percentilePattern, Shape: length{nil, time.Millisecond, maxWindow}.shape(),
	}}, step.Keys...)
	return listShape(step)
}

func writeBands(bands []sla.Band) *yamlgen.Node {
	return lineOf(bands, func(b *sla.Band) *yamlgen.Node {
		step := &yamlgen.Map{}
		if b.Threshold > 0 {
			step.Plain("p"+percentText(b.Quantile), slo.FormatDuration(b.Threshold))
		}
		step.Plain("score", decimalText(b.Score))
		return step.Line()
	})
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
				item.Errorf("order the steps from the shortest time to the longest", "bands: %s does not come after %s",
					slo.FormatDuration(b.Threshold), slo.FormatDuration(prev.Threshold))
			case b.Score >= prev.Score:
				item.Errorf("a slower step must score less", "bands: score %v is not below %v, the score of the step before",
					b.Score, prev.Score)
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
			d, good := readDuration(o.Get(k), time.Millisecond, maxWindow)
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
	x, good := o.Need("score", needScore).Number(0, 100)
	b.Score = x
	return b, ok && good
}

// maxBefore is the longest that a detection or a response can have taken.
const maxBefore = 365 * 24 * time.Hour

type baselineDraft struct {
	*slo.Baseline
	at         Position // of its name
	slos, slas []named
}

func (b *baselineDraft) keys() keys {
	return keys{
		nameKey(&b.Name, "performance"),
		at("slos", names(&b.slos, "name some, or remove the key")),
		at("slas", names(&b.slas, "name some, or remove the key")),
		at("detection", before(&b.Detection)),
		at("response", before(&b.Response)),
		at("goal", goal(&b.Goal)).or("50"),
	}
}

func (b *baselineDraft) read(ks keys, o *yamldoc.Object) {
	ks.readFrom(o)
	b.at, b.SLOs, b.Agreements = placeOf(o, "name"), justNames(b.slos), justNames(b.slas)
	if !o.Has("detection") && !o.Has("response") && !o.Misspelt() {
		o.Errorf("add `detection: {from: 60m, to: 90m}`", "%s: neither detection nor response is set", o.What)
	}
}

func goal(to *float64) value {
	return custom{
		in: func(v *yamldoc.Value) {
			if n, ok := v.Number(1, 99); ok {
				*to = n / 100
			}
		},
		out: func(*encoder) *yamlgen.Node { return yamlgen.Plain(slo.FormatRatio(100 * *to)) },
		is:  func() doc { return numberShape("1", "99") },
	}
}

// before is how long something took before.
func before(b *slo.Before) value {
	return inside{keys: func() keys {
		return keys{
			at("from", length{&b.From, time.Second, maxBefore}).need("set the shortest that it took, such as `from: 60m`"),
			at("to", length{&b.To, time.Second, maxBefore}).need("set the longest that it took, such as `to: 90m`"),
			at("target", length{&b.Target, time.Second, maxBefore}),
		}
	}, then: func(o *yamldoc.Object) {
		if b.From > 0 && b.To > 0 && b.To < b.From {
			o.Errorf("swap them", "%s: to (%s) is shorter than from (%s)", o.What, slo.FormatDuration(b.To),
				slo.FormatDuration(b.From))
		}
	}}
}

// baselines finds the SLOs and agreements that each baseline is about.
func (a *assembly) baselines(s *assembled) {
	seen := map[string]Position{}
	slas := map[string]bool{}
	var slaNames []string
	for _, d := range s.drafts {
		for _, g := range d.slas {
			slas[g.Name] = true
			slaNames = append(slaNames, g.Name)
		}
	}
	sloNames := slices.Sorted(maps.Keys(s.slos))
	for _, d := range s.drafts {
		for _, b := range d.baselines {
			if a.once(seen, b.at, "baseline", s.Name, b.Name) {
				a.spec.Baselines = append(a.spec.Baselines, b.Baseline)
			}
			for _, n := range b.slos {
				if s.slos[n.name] == nil {
					a.Errorf(n.at, unknownSLO(n.name, sloNames), "baseline %s: the service has no slo %q", b.Name, n.name)
				}
			}
			for _, n := range b.slas {
				if !slas[n.name] {
					a.Errorf(n.at, suggest.DidYouMean(n.name, slaNames), "baseline %s: the service has no sla %q", b.Name, n.name)
				}
			}
		}
	}
}
