package spec

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// assembly checks drafts against each other and makes the Spec.
type assembly struct {
	*yamldoc.Reader
	spec     *Spec
	services map[string]*assembled
}

// assembled is one service over all its documents.
type assembled struct {
	Service
	drafts     []*draft
	slos       map[string]*sloDraft
	labelAt    map[string]Position
	linkAt     map[string]Position
	hasDims    bool
	hasBuckets bool

	describedAt Position
}

func assemble(r *yamldoc.Reader, drafts []*draft) *Spec {
	a := &assembly{Reader: r, spec: &Spec{}, services: map[string]*assembled{}}
	agreeOnLabels(drafts)
	for _, d := range drafts {
		a.join(d)
	}
	for _, name := range slices.Sorted(maps.Keys(a.services)) {
		s := a.services[name]
		a.names(s)
		a.was(s)
		a.corrections(s)
		a.baselines(s)
		a.agreements(s)
		a.types(s)
		for _, d := range s.drafts {
			for _, sd := range d.slos {
				a.feasible(sd)
			}
		}
		if !s.hasDims {
			s.Dimensions = slices.Clone(DefaultDimensions)
		}
		if !s.hasBuckets {
			s.Buckets = slices.Clone(DefaultBuckets)
		}
		a.spec.Services = append(a.spec.Services, s.Service)
	}
	a.causes()
	slices.SortStableFunc(a.spec.SLOs, func(x, y *slo.SLO) int { return cmp.Compare(x.ID, y.ID) })
	slices.SortStableFunc(a.spec.Agreements, func(x, y *sla.Agreement) int {
		return cmp.Or(strings.Compare(x.Service, y.Service), strings.Compare(x.Name, y.Name))
	})
	return a.spec
}

// agreeOnLabels lets the labels of documents that have them for themselves be
// those of the service if all its documents say the same.
func agreeOnLabels(drafts []*draft) {
	first, differ := map[string]*draft{}, map[string]bool{}
	for _, d := range drafts {
		f := first[d.service]
		if f == nil {
			first[d.service] = d
			continue
		}
		differ[d.service] = differ[d.service] || !maps.Equal(f.labels, d.labels)
	}
	for _, d := range drafts {
		if d.perDocument && differ[d.service] {
			d.labels = nil
		}
	}
}

// agree adds what a document says of a service to what others do, which must not say otherwise.
func (a *assembly) agree(what, service string, to *map[string]string, placed map[string]Position,
	said map[string]string, at map[string]Position) {
	for _, k := range slices.Sorted(maps.Keys(said)) {
		if old, ok := (*to)[k]; ok && old != said[k] {
			a.Errorf(at[k], "set it once, or to the same value everywhere", "%s %s of service %s is set to %q elsewhere (%s:%d)",
				what, k, service, yamldoc.Clip(old), placed[k].File, placed[k].Line)
			continue
		}
		if *to == nil {
			*to = map[string]string{}
		}
		(*to)[k], placed[k] = said[k], at[k]
	}
}

// join adds a document to its service.
func (a *assembly) join(d *draft) {
	key := d.service
	if key == "" { // already reported; documents without a name have nothing to do with each other
		key = fmt.Sprintf(" %d", len(a.services))
	}
	s := a.services[key]
	if s == nil {
		s = &assembled{slos: map[string]*sloDraft{}, labelAt: map[string]Position{}, linkAt: map[string]Position{}}
		s.Name = d.service
		a.services[key] = s
	}
	s.drafts = append(s.drafts, d)
	switch {
	case d.description == "":
	case s.Description == "":
		s.Description, s.describedAt = d.description, d.descriptionAt
	case s.Description != d.description:
		a.Errorf(d.descriptionAt, "describe it once", "the description of service %s differs from that at %s:%d", s.Name,
			s.describedAt.File, s.describedAt.Line)
	}
	a.agree("label", s.Name, &s.Labels, s.labelAt, d.labels, d.labelAt)
	a.agree("link", s.Name, &s.Links, s.linkAt, d.links, d.linkAt)
	if d.hasDims {
		s.hasDims = true
		for _, x := range d.dimensions {
			if slices.Contains(s.Dimensions, x) {
				continue
			}
			if i := slices.IndexFunc(s.Dimensions, func(o string) bool {
				return series.GroupLabel(o) == series.GroupLabel(x)
			}); i >= 0 {
				a.Errorf(d.at, "rename one of them", "dimensions of service %s: %q and %q are both exported as %q", s.Name,
					s.Dimensions[i], x, series.GroupLabel(x))
				continue
			}
			s.Dimensions = append(s.Dimensions, x)
		}
	}
	if d.hasBuckets {
		s.hasBuckets = true
		s.Buckets = append(append([]time.Duration{}, s.Buckets...), d.buckets...) // not nil, which is not known
		slices.Sort(s.Buckets)
		s.Buckets = slices.Compact(s.Buckets)
	}
}

