package spec

import (
	"maps"
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// maxBefore is the longest that a detection or a response can have taken.
const maxBefore = 365 * 24 * time.Hour

type baselineDraft struct {
	*slo.Baseline
	at         Position // of its name
	slos, slas []named
}

func (d *draft) readBaseline(v *yamldoc.Value) {
	call(v, "baseline")
	o := v.Object("name", "slos", "slas", "detection", "response", "goal")
	if o == nil {
		return
	}
	b := &baselineDraft{Baseline: &slo.Baseline{Service: d.service, Goal: slo.DefaultGoal}, at: v.At()}
	if n := o.Need("name", "give it a short name such as `name: performance`"); n != nil {
		b.at = n.At()
		b.Name, _ = readName(n)
	}
	list := func(key string) (out []named, names []string) {
		l := o.Get(key)
		if l == nil {
			return nil, nil
		}
		items, _ := l.List()
		if len(items) == 0 && l.IsList() {
			l.Errorf("name some, or remove the key", "%s is empty", key)
		}
		for _, i := range items {
			if name, ok := readName(i); ok {
				out, names = append(out, named{name, i.At()}), append(names, name)
			}
		}
		return out, names
	}
	b.slos, b.SLOs = list("slos")
	b.slas, b.Agreements = list("slas")
	if t := o.Get("detection"); t != nil {
		b.Detection = readBefore(t)
	}
	if t := o.Get("response"); t != nil {
		b.Response = readBefore(t)
	}
	if !o.Has("detection") && !o.Has("response") && !o.Misspelt() {
		v.Errorf("add `detection: {from: 60m, to: 90m}`", "%s: neither detection nor response is set", v.What)
	}
	if g := o.Get("goal"); g != nil {
		if n, ok := g.Number(1, 99); ok {
			b.Goal = n / 100
		}
	}
	d.baselines = append(d.baselines, b)
}

// readBefore reads how long something took before.
func readBefore(v *yamldoc.Value) (b slo.Before) {
	o := v.Object("from", "to", "target")
	if o == nil {
		return b
	}
	read := func(key, hint string, into *time.Duration) {
		if t := o.Need(key, hint); t != nil {
			*into, _ = readDuration(t, time.Second, maxBefore)
		}
	}
	read("from", "set the shortest that it took, such as `from: 60m`", &b.From)
	read("to", "set the longest that it took, such as `to: 90m`", &b.To)
	if t := o.Get("target"); t != nil {
		b.Target, _ = readDuration(t, time.Second, maxBefore)
	}
	if b.From > 0 && b.To > 0 && b.To < b.From {
		v.Errorf("swap them", "%s: to (%s) is shorter than from (%s)", v.What, slo.FormatDuration(b.To), slo.FormatDuration(b.From))
	}
	return b
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

func baseline(b *slo.Baseline) *yamlgen.Node {
	m := &yamlgen.Map{}
	m.Text("name", b.Name)
	if len(b.SLOs) > 0 {
		texts(m, "slos", b.SLOs)
	}
	if len(b.Agreements) > 0 {
		texts(m, "slas", b.Agreements)
	}
	for _, part := range []struct {
		key string
		slo.Before
	}{{"detection", b.Detection}, {"response", b.Response}} {
		if part.From == 0 {
			continue
		}
		in := &yamlgen.Map{}
		in.Plain("from", slo.FormatDuration(part.From))
		in.Plain("to", slo.FormatDuration(part.To))
		if part.Target > 0 {
			in.Plain("target", slo.FormatDuration(part.Target))
		}
		m.Set(part.key, in.Line())
	}
	if b.Goal != slo.DefaultGoal {
		m.Plain("goal", slo.FormatRatio(100*b.Goal))
	}
	return m.Line()
}
