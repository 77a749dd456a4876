package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/cmd/sloengine/app"
	"github.com/sloengine/sloengine/cmd/sloengine/config"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
)

func newCheck(s streams) *cobra.Command {
	var files []string
	output, retention, settings := "table", "0", ""
	perDay := 0.0
	failOn := spec.Error
	c := &cobra.Command{
		Use:   "check -f FILE|DIR|-",
		Short: "Read specs and report everything that is wrong with them, with its place",
		Long: `check reads specs and reports every error and warning with its place. What is only
worth knowing, such as alerts that are left out because the window is too short, goes
to the error stream. It exits with 3 if there are errors, with --fail-on warning also
if there are warnings.`,
		Example: `  sloengine check -f specs/
  sloengine check -f - < spec.yaml`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if len(files) == 0 {
				return usageError{fmt.Errorf("which spec? give -f FILE, -f DIR or -f - for standard input")}
			}
			if failOn != spec.Error && failOn != spec.Warning {
				return usageError{fmt.Errorf("--fail-on %s: want error or warning", failOn)}
			}
			if output != "table" && output != "json" {
				return usageError{fmt.Errorf("-o %s: want table or json", output)}
			}
			sp, problems, err := spec.LoadPaths(files, s.in)
			if err != nil {
				return err
			}
			if problems.Err() == nil {
				if _, err := evaluator.Compile(app.Inputs(sp)); err != nil {
					return fmt.Errorf("compile spec: %w", err)
				}
				kept, err := slo.ParseDuration(retention)
				if err != nil {
					return usageError{fmt.Errorf("--retention: %w", err)}
				}
				problems = append(problems, lint(s, sp, kept, perDay)...)
			}
			found, err := config.Findings(settings)
			if err != nil {
				return err
			}
			problems = append(problems, found...)
			return reportProblems(s, sp, problems, output, failOn)
		},
	}
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "spec file, folder of *.yaml, or - (repeatable)")
	c.Flags().StringVarP(&output, "output", "o", output, "table or json")
	c.Flags().StringVarP(&settings, "config", "c", "", "process settings to check as well")
	c.Flags().StringVar((*string)(&failOn), "fail-on", string(failOn), "exit with 3 for error, or for warning too")
	c.Flags().StringVar(&retention, "retention", retention, "how long Prometheus keeps samples; 0 if unknown")
	c.Flags().Float64Var(&perDay, "events-per-day", 0, "traffic of an SLO; 0 if unknown")
	return c
}

// lint finds alerts that cannot work. What is only worth knowing goes to the
// error stream and is no finding.
func lint(s streams, sp *spec.Spec, retention time.Duration, perDay float64) spec.Problems {
	in := rulesSpec(sp)
	o := alerts.LintOptions{Retention: retention}
	if perDay > 0 {
		o.EventsPerDay = func(slo.ID) (float64, bool) { return perDay, true }
	}
	var out spec.Problems
	for _, f := range alerts.Lint(in, o) {
		p := spec.Problem{Severity: spec.Warning, Message: f.Message, Suggestion: f.Hint}
		if src, ok := sp.Source(spec.KindSLO, f.SLO.Service(), f.SLO.Name()); ok {
			p.Position = src.Position
		} else if src, ok := sp.Source(spec.KindSLA, f.SLO.Service(), f.SLO.Name()); ok {
			p.Position = src.Position
		}
		switch f.Severity {
		case alerts.FindingInfo:
			fmt.Fprintf(s.err, "%s:%d:%d: info: %s (%s)\n", p.File, p.Line, p.Column, p.Message, p.Suggestion)
			continue
		case alerts.FindingError:
			p.Severity = spec.Error
		}
		out = append(out, p)
	}
	return out
}

// reportProblems prints findings on out and turns those of failOn and worse into the
// exit code.
func reportProblems(s streams, sp *spec.Spec, problems spec.Problems, output string, failOn spec.Severity) error {
	if output == "json" {
		enc := json.NewEncoder(s.out)
		enc.SetIndent("", "  ")
		list := problems
		if list == nil {
			list = spec.Problems{}
		}
		if err := enc.Encode(map[string]any{"problems": list}); err != nil {
			return err
		}
	} else {
		printProblems(s.out, problems)
	}
	errs, warnings := 0, 0
	for _, p := range problems {
		if p.Severity == spec.Error {
			errs++
		} else {
			warnings++
		}
	}
	if len(problems) > 0 {
		fmt.Fprintf(s.err, "%s, %s\n", plural(errs, "error"), plural(warnings, "warning"))
	}
	if errs > 0 || warnings > 0 && failOn == spec.Warning {
		return errFindings
	}
	fmt.Fprintf(s.err, "ok: %s, %s, %s\n", plural(len(sp.SLOs), "SLO"), plural(len(sp.Thresholds), "event threshold"), plural(len(sp.Agreements), "SLA"))
	return nil
}

func printProblems(w io.Writer, problems spec.Problems) {
	for _, p := range problems {
		fmt.Fprintln(w, p.String())
	}
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
