package spec

import (
	"regexp"

	"gopkg.in/yaml.v3"
)

// documentV1 reads the own format.
func (r *reader) documentV1(v *value) *draft {
	o := v.object("version", "service", "description", "labels", "types", "dimensions", "slos", "corrections", "limits", "slas")
	if o == nil {
		return nil
	}
	d := &draft{at: v.at(), labelAt: map[string]Position{}}
	o.need("version", "add `version: "+Version+"` as the first line")
	if s := o.need("service", "name the service whose events are judged, such as `service: shop`"); s != nil {
		d.at = s.at()
		d.service, _ = s.name()
	}
	if t := o.get("description"); t != nil {
		d.descriptionAt = t.at()
		d.description, _ = t.text()
	}
	if l := o.get("labels"); l != nil {
		d.labels, d.labelAt = l.infoLabels()
	}
	if t := o.get("types"); t != nil {
		d.types, d.anyType = t.eventTypes()
	}
	if t := o.get("dimensions"); t != nil {
		d.dimensions, d.hasDims = t.dimensions(), true
	}
	eachItem(o.get("slos"), func(i *value) { d.readSLO(i) })
	eachItem(o.get("corrections"), func(i *value) { d.readCorrection(i) })
	eachItem(o.get("limits"), func(i *value) { d.readLimit(i) })
	eachItem(o.get("slas"), func(i *value) { d.readSLA(i) })
	if !o.has("slos") && !o.has("limits") && !o.has("slas") && !o.has("corrections") && r.errors == 0 {
		v.warnf("add `slos:`; `sloengine init` writes an example", "service %s has no SLOs", d.service)
	}
	return d
}

// call names an item of a list in problems, by its own name if it has one.
func (v *value) call(kind string) {
	v.what = kind
	for i := 0; v.isObject() && i+1 < len(v.n.Content); i += 2 {
		if n := v.n.Content[i+1]; v.n.Content[i].Value == "name" && n.Kind == yaml.ScalarNode && n.Value != "" {
			v.what = kind + " " + printable(clip(n.Value))
			return
		}
	}
}

func eachItem(v *value, read func(*value)) {
	if v == nil {
		return
	}
	items, _ := v.list()
	for _, i := range items {
		read(i)
	}
}

// typePattern is what events may have as type.
var typePattern = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

var (
	labelPattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	notLabel     = regexp.MustCompile(`[^a-zA-Z0-9_]+`)
)

// label reads the name of a Prometheus label.
func (v *value) label() (string, bool) {
	s, ok := v.text()
	if !ok {
		return "", false
	}
	return s, v.checkLabel(s, v.at(), reservedLabel)
}

func (v *value) checkLabel(s string, at Position, reserved func(string) string) bool {
	if !labelPattern.MatchString(s) || len(s) > maxName {
		v.r.errorf(at, "use letters, digits and underscore, no digit first", "%s: %q is not a label name", v.what, clip(s))
		return false
	}
	if why := reserved(s); why != "" {
		v.r.errorf(at, "take another name", "%s: %q is %s", v.what, s, why)
		return false
	}
	return true
}

// labelMap reads the user's own labels, without the given names.
func (v *value) labelMap(taken ...string) (map[string]string, map[string]Position) {
	o := v.open()
	if o == nil {
		return nil, nil
	}
	out, at := map[string]string{}, map[string]Position{}
	for _, k := range o.keys {
		if !v.checkLabel(k, o.keyAt(k), reservedOwn) {
			continue
		}
		clash := false
		for _, t := range taken {
			clash = clash || t == k
		}
		if clash {
			v.r.errorf(o.keyAt(k), "take another name", "%s: %q is set by the engine", v.what, k)
			continue
		}
		if t := o.get(k); t != nil {
			if s, ok := t.text(); ok {
				out[k], at[k] = s, o.keyAt(k)
			}
		}
	}
	return out, at
}

// infoLabels are the labels of the info series, which has some of its own.
func (v *value) infoLabels() (map[string]string, map[string]Position) {
	return v.labelMap("service", "objective")
}

// eventTypes reads "any" or a list of event types.
func (v *value) eventTypes() (types []string, anyType bool) {
	if !v.isList() {
		_, ok := v.choice("any")
		return nil, ok
	}
	items, _ := v.list()
	seen := map[string]bool{}
	for _, i := range items {
		s, ok := i.text()
		switch {
		case !ok:
		case !typePattern.MatchString(s) || len(s) > maxName:
			i.errorf("use letters, digits, dot, dash and underscore", "types: %q is not an event type", clip(s))
		case seen[s]:
			i.errorf("remove it", "types: %q is listed twice", clip(s))
		default:
			seen[s] = true
			types = append(types, s)
		}
	}
	if len(items) == 0 {
		v.errorf("list the event types, or write `types: any`", "types is empty")
	}
	return types, false
}

const maxDimensions = 8

func (v *value) dimensions() []string {
	out, _ := v.labelList("service", "type", "outcome", "severity")
	if len(out) > maxDimensions {
		v.errorf("every dimension multiplies the number of series", "dimensions: at most %d, got %d", maxDimensions, len(out))
	}
	return out
}

// labelList reads distinct label names, without those that are there anyway.
func (v *value) labelList(implied ...string) ([]string, bool) {
	items, ok := v.list()
	out := []string{}
	seen := map[string]bool{}
	for _, i := range items {
		s, good := i.label()
		if !good {
			ok = false
			continue
		}
		clash := false
		for _, t := range implied {
			clash = clash || t == s
		}
		switch {
		case clash:
			i.errorf("remove it", "%s: %q is set by the engine", v.what, s)
			ok = false
		case seen[s]:
			i.errorf("remove it", "%s: %q is listed twice", v.what, s)
			ok = false
		default:
			seen[s] = true
			out = append(out, s)
		}
	}
	return out, ok
}
