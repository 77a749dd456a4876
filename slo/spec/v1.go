package spec

import (
	"cmp"
	_ "embed"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// synonyms are keys that people bring along from other formats, and what they are called here.
var synonyms = map[string]string{
	"target": "objective", "goal": "objective", "sli": "indicator", "slis": "indicator", "indicators": "indicator",
	"timewindow": "window", "time_window": "window", "period": "window", "budgetingmethod": "budgeting",
	"groupby": "group_by", "group": "group_by", "by": "group_by", "filter": "valid", "match": "valid", "matcher": "match",
	"errors": "bad", "error": "bad", "error_query": "bad", "total_query": "total",
	"alerts": "alerting", "severity": "each",
	"objectives": "slos", "agreements": "slas", "tz": "timezone", "time_zone": "timezone",
	"cron": "rrule", "owner": "author",
	"comment": "description", "unit": "calendar", "le": "threshold", "schedule": "during", "hours": "during",
	"title": "name", "apiversion": "version",
	"warn": "warning", "crit": "critical", "method": "score", "scoring": "score", "nodata": "no_data",
}

// misplaced are keys that belong somewhere else.
var misplaced = map[string]string{
	"alerts.window":   "write `alert_window` beside alerts",
	"alerting.labels": "write it inside page or ticket",
	"alerting.for":    "write it inside page or ticket",
}

// oldThresholds is the key of the event thresholds in older specs, which is still read.
const oldThresholds = "limits"

// headKeys is how many keys of a document are about the service. The others are lists.
const headKeys = 9

func (d *draft) keys() keys {
	thresholds := parts(&d.thresholds, "threshold", func() *thresholdDraft {
		return &thresholdDraft{Threshold: &slo.Threshold{Service: d.service}}
	}, (*yamlgen.Map).Line)
	return keys{
		at("version", later{
			out: func(*encoder) *yamlgen.Node { return yamlgen.Text(Version) },
			is:  &doc{Kind: shape.Text, Words: []string{Version}},
		}).need("add `version: " + Version + "` as the first line"),
		at("service", textual(&d.service, readName, &nameDoc)).need(
			"name the service whose events count, such as `service: shop`"),
		at("description", prose{&d.description}),
		at("labels", custom{
			in: func(v *yamldoc.Value) { d.labels, d.labelAt = readInfoLabels(v) },
			out: func(*encoder) *yamlgen.Node {
				n := labelsNode(d.labels)
				yamlgen.Comment(n, "on the info series only")
				return n
			},
			is: func() doc { return labelsDoc },
		}),
		at("links", custom{
			in:  func(v *yamldoc.Value) { d.links, d.linkAt = readLinks(v) },
			out: func(*encoder) *yamlgen.Node { return labelsNode(d.links) },
			is:  func() doc { return labelsDoc },
		}),
		at("types", custom{
			in:  func(v *yamldoc.Value) { d.types, d.anyType = readEventTypes(v) },
			out: d.writeTypes,
			is: func() doc {
				return eitherShape(
					wordsShape("any"), listShape(doc{Kind: shape.Text, Pattern: typePattern.String(), Note: "event type"}))
			},
		}),
		at("admit_unknown_types", truth{to: &d.admits}).or("false"),
		at("dimensions", custom{
			in:  func(v *yamldoc.Value) { d.dimensions, d.hasDims = readDimensions(v), true },
			out: func(*encoder) *yamlgen.Node { return unless(d.hasDims, d.dimensions) },
			is:  func() doc { return listShape(labelDoc) },
		}),
		at("buckets", custom{
			in: func(v *yamldoc.Value) { d.buckets, d.hasBuckets = readBuckets(v), true },
			out: func(*encoder) *yamlgen.Node {
				var bounds []string
				for _, b := range d.buckets {
					bounds = append(bounds, slo.FormatDuration(b))
				}
				return unless(d.hasBuckets, bounds)
			},
			is: func() doc { return listShape(length{nil, time.Millisecond, maxWindow}.shape()) },
		}),
		at("slos", parts(&d.slos, "slo", func() *sloDraft { return newSLODraft(d.service, d.labels, d.links) },
			(*yamlgen.Map).Node)),
		at("corrections", parts(&d.corrections, "correction", func() *correctionDraft {
			return &correctionDraft{}
		}, (*yamlgen.Map).Line)),
		at("thresholds", thresholds),
		at(oldThresholds, custom{
			in: func(v *yamldoc.Value) {
				if len(d.thresholds) == 0 {
					thresholds.read(v)
				}
			},
			is: thresholds.shape,
		}),
		at("slas", parts(&d.slas, "sla", func() *slaDraft { return newSLADraft(d.service) }, (*yamlgen.Map).Node)),
		at("baselines", parts(&d.baselines, "baseline", func() *baselineDraft {
			return &baselineDraft{Baseline: &slo.Baseline{Service: d.service, Goal: slo.DefaultGoal}}
		}, (*yamlgen.Map).Line)),
	}
}

// keysFile has what no reader needs to know of the keys: a text, an example, and which keys exclude or require others.
//
//go:embed keys.txt
var keysFile string

// Shape describes a document of the own format.
func Shape() shape.Shape {
	s, texts := new(draft).keys().shape(), shape.ParseTexts(keysFile)
	s.Walk("", func(path string, m *shape.Shape) {
		path = strings.Replace(path, oldThresholds, "thresholds", 1)
		for i := range m.Keys {
			k := &m.Keys[i]
			at := shape.Child(path, k.Name)
			k.Text, k.Example, k.Default = texts.Of("", at), texts.Of("example ", at),
				cmp.Or(k.Default, texts.Of("default ", at))
			k.Not, k.Needs = strings.Fields(texts.Of("excludes ", at)), strings.Fields(texts.Of("requires ", at))
		}
	})
	return s
}

// documentV1 reads the own format.
func documentV1(v *yamldoc.Value) *draft {
	d := &draft{labelAt: map[string]Position{}}
	o := d.keys().read(v)
	if o == nil {
		return nil
	}
	d.at, d.descriptionAt = placeOf(o, "service"), placeOf(o, "description")
	d.admitsAt = placeOf(o, "admit_unknown_types")
	if o.Has(oldThresholds) && o.Has("thresholds") {
		o.KeyErrorf(oldThresholds, "move its items to thresholds",
			"spec: limits is the old name of thresholds, and only one of them may be given")
	}
	if !slices.ContainsFunc([]string{"slos", "thresholds", oldThresholds, "slas", "corrections"}, o.Has) &&
		v.Errors() == 0 {
		v.Warnf("add `slos:`; `sloengine init` writes an example", "service %s has no SLOs", d.service)
	}
	return d
}

// unless is a list of texts, which may be empty, where it is said.
func unless(said bool, texts []string) *yamlgen.Node {
	if !said {
		return nil
	}
	return yamlgen.Line(yamlgen.List(yamlgen.Texts(texts).Content...))
}

func (d *draft) writeTypes(*encoder) *yamlgen.Node {
	if len(d.types) > 0 {
		n := textList(d.types)
		yamlgen.Comment(n, "of the events that it sends")
		return n
	}
	if d.anyType {
		return yamlgen.Text("any")
	}
	return nil
}

// call names an item of a list in problems, by its own name if it has one.
func call(v *yamldoc.Value, kind string) {
	v.What = kind
	if n := v.Peek("name"); n != nil && n.Raw() != "" {
		v.What = kind + " " + yamldoc.Printable(yamldoc.Clip(n.Raw()))
	}
}

func eachItem(v *yamldoc.Value, read func(*yamldoc.Value)) {
	items, _ := v.List()
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

// readAttribute reads the name of an attribute of events.
func readAttribute(v *yamldoc.Value) (string, bool) {
	s, ok := v.Text()
	if !ok || !isAttribute(v, s) {
		return "", false
	}
	if why := reservedAttribute(s); why != "" {
		v.Errorf("use another name", "%s: %q is %s", v.What, s, why)
		return "", false
	}
	return s, true
}

func isAttribute(v *yamldoc.Value, s string) bool {
	if !attributePattern.MatchString(s) || len(s) > maxName {
		v.Errorf("use letters, digits, dots, dashes and underscores, beginning with a letter or underscore",
			"%s: invalid label name %q", v.What, yamldoc.Clip(s))
		return false
	}
	return true
}

// readGroupLabels reads the distinct names that groups or dimensions are told apart by, without those that are there
// anyway. Where the groups are those of existing series, a reserved name is one that these have, and series.GroupLabel
// renames it.
func readGroupLabels(v *yamldoc.Value, existing bool, implied ...string) ([]string, bool) {
	items, ok := v.List()
	out := []string{}
	for _, i := range items {
		s, good := i.Text()
		good = good && isAttribute(i, s)
		if good && !existing {
			why := series.Reserved(s)
			if why == "" {
				why = reservedAttribute(s)
			}
			switch {
			case slices.Contains(implied, s):
				i.Errorf("remove it", "%s: %q is set by the engine", v.What, s)
				good = false
			case why != "":
				i.Errorf("use another attribute", "%s: %q is %s", v.What, s, why)
				good = false
			}
		}
		if !good || !addGroupLabel(i, &out, s) {
			ok = false
		}
	}
	return out, ok
}

// addGroupLabel refuses a name that would be the same label as one before it, and a label of Prometheus itself.
func addGroupLabel(v *yamldoc.Value, names *[]string, s string) bool {
	for _, other := range *names {
		switch label := series.GroupLabel(s); {
		case s == other:
			v.Errorf("remove it", "%s: %q is listed twice", v.What, s)
			return false
		case label == series.GroupLabel(other):
			v.Errorf("rename one of them", "%s: %q and %q are both exported as %q", v.What, other, s, label)
			return false
		}
	}
	if strings.HasPrefix(s, "__") {
		v.Errorf("use another label", "%s: %q is %s", v.What, s, series.Reserved(s))
		return false
	}
	*names = append(*names, s)
	return true
}

// readLabelMap reads the user's own labels. refuse says why one cannot be set; "" if it can.
func readLabelMap(v *yamldoc.Value, refuse func(name string) string) (map[string]string, map[string]Position) {
	o := v.Open()
	if o == nil {
		return nil, nil
	}
	out, at := map[string]string{}, map[string]Position{}
	for _, k := range o.Keys {
		if !checkLabel(v, k, o.KeyAt(k), refuse) {
			continue
		}
		if s, ok := o.Get(k).Text(); ok {
			out[k], at[k] = s, o.KeyAt(k)
		}
	}
	return out, at
}

func checkLabel(v *yamldoc.Value, s string, at Position, refuse func(string) string) bool {
	if !labelPattern.MatchString(s) || len(s) > maxName {
		v.ErrorfAt(at, "use letters, digits and underscores, not beginning with a digit", "%s: invalid label name %q",
			v.What, yamldoc.Clip(s))
		return false
	}
	if why := refuse(s); why != "" {
		v.ErrorfAt(at, "use another name", "%s: %q is %s", v.What, s, why)
		return false
	}
	return true
}

// reservedInfo says why slo_info and alerts cannot have a label of the user; "" if they can.
func reservedInfo(name string) string {
	if slices.Contains(series.Info.LabelNames(), name) {
		return "set by the engine"
	}
	switch name {
	case series.LabelResult, series.LabelLE, series.LabelSLA:
		return "" // neither has these
	}
	return series.Reserved(name)
}

// readInfoLabels reads the labels of the info series, which has some of its own.
func readInfoLabels(v *yamldoc.Value) (map[string]string, map[string]Position) {
	return readLabelMap(v, reservedInfo)
}

// eventTypes reads "any" or a list of event types.
func readEventTypes(v *yamldoc.Value) (types []string, anyType bool) {
	if !v.IsList() {
		_, ok := v.Choice("any")
		return nil, ok
	}
	items, _ := v.List()
	seen := map[string]bool{}
	for _, i := range items {
		s, ok := i.Text()
		switch {
		case !ok:
		case !typePattern.MatchString(s) || len(s) > maxName:
			i.Errorf("use letters, digits, dots, dashes and underscores", "types: invalid event type %q", yamldoc.Clip(s))
		case seen[s]:
			i.Errorf("remove it", "types: %q is listed twice", yamldoc.Clip(s))
		default:
			seen[s] = true
			types = append(types, s)
		}
	}
	if len(items) == 0 {
		v.Errorf("list the event types, or write `types: any`", "types is empty")
	}
	return types, false
}

const maxDimensions = 8

func readDimensions(v *yamldoc.Value) []string {
	out, _ := readGroupLabels(v, false, series.EngineEvents.LabelNames()...)
	if len(out) > maxDimensions {
		v.Errorf("every dimension multiplies the number of series", "dimensions: at most %d, got %d", maxDimensions, len(out))
	}
	return out
}

const maxBuckets = 50

func readBuckets(v *yamldoc.Value) []time.Duration {
	items, _ := v.List()
	var out []time.Duration
	for _, i := range items {
		b, ok := readDuration(i, time.Millisecond, maxWindow)
		switch {
		case !ok:
		case len(out) > 0 && b <= out[len(out)-1]:
			i.Errorf("list the bounds in ascending order", "buckets: %s does not exceed the bound before it (%s)",
				slo.FormatDuration(b), slo.FormatDuration(out[len(out)-1]))
		default:
			out = append(out, b)
		}
	}
	if len(items) > maxBuckets {
		v.Errorf("every bound is a series of each histogram", "buckets: at most %d, got %d", maxBuckets, len(items))
	}
	return out
}

// Encode writes a spec in the own format, one YAML document for each service. The same spec gives the same bytes, and
// reading them gives the same spec again but for places and warnings.
func Encode(s *Spec) []byte {
	var out []byte
	for i := range s.Services {
		if i > 0 {
			out = append(out, "---\n"...)
		}
		e := encoder{spec: s, service: &s.Services[i]}
		for j, part := range e.sections() {
			if j > 0 {
				out = append(out, '\n')
			}
			out = append(out, yamlgen.Document("", part)...)
		}
	}
	return out
}

// encoder writes one service.
type encoder struct {
	spec    *Spec
	service *Service
	noted   map[string]bool // comments that are worth saying once
}

// sections are the parts of a document, with an empty line between each two.
func (e *encoder) sections() []*yamlgen.Node {
	ks := e.draft().keys()
	out := []*yamlgen.Node{ks[:headKeys].write(e).Node()}
	for i := headKeys; i < len(ks); i++ {
		if part := ks[i : i+1].write(e); part.Len() > 0 {
			out = append(out, part.Node())
		}
	}
	return out
}

// draft is the service as if it had been read from one document.
func (e *encoder) draft() *draft {
	s := e.service
	d := &draft{
		service: s.Name, description: s.Description, labels: s.Labels, links: s.Links, types: s.Types,
		admits:     s.AdmitUnknownTypes,
		dimensions: s.Dimensions, hasDims: !slices.Equal(s.Dimensions, DefaultDimensions),
		buckets: s.Buckets, hasBuckets: s.Buckets != nil && !slices.Equal(s.Buckets, DefaultBuckets),
	}
	for _, o := range e.spec.SLOs {
		if o.ID.Service() == s.Name {
			d.slos = append(d.slos, &sloDraft{SLO: o})
			d.anyType = d.anyType || o.Indicator.Kind != slo.KindPrometheus
		}
	}
	for _, c := range corrections(d.slos) {
		d.corrections = append(d.corrections, &correctionDraft{Correction: c, slos: namesOf(c.SLOs)})
	}
	for _, l := range e.spec.Thresholds {
		if l.Service == s.Name {
			d.thresholds, d.anyType = append(d.thresholds, &thresholdDraft{Threshold: l}), true
		}
	}
	for _, a := range e.spec.Agreements {
		if a.Service == s.Name {
			d.slas = append(d.slas, agreementDraft(a))
		}
	}
	for _, b := range e.spec.Baselines {
		if b.Service == s.Name {
			d.baselines = append(d.baselines, &baselineDraft{Baseline: b, slos: namesOf(b.SLOs), slas: namesOf(b.Agreements)})
		}
	}
	return d
}

// once gives a comment the first time that it is asked for.
func (e *encoder) once(comment string) string {
	if e.noted[comment] {
		return ""
	}
	if e.noted == nil {
		e.noted = map[string]bool{}
	}
	e.noted[comment] = true
	return comment
}

// corrections are those of some SLOs, each once.
func corrections(slos []*sloDraft) []slo.Correction {
	byName := map[string]slo.Correction{}
	for _, o := range slos {
		for _, c := range o.Corrections {
			byName[c.Name] = c
		}
	}
	out := slices.Collect(maps.Values(byName))
	order.By(out, func(a, b *slo.Correction) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// percentText is a quantile as ParsePercent reads it.
func percentText(q float64) string {
	s := shareText(q)
	if o, err := slo.ParsePercent(s); err == nil {
		return o.Percent()
	}
	return s
}
