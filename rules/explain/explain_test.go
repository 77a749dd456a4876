package explain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/explain"
)

func TestExplain(t *testing.T) {
	in, groups := generate(t, plain, rules.Minimal)
	e, err := explain.Explain(in.SLOs[0], explain.Own(groups, in.SLOs[0]), 100, explain.Load{})
	require.NoError(t, err)
	require.Equal(t, `web/requests: 99.9% over 30d
  budget     43m of full outage in 30d
             259 thousand of 259 million events at today's traffic
  page       1h and 5m above 14.4 x (1.44 % bad): full outage after 52s, ten budgets never
  page       6h and 30m above 6 x (0.6 % bad): full outage after 2m10s, ten budgets after 3h36m
  ticket     1d and 2h above 3 x (0.3 % bad): full outage after 4m19s, ten budgets after 7h12m
  ticket     3d and 6h above 1 x (0.1 % bad): full outage after 4m19s, ten budgets after 7h12m
  cost       216 samples read per second, 22 rules, 16 recorded series
`, e.String())
	require.Len(t, explain.Own(groups, in.SLOs[0]), len(groups))
}

// By hand: 2 per second of 120 a minute are all of it, and 1.5 are 75 %.
func TestExplainCapacityAndForecast(t *testing.T) {
	in, groups := generate(
		t, strings.Replace(plain, "prometheus: {bad: 'http_errors_total', total: 'http_requests_total'}",
			"throughput: {at_least: 5, capacity: 120 per 1m}}\n    alerting: {page: {disabled: true}, ticket: {disabled: true}"+
				", exhausted_soon: {within: 36h, probability: 75}", 1), rules.Minimal)
	e, err := explain.Explain(in.SLOs[0], explain.Own(groups, in.SLOs[0]), 1.5, explain.Load{})
	require.NoError(t, err)
	require.Contains(t, e.String(), `
  capacity   120 per 1m, which is 2 events per second, today's traffic takes 75 % of it
  budget     43m of bad time in 30d
  ticket     forecast: the budget is exhausted within 1d12h with a probability of at least 75 %
  cost `)
}

// By hand: 259,200 of 259.2 million events may fail, at 12.50 each. A budget of 43m12s is 259 slices of 10 seconds, or
// 43 minutes and a sixth, at 30 each.
func TestExplainCost(t *testing.T) {
	for spec, want := range map[string]string{
		"    cost: {per_bad: 12.50, " +
			"currency: EUR}\n": "\n  money      12.50 EUR per bad event, the whole budget 3240000.00 EUR at today's traffic\n",
		"    cost: {per_bad: 1, currency: JPY, baseline: {amount: 900, per: 30d}, investment: {amount: 5, " +
			"per: 1d}}\n": "\n  money      1 JPY per bad event, the whole budget 259200 JPY at today's traffic, " +
			"before 900 JPY per 30d, invested 5 JPY per 1d\n",
		"    cost: {per_minute: 30, currency: EUR}\n    budgeting: {timeslices: {slice: 10s, " +
			"target: 95}}\n": "\n  money      30.00 EUR per minute of violation, the whole budget 1295.00 EUR\n",
	} {
		in, groups := generate(t, strings.Replace(plain,
			"prometheus: {bad: 'http_errors_total', total: 'http_requests_total'}",
			"events: {valid: '{}', bad: '{outcome=\"failure\"}'}", 1)+spec, rules.Minimal)
		e, err := explain.Explain(in.SLOs[0], explain.Own(groups, in.SLOs[0]), 100, explain.Load{})
		require.NoError(t, err)
		require.Contains(t, e.String(), want)
	}
}

// A completion says what starts and ends work, when it counts as bad, and by how much alerts are later for it: the
// deadline of 15 minutes, the 2 minutes after it, and the minute in which deadlines are looked at.
func TestExplainCompletion(t *testing.T) {
	const head = "version: sloengine/v1\nservice: shop\nslos:\n  - name: fulfilment\n    objective: 99\n    indicator:\n" +
		"      completion: {started: '{type=\"created\"}', finished: '{type=\"shipped\"}', key: order_id, within: 15m, "
	for more, want := range map[string]string{
		"failed: '{type=\"refused\"}', max_in_flight: 5000}": "  measures   completion by order_id from {type=\"created\"} " +
			"to {type=\"shipped\"} within 15m failed {type=\"refused\"} at most 5000\n             work is good at its " +
			"finish, and bad at an event that says that it failed, or 15m after its start, which shows 2m to 3m later\n" +
			"             if nothing finishes any more, alerts fire up to 18m later than the times below\n" +
			"             after a restart, deadlines pass later by the time that the engine was down, for as long\n" +
			"             at most 5000 pieces of work are tracked at once, and further ones lower coverage\n" +
			"  budget     7h12m of full outage in 30d\n",
		"stage: stage}": "{type=\"shipped\"} within 15m stage stage at most 100000\n             work is good at its " +
			"finish, and bad 15m after its start,",
	} {
		in, groups := generate(t, head+more, rules.Minimal)
		e, err := explain.Explain(in.SLOs[0], explain.Own(groups, in.SLOs[0]), 0, explain.Load{})
		require.NoError(t, err)
		require.Contains(t, e.String(), want)
	}
}
