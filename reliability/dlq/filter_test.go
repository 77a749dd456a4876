package dlq

import (
	"fmt"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/expression"
)

func TestFilter(t *testing.T) {
	const saveIf = `event.type contains "payment" ? number(event.attributes.amount, 0) > 100 : failure.attempts > 2`
	full := FilterOptions{NeverSave: []string{"health*", "/^metrics\\./"},
		AlwaysSave: []string{"payment.?ailed", "audit", "healthy"}, SaveIf: saveIf}
	plain := FilterOptions{NeverSave: full.NeverSave, AlwaysSave: full.AlwaysSave}
	for _, c := range []struct {
		o       FilterOptions
		subject Subject
		rule    string
		save    bool
	}{
		{FilterOptions{}, Subject{Type: "x", Reason: "expired"}, "default", true},
		{FilterOptions{DropRest: true}, Subject{Type: "x", Reason: "expired"}, "default", false},
		{FilterOptions{}, Subject{Type: "x", Reason: ReasonRateLimited}, "rate_limited", false},
		{plain, Subject{Type: "healthy"}, "never_save", false}, // never comes first
		{plain, Subject{Type: "metrics.cpu"}, "never_save", false},
		{plain, Subject{Type: "my.metrics.cpu"}, "default", true},
		{plain, Subject{Type: "audit", Reason: ReasonRateLimited}, "always_save", true},
		{plain, Subject{Type: "audits", Reason: ReasonRateLimited}, "rate_limited", false},
		{plain, Subject{Type: "payment.failed", Reason: ReasonRateLimited}, "always_save", true},
		{plain, Subject{Type: "paymentxfailed", Reason: ReasonRateLimited}, "rate_limited", false},
		{full, Subject{Type: "payment.ok", Attributes: attributes("amount", "100.5")}, "save_if", true},
		{full, Subject{Type: "payment.ok", Attributes: attributes("amount", "100")}, "save_if", false},
		{full, Subject{Type: "payment.ok"}, "save_if", false},
		{full, Subject{Type: "payment.ok", Reason: ReasonRateLimited, Attributes: attributes("amount", "1e9")},
			"save_if", true},
		{full, Subject{Type: "order", Attempts: 3}, "save_if", true},
		{full, Subject{Type: "order", Attempts: 2}, "save_if", false},
		{FilterOptions{SaveIf: `int(event.attributes.n) > 1`}, Subject{}, "expression_error", true},
		{FilterOptions{SaveIf: `int(event.attributes.n) > 1`}, Subject{Reason: ReasonRateLimited}, "expression_error", false},
	} {
		set := metrics.NewSet()
		c.o.Metrics = NewMetrics(set)
		f, err := NewFilter(c.o)
		require.NoError(t, err)
		d := f.Decide(&c.subject)
		require.Equal(t, c.rule, d.Rule, "%+v", c.subject)
		require.Equal(t, c.save, d.Save, "%+v", c.subject)
		require.Equal(t, c.rule == "expression_error", d.Err != nil)
		require.Equal(t, c.save, f.ShouldSave(&c.subject))
		var text strings.Builder
		set.WritePrometheus(&text)
		require.Equal(
			t, !c.save, strings.Contains(text.String(), fmt.Sprintf(`sloengine_dlq_dropped_total{why=%q} 1`, c.rule)))
	}
}

func attributes(pairs ...string) func() map[string]string {
	return func() map[string]string { return map[string]string{pairs[0]: pairs[1]} }
}

func TestExpressions(t *testing.T) {
	subject := &Subject{Service: "shop", Type: "payment.failed", Severity: "critical", Outcome: "failure",
		Attributes: attributes("tenant", "Gold"), Reason: "expired", Class: "timeout", Sink: "hook", Attempts: 3}
	for text, want := range map[string]bool{
		`event.severity == "critical" and failure.sink == "hook"`:      true,
		`event.type matches "^payment\\."`:                             true,
		`lower(event.attributes.tenant) in ["gold", "silver"]`:         true,
		`event.attributes["nothing"] == ""`:                            true,
		`event.outcome == "success" || failure.class != "timeout"`:     false,
		`not (event.service startsWith "sh") or failure.attempts >= 4`: false,
		`len(event.attributes) == 1 && failure.reason endsWith "ed"`:   true,
		`let n = failure.attempts * 2; n == 6`:                         true,
	} {
		e, err := CompileExpr(text)
		require.NoError(t, err, text)
		got, err := e.Eval(subject)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestExpressionErrorsTellThePlace(t *testing.T) {
	for text, place := range map[string][2]int{
		`event.sevrity == "x"`:                 {1, 7},
		"true and\n  failure.attempts > \"3\"": {2, 20},
		`event.type`:                           {1, 1},
		`all([1], true)`:                       {1, 10},
		`1 in 1..1000000`:                      {1, 7},
		`event.type matches event.service`:     {1, 12},
		`now() > 1`:                            {1, 1},
		`2 ** 100 > 1`:                         {1, 3},
		`repeat("x", 10) == ""`:                {1, 1},
		`any([1], # > 0)`:                      {1, 10},
		`"a" +`:                                {1, 5},
		strings.Repeat(" ", expression.MaxBytes) + "true": {1, expression.MaxBytes},
	} {
		_, err := CompileExpr(text)
		var at *expression.Error
		require.ErrorAs(t, err, &at, text)
		t.Log(err)
		require.Equal(t, place, [2]int{at.Line, at.Column}, "%s: %v", text, err)
	}
	_, err := CompileExpr(strings.Repeat("true and ", 300) + "true")
	require.Error(t, err, "too many parts")
	_, err = NewFilter(FilterOptions{NeverSave: []string{""}, AlwaysSave: []string{"/(/"}, SaveIf: "x"})
	for _, part := range []string{"never_save[0]", "always_save[0]", "save_if: line 1, column 1"} {
		require.ErrorContains(t, err, part)
	}
}

func TestSubjectOf(t *testing.T) {
	s := SubjectOf(&Entry{Type: "order", Reason: "expired", Attempts: 2,
		Event: []byte(`{"outcome":"failure","attributes":{"a":"b","n":1.50,"yes":true}}`)})
	require.Equal(t, "failure", s.Outcome)
	require.Equal(t, map[string]string{"a": "b", "n": "1.50", "yes": "true"}, s.Attributes())
	require.Equal(t, "success", SubjectOf(&Entry{Event: []byte(`{}`)}).Outcome)
	require.Empty(t, SubjectOf(&Entry{Event: []byte(`{"attributes":7}`)}).Attributes())
	require.Nil(t, SubjectOf(&Entry{}).Attributes)
}
