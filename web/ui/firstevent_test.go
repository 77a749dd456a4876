package ui

import (
	"testing"

	"github.com/sloengine/sloengine/slo"
	"github.com/stretchr/testify/require"
)

func matcher(t testing.TB, name string, op slo.MatchOp, value string) slo.Matcher {
	m, err := slo.NewMatcher(name, op, value)
	require.NoError(t, err)
	return m
}

func TestExampleEvent(t *testing.T) {
	s := &slo.SLO{ID: "pay/ok", GroupBy: []string{"it's"}, Expect: []slo.Group{{"a'b"}}, Indicator: slo.Indicator{Kind: slo.KindEvents, Valid: slo.Selector{
		matcher(t, "type", slo.OpRegexp, "card|cash"), matcher(t, "service", slo.OpEqual, "other"), matcher(t, "channel", slo.OpEqual, "web"), matcher(t, "x", slo.OpRegexp, "a.*"),
	}}}
	require.JSONEq(t, `{"service":"pay","type":"card","outcome":"success","duration_ms":120,"attributes":{"it's":"a'b","channel":"web"}}`, exampleEvent(s))
	require.Equal(t, `'a'\''b'`, quote("a'b"))
}
