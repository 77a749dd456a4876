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
			o.Errorf("swap them", "%s: to (%s) is shorter than from (%s)", o.What, slo.FormatDuration(b.To), slo.FormatDuration(b.From))
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
