package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity of a problem. Only errors keep a spec from being used.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Problem is one thing that is wrong, where, and what to do about it.
type Problem struct {
	Position
	Severity   Severity `json:"severity"`
	Message    string   `json:"message"`
	Suggestion string   `json:"suggestion,omitempty"`
}

// String is "file:line:column: severity: message (suggestion)". It is one line
// whatever the file holds: control characters are shown escaped.
func (p Problem) String() string {
	s := fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Column, p.Severity, p.Message)
	if p.Suggestion != "" {
		s += " (" + p.Suggestion + ")"
	}
	return s
}

// Problems are sorted by file, line and column.
type Problems []Problem

// HasErrors reports whether some problem is an error.
func (ps Problems) HasErrors() bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return p.Severity == Error })
}

// Errors are the problems that are errors.
func (ps Problems) Errors() Problems { return ps.only(Error) }

// Warnings are the problems that are warnings.
func (ps Problems) Warnings() Problems { return ps.only(Warning) }

func (ps Problems) only(s Severity) Problems {
	var out Problems
	for _, p := range ps {
		if p.Severity == s {
			out = append(out, p)
		}
	}
	return out
}

// String is one line for each problem.
func (ps Problems) String() string {
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// ProblemsError is the error form of problems, at least one of them an error.
type ProblemsError struct{ Problems Problems }

func (e *ProblemsError) Error() string {
	errs := e.Problems.Errors()
	if len(errs) == 1 {
		return errs[0].String()
	}
	return fmt.Sprintf("%d errors in the spec, the first: %s", len(errs), errs[0])
}

// Err is nil if there are only warnings, else a *ProblemsError.
func (ps Problems) Err() error {
	if !ps.HasErrors() {
		return nil
	}
	return &ProblemsError{ps}
}

// collector gathers problems while files are read.
type collector struct {
	seen   map[Problem]bool
	all    Problems
	errors int // how many of them are errors
}

// add keeps a problem once, however often an alias leads to it.
func (c *collector) add(at Position, s Severity, suggestion, format string, args ...any) {
	p := Problem{Position: at, Severity: s, Message: fmt.Sprintf(format, args...), Suggestion: suggestion}
	p.Line, p.Column = max(1, p.Line), max(1, p.Column)
	if c.seen == nil {
		c.seen = map[Problem]bool{}
	}
	if !c.seen[p] {
		c.seen[p] = true
		c.all = append(c.all, p)
		if s == Error {
			c.errors++
		}
	}
}

func (c *collector) errorf(at Position, suggestion, format string, args ...any) {
	c.add(at, Error, suggestion, format, args...)
}

func (c *collector) warnf(at Position, suggestion, format string, args ...any) {
	c.add(at, Warning, suggestion, format, args...)
}

func (c *collector) sorted() Problems {
	slices.SortStableFunc(c.all, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Message, b.Message))
	})
	return c.all
}