// names refuses what is there twice, and fills the Spec with the rest.
func (a *assembly) names(s *assembled) {
	thresholds, slas, fixes := map[string]Position{}, map[string]Position{}, map[string]Position{}
	for _, d := range s.drafts {
		for _, sd := range d.slos {
			name := sd.ID.Name()
			if name == "" {
				continue
			}
			if first, twice := s.slos[name]; twice {
				a.twice(sd.at, "slo", s.Name, name, first.at)
				continue
			}
			s.slos[name] = sd
			a.spec.SLOs = append(a.spec.SLOs, sd.SLO)
			a.source(KindSLO, s.Name, name, sd.at)
			for k, v := range s.Labels {
				if _, own := sd.Labels[k]; !own {
					if sd.Labels == nil {
						sd.Labels = map[string]string{}
					}
					sd.Labels[k] = v
				}
			}
		}
		for _, l := range d.thresholds {
			if a.once(thresholds, l.at, "threshold", s.Name, l.Name) {
				a.spec.Thresholds = append(a.spec.Thresholds, l.Threshold)
				a.source(KindThreshold, s.Name, l.Name, l.at)
			}
		}
		for _, g := range d.slas {
			if a.once(slas, g.at, "sla", s.Name, g.Name) {
				a.spec.Agreements = append(a.spec.Agreements, g.Agreement)
				a.source(KindSLA, s.Name, g.Name, g.at)
			}
		}
		for _, c := range d.corrections {
			a.once(fixes, c.at, "correction", s.Name, c.Name)
		}
	}
}

func (a *assembly) source(k Kind, service, name string, at Position) {
	a.spec.Sources = append(a.spec.Sources, Source{Kind: k, Service: service, Name: name, Position: at})
}

func (a *assembly) once(seen map[string]Position, at Position, what, service, name string) bool {
	if name == "" {
		return false
	}
	if first, twice := seen[name]; twice {
		a.twice(at, what, service, name, first)
		return false
	}
	seen[name] = at
	return true
}

func (a *assembly) twice(at Position, what, service, name string, first Position) {
	a.Errorf(at, "rename or remove one", "duplicate %s %q of service %s, first defined at %s:%d", what, name, service,
		first.File, first.Line)
}

// was checks renames: the old name must be gone, and go to one SLO only.
func (a *assembly) was(s *assembled) {
	taken := map[string]string{}
	for _, d := range s.drafts {
		for _, sd := range d.slos {
			if sd.was == nil {
				continue
			}
			old := sd.was.name
			switch {
			case s.slos[old] != nil:
				a.Errorf(sd.was.at, "remove `was`, or the old SLO", "was: slo %q still exists", old)
			case taken[old] != "":
				a.Errorf(sd.was.at, "only one SLO can take over its counts", "was: slo %q already became %q", old, taken[old])
			default:
				taken[old] = sd.ID.Name()
			}
		}
	}
}

