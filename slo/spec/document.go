package spec

import (
	"strings"

	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// loader gathers the documents of all files. Every document says its format; the
// formats may be mixed, in one file too.
type loader struct {
	*yamldoc.Reader
	first   *yamldoc.Value // the first document
	drafts  []*draft
	sloth   []*draft // those of Sloth among them
	windows []*slothWindows
	open    openSLO
}

// finish brings together what documents say about each other.
func (l *loader) finish() []*draft {
	l.applySlothWindows()
	l.drafts = append(l.drafts, l.open.drafts(l)...)
	if len(l.drafts) == 0 && l.first != nil && l.Errors() == 0 {
		l.first.Errorf("add the SLOs that use it", "the spec has no SLO")
	}
	return l.drafts
}

func (l *loader) add(d *draft) {
	if d != nil {
		l.drafts = append(l.drafts, d)
	}
}

// document reads one document, by its version or apiVersion.
func (l *loader) document(v *yamldoc.Value) {
	if l.first == nil {
		l.first = v
	}
	if v.IsList() && v.Len() > 0 && v.Item(0).Peek("apiVersion") != nil {
		items, _ := v.List()
		for _, i := range items {
			if i.What = "spec"; i.IsMapping() {
				l.document(i)
				continue
			}
			i.Errorf("remove it", "the list must contain documents, got %s", i.Shape())
		}
		return
	}
	if !v.IsMapping() {
		v.Errorf("start with `version: "+Version+"`", "a spec is a mapping (key: value), got %s", v.Shape())
		return
	}
	if version := v.Peek("version"); version != nil && !version.IsNull() {
		s, ok := version.Text()
		switch {
		case ok && s == SlothVersion:
			l.addSloth(slothDocument(v))
			return
		case ok && s != Version:
			version.Errorf("want "+Version+", or "+SlothVersion+" for a spec of Sloth", "unknown version %q", yamldoc.Clip(s))
		}
		l.add(documentV1(v))
		return
	}
	if api := v.Peek("apiVersion"); api != nil && !api.IsNull() {
		l.apiDocument(v, api)
		return
	}
	if v.Peek("groups") != nil {
		v.Errorf("want `version: "+Version+"`", "this is a Prometheus rule file, not a sloengine spec")
		return
	}
	l.add(documentV1(v))
}

// apiDocument reads a document in the style of Kubernetes.
func (l *loader) apiDocument(v, api *yamldoc.Value) {
	version, ok := api.Text()
	if !ok {
		return
	}
	kind := ""
	if k := v.Peek("kind"); k != nil && !k.IsNull() {
		if kind, ok = k.Text(); !ok {
			return
		}
	}
	switch {
	case version == OpenSLOVersion:
		l.open.document(v, kind)
	case version == SlothAPIVersion && kind == "PrometheusServiceLevel":
		l.addSloth(slothResource(v))
	case version == SlothAPIVersion && kind == "AlertWindows":
		l.slothWindows(v)
	case version == SlothAPIVersion && kind == "PrometheusServiceLevelList", version == "v1" && kind == "List":
		l.items(v)
	case version == SlothAPIVersion:
		kindError(v, kind, "PrometheusServiceLevel", "AlertWindows")
	case strings.HasPrefix(version, "openslo"):
		api.Errorf("want "+OpenSLOVersion, "unsupported OpenSLO version %q", yamldoc.Clip(version))
	default:
		v.Errorf("want `version: "+Version+"`, or apiVersion "+SlothAPIVersion+" or "+OpenSLOVersion, "this is a document with apiVersion %s, not a sloengine spec", yamldoc.Printable(yamldoc.Clip(version)))
	}
}

// kindError says that a document is of no kind that is known.
func kindError(v *yamldoc.Value, kind string, known ...string) {
	hint := suggest.DidYouMean(kind, known)
	if hint == "" {
		hint = "want " + suggest.OneOf(known)
	}
	if k := v.Peek("kind"); k != nil {
		k.Errorf(hint, "unknown kind %q", yamldoc.Clip(kind))
		return
	}
	v.Errorf(hint, "the document has no kind")
}

// items reads the documents of a list as the Kubernetes API gives it.
func (l *loader) items(v *yamldoc.Value) {
	o := v.Object("apiVersion", "kind", "metadata", "items")
	if o == nil {
		return
	}
	if in := o.Need("items", "list the documents"); in != nil {
		items, _ := in.List()
		for _, i := range items {
			i.What = "spec"
			if i.IsMapping() && i.Peek("items") != nil {
				i.Errorf("flatten it", "nested lists of documents are not supported")
				continue
			}
			l.document(i)
		}
	}
}
