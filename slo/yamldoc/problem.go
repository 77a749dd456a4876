package yamldoc

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/internal/order"
)

// Position is a place in a file. Line and Column count from 1; Column counts characters, not bytes.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// Severity of a problem. Only errors keep a document from being used.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Problem is one mistake: what is wrong, where, and what to do about it.
type Problem struct {
	Position
	Severity   Severity `json:"severity"`
	Message    string   `json:"message"`
	Suggestion string   `json:"suggestion,omitempty"`
	Path       string   `json:"-"` // of the value, such as sinks[0].http.url; only a Decoder knows it
}

// String is "file:line:column: severity: message (suggestion)". It is one line whatever the file holds: control
// characters are shown escaped.
func (p Problem) String() string { return p.text(string(p.Severity) + ": ") }

func (p Problem) text(severity string) string {
	s := fmt.Sprintf("%s:%d:%d: %s%s", p.File, p.Line, p.Column, severity, p.Message)
	if p.Suggestion != "" {
		s += " (" + p.Suggestion + ")"
	}
	return s
}

// Error is a problem as an error: "file:line:column: message (suggestion)".
type Error struct{ Problem }

func (e *Error) Error() string { return e.text("") }

// Problems are sorted by file, line and column.
type Problems []Problem

// HasErrors reports whether some problem is an error.
func (ps Problems) HasErrors() bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return p.Severity == SeverityError })
}

// Errors are the problems that are errors.
func (ps Problems) Errors() Problems { return ps.only(SeverityError) }

// Warnings are the problems that are warnings.
func (ps Problems) Warnings() Problems { return ps.only(SeverityWarning) }

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

// Err joins the errors, each a *Error on a line of its own. It is nil if there are none.
func (ps Problems) Err() error {
	var errs []error
	for _, p := range ps.Errors() {
		errs = append(errs, &Error{p})
	}
	return errors.Join(errs...)
}

// add keeps a problem once, however often an alias leads to it.
func (r *Reader) add(p Problem, format string, args ...any) {
	p.Message = fmt.Sprintf(format, args...)
	p.Line, p.Column = max(1, p.Line), max(1, p.Column)
	if r.seen == nil {
		r.seen = map[Problem]bool{}
	}
	key := p
	key.Path = ""
	if r.seen[key] {
		return
	}
	r.seen[key] = true
	r.all = append(r.all, p)
	if p.Severity == SeverityError {
		r.errors++
	}
}

// Errorf notes an error at a place.
func (r *Reader) Errorf(at Position, suggestion, format string, args ...any) {
	r.add(Problem{Position: at, Severity: SeverityError, Suggestion: suggestion}, format, args...)
}

// Warnf notes a warning at a place.
func (r *Reader) Warnf(at Position, suggestion, format string, args ...any) {
	r.add(Problem{Position: at, Severity: SeverityWarning, Suggestion: suggestion}, format, args...)
}

// Errors is the number of errors so far.
func (r *Reader) Errors() int { return r.errors }

// Problems are all problems so far, sorted.
func (r *Reader) Problems() Problems {
	order.By(r.all, func(a, b *Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column,
			strings.Compare(a.Message, b.Message))
	})
	return r.all
}
