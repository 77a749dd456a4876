package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// SpecFiles is the flag -f: the files and folders that make up a spec.
type SpecFiles []string

// Add adds the flag.
func (p *SpecFiles) Add(f *pflag.FlagSet) {
	f.StringArrayVarP((*[]string)(p), "file", "f", nil,
		"spec file, folder of *.yaml files, or - for standard input (repeatable)")
}

// Check refuses a command without a spec.
func (p SpecFiles) Check() error {
	if len(p) == 0 {
		return Usagef(
			"no spec given: set -f FILE, -f DIR, or -f - for standard input ('sloengine init' writes a starter spec)")
	}
	return nil
}

// PromQL is the flag --promql: what becomes of queries that Prometheus cannot parse.
type PromQL string

// Add adds the flag.
func (p *PromQL) Add(f *pflag.FlagSet) {
	AddChoice(f, (*string)(p), "promql", "",
		"queries that Prometheus cannot parse, such as those of VictoriaMetrics, are errors or warnings", "strict", "lenient")
}

// Options are those for reading specs.
func (p PromQL) Options() spec.Options { return spec.Options{LenientPromQL: p == "lenient"} }

// Read reads the spec and prints its problems if it has errors.
func (p SpecFiles) Read(s Streams) (*spec.Spec, error) { return p.ReadAs(s, spec.Options{}) }

// ReadAs is Read with options.
func (p SpecFiles) ReadAs(s Streams, o spec.Options) (*spec.Spec, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	sp, problems, err := o.LoadPaths(p, s.In)
	if err != nil {
		return nil, err
	}
	if problems.HasErrors() {
		PrintProblems(s.Err, problems)
		return nil, &spec.InvalidError{Problems: problems}
	}
	return sp, nil
}

// PrintProblems prints each problem in a line of its own.
func PrintProblems(w io.Writer, problems spec.Problems) {
	for _, p := range problems {
		fmt.Fprintln(w, p.String())
	}
}

// Loader reads the spec again for each reload, but standard input only once.
func (p SpecFiles) Loader(stdin io.Reader) func() (*spec.Spec, spec.Problems, error) {
	var data []byte
	var err error
	if slices.Contains(p, "-") {
		data, err = io.ReadAll(io.LimitReader(stdin, yamldoc.MaxFileBytes+1)) // one more shows that it is too large
	}
	return func() (*spec.Spec, spec.Problems, error) {
		if err != nil {
			return nil, nil, fmt.Errorf("read spec from standard input: %w", err)
		}
		return spec.LoadPaths(p, bytes.NewReader(data))
	}
}

// RulesSpec is the part of a spec that rules and alerts are made of.
func RulesSpec(sp *spec.Spec) rules.Spec {
	return rules.Spec{SLOs: sp.SLOs, Thresholds: sp.Thresholds, Agreements: sp.Agreements}
}
