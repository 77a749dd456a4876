package spec

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// causeDraft is a cause before its SLO is known. Its keys are group labels, with their places.
type causeDraft struct {
	slo.Cause
	at             Position // of slo
	group, affects map[string]Position
}

const allValues = "all" // of affects

// causes are the SLOs that an SLO suffers from: [{slo: integrations/availability, group: {integration: mdm}}].
type causes struct{ *sloDraft }

func (c causes) read(v *yamldoc.Value) {
	if v.IsList() && v.Len() == 0 {
		v.Errorf("name an SLO such as {slo: database}, or remove the key", "caused_by is empty")
	}
	eachItem(v, func(i *yamldoc.Value) {
		call(i, "caused_by")
		x := causeDraft{group: map[string]Position{}, affects: map[string]Position{}}
		if o := x.keys(c.service).read(i); o != nil && x.SLO != "" {
			x.at = placeOf(o, "slo")
			c.causes = append(c.causes, x)
		}
	})
}

func (c causes) write(e *encoder) *yamlgen.Node {
	var all []*yamlgen.Node
	for _, x := range c.CausedBy {
		all = append(all, (&causeDraft{Cause: x}).keys(c.ID.Service()).write(e).Line())
	}
	if len(all) == 0 {
		return nil
	}
	return yamlgen.List(all...)
}

func (causes) shape() shape.Shape { return listShape((&causeDraft{}).keys("").shape()) }

func (c *causeDraft) keys(service string) keys {
	return keys{
		at("slo", single[slo.ID]{&c.SLO, func(v *yamldoc.Value) (slo.ID, bool) {
			return readID(v, service)
		}, func(id slo.ID) string {
			if id.Service() == service {
				return id.Name()
			}
			return string(id)
		}, &idDoc}).need("name the SLO that is the cause, such as `slo: database` or `slo: payments/availability`"),
		at("group", custom{
			in: func(v *yamldoc.Value) {
				c.Group = readByLabel(v, c.group, func(x *yamldoc.Value) string { s, _ := x.Text(); return s })
			},
			out: func(*encoder) *yamlgen.Node { return labelsNode(c.Group) },
			is:  func() doc { return doc{Kind: shape.Map, Of: &textDoc, Pattern: attributePattern.String()} },
		}),
		at("affects", custom{
			in:  func(v *yamldoc.Value) { c.Affects = readByLabel(v, c.affects, readAffected) },
			out: func(*encoder) *yamlgen.Node { return writeAffects(c.Affects) },
			is: func() doc {
				values := eitherShape(wordsShape(allValues), listShape(textDoc))
				return doc{Kind: shape.Map, Of: &values, Pattern: attributePattern.String()}
			},
		}),
	}
}

// readByLabel reads a value for each of some labels, and where they are.
func readByLabel[T any](v *yamldoc.Value, places map[string]Position, read func(*yamldoc.Value) T) map[string]T {
	labels := v.Open()
	if labels == nil {
		return nil
	}
	out := map[string]T{}
	for _, k := range labels.Keys {
		if x := labels.Get(k); x != nil {
			out[k], places[k] = read(x), labels.KeyAt(k)
		}
	}
	return out
}

func writeAffects(affects map[string][]string) *yamlgen.Node {
	if len(affects) == 0 {
		return nil
	}
	m := &yamlgen.Map{}
	for _, k := range slices.Sorted(maps.Keys(affects)) {
		if values := affects[k]; len(values) > 0 {
			m.Set(k, yamlgen.Line(yamlgen.Texts(values)))
		} else {
			m.Text(k, allValues)
		}
	}
	return m.Line()
}

// readAffected reads the values of a label: all, or a list.
func readAffected(v *yamldoc.Value) []string {
	if !v.IsList() {
		v.Choice(allValues)
		return nil
	}
	items, _ := v.List()
	if len(items) == 0 {
		v.Errorf("name some, or write `all`", "%s is empty", v.What)
	}
	var out []string
	for _, i := range items {
		if x, ok := i.Text(); ok {
			out = append(out, x)
		}
	}
	return out
}

// readID reads the name of an SLO of the service, or that of another one with its service.
func readID(v *yamldoc.Value, service string) (slo.ID, bool) {
	text, ok := v.Text()
	if !ok {
		return "", false
	}
	name := text
	if of, rest, other := strings.Cut(text, "/"); other {
		service, name = of, rest
	}
	for _, part := range []string{service, name} {
		if !namePattern.MatchString(part) || len(part) > maxName {
			v.Errorf("write `name`, or `service/name` for an SLO of another service", "%s: invalid SLO %q",
				v.What, yamldoc.Clip(text))
			return "", false
		}
	}
	return slo.NewID(service, name), true
}