// corrections finds the SLOs that each correction is about.
func (a *assembly) corrections(s *assembled) {
	names := slices.Sorted(maps.Keys(s.slos))
	about := map[*correctionDraft][]string{}
	for _, d := range s.drafts {
		for _, c := range d.corrections {
			its := names
			if len(c.slos) > 0 {
				its = nil
			}
			for _, n := range c.slos {
				if s.slos[n.name] == nil {
					a.Errorf(n.at, unknownSLO(n.name, names), "correction %s: unknown slo %q", yamldoc.Printable(c.Name), n.name)
					continue
				}
				if slices.Contains(its, n.name) {
					a.Errorf(n.at, "remove it", "correction %s: slo %q is listed twice", yamldoc.Printable(c.Name), n.name)
					continue
				}
				its = append(its, n.name)
				c.SLOs = append(c.SLOs, n.name)
			}
			for _, n := range its {
				s.slos[n].Corrections = append(s.slos[n].Corrections, c.Correction)
			}
			about[c] = its
		}
	}
	for _, d := range s.drafts {
		for _, c := range d.corrections {
			a.covering(s, c, about[c])
		}
	}
}

func unknownSLO(name string, known []string) string {
	if hint := suggest.DidYouMean(name, known); hint != "" {
		return hint
	}
	if len(known) == 0 {
		return "the service has no SLOs"
	}
	if len(known) > 12 {
		return "name an SLO of the service"
	}
	return "the service has " + oneOfAnd(known)
}

