package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/expression"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// limitEnv are the names in the expressions of rate limits.
type limitEnv struct {
	Event   limitEvent   `expr:"event"`
	Request limitRequest `expr:"request"`
}

type limitEvent struct {
	Attributes map[string]string `expr:"attributes"`
	Service    string            `expr:"service"`
	Type       string            `expr:"type"`
	Severity   string            `expr:"severity"`
}

type limitRequest struct {
	Header        func(name string) string `expr:"header"`
	Token         string                   `expr:"token"` // its name
	ClientIP      string                   `expr:"client_ip"`
	Authenticated bool                     `expr:"authenticated"`
}

func limitEnvOf(c *ratelimit.Caller, s *ratelimit.Subject) limitEnv {
	env := limitEnv{
		Event:   limitEvent{Service: string(s.Service), Type: string(s.Type), Severity: string(s.Severity)},
		Request: limitRequest{Header: c.Header, Token: c.Token, ClientIP: c.IP, Authenticated: c.Authenticated},
	}
	if v, ok := s.Attrs.(*event.View); ok {
		env.Event.Attributes = v.AttributeMap()
	}
	if env.Request.Header == nil {
		env.Request.Header = func(string) string { return "" }
	}
	return env
}

// bypassIf and extractor compile an expression. failed is told when one cannot be computed
// for an event; the rule then acts as if it were not there.
func bypassIf(
	text string, failed func(setting string, err error)) (func(*ratelimit.Caller, *ratelimit.Subject) bool, error) {
	program, err := expression.Compile[limitEnv, bool](text)
	if err != nil {
		return nil, err
	}
	return func(c *ratelimit.Caller, s *ratelimit.Subject) bool {
		yes, err := program.Run(limitEnvOf(c, s))
		if err != nil {
			failed("limits.bypass_if", err)
		}
		return yes
	}, nil
}

func extractor(setting, text string, failed func(setting string, err error)) (
	func(*ratelimit.Caller, *ratelimit.Subject) string, error) {
	program, err := expression.Compile[limitEnv, string](text)
	if err != nil {
		return nil, err
	}
	return func(c *ratelimit.Caller, s *ratelimit.Subject) string {
		value, err := program.Run(limitEnvOf(c, s))
		if err != nil {
			failed(setting, err)
		}
		return value
	}, nil
}

// expressionProblem reports an invalid expression.
func expressionProblem(f *yamldoc.Decoder, path, text, sees string, err error) {
	message, place := err.Error(), ""
	var at *expression.Error
	if errors.As(err, &at) {
		message, place = exprNames.Replace(at.Message), fmt.Sprintf(", at column %d of the expression", at.Column)
		if strings.Contains(text, "\n") {
			place = fmt.Sprintf(", at line %d, column %d of the expression", at.Line, at.Column)
		}
	}
	f.Errorf(path, "the expression can use "+sees, "%s%s", message, place)
}

// exprNames are the Go types behind the names in an expression.
var exprNames = strings.NewReplacer(
	"type dlq.exprEvent", "event", "type dlq.exprFailure", "failure", "type dlq.exprEnv", "the expression",
	"type config.limitEvent", "event", "type config.limitRequest", "request", "type config.limitEnv", "the expression",
)
