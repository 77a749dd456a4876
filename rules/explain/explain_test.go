package explain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules/explain"
)

func TestExplain(t *testing.T) {
	in, groups := generate(t, plain)
	e, err := explain.Explain(in.SLOs[0], explain.Own(groups, in.SLOs[0]), 100, explain.Load{})
	require.NoError(t, err)
	require.Equal(t, `web/requests: 99.9% over 30d
  budget     43m of full outage in 30d
             259 thousand of 259 million events at today's traffic
  page       1h and 5m above 14.4 x (1.44 % bad): full outage after 52s, ten budgets never
  page       6h and 30m above 6 x (0.6 % bad): full outage after 2m10s, ten budgets after 3h36m
  ticket     1d and 2h above 3 x (0.3 % bad): full outage after 4m19s, ten budgets after 7h12m
  ticket     3d and 6h above 1 x (0.1 % bad): full outage after 4m19s, ten budgets after 7h12m
  cost       401 samples read per second, 35 rules, 35 recorded series
`, e.String())
	require.Len(t, explain.Own(groups, in.SLOs[0]), len(groups))
}
