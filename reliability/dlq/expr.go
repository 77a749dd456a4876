package dlq

import "github.com/sloengine/sloengine/reliability/expression"

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

// Eval computes the condition. It fails on what only the values show, such as int of a
// text that is none.
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
