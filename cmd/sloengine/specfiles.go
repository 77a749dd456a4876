package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo/spec"
)

// specLoader reads the spec files, again for each reload.
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

// readSpec reads specs for commands that only look at them, and prints what is wrong with them.
func readSpec(s streams, files []string) (*spec.Spec, error) {
	sp, problems, err := spec.LoadPaths(files, s.in)
	if err != nil {
		return nil, err
	}
	if problems.HasErrors() {
		printProblems(s.err, problems)
		return nil, &app.SpecError{Problems: problems}
	}
	return sp, nil
}

// specFiles is readSpec for commands that need rules only.
func specFiles(s streams, files []string) (rules.Spec, error) {
	sp, err := readSpec(s, files)
	if err != nil {
		return rules.Spec{}, err
	}
	return rulesSpec(sp), nil
}

// rulesSpec is the part of a spec that rules and alerts are made of.
func rulesSpec(sp *spec.Spec) rules.Spec {
	return rules.Spec{SLOs: sp.SLOs, Thresholds: sp.Thresholds, Agreements: sp.Agreements}
}
