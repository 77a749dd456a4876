package app

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/site"
)

// loadedSpec is one spec in force, with what was made of it.
type loadedSpec struct {
	spec    *spec.Spec
	inputs  evaluator.Inputs
	encoded []byte // the config record
	catalog event.Catalog
	longest time.Duration // the longest window: how far back a backfill reaches
	merge   map[string]mergeBy
	loaded  time.Time
	hash    string
}

// specs holds the spec in force.
type specs struct {
	load    func() (*spec.Spec, spec.Problems, error)
	current atomic.Pointer[loadedSpec]
}

func loadSpecs(load func() (*spec.Spec, spec.Problems, error)) (*specs, error) {
	s := &specs{load: load}
	first, err := s.read()
	if err != nil {
		return nil, err
	}
	s.current.Store(first)
	return s, nil
}

// read loads and compiles the files and changes nothing.
func (s *specs) read() (*loadedSpec, error) {
	sp, problems, err := s.load()
	if err != nil {
		return nil, err
	}
	if problems.Err() != nil {
		return nil, &spec.InvalidError{Problems: problems}
	}
	in := Inputs(sp)
	cfg, err := evaluator.Compile(in)
	if err != nil {
		return nil, err
	}
	encoded, err := EncodeConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("encode config: %w", err)
	}
	sum := sha256.Sum256(spec.Encode(sp)) // of all that it says, and not only of what is counted
	return &loadedSpec{
		spec: sp, inputs: in, encoded: encoded, catalog: catalog(cfg.Services),
		longest: longest(cfg.Indicators), merge: merging(cfg), loaded: time.Now(), hash: hex.EncodeToString(sum[:6]),
	}, nil
}

// Inputs is the spec as the evaluator takes it.
func Inputs(sp *spec.Spec) evaluator.Inputs {
	in := evaluator.Inputs{SLOs: sp.SLOs, Thresholds: sp.Thresholds, Agreements: sp.Agreements, Warnings: sp.Warnings}
	for _, s := range sp.Services {
		in.Services = append(in.Services, fold.Service{Name: s.Name, Types: s.Types, Dimensions: s.Dimensions})
	}
	return in
}

// source is where in the files an SLO stands.
func (s *specs) source(id slo.ID) (site.Source, bool) {
	src, ok := s.current.Load().spec.Source(spec.KindSLO, id.Service(), id.Name())
	return site.Source{File: src.File, Line: src.Line}, ok
}

// mergeBy is what events must agree in to be merged into one.
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

// mergeBy is asked for every event that is to be merged.
func (s *specs) mergeBy(service []byte) ([]string, time.Duration) {
	m := s.current.Load().merge[string(service)]
	return m.attrs, m.step
}

// catalog is what the decoder holds events against.
func catalog(services []fold.Service) event.Catalog {
	known := make(map[string][]string, len(services))
	for _, s := range services {
		known[s.Name] = s.Types
	}
	return event.NewCatalog(known)
}

// longest is the longest window that any indicator is asked for.
func longest(indicators []fold.Indicator) time.Duration {
	var out time.Duration
	for _, i := range indicators {
		out = max(out, i.Retention)
	}
	return out
}
