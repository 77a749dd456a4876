package spec

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// loader gathers the documents of all files. Every document says its format; the
// formats may be mixed, in one file too.
type loader struct {
	*collector
	first   *value // the first document
	drafts  []*draft
	sloth   []*draft // those of Sloth among them
	windows []*slothWindows
	open    openSLO
}

// finish brings together what documents say about each other.
func (l *loader) finish() []*draft {
	l.applySlothWindows()
	l.drafts = append(l.drafts, l.open.drafts(l)...)
	if len(l.drafts) == 0 && l.first != nil && l.errors == 0 {
		l.first.errorf("add the SLOs that use it", "there is no SLO to read")
	}
	return l.drafts
}

func (l *loader) add(d *draft) {
	if d != nil {
		l.drafts = append(l.drafts, d)
	}
}

// document reads one document, by its version or apiVersion.
func (l *loader) document(v *value) {
	if l.first == nil {
		l.first = v
	}
	if v.isList() && len(v.n.Content) > 0 && newValue(v.r, v.n.Content[0], "").peek("apiVersion") != nil {
		items, _ := v.list()
		for _, i := range items {
			if i.what = "spec"; i.isObject() {
				l.document(i)
				continue
			}
			i.errorf("take it out", "the list holds documents, but this is %s", i.shape())
		}
		return
	}
	if !v.isObject() {
		v.errorf("start with `version: "+Version+"`", "a spec is a mapping (key: value), got %s", v.shape())
		return
	}
	if version := v.peek("version"); version != nil && !version.null() {
		s, ok := version.text()
		switch {
		case ok && s == SlothVersion:
			l.addSloth(v.r.slothDocument(v))
			return
		case ok && s != Version:
			version.errorf("want "+Version+", or "+SlothVersion+" for a spec of Sloth", "version %q is not known", clip(s))
		}
		l.add(v.r.documentV1(v))
		return
	}
	if api := v.peek("apiVersion"); api != nil && !api.null() {
		l.apiDocument(v, api)
		return
	}
	if v.peek("groups") != nil {
		v.errorf("want `version: "+Version+"`", "this is a Prometheus rule file, not a spec of this program")
		return
	}
	l.add(v.r.documentV1(v))
}

// apiDocument reads a document in the style of Kubernetes.
func (l *loader) apiDocument(v, api *value) {
	version, ok := api.text()
	if !ok {
		return
	}
	kind := ""
	if k := v.peek("kind"); k != nil && !k.null() {
		if kind, ok = k.text(); !ok {
			return
		}
	}
	switch {
	case version == OpenSLOVersion:
		l.open.document(v, kind)
	case version == SlothAPIVersion && kind == "PrometheusServiceLevel":
		l.addSloth(v.r.slothResource(v))
	case version == SlothAPIVersion && kind == "AlertWindows":
		l.slothWindows(v)
	case version == SlothAPIVersion && kind == "PrometheusServiceLevelList", version == "v1" && kind == "List":
		l.items(v)
	case version == SlothAPIVersion:
		v.kindError(kind, "PrometheusServiceLevel", "AlertWindows")
	case strings.HasPrefix(version, "openslo"):
		api.errorf("want "+OpenSLOVersion, "version %q of OpenSLO is not read", clip(version))
	default:
		v.errorf("want `version: "+Version+"`, or apiVersion "+SlothAPIVersion+" or "+OpenSLOVersion, "this is a document with apiVersion %s, not a spec of this program", printable(clip(version)))
	}
}

// kindError says that a document is of no kind that is known.
func (v *value) kindError(kind string, known ...string) {
	hint := didYouMean(kind, known)
	if hint == "" {
		hint = "want " + oneOf(known)
	}
	if k := v.peek("kind"); k != nil {
		k.errorf(hint, "kind %q is not known", clip(kind))
		return
	}
	v.errorf(hint, "the document has no kind")
}

// items reads the documents of a list as the Kubernetes API gives it.
func (l *loader) items(v *value) {
	o := v.object("apiVersion", "kind", "metadata", "items")
	if o == nil {
		return
	}
	if in := o.need("items", "list the documents"); in != nil {
		items, _ := in.list()
		for _, i := range items {
			i.what = "spec"
			if i.isObject() && i.peek("items") != nil {
				i.errorf("take it apart", "a list within a list is not read")
				continue
			}
			l.document(i)
		}
	}
}

// peek gives the value of a key before anything else of a mapping is read.
func (v *value) peek(key string) *value {
	for i := 0; v.isObject() && i+1 < len(v.n.Content); i += 2 {
		if k := v.n.Content[i]; k.Kind == yaml.ScalarNode && k.Value == key {
			return newValue(v.r, v.n.Content[i+1], key)
		}
	}
	return nil
}
