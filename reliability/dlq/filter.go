package dlq

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sloengine/sloengine/reliability/expression"
	"github.com/sloengine/sloengine/reliability/pattern"
	"github.com/valyala/fastjson"
)

// FilterOptions say which failures are worth keeping. Patterns are about the type of the
// event: a plain name, a name with * (any characters) and ? (one), or /an RE2 expression/.
type FilterOptions struct {
	NeverSave  []string
	AlwaysSave []string
	// SaveIf is an expression over event (attributes, service, type, severity, outcome)
	// and failure (reason, class, attempts, sink); see [CompileExpr].
	SaveIf string
	// DropRest inverts the last rule: entries that match no other rule are dropped.
	DropRest bool
	// ValidName reports whether a text can be the type of an event. A pattern that matches no type is
	// an error. Nil: anything.
	ValidName func(name string) bool
	Metrics   *Metrics
}

// Filter decides whether a failure becomes a dead letter: never_save, then always_save,
// then save_if, then yes. For the reason rate_limited only always_save and save_if can
// say yes, or a flood would move from the limit into the dead letters. It may be used
// concurrently.
type Filter struct {
	never, always []pattern.Pattern
	saveIf        *Expr
	dropRest      bool
	metrics       *Metrics
}

// Subject is the input of a Filter.
type Subject struct {
	Service, Type, Severity, Outcome string
	// Attributes is called only if an expression is computed. Nil means none.
	Attributes          func() map[string]string
	Reason, Class, Sink string
	Attempts            int
}

// Decision is the answer of a Filter.
type Decision struct {
	Save bool
	// Rule is the rule that decided: never_save, always_save, save_if, rate_limited, default, or
	// expression_error.
	Rule string
	// Err is why save_if could not be computed. The failure is kept then, unless it is
	// rate-limited: in doubt nothing is lost, and nothing floods the store.
	Err error
}

// NewFilter compiles patterns and expression. The error lists all problems.
func NewFilter(o FilterOptions) (*Filter, error) {
	f := &Filter{dropRest: o.DropRest, metrics: o.Metrics.orNew()}
	var errs []error
	compile := func(name string, patterns []string) (out []pattern.Pattern) {
		for i, p := range patterns {
			compiled, err := pattern.Compile(p, o.ValidName)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s[%d]: %w", name, i, err))
				continue
			}
			out = append(out, compiled)
		}
		return out
	}
	f.never, f.always = compile("never_save", o.NeverSave), compile("always_save", o.AlwaysSave)
	if o.SaveIf != "" {
		var err error
		if f.saveIf, err = CompileExpr(o.SaveIf); err != nil {
			errs = append(errs, fmt.Errorf("save_if: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return f, nil
}

func matchAny(patterns []pattern.Pattern, text string) bool {
	return slices.ContainsFunc(patterns, func(p pattern.Pattern) bool { return p.Match(text) })
}

// Decide judges one failure, without counting.
func (f *Filter) Decide(s *Subject) Decision {
	limited := s.Reason == ReasonRateLimited
	switch {
	case matchAny(f.never, s.Type):
		return Decision{Rule: DropNeverSave}
	case matchAny(f.always, s.Type):
		return Decision{Save: true, Rule: "always_save"}
	}
	if f.saveIf != nil {
		yes, err := f.saveIf.Eval(s)
		if err != nil {
			return Decision{Save: !limited, Rule: DropExpression, Err: err}
		}
		return Decision{Save: yes, Rule: DropSaveIf}
	}
	if limited {
		return Decision{Rule: DropRateLimited}
	}
	return Decision{Save: !f.dropRest, Rule: DropDefault}
}

// ShouldSave judges one failure, and counts it if it is dropped.
func (f *Filter) ShouldSave(s *Subject) bool {
	d := f.Decide(s)
	if !d.Save {
		f.metrics.Dropped(d.Rule, 1)
	}
	return d.Save
}

// SubjectOf is the Subject of an entry. The outcome and the attributes are read from the event.
func SubjectOf(e *Entry) *Subject {
	s := &Subject{Service: e.Service, Type: e.Type, Severity: e.Severity, Outcome: "success",
		Reason: e.Reason, Class: e.Class, Sink: e.Sink, Attempts: e.Attempts}
	v, err := fastjson.ParseBytes(e.Event)
	if err != nil {
		return s
	}
	if outcome := v.GetStringBytes("outcome"); outcome != nil {
		s.Outcome = string(outcome)
	}
	s.Attributes = func() map[string]string {
		attributes := map[string]string{}
		v.GetObject("attributes").Visit(func(key []byte, v *fastjson.Value) {
			if text, err := v.StringBytes(); err == nil {
				attributes[string(key)] = string(text)
			} else {
				attributes[string(key)] = v.String()
			}
		})
		return attributes
	}
	return s
}

// Expr is a condition on a failure. It may be used concurrently.
type Expr struct {
	program *expression.Program[exprEnv, bool]
}

// exprEnv are the names in an expression.
type exprEnv struct {
	Event   exprEvent   `expr:"event"`
	Failure exprFailure `expr:"failure"`
}

type exprEvent struct {
	Attributes map[string]string `expr:"attributes"`
	Service    string            `expr:"service"`
	Type       string            `expr:"type"`
	Severity   string            `expr:"severity"`
	Outcome    string            `expr:"outcome"`
}

type exprFailure struct {
	Reason   string `expr:"reason"`
	Class    string `expr:"class"`
	Sink     string `expr:"sink"`
	Attempts int    `expr:"attempts"`
}

// CompileExpr compiles a condition in the language of package expression. Attributes are
// texts; a missing one is "". A wrong one gives an [*expression.Error].
func CompileExpr(text string) (*Expr, error) {
	program, err := expression.Compile[exprEnv, bool](text)
	if err != nil {
		return nil, err
	}
	return &Expr{program}, nil
}

// Eval computes the condition. It fails on errors that only the values show, such as int of a text
// that is not a number.
func (e *Expr) Eval(s *Subject) (bool, error) {
	env := exprEnv{
		Event:   exprEvent{Service: s.Service, Type: s.Type, Severity: s.Severity, Outcome: s.Outcome},
		Failure: exprFailure{Reason: s.Reason, Class: s.Class, Sink: s.Sink, Attempts: s.Attempts},
	}
	if s.Attributes != nil {
		env.Event.Attributes = s.Attributes()
	}
	return e.program.Run(env)
}
