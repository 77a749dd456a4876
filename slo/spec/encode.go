package spec

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

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
		service: s.Name, description: s.Description, labels: s.Labels, types: s.Types,
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
	return slices.SortedFunc(maps.Values(byName), func(a, b slo.Correction) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Name, b.Name))
	})
}

// percentText is a quantile as ParsePercent reads it.
func percentText(q float64) string {
	s := shareText(q)
	if o, err := slo.ParsePercent(s); err == nil {
		return o.Percent()
	}
	return s
}
