package counting

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
)

// Spec is one active spec, with the structures derived from it.
type Spec struct {
	Spec    *spec.Spec
	Inputs  evaluator.Inputs
	Encoded []byte // the config record
	Catalog event.Catalog
	Longest time.Duration // the longest window: how far back a backfill reaches
	merge   map[string]mergeBy
	whole   fold.Whole
	config  *fold.Config
	Loaded  time.Time
	Hash    string // of all that it says

	// Wanted is what the files say, if earlier definitions of some SLOs are in force until theirs have their counts: those
	// in Held. Else it is nil.
	Wanted *Spec
	Held   []slo.ID

	admitted *fold.Config // the indicators for which events are stored: those of Wanted, too
}

// Specs holds the active spec.
type Specs struct {
	load    func() (*spec.Spec, spec.Problems, error)
	current atomic.Pointer[Spec]

	mu   sync.Mutex
	set  *metrics.Set // has the series of the hash; nil without metrics
	info string       // that series
}

// LoadSpecs reads the first spec. It fails on a broken one with a *spec.InvalidError.
func LoadSpecs(load func() (*spec.Spec, spec.Problems, error)) (*Specs, error) {
	s := &Specs{load: load}
	first, err := s.Read()
	if err != nil {
		return nil, err
	}
	s.Use(first)
	return s, nil
}

// Read loads and compiles the files and changes nothing.
func (s *Specs) Read() (*Spec, error) {
	sp, problems, err := s.load()
	if err != nil {
		return nil, err
	}
	if problems.Err() != nil {
		return nil, &spec.InvalidError{Problems: problems}
	}
	return compileSpec(sp)
}

func compileSpec(sp *spec.Spec) (*Spec, error) {
	in := Inputs(sp)
	cfg, err := evaluator.Compile(in)
	if err != nil {
		return nil, err
	}
	text := spec.Encode(sp)
	encoded, err := EncodeConfig(cfg, text)
	if err != nil {
		return nil, fmt.Errorf("encode config: %w", err)
	}
	whole, err := cfg.Whole()
	if err != nil {
		return nil, fmt.Errorf("compile spec: %w", err)
	}
	sum := sha256.Sum256(text) // of the whole spec, and not only of the counted parts
	return &Spec{
		Spec: sp, Inputs: in, Encoded: encoded, Catalog: catalog(cfg.Services),
		Longest: longest(cfg.Indicators), merge: merging(cfg), whole: whole, config: cfg, admitted: cfg,
		Loaded: time.Now(), Hash: hex.EncodeToString(sum[:6]),
	}, nil
}

// Inputs is the spec as the evaluator takes it.
func Inputs(sp *spec.Spec) evaluator.Inputs {
	in := evaluator.Inputs{SLOs: sp.SLOs, Thresholds: sp.Thresholds, Agreements: sp.Agreements, Warnings: sp.Warnings}
	for _, s := range sp.Services {
		in.Services = append(
			in.Services, fold.Service{Name: s.Name, Types: s.Types, AdmitUnknown: s.AdmitUnknownTypes,
				Dimensions: s.Dimensions, Buckets: s.Buckets})
	}
	return in
}

// TellsApart says by what events with two values of an attribute count differently, "" if they do not.
func (s *Spec) TellsApart(attribute, a, b string) string {
	return s.admitted.TellsApart(attribute, a, b)
}

// Counted are the attributes by which events of some service count differently.
func (s *Spec) Counted() (names []string) {
	for i := range s.admitted.Services {
		attrs, _ := s.admitted.MergeBy(s.admitted.Services[i].Name)
		names = append(names, attrs...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// InForce is the active spec. It is read-only.
func (s *Specs) InForce() *Spec { return s.current.Load() }

// Use activates a spec.
func (s *Specs) Use(next *Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Store(next)
	s.publish(next)
}

// Publish exports the hash of the active spec, now and after every change, so that a roll-out can be verified.
func (s *Specs) Publish(set *metrics.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = set
	s.publish(s.InForce())
}

func (s *Specs) publish(now *Spec) {
	series := metric.SpecInfo.Series(now.Hash)
	if s.set == nil || series == s.info {
		return
	}
	metric.SpecInfo.Read(s.set, func() float64 { return 1 }, now.Hash)
	if s.info != "" {
		s.set.UnregisterMetric(s.info)
	}
	s.info = series
}

// Source is where in the files an SLO stands.
func (s *Specs) Source(id slo.ID) (spec.Source, bool) {
	return s.InForce().Spec.Source(spec.KindSLO, id.Service(), id.Name())
}

// mergeBy lists the attributes that events must have in common to be merged into one.
type mergeBy struct {
	attrs []string
	step  time.Duration
}

func merging(cfg *fold.Config) map[string]mergeBy {
	out := make(map[string]mergeBy, len(cfg.Services))
	for _, s := range cfg.Services {
		var m mergeBy
		m.attrs, m.step = cfg.MergeBy(s.Name)
		out[s.Name] = m
	}
	return out
}

// MergeBy is asked for every event that is to be merged.
func (s *Specs) MergeBy(service []byte) ([]string, time.Duration) {
	m := s.InForce().merge[string(service)]
	return m.attrs, m.step
}

// Thresholds are the durations that the SLOs of a service compare those of events of a type with.
func (s *Specs) Thresholds(service, typ string) []time.Duration {
	return s.InForce().admitted.Thresholds(service, typ)
}

// Whole reports whether an event over its rate limit must be neither sampled nor merged.
func (s *Specs) Whole(v *event.View) bool {
	now := s.InForce()
	return now.whole.Has(v) || now.Wanted != nil && now.Wanted.whole.Has(v)
}

// catalog is the catalogue against which the decoder checks events.
func catalog(services []fold.Service) event.Catalog {
	known := make(map[string][]string, len(services))
	for _, s := range services {
		known[s.Name] = s.Types
	}
	c := event.NewCatalog(known)
	for _, s := range services {
		if s.AdmitUnknown {
			c.Admit(s.Name)
		}
	}
	return c
}

// longest is the longest window that any indicator is asked for.
func longest(indicators []fold.Indicator) time.Duration {
	var out time.Duration
	for _, i := range indicators {
		out = max(out, i.Retention)
	}
	return out
}
