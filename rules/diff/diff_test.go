package diff

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo/spec"
)

func load(t *testing.T, text string) rules.Spec {
	t.Helper()
	sp, problems := spec.Load([]spec.File{{Name: "test.yaml", Data: []byte(text)}})
	require.NoError(t, problems.Err())
	return rules.Spec{SLOs: sp.SLOs, Thresholds: sp.Thresholds, Agreements: sp.Agreements}
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
			"~ slo shop/checkout alert page over 1h: 1h/5m above 1.44 % bad -> 1h/5m above 0.72 % bad; with 100 % failing it fires about 26s earlier; with 1 % failing it fires after 43m, before it never did",
			"~ slo shop/checkout alert page over 6h: 6h/30m above 0.6 % bad -> 6h/30m above 0.3 % bad; with 100 % failing it fires about 1m5s earlier; with 1 % failing it fires about 1h48m earlier",
			"~ slo shop/checkout alert ticket over 1d: 1d/2h above 0.3 % bad -> 1d/2h above 0.15 % bad; with 100 % failing it fires about 2m10s earlier; with 1 % failing it fires about 3h36m earlier",
			"~ slo shop/checkout alert ticket over 3d: 3d/6h above 0.1 % bad -> 3d/6h above 0.05 % bad; with 100 % failing it fires about 2m10s earlier; with 1 % failing it fires about 3h36m earlier",
		}},
		{"labels", replace("team: a", "team: b"), []string{
			"~ slo shop/checkout labels: team=a -> team=b; on the info series only; no history breaks",
			"~ slo shop/search labels: team=a -> team=b; on the info series only; no history breaks",
		}},
		{"rename", replace("name: search", "name: find\n    was: search"), []string{
			"~ slo shop/find name: shop/search -> shop/find; the engine keeps its counts; recorded series start again",
		}},
		{"threshold", replace("300ms", "500ms"), []string{
			`~ slo shop/search indicator: latency {type="search"} within 300ms -> latency {type="search"} within 500ms; what is counted changes, so counts start from zero`,
		}},
		{"removed", shop[:strings.Index(shop, "  - name: search")], []string{"- slo shop/search; its alerts are gone too"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Text(Specs(load(t, shop), load(t, c.now)))
			require.Equal(t, strings.Join(append(c.want, ""), "\n"), got)
		})
	}
}

func TestInsurance(t *testing.T) {
	text, err := os.ReadFile("../../testdata/specs/insurance.yaml")
	require.NoError(t, err)
	in := load(t, string(text))
	require.Empty(t, Specs(in, in))
	changed := strings.NewReplacer(
		"availability: {slo: availability, weight: 40}", "availability: {slo: availability, weight: 50}",
		"      warning: 95\n", "      warning: 97\n", "warning: 30s", "warning: 20s",
	).Replace(string(text))
	require.Equal(t, `~ sla insurance-unpaid/unpaid warning: 95 -> 97; fires at smaller losses
~ sla insurance-unpaid/unpaid component availability: insurance-unpaid/availability with 40 % -> insurance-unpaid/availability with 45.45 %
~ sla insurance-unpaid/unpaid component latency: insurance-unpaid/latency with 30 % -> insurance-unpaid/latency with 27.27 %
~ sla insurance-unpaid/unpaid component quality: insurance-unpaid/quality with 10 % -> insurance-unpaid/quality with 9.091 %
~ sla insurance-unpaid/unpaid component throughput: insurance-unpaid/throughput with 20 % -> insurance-unpaid/throughput with 18.18 %
`, strings.Join(strings.SplitAfter(Text(Specs(in, load(t, changed))), "\n")[:5], ""))
}

func alert(name, long, short string, threshold float64, wait time.Duration) rules.Rule {
	return rules.Rule{
		Alert: name, For: wait, Labels: map[string]string{"slo_id": "shop/checkout", "tier": "page-" + long},
		Expr: fmt.Sprintf(`slo:sli_error:ratio_rate%s{slo_id="shop/checkout"} > %g and slo:sli_error:ratio_rate%s{slo_id="shop/checkout"} > %g`, long, threshold, short, threshold),
	}
}

func TestGroups(t *testing.T) {
	group := func(rs ...rules.Rule) []rules.Group { return []rules.Group{{Name: "g", Rules: rs}} }
	const id = `alert Burn{slo_id="shop/checkout",tier="page-1h"}`
	for _, c := range []struct {
		name     string
		old, new []rules.Group
		want     string
	}{
		{"same", group(alert("Burn", "1h", "5m", 0.0144, 0)), group(alert("Burn", "1h", "5m", 0.0144, 0)), ""},
		{"threshold", group(alert("Burn", "1h", "5m", 0.0144, 0)), group(alert("Burn", "1h", "5m", 0.0072, 0)),
			"~ " + id + " condition: 1h above 1.44 %, 5m above 1.44 % -> 1h above 0.72 %, 5m above 0.72 %; with 100 % failing it fires about 26s earlier; with 2.88 % failing it fires about 15m earlier\n"},
		{"wait", group(alert("Burn", "1h", "5m", 0.0144, 0)), group(alert("Burn", "1h", "5m", 0.0144, 10*time.Minute)),
			"~ " + id + " for: 0s -> 10m; with 100 % failing it fires about 10m later; with 2.88 % failing it fires about 10m later\n"},
		{"added and removed", group(alert("Old", "1h", "5m", 0.0144, 0)), group(alert("Burn", "1h", "5m", 0.0144, 0)),
			"+ " + id + ": 1h above 1.44 %, 5m above 1.44 %\n- " + strings.Replace(id, "Burn", "Old", 1) + ": 1h above 1.44 %, 5m above 1.44 %\n"},
		{"only the text", group(rules.Rule{Record: "a:b:c", Expr: "sum( x)"}), group(rules.Rule{Record: "a:b:c", Expr: "sum(x)"}), ""},
		{"record", group(rules.Rule{Record: "a:b:c", Expr: "sum(x)"}), group(rules.Rule{Record: "a:b:c", Expr: "sum(y)"}),
			"~ record a:b:c{group=\"g\"} expression: sum(x) -> sum(y)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Groups(c.old, c.new)
			require.NoError(t, err)
			require.Equal(t, c.want, Text(got))
		})
	}
	spread := alert("Burn", "1h", "5m", 0.0144, 0)
	spread.Expr = `slo:sli_error:ratio_rate1h > on () group_left () 0.0144 / slo:observed:ratio1h and slo:sli_error:ratio_rate5m > on () group_left () 0.0144 / slo:observed:ratio5m
or slo:sli_error:ratio_rate1h > 0.0144 and slo:sli_error:ratio_rate5m > 0.0144 and ALERTS`
	got, err := Groups(nil, group(spread))
	require.NoError(t, err)
	require.Equal(t, "+ "+id+": 1h above 1.44 %, 5m above 1.44 %\n", Text(got), "as it is where everything was observed")
	_, err = Groups(group(rules.Rule{Record: "a", Expr: "sum("}), nil)
	require.ErrorContains(t, err, "old rules: group g: rule a")
}