// causes finds the SLOs that are named as causes. Those of services that were not loaded are taken as they are.
func (a *assembly) causes() {
	all := map[slo.ID]*sloDraft{}
	for _, s := range a.services {
		for name, d := range s.slos {
			all[slo.NewID(s.Name, name)] = d
		}
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		d := all[id]
		for i := range d.causes {
			c := &d.causes[i]
			of := a.services[c.SLO.Service()]
			switch cause := all[c.SLO]; {
			case c.SLO == id || suffers(all, c.SLO, id, map[slo.ID]bool{}):
				a.Errorf(c.at, "remove one of the declarations, or neither would page",
					"slo %s: caused_by %s: the SLO is a cause of its own cause", id, c.SLO)
				continue
			case cause != nil:
				if d.groupsKnown && cause.groupsKnown {
					a.causeGroups(id, c, d.GroupBy, cause.GroupBy)
				}
			case of != nil:
				a.Errorf(c.at, unknownSLO(c.SLO.Name(), slices.Sorted(maps.Keys(of.slos))),
					"slo %s: caused_by: unknown slo %s", id, c.SLO)
				continue
			}
			d.CausedBy = append(d.CausedBy, c.Cause)
		}
	}
}

// suffers reports whether an SLO suffers from another, directly or not.
func suffers(all map[slo.ID]*sloDraft, id, from slo.ID, seen map[slo.ID]bool) bool {
	d := all[id]
	if d == nil || seen[id] {
		return false
	}
	seen[id] = true
	return slices.ContainsFunc(d.causes, func(c causeDraft) bool {
		return c.SLO == from || suffers(all, c.SLO, from, seen)
	})
}

// causeGroups makes sure that a page of one group keeps quiet only the groups that are meant.
func (a *assembly) causeGroups(id slo.ID, c *causeDraft, mine, theirs []string) {
	for _, k := range slices.Sorted(maps.Keys(c.group)) {
		if !slices.Contains(theirs, k) {
			a.Errorf(c.group[k], "name a label of its group_by",
				"slo %s: caused_by %s: group: the cause is not grouped by %s", id, c.SLO, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.affects)) {
		if !slices.Contains(mine, k) {
			a.Errorf(c.affects[k], "name a label of the SLO's group_by",
				"slo %s: caused_by %s: affects: the SLO is not grouped by %s", id, c.SLO, k)
		}
	}
	equal := func(k string) bool {
		_, fixed := c.group[k]
		_, listed := c.affects[k]
		return !fixed && !listed && slices.Contains(mine, k) && slices.Contains(theirs, k)
	}
	for _, k := range theirs {
		if _, ok := c.group[k]; !ok && !equal(k) {
			a.Errorf(c.at, "add `group: {"+k+": VALUE}`", "slo %s: caused_by %s: which %s of the cause is it?", id, c.SLO, k)
		}
	}
	for _, k := range mine {
		if _, ok := c.affects[k]; !ok && !equal(k) {
			a.Errorf(c.at, "add `affects: {"+k+": [VALUE]}` or `affects: {"+k+": all}`",
				"slo %s: caused_by %s: which %s of the SLO suffers?", id, c.SLO, k)
		}
	}
}

// ownTexts are the labels or links of an SLO besides those of its service.
type ownTexts struct {
	to   *map[string]string
	of   func(*Service) map[string]string
	from func(*yamldoc.Value) (map[string]string, map[string]Position)
}

func (s *sloDraft) ownLabels() ownTexts {
	return ownTexts{&s.Labels, func(s *Service) map[string]string { return s.Labels }, readInfoLabels}
}

func (s *sloDraft) ownLinks() ownTexts {
	return ownTexts{&s.Links, func(s *Service) map[string]string { return s.Links }, readLinks}
}

func (x ownTexts) read(v *yamldoc.Value) {
	own, _ := x.from(v)
	*x.to = merged(*x.to, own)
}

func (x ownTexts) write(e *encoder) *yamlgen.Node {
	of := x.of(e.service)
	own := maps.Clone(*x.to)
	maps.DeleteFunc(own, func(k, v string) bool {
		shared, ok := of[k]
		return ok && shared == v
	})
	return labelsNode(own)
}

func (ownTexts) shape() shape.Shape { return labelsDoc }

// maxLinks bounds the links of an SLO or service.
const maxLinks = 20

// readLinks reads URLs by name.
func readLinks(v *yamldoc.Value) (map[string]string, map[string]Position) {
	links, at := readLabelMap(v, func(string) string { return "" })
	for name, text := range links {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(text) > 2048 ||
			strings.ContainsAny(text, "{}<>\"`\\ ") {
			v.ErrorfAt(at[name], "want an address such as https://wiki.example.org/checkout", "%s: %s is no URL: %q",
				v.What, name, yamldoc.Clip(text))
			delete(links, name)
		}
	}
	if len(links) > maxLinks {
		v.Errorf("", "%s: %d links, and %d are allowed", v.What, len(links), maxLinks)
	}
	return links, at
}
