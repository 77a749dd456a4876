package explain

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/rules"
)

func load(t *testing.T, text string) rules.Spec {
	t.Helper()
	return spectest.Rules(spectest.Spec(t, "test.yaml", text))
}

const shop = `
version: sloengine/v1
service: shop
labels: {team: a}
slos:
  - name: checkout
    objective: 99.9
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
  - name: search
    objective: 99
    indicator:
      latency: {valid: '{type="search"}', threshold: 300ms}
`

func TestSpecs(t *testing.T) {
	replace := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(shop) }
	for _, c := range []struct {
		name, now string
		want      []string
	}{
		{"nothing", shop, nil},
		{"objective", replace("99.9", "99.95"), []string{
			"~ slo shop/checkout objective: 99.9% -> 99.95%; budget 43m per 30d -> 22m per 30d",
			"~ slo shop/checkout alert page over 1h: 1h/5m above 1.44 % bad -> 1h/5m above 0.72 % bad; with 100 % failing it " +
				"fires about 26s earlier; with 1 % failing it fires after 43m, before it never did",
			"~ slo shop/checkout alert page over 6h: 6h/30m above 0.6 % bad -> 6h/30m above 0.3 % bad; with 100 % failing it " +
				"fires about 1m5s earlier; with 1 % failing it fires about 1h48m earlier",
			"~ slo shop/checkout alert ticket over 1d: 1d/2h above 0.3 % bad -> 1d/2h above 0.15 % bad; with 100 % failing it " +
				"fires about 2m10s earlier; with 1 % failing it fires about 3h36m earlier",
			"~ slo shop/checkout alert ticket over 3d: 3d/6h above 0.1 % bad -> 3d/6h above 0.05 % bad; with 100 % failing it " +
				"fires about 2m10s earlier; with 1 % failing it fires about 3h36m earlier",
		}},
		{"labels", replace("team: a", "team: b"), []string{
			"~ slo shop/checkout labels: team=a -> team=b; on the info series and on alerts, and on every series with --names " +
				"sloth; routing may change",
			"~ slo shop/search labels: team=a -> team=b; on the info series and on alerts, and on every series with --names " +
				"sloth; routing may change",
		}},
		{"rename", replace("name: search", "name: find\n    was: search"), []string{
			"~ slo shop/find name: shop/search -> shop/find; the engine keeps its counts; recorded series start again",
		}},
		{"threshold", replace("300ms", "500ms"), []string{
			`~ slo shop/search indicator: latency {type="search"} within 300ms -> latency {type="search"} within 500ms; what ` +
				`is counted changes, so counts start from zero`,
		}},
		{"cost", shop + "    cost: {per_bad: 0.80, currency: EUR, baseline: {amount: 100, per: 1d}}\n", []string{
			"+ slo shop/search cost: 0.80 EUR per bad event, before 100.00 EUR per 1d; on everything that is still counted; " +
				"incidents that are over keep theirs",
		}},
		{"capacity and forecast", replace("latency: {valid: '{type=\"search\"}', threshold: 300ms}",
			"throughput: {valid: '{type=\"search\"}', at_least: 5, capacity: 120 per 1m}\n    alerting: {exhausted_soon: "+
				"{within: 36h, probability: 75, labels: {team: b}}}"), []string{
			`~ slo shop/search indicator: latency {type="search"} within 300ms -> throughput {type="search"} at least 5 per ` +
				`1m; what is counted changes, so counts start from zero`,
			"+ slo shop/search capacity: 120 per 1m; the counts stay; the engine compares the weeks that it knows with it",
			"+ slo shop/search exhausted_soon: within 1d12h with 75 %",
			"+ slo shop/search exhausted_soon labels: team=b; routing may change",
		}},
		{"removed", shop[:strings.Index(shop, "  - name: search")], []string{"- slo shop/search; its alerts are gone too"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ChangesText(Changes(load(t, shop), load(t, c.now)))
			require.Equal(t, strings.Join(append(c.want, ""), "\n"), got)
		})
	}
}

func TestInsurance(t *testing.T) {
	text, err := os.ReadFile("../../testdata/specs/insurance.yaml")
	require.NoError(t, err)
	in := load(t, string(text))
	require.Empty(t, Changes(in, in))
	changed := strings.NewReplacer(
		"availability: {slo: availability, weight: 40}", "availability: {slo: availability, weight: 50}",
		"      warning: 95\n", "      warning: 97\n", "warning: 30s", "warning: 20s",
	).Replace(string(text))
	require.Equal(t, `~ sla insurance-unpaid/unpaid warning: 95 -> 97; fires at smaller losses
~ sla insurance-unpaid/unpaid component availability: insurance-unpaid/availability with 40 % -> `+
		`insurance-unpaid/availability with 45.45 %
~ sla insurance-unpaid/unpaid component latency: insurance-unpaid/latency with 30 % -> insurance-unpaid/latency with `+
		`27.27 %
~ sla insurance-unpaid/unpaid component quality: insurance-unpaid/quality with 10 % -> insurance-unpaid/quality with `+
		`9.091 %
~ sla insurance-unpaid/unpaid component throughput: insurance-unpaid/throughput with 20 % -> `+
		`insurance-unpaid/throughput with 18.18 %
`, strings.Join(strings.SplitAfter(ChangesText(Changes(in, load(t, changed))), "\n")[:5], ""))
}
