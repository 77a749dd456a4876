package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo/spec"
)

// specFiles is the flag -f: the files and folders that make up a spec.
type specFiles []string

func (p *specFiles) add(f *pflag.FlagSet) {
	f.StringArrayVarP((*[]string)(p), "file", "f", nil, "spec file, folder of *.yaml files, or - for standard input (repeatable)")
}

// check refuses a command without a spec.
func (p specFiles) check() error {
	if len(p) == 0 {
		return usageError{errors.New("no spec given: set -f FILE, -f DIR, or -f - for standard input ('sloengine init' writes a starter spec)")}
	}
	return nil
}

// read reads the spec and prints its problems if it has errors.
func (p specFiles) read(s streams) (*spec.Spec, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	sp, problems, err := spec.LoadPaths(p, s.in)
	if err != nil {
		return nil, err
	}
	if problems.HasErrors() {
		printProblems(s.err, problems)
		return nil, &app.SpecError{Problems: problems}
	}
	return sp, nil
}

// loader reads the spec again for each reload, but standard input only once.
func (p specFiles) loader(stdin io.Reader) func() (*spec.Spec, spec.Problems, error) {
	var data []byte
	var err error
	if slices.Contains(p, "-") {
		data, err = io.ReadAll(stdin)
	}
	return func() (*spec.Spec, spec.Problems, error) {
		if err != nil {
			return nil, nil, fmt.Errorf("read spec from standard input: %w", err)
		}
		return spec.LoadPaths(p, bytes.NewReader(data))
	}
}

// rulesSpec is the part of a spec that rules and alerts are made of.
func rulesSpec(sp *spec.Spec) rules.Spec {
	return rules.Spec{SLOs: sp.SLOs, Thresholds: sp.Thresholds, Agreements: sp.Agreements}
}
