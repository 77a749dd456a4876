package spec

import (
	"slices"
	"strings"
)

// OpenSLOVersion is the apiVersion of the OpenSLO format that is read.
const OpenSLOVersion = "openslo/v1"

// The kinds of OpenSLO documents.
const (
	openKindSLO       = "SLO"
	openKindSLI       = "SLI"
	openKindService   = "Service"
	openKindPolicy    = "AlertPolicy"
	openKindCondition = "AlertCondition"
	openKindTarget    = "AlertNotificationTarget"
	openKindSource    = "DataSource"
)

var openKinds = []string{openKindSLO, openKindSLI, openKindService, openKindPolicy, openKindCondition, openKindTarget, openKindSource}

// openSLO are the documents of OpenSLO, which refer to each other by name,
// whatever file they are in.
type openSLO struct {
	all    []*openObject
	byName map[[2]string]*openObject
}

// openObject is one document, or what stands in the place of a reference to one.
type openObject struct {
	kind    string
	at      *value // its name, or the document
	name    string // as written
	display string
	labels  map[string]string
	labelAt map[string]Position
	spec    *value // nil if it has none
	used    bool
}

// document keeps a document until all are there.
func (s *openSLO) document(v *value, kind string) {
	if !slices.Contains(openKinds, kind) {
		v.kindError(kind, openKinds...)
		return
	}
	o := v.object("apiVersion", "kind", "metadata", "spec")
	if o == nil {
		return
	}
	d := o.openObject(kind)
	s.all = append(s.all, d)
	if d.name == "" {
		return
	}
	key := [2]string{kind, d.name}
	if first := s.byName[key]; first != nil {
		d.at.errorf("rename or remove one", "%s %q is already given at %s:%d", kind, clip(d.name), first.at.at().File, first.at.at().Line)
		return
	}
	if s.byName == nil {
		s.byName = map[[2]string]*openObject{}
	}
	s.byName[key] = d
}

// openObject reads metadata and finds the spec.
func (o *object) openObject(kind string) *openObject {
	d := &openObject{kind: kind, at: o.value}
	if in := o.need("metadata", "add `metadata: {name: ...}`"); in != nil {
		d.readMetadata(in)
	}
	if s := o.field("spec"); s != nil && !s.null() {
		d.spec = s
		s.what = kind
		if d.name != "" {
			s.what += " " + printable(clip(d.name))
		}
	} else if kind != openKindService {
		o.need("spec", "say what the "+kind+" is")
	}
	return d
}

func (d *openObject) readMetadata(v *value) {
	o := v.object("name", "displayName", "labels", "annotations")
	if o == nil {
		return
	}
	if n := o.need("name", "give it a name"); n != nil {
		if s, ok := n.text(); ok {
			d.name, d.at = s, n
		}
	}
	if n := o.get("displayName"); n != nil {
		d.display, _ = n.text()
	}
	if l := o.get("labels"); l != nil {
		if d.kind == openKindSLO || d.kind == openKindService {
			d.labels, d.labelAt = l.openLabels()
		} else {
			l.warnf("put them on the SLO", "labels of %s are not kept", article(d.kind))
		}
	}
	if a := o.get("annotations"); a != nil && len(a.n.Content) > 0 {
		a.warnf("", "annotations of %s are not kept", article(d.kind))
	}
}

func article(kind string) string {
	if kind[0] == 'A' || strings.HasPrefix(kind, "SL") {
		return "an " + kind
	}
	return "a " + kind
}

// openLabels reads labels, which may be lists, and whose names may be no names of
// labels in Prometheus.
func (v *value) openLabels() (map[string]string, map[string]Position) {
	o := v.open()
	if o == nil {
		return nil, nil
	}
	out, at := map[string]string{}, map[string]Position{}
	for _, k := range o.keys {
		name := k
		if !labelPattern.MatchString(k) {
			name = notLabel.ReplaceAllString(k, "_")
			if name == "" || name[0] >= '0' && name[0] <= '9' {
				name = "_" + name
			}
			v.r.warnf(o.keyAt(k), "", "labels: %q is called %q here: labels of Prometheus are of letters, digits and underscore", clip(k), clip(name))
		}
		if !v.checkLabel(name, o.keyAt(k), reservedOwn) {
			continue
		}
		if name == "service" || name == "objective" {
			v.r.errorf(o.keyAt(k), "take another name", "labels: %q is set by the engine", name)
			continue
		}
		t := o.get(k)
		if t == nil {
			continue
		}
		if _, twice := out[name]; twice {
			v.r.errorf(o.keyAt(k), "rename one", "labels: there are two labels called %q here", clip(name))
			continue
		}
		if s, ok := t.openLabelValue(); ok {
			out[name], at[name] = s, o.keyAt(k)
		}
	}
	return out, at
}