// agreements checks that components exist and can be computed for the groups.
func (a *assembly) agreements(s *assembled) {
	names := slices.Sorted(maps.Keys(s.slos))
	for _, d := range s.drafts {
		for _, g := range d.slas {
			sum, whole, banded := 0.0, g.ok, false
			var onSeries, onEvents []*componentDraft
			users, extra := map[string]*componentDraft{}, map[string]int{}
			for i := range g.components {
				c := &g.components[i]
				sum += c.Weight
				banded = banded || len(c.Bands) > 0
				g.Components = append(g.Components, c.Component)
				if !c.ok {
					continue
				}
				sd := s.slos[c.slo.name]
				if sd == nil {
					whole = false
					a.Errorf(c.slo.at, unknownSLO(c.slo.name, names), "sla %s: component %s: unknown slo %q",
						g.Name, c.Name, c.slo.name)
					continue
				}
				if users[c.slo.name] != nil {
					extra[c.slo.name]++
				} else {
					users[c.slo.name] = c
				}
				a.component(g, c, sd)
				switch {
				case !sd.kindKnown:
				case sd.Indicator.Kind == slo.KindPrometheus:
					onSeries = append(onSeries, c)
				default:
					onEvents = append(onEvents, c)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(extra)) {
				first := users[name]
				a.Warnf(first.slo.at, "list it once, with the sum of the weights",
					"sla %s: component %s and %d more are the same slo", g.Name, first.Name, extra[name])
			}
			a.oneSource(g, onSeries, onEvents)
			a.catalogue(s, g, names)
			if whole && !near(sum, 100) && !near(sum, 1) {
				a.Warnf(g.weightsAt, "they are scaled to 100", "sla %s: the weights add up to %.6g", g.Name, sum)
			}
			if whole && g.Method == sla.Bands && !banded {
				a.Warnf(g.at, "add bands to a latency component, or use `score: ratio`", "sla %s: no component has bands", g.Name)
			}
		}
	}
}

// catalogue finds the SLOs that the chosen alerts are about.
func (a *assembly) catalogue(s *assembled, g *slaDraft, names []string) {
	for _, c := range g.catalogue {
		entry := sla.CatalogueAlert{Name: c.name}
		for _, n := range c.slos {
			if s.slos[n.name] == nil {
				a.Errorf(n.at, unknownSLO(n.name, names), "sla %s: catalogue %s: unknown slo %q", g.Name, c.name, n.name)
				continue
			}
			id := slo.NewID(s.Name, n.name)
			if slices.Contains(entry.SLOs, id) {
				a.Errorf(n.at, "remove it", "sla %s: catalogue %s: slo %q is listed twice", g.Name, c.name, n.name)
				continue
			}
			entry.SLOs = append(entry.SLOs, id)
		}
		g.Catalogue = append(g.Catalogue, entry)
	}
}

// oneSource refuses agreements of which the engine sees one part and Prometheus
// another: no score could then be right everywhere.
func (a *assembly) oneSource(g *slaDraft, onSeries, onEvents []*componentDraft) {
	switch {
	case len(onSeries) == 0:
	case len(onEvents) == 0:
		a.Warnf(g.at, "the generated rules calculate it",
			"sla %s: all its SLOs are on Prometheus series, which the engine does not see, so it has no live score", g.Name)
	default:
		for _, c := range onSeries {
			a.Errorf(c.slo.at, "use only SLOs on events, or only SLOs on Prometheus series",
				"sla %s: slo %q is on Prometheus series, which the engine does not see, and others are not", g.Name, c.slo.name)
		}
	}
}

func near(x, y float64) bool { return math.Abs(x-y) < 1e-9*y }

func (a *assembly) component(g *slaDraft, c *componentDraft, sd *sloDraft) {
	if sd.kindKnown && len(c.Bands) > 0 && sd.Indicator.Kind != slo.KindLatency {
		a.Errorf(c.bandsAt, "remove them", "sla %s: component %s: only a latency slo can have bands, %q is %s", g.Name,
			c.Name, c.slo.name, sd.Indicator.Kind)
	}
	if !sd.groupsKnown {
		return
	}
	for _, l := range g.groups {
		if !slices.Contains(sd.GroupBy, l.name) {
			a.Errorf(c.slo.at, "add "+l.name+" to the group_by of the slo, or remove it from the sla",
				"sla %s is grouped by %s, but slo %q is not", g.Name, l.name, c.slo.name)
		}
	}
}

// types finds the event types of a service and refuses selectors that none fits.
func (a *assembly) types(s *assembled) {
	var listed []string
	said, anyType := false, false
	for _, d := range s.drafts {
		listed = append(listed, d.types...)
		said = said || d.types != nil || d.anyType
		s.AdmitUnknownTypes = s.AdmitUnknownTypes || d.admits
		anyType = anyType || d.anyType
	}
	derived, open := map[string]bool{}, false
	look := func(sel *selector) {
		switch {
		case sel == nil || sel.types == nil:
			open = true
		case len(sel.types) == 0:
			a.Errorf(sel.at.At(), "an event has exactly one type", "%s: the matchers on type contradict each other", sel.at.What)
		}
		if sel == nil {
			return
		}
		for _, t := range sel.types {
			derived[t] = true
		}
		if said && !anyType && sel.types != nil && len(sel.types) > 0 && !overlap(sel.types, listed) {
			hint := suggest.DidYouMean(sel.types[0], listed)
			if hint == "" {
				hint = "add it to types"
			}
			a.Errorf(sel.at.At(), hint, "%s: the service has no type %q", sel.at.What, yamldoc.Clip(sel.types[0]))
		}
	}
	for _, d := range s.drafts {
		for _, sd := range d.slos {
			if sd.kindKnown && sd.Indicator.Kind != slo.KindPrometheus {
				look(sd.valid)
				if sd.Indicator.Kind == slo.KindRatio {
					look(sd.numerator)
				}
				for _, o := range []*selector{sd.finished, sd.failed} {
					if o != nil {
						look(o)
					}
				}
			}
		}
		for _, l := range d.thresholds {
			look(l.match)
		}
	}
	switch {
	case anyType:
	case said:
		slices.Sort(listed)
		s.Types = slices.Compact(listed)
	case !open:
		s.Types = slices.Sorted(maps.Keys(derived))
	}
	for _, d := range s.drafts {
		if d.admits && len(s.Types) == 0 {
			a.Warnf(d.admitsAt, "remove it, or list `types`",
				"admit_unknown_types has no effect, because %s takes events of every type", yamldoc.Clip(s.Name))
		}
	}
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}
