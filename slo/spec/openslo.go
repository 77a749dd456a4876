package spec

import (
	"slices"
	"strings"

	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// The apiVersions of the OpenSLO formats that are read, and of Nobl9's, which alpha was made from. Of these two SLO and
// Service are read.
const (
	OpenSLOVersion = "openslo/v1"
	OpenSLOAlpha   = "openslo/v1alpha"
	Nobl9Version   = "n9/v1alpha"
)

// The kinds of OpenSLO documents.
const (
	openKindSLO       = "SLO"
	openKindSLI       = "SLI"
	openKindService   = "Service"
	openKindPolicy    = "AlertPolicy"
	openKindCondition = "AlertCondition"
	openKindTarget    = "AlertNotificationTarget"
	openKindSource    = "DataSource"
	openKindAdjust    = "BudgetAdjustment" // of Nobl9, and proposed for OpenSLO
)

var openKinds = []string{openKindSLO, openKindSLI, openKindService, openKindPolicy, openKindCondition,
	openKindTarget, openKindSource, openKindAdjust}

var openAlphaKinds = []string{openKindSLO, openKindService, openKindAdjust}

// openSLO are the documents of OpenSLO, which refer to each other by name,
// whatever file they are in.
type openSLO struct {
	all    []*openObject
	byName map[[2]string]*openObject
}

// openObject is one document, or what stands in the place of a reference to one.
type openObject struct {
	kind    string
	at      *yamldoc.Value // its name, or the document
	name    string         // as written
	display string
	labels  map[string]string
	labelAt map[string]Position
	spec    *yamldoc.Value // nil if it has none
	alpha   bool           // of OpenSLOAlpha or Nobl9Version
	nobl9   bool
	used    bool
}

// document keeps a document until all are there.
func (s *openSLO) document(v *yamldoc.Value, kind string, alpha bool) {
	kinds := openKinds
	if alpha {
		kinds = openAlphaKinds
	}
	if !slices.Contains(kinds, kind) {
		if hint, known := nobl9Kinds[kind]; known && v.Peek("apiVersion").Raw() == Nobl9Version {
			v.Peek("kind").Warnf(hint, "%s of Nobl9 is ignored", article(kind))
			return
		}
		kindError(v, kind, kinds...)
		return
	}
	o := v.Object("apiVersion", "kind", "metadata", "spec", "status", "organization", "manifestSrc")
	if o == nil {
		return
	}
	d := newOpenObject(o, kind)
	d.alpha = alpha
	for _, key := range []string{"status", "organization", "manifestSrc"} {
		if o.Has(key) && !d.nobl9 { // which adds them to what it returns
			o.KeyErrorf(key, "remove it", "unknown key %q", key)
		}
	}
	s.all = append(s.all, d)
	if d.name == "" {
		return
	}
	key := [2]string{kind, d.name}
	if first := s.byName[key]; first != nil {
		d.at.Errorf("rename or remove one", "duplicate %s %q, first defined at %s:%d", kind, yamldoc.Clip(d.name),
			first.at.At().File, first.at.At().Line)
		return
	}
	if s.byName == nil {
		s.byName = map[[2]string]*openObject{}
	}
	s.byName[key] = d
}

// openObject reads metadata and finds the spec.
func newOpenObject(o *yamldoc.Object, kind string) *openObject {
	d := &openObject{kind: kind, at: o.Value}
	if api := o.Field("apiVersion"); api != nil {
		d.nobl9 = api.Raw() == Nobl9Version
	}
	d.readMetadata(o.Need("metadata", "add `metadata: {name: ...}`"))
	if s := o.Field("spec"); s != nil && !s.IsNull() {
		d.spec = s
		s.What = kind
		if d.name != "" {
			s.What += " " + yamldoc.Printable(yamldoc.Clip(d.name))
		}
	} else if kind != openKindService {
		o.Need("spec", "say what the "+kind+" is")
	}
	return d
}

func (d *openObject) readMetadata(v *yamldoc.Value) {
	keys := []string{"name", "displayName", "labels", "annotations"}
	if d.nobl9 {
		keys = append(keys, "project")
	}
	o := v.Object(keys...)
	if o.Has("project") {
		o.KeyWarnf("project", "add it as a label", "project is ignored")
	}
	n := o.Need("name", "give it a name")
	if s, ok := n.Text(); ok {
		d.name, d.at = s, n
	}
	d.display, _ = o.Get("displayName").Text()
	if l := o.Get("labels"); l != nil {
		if d.kind == openKindSLO || d.kind == openKindService {
			d.labels, d.labelAt = readOpenLabels(l)
		} else {
			l.Warnf("put them on the SLO", "labels of %s are ignored", article(d.kind))
		}
	}
	if a := o.Get("annotations"); a != nil && a.Len() > 0 {
		a.Warnf("", "annotations of %s are ignored", article(d.kind))
	}
}

func article(kind string) string {
	if kind[0] == 'A' || strings.HasPrefix(kind, "SL") {
		return "an " + kind
	}
	return "a " + kind
}

// readOpenLabels reads labels, which may be lists, and whose names may be no names of
// labels in Prometheus.
func readOpenLabels(v *yamldoc.Value) (map[string]string, map[string]Position) {
	return readForeignLabels(v, func(_ Position, k string) string { return k })
}

// readForeignLabels is readOpenLabels where name gives the name of a label, or "" to leave it out.
func readForeignLabels(v *yamldoc.Value, name func(at Position, key string) string) (
	map[string]string, map[string]Position) {
	o := v.Open()
	if o == nil {
		return nil, nil
	}
	out, at := map[string]string{}, map[string]Position{}
	for _, key := range o.Keys {
		k := name(o.KeyAt(key), key)
		if k == "" {
			continue
		}
		name := k
		if !labelPattern.MatchString(k) {
			name = notLabel.ReplaceAllString(k, "_")
			if name == "" || name[0] >= '0' && name[0] <= '9' {
				name = "_" + name
			}
			v.WarnfAt(o.KeyAt(key), "",
				"labels: %q is renamed to %q: Prometheus label names consist of letters, digits and underscores",
				yamldoc.Clip(k), yamldoc.Clip(name))
		}
		if !checkLabel(v, name, o.KeyAt(key), reservedInfo) {
			continue
		}
		t := o.Get(key)
		if t == nil {
			continue
		}
		if _, twice := out[name]; twice {
			v.ErrorfAt(o.KeyAt(key), "rename one", "labels: two labels are renamed to %q", yamldoc.Clip(name))
			continue
		}
		if s, ok := readOpenLabelValue(t); ok {
			out[name], at[name] = s, o.KeyAt(key)
		}
	}
	return out, at
}

func readOpenLabelValue(v *yamldoc.Value) (string, bool) {
	if !v.IsList() {
		return v.Text()
	}
	items, _ := v.List()
	var parts []string
	for _, i := range items {
		s, ok := i.Text()
		if !ok {
			return "", false
		}
		parts = append(parts, s)
	}
	if len(parts) > 1 {
		v.Warnf("", "labels: the values of %s are joined, because a label has a single value", v.What)
	}
	return strings.Join(parts, ","), true
}

// find follows a reference to a document.
func (s *openSLO) find(kind string, ref *yamldoc.Value) *openObject {
	name, ok := ref.Text()
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
	hint := suggest.DidYouMean(name, known)
	if hint == "" {
		hint = "add it, or load the file that has it too"
	}
	ref.Errorf(hint, "unknown %s %q", kind, yamldoc.Clip(name))
	return nil
}

// inlineOr reads what may stand in place or be referred to: the reference's key,
// or kind, metadata and spec.
func (s *openSLO) inlineOr(v *yamldoc.Value, kind, refKey string) *openObject {
	if v.IsScalar() && !v.IsMapping() && !v.IsList() && !v.IsNull() {
		v.Warnf("write {"+refKey+": "+yamldoc.Clip(v.Raw())+"}", "a reference must be a mapping, not a plain name")
		return s.find(kind, v)
	}
	o := v.Object(refKey, "apiVersion", "kind", "metadata", "spec")
	if o == nil {
		return nil
	}
	if o.Has(refKey) {
		if len(o.Keys) > 1 {
			v.Errorf("keep one of them", "%s: a reference and an inline object exclude each other", v.What)
			return nil
		}
		return s.find(kind, o.Get(refKey))
	}
	if k := o.Get("kind"); k != nil {
		if _, ok := k.Choice(kind); !ok {
			return nil
		}
	}
	d := newOpenObject(o, kind)
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
	made := map[string]*draft{}
	for _, d := range s.all {
		if d.kind == openKindSLO && d.spec != nil {
			if x := s.readSLO(d, services); x != nil {
				out = append(out, x)
				made[d.name] = x
			}
		}
	}
	for _, d := range s.all {
		switch d.kind {
		case openKindSLO, openKindService:
		case openKindAdjust:
			if d.spec != nil {
				d.readAdjustment(made)
			}
		default:
			if !d.used && l.Errors() == 0 {
				d.at.Warnf("", "unused %s", d.kind)
			}
		}
	}
	return out
}

// service makes a draft of a Service.
func (d *openObject) service() *draft {
	x := &draft{at: d.at.At(), labels: d.labels, labelAt: d.labelAt}
	if x.labelAt == nil {
		x.labelAt = map[string]Position{}
	}
	x.service, _ = readForeignName(d.at)
	text, _ := d.spec.Object("description").Get("description").Text()
	x.description, x.descriptionAt = describe(d.display, text), d.at.At()
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
