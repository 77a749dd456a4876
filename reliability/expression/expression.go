// Package expression compiles the conditions and values that settings may hold, in a part
// of expr-lang whose cost is bounded by the text: no loops, ranges, powers or clocks. It does not
// know their meaning: its caller gives the names.
package expression

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/sloengine/sloengine/reliability/pattern"
)

// The bounds of an expression.
const (
	MaxBytes = 4096
	maxNodes = 256
)

// Program is a compiled expression over an environment E, with a result R. It may be used
// concurrently.
type Program[E any, R bool | string] struct {
	program  *vm.Program
	machines sync.Pool
}

// Error says where in its text an expression is wrong.
type Error struct {
	Line, Column int // from 1
	Message      string
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Compile compiles a text: comparisons, and, or, not, in, contains, startsWith, endsWith,
// matches, arithmetic, ?: and ??, and the functions lower, upper, trim, len, int, float and
// number(text, otherwise). A wrong one gives an [*Error].
func Compile[E any, R bool | string](text string) (*Program[E, R], error) {
	if len(text) > MaxBytes {
		return nil, &Error{1, MaxBytes, fmt.Sprintf("longer than %d bytes", MaxBytes)}
	}
	var env E
	var result R
	limits := &limits{}
	options := []expr.Option{
		expr.Env(env), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins(), expr.Patch(limits),
		expr.Function("number", number, new(func(string, float64) float64), new(func(string, int) float64)),
	}
	if _, ok := any(result).(bool); ok {
		options = append(options, expr.AsBool())
	} else {
		options = append(options, expr.AsKind(reflect.String))
	}
	for _, name := range []string{"lower", "upper", "trim", "len", "int", "float"} {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(text, options...)
	if err != nil {
		return nil, located(err)
	}
	if limits.message != "" {
		return nil, limits.at(text)
	}
	return &Program[E, R]{program: program, machines: sync.Pool{New: func() any {
		return &vm.VM{MemoryBudget: 10_000}
	}}}, nil
}

// Run computes the expression. It fails on errors that only the values show, such as int of a text
// that is not a number.
func (p *Program[E, R]) Run(env E) (R, error) {
	var result R
	machine := p.machines.Get().(*vm.VM)
	defer p.machines.Put(machine)
	out, err := machine.Run(p.program, env)
	if err != nil {
		return result, fmt.Errorf("compute expression: %w", located(err))
	}
	result, _ = out.(R) // the compiler promises it
	return result, nil
}

func located(err error) error {
	var at *file.Error
	if errors.As(err, &at) {
		return &Error{max(1, at.Line), at.Column + 1, at.Message}
	}
	return &Error{1, 1, err.Error()}
}

func number(params ...any) (any, error) {
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
	return nil, fmt.Errorf("number: %v is not a number", params[1])
}

// limits refuses constructs that make the cost depend on more than the text.
type limits struct {
	message          string
	offset           int
	joins, variables bool
}

// Visit implements ast.Visitor.
func (l *limits) Visit(node *ast.Node) {
	message := ""
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		right, fixed := n.Right.(*ast.StringNode)
		switch {
		case n.Operator == "..":
			message = "ranges are not allowed"
		case n.Operator == "matches" && !fixed:
			message = "the pattern of matches must be a string literal"
		case n.Operator == "**" || n.Operator == "^":
			message = "powers are not allowed"
		case n.Operator == "matches":
			if _, err := pattern.Regexp(right.Value); err != nil {
				message = err.Error()
			}
		}
		if t := n.Type(); n.Operator == "+" && t != nil && (t.Kind() == reflect.String || t.Kind() == reflect.Interface) {
			l.joins = true
		}
	case *ast.VariableDeclaratorNode:
		l.variables = true
	case *ast.PredicateNode:
		message = "loops are not allowed"
	}
	if l.joins && l.variables { // each variable could be twice as long as the one before
		message = "texts cannot be joined with + where there are variables"
	}
	if message != "" && l.message == "" {
		l.message, l.offset = message, (*node).Location().From
	}
}

func (l *limits) at(text string) error {
	line, column := 1, 1
	for i, c := range []rune(text) {
		if i == l.offset {
			break
		}
		if column++; c == '\n' {
			line, column = line+1, 1
		}
	}
	return &Error{line, column, l.message}
}
