package dlq

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
)

// The bounds of an expression, so that its cost is one of its text alone.
const (
	maxExprBytes = 4096
	maxExprNodes = 256
)

// Expr is a condition on a failure. It may be used concurrently.
type Expr struct {
	program  *vm.Program
	machines sync.Pool
}

// ExprError says where in its text an expression is wrong.
type ExprError struct {
	Line, Column int // from 1
	Message      string
}

func (e *ExprError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
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

// CompileExpr compiles a condition in the language of expr-lang: comparisons, and, or,
// not, in, contains, startsWith, endsWith, matches, arithmetic, ?: and ??, and the
// functions lower, upper, trim, len, int, float and number(text, otherwise). Attributes
// are texts; a missing one is "". There are no loops, ranges or clocks. A wrong one gives
// an [*ExprError].
func CompileExpr(text string) (*Expr, error) {
	if len(text) > maxExprBytes {
		return nil, &ExprError{1, maxExprBytes, fmt.Sprintf("longer than %d bytes", maxExprBytes)}
	}
	limits := &exprLimits{}
	options := []expr.Option{
		expr.Env(exprEnv{}), expr.AsBool(), expr.MaxNodes(maxExprNodes), expr.DisableAllBuiltins(),
		expr.Patch(limits),
		expr.Function("number", exprNumber, new(func(string, float64) float64), new(func(string, int) float64)),
	}
	for _, name := range []string{"lower", "upper", "trim", "len", "int", "float"} {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(text, options...)
	if err != nil {
		return nil, exprError(err)
	}
	if limits.message != "" {
		return nil, limits.at(text)
	}
	return &Expr{program: program, machines: sync.Pool{New: func() any {
		return &vm.VM{MemoryBudget: 10_000}
	}}}, nil
}

func exprError(err error) error {
	var at *file.Error
	if errors.As(err, &at) {
		return &ExprError{max(1, at.Line), at.Column + 1, at.Message}
	}
	return &ExprError{1, 1, err.Error()}
}

func exprNumber(params ...any) (any, error) {
	text, _ := params[0].(string)
	if v, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
		return v, nil
	}
	switch v := params[1].(type) {
	case int:
		return float64(v), nil
	case float64:
		return v, nil
	}
	return nil, fmt.Errorf("number: %v is no number", params[1])
}

// exprLimits refuses what makes the cost depend on more than the text.
type exprLimits struct {
	message string
	offset  int
}

// Visit implements ast.Visitor.
func (l *exprLimits) Visit(node *ast.Node) {
	message := ""
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		_, fixed := n.Right.(*ast.StringNode)
		switch {
		case n.Operator == "..":
			message = "ranges are not allowed"
		case n.Operator == "matches" && !fixed:
			message = "the pattern of matches must be a text"
		case n.Operator == "**" || n.Operator == "^":
			message = "powers are not allowed"
		}
	case *ast.PredicateNode:
		message = "loops are not allowed"
	}
	if message != "" && l.message == "" {
		l.message, l.offset = message, (*node).Location().From
	}
}

func (l *exprLimits) at(text string) error {
	line, column := 1, 1
	for i, c := range []rune(text) {
		if i == l.offset {
			break
		}
		if column++; c == '\n' {
			line, column = line+1, 1
		}
	}
	return &ExprError{line, column, l.message}
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
	machine := e.machines.Get().(*vm.VM)
	defer e.machines.Put(machine)
	out, err := machine.Run(e.program, env)
	if err != nil {
		return false, fmt.Errorf("compute expression: %w", exprError(err))
	}
	yes, _ := out.(bool) // AsBool promises it
	return yes, nil
}
