package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/config"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web"
)

// specLoader reads the spec files again.
type specLoader func() (*spec.Spec, spec.Problems, error)

// fromPaths loads files and folders. Standard input, "-", is read once.
func fromPaths(paths []string, stdin io.Reader) specLoader {
	for _, p := range paths {
		if p == "-" {
			data, err := io.ReadAll(stdin)
			return func() (*spec.Spec, spec.Problems, error) {
				if err != nil {
					return nil, nil, fmt.Errorf("read spec from standard input: %w", err)
				}
				if len(paths) > 1 {
					return nil, nil, usageError{errors.New("-f - cannot be joined with other files")}
				}
				sp, problems := spec.Load([]spec.File{{Name: "<stdin>", Data: data}})
				return sp, problems, nil
			}
		}
	}
	return func() (*spec.Spec, spec.Problems, error) { return spec.LoadPaths(paths, nil) }
}

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

// failedLoad is the last reload, if it changed nothing.
type failedLoad struct {
	at       time.Time
	err      error
	problems spec.Problems
}

// specs holds the spec in force and the outcome of the last reload.
type specs struct {
	load    specLoader
	mu      sync.Mutex // one reload at a time
	current atomic.Pointer[loadedSpec]
	failed  atomic.Pointer[failedLoad] // nil after a reload that worked
}

// specError is a spec that cannot be used; the problems are for people.
type specError struct{ problems spec.Problems }

func (e *specError) Error() string {
	errs := 0
	for _, p := range e.problems {
		if p.Severity == spec.Error {
			errs++
		}
	}
	return fmt.Sprintf("the spec has %s", plural(errs, "error"))
}

// SpecProblems lists the problems for the answer to a reload.
func (e *specError) SpecProblems() []spec.Problem { return e.problems }

func loadSpecs(load specLoader) (*specs, error) {
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
		return nil, &specError{problems}
	}
	in := inputs(sp)
	cfg, err := evaluator.Compile(in)
	if err != nil {
		return nil, err
	}
	encoded, err := encodeConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("encode config: %w", err)
	}
	sum := sha256.Sum256(spec.Encode(sp)) // of all that it says, and not only of what is counted
	return &loadedSpec{
		spec: sp, inputs: in, encoded: encoded, catalog: catalog(cfg.Services),
		longest: longest(cfg.Indicators), merge: merging(cfg), loaded: time.Now(), hash: hex.EncodeToString(sum[:6]),
	}, nil
}

// inputs is the spec as the evaluator takes it.
func inputs(sp *spec.Spec) evaluator.Inputs {
	in := evaluator.Inputs{SLOs: sp.SLOs, Limits: sp.Limits, Agreements: sp.Agreements, Warnings: sp.Warnings}
	for _, s := range sp.Services {
		in.Services = append(in.Services, fold.Service{Name: s.Name, Types: s.Types, Dimensions: s.Dimensions})
	}
	return in
}

// source is where in the files an SLO stands.
func (s *specs) source(id slo.ID) (web.Source, bool) {
	src, ok := s.current.Load().spec.Source(spec.KindSLO, id.Service(), id.Name())
	return web.Source{File: src.File, Line: src.Line}, ok
}

// reload takes the spec files, the tokens, limits and redaction over as they are now. All that can
// fail is done before anything is touched; then the change goes through the log,
// so that a replay makes it at the same place. On an error everything stays.
func (a *app) reload(ctx context.Context) error {
	a.specs.mu.Lock()
	defer a.specs.mu.Unlock()
	err := a.reloadAll(ctx)
	if err == nil {
		a.specs.failed.Store(nil)
		now := a.specs.current.Load()
		a.log.Info("reloaded", "hash", now.hash, "slos", len(now.spec.SLOs))
		return nil
	}
	failed := &failedLoad{at: time.Now(), err: err}
	var se *specError
	if errors.As(err, &se) {
		failed.problems = se.problems
	}
	a.specs.failed.Store(failed)
	a.reloadFailures.Inc()
	a.log.Error("reload failed, the old spec stays in force", "err", err, "problems", failed.problems)
	return err
}

func (a *app) reloadAll(ctx context.Context) error {
	next, err := a.specs.read()
	if err != nil {
		return err
	}
	tokens := func() {}
	if f := a.opt.config.Auth.TokensFile; f != "" {
		if tokens, err = a.auth.PrepareTokens(f); err != nil {
			return err
		}
	}
	settings, err := a.readSettings()
	if err != nil {
		return err
	}
	err = a.eval.Change(next.inputs, func() error { return a.engine.SetConfig(ctx, next.encoded) })
	if err != nil {
		return fmt.Errorf("put the new spec in force: %w", err)
	}
	a.specs.current.Store(next)
	settings()
	if err := a.noteChange(ctx); err != nil { // the spec is in force
		a.log.Error("what the spec changed is not known", "err", err)
	}
	tokens()
	return nil
}

// readSettings reads engine.yaml again and returns what puts the parts of it in force that
// can change while the engine runs.
func (a *app) readSettings() (apply func(), err error) {
	if a.opt.configFile == "" {
		return func() {}, nil
	}
	next, err := config.Load(a.opt.configFile)
	if err != nil {
		return nil, err
	}
	if a.opt.settle != nil {
		if err := a.opt.settle(&next); err != nil {
			return nil, err
		}
	}
	change, needRestart, err := a.rel.reload(&next)
	if err != nil {
		return nil, err
	}
	return func() {
		change()
		if len(needRestart) > 0 {
			a.log.Warn("settings changed that need a restart; until then the old ones hold", "sections", needRestart)
		}
	}, nil
}

// reloadOnSignal reloads at every SIGHUP until ctx ends.
func (a *app) reloadOnSignal(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			var detail string
			if err := a.reload(ctx); err != nil { // logged and published already
				detail = "error=" + strconv.QuoteToASCII(err.Error())
			} else {
				now := a.specs.current.Load()
				detail = fmt.Sprintf("hash=%s slos=%d", now.hash, len(now.spec.SLOs))
			}
			a.audit("reload", detail, "", "signal")
		}
	}
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
