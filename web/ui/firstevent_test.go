package ui

import (
	"testing"

	"github.com/sloengine/sloengine/internal/testkit/slotest"
	"github.com/sloengine/sloengine/slo"
	"github.com/stretchr/testify/require"
)

func TestExampleEvent(t *testing.T) {
	s := &slo.SLO{ID: "pay/ok", GroupBy: []string{"it's"}, Expect: []slo.Group{{"a'b"}},
		Indicator: slo.Indicator{Kind: slo.KindEvents, Valid: slo.Selector{
			slotest.Matcher(t, "type", slo.OpRegexp, "card|cash"), slotest.Matcher(t, "service", slo.OpEqual, "other"),
			slotest.Matcher(t, "channel", slo.OpEqual, "web"), slotest.Matcher(t, "x", slo.OpRegexp, "a.*"),
		}}}
	require.JSONEq(t,
		`{"service":"pay","type":"card","outcome":"success","duration_ms":120,"attributes":{"it's":"a'b","channel":"web"}}`,
		exampleEvent(s))
	require.Equal(t, `'a'\''b'`, quote("a'b"))
}
