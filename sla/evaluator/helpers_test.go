package evaluator

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// monday is a Monday at midnight UTC, ten days before March.
var monday = time.Date(2026, 2, 16, 0, 0, 0, 0, time.UTC)

// tb is what testing.T and rapid.T share.
type tb interface {
	require.TestingT
	Helper()
}

func percent(t tb, s string) slo.Objective {
	t.Helper()
	o, err := slo.ParsePercent(s)
	require.NoError(t, err)
	return o
}

// sel makes a selector of equality matchers from names and values in turn.
func sel(t tb, nameValues ...string) slo.Selector {
	t.Helper()
	var out slo.Selector
	for i := 0; i < len(nameValues); i += 2 {
		m, err := slo.NewMatcher(nameValues[i], slo.OpEqual, nameValues[i+1])
		require.NoError(t, err)
		out = append(out, m)
	}
	return out
}