func (v *value) openLabelValue() (string, bool) {
	if !v.isList() {
		return v.text()
	}
	items, _ := v.list()
	var parts []string
	for _, i := range items {
		s, ok := i.text()
		if !ok {
			return "", false
		}
		parts = append(parts, s)
	}
	if len(parts) > 1 {
		v.warnf("", "labels: the values of %s become one: a label has a single value", v.what)
	}
	return strings.Join(parts, ","), true
}

// find follows a reference to a document.
func (s *openSLO) find(kind string, ref *value) *openObject {
	name, ok := ref.text()
	if !ok {
		return nil
	}
	if d := s.byName[[2]string{kind, name}]; d != nil {
		d.used = true
		return d
	}
	var known []string
	for k := range s.byName {
		if k[0] == kind {
			known = append(known, k[1])
		}
	}
	slices.Sort(known)
	hint := didYouMean(name, known)
	if hint == "" {
		hint = "add it, or load the file that has it too"
	}
	ref.errorf(hint, "there is no %s %q", kind, clip(name))
	return nil
}

// inlineOr reads what may stand in place or be referred to: the reference's key,
// or kind, metadata and spec.
func (s *openSLO) inlineOr(v *value, kind, refKey string) *openObject {
	if v.n.Kind != 0 && !v.isObject() && !v.isList() && !v.null() {
		v.warnf("write {"+refKey+": "+clip(v.n.Value)+"}", "a plain name is no longer the spelling of a reference")
		return s.find(kind, v)
	}
	o := v.object(refKey, "apiVersion", "kind", "metadata", "spec")
	if o == nil {
		return nil
	}
	if o.has(refKey) {
		if len(o.keys) > 1 {
			v.errorf("keep one of them", "%s: a reference and its object cannot both be given", v.what)
			return nil
		}
		if ref := o.get(refKey); ref != nil {
			return s.find(kind, ref)
		}
		return nil
	}
	if k := o.get("kind"); k != nil {
		if _, ok := k.choice(kind); !ok {
			return nil
		}
	}
	d := o.openObject(kind)
	d.used = true
	return d
}

// drafts makes drafts of all SLOs and services.
func (s *openSLO) drafts(l *loader) []*draft {
	var out []*draft
	var services []string
	for _, d := range s.all {
		if d.kind == openKindService && d.name != "" {
			services = append(services, d.name)
			out = append(out, d.service())
		}
	}
	for _, d := range s.all {
		if d.kind == openKindSLO && d.spec != nil {
			if x := s.readSLO(d, services); x != nil {
				out = append(out, x)
			}
		}
	}
	for _, d := range s.all {
		switch d.kind {
		case openKindSLO, openKindService:
		default:
			if !d.used && l.errors == 0 {
				d.at.warnf("", "nothing uses this %s", d.kind)
			}
		}
	}
	return out
}

// service makes a draft of a Service.
func (d *openObject) service() *draft {
	x := &draft{at: d.at.at(), labels: d.labels, labelAt: d.labelAt}
	if x.labelAt == nil {
		x.labelAt = map[string]Position{}
	}
	x.service, _ = d.at.foreignName()
	text := ""
	if d.spec != nil {
		if o := d.spec.object("description"); o != nil {
			if t := o.get("description"); t != nil {
				text, _ = t.text()
			}
		}
	}
	x.description, x.descriptionAt = describe(d.display, text), d.at.at()
	return x
}

// describe joins a display name and a description.
func describe(display, text string) string {
	switch {
	case text == "" || strings.EqualFold(display, text):
		return display
	case display == "":
		return text
	}
	return display + ": " + text
}
