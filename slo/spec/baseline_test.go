package spec

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

const baselineSpec = `version: sloengine/v1
service: shop
types: any
slos:
  - {name: latency, objective: 95, indicator: {latency: {valid: '{}', threshold: 1s}}}
slas:
  - {name: gold, components: {l: {slo: latency, weight: 1}}}
baselines:
`

func TestBaselines(t *testing.T) {
	s, ps := Load([]File{{Name: "f", Data: []byte(baselineSpec + `
  - {name: performance, slos: [latency], detection: {from: 60m, to: 90m, target: 5m}}
  - {name: sla, slas: [gold], detection: {from: 2h, to: 4h}, goal: 80}
  - {name: response, response: {from: 45m, to: 75m, target: 30m}}
`)}})
	require.NoError(t, ps.Err())
	require.Equal(t, []*slo.Baseline{
		{Service: "shop", Name: "performance", SLOs: []string{"latency"},
			Detection: slo.Before{From: time.Hour, To: 90 * time.Minute, Target: 5 * time.Minute}, Goal: 0.5},
		{Service: "shop", Name: "sla", Agreements: []string{"gold"},
			Detection: slo.Before{From: 2 * time.Hour, To: 4 * time.Hour}, Goal: 0.8},
		{Service: "shop", Name: "response",
			Response: slo.Before{From: 45 * time.Minute, To: 75 * time.Minute, Target: 30 * time.Minute}, Goal: 0.5},
	}, s.Baselines)

	for item, want := range map[string]string{
		"{detection: {from: 1h, to: 2h}}":                             "name",
		"{name: a}":                                                   "neither detection nor response is set",
		"{name: a, detection: {from: 2h, to: 1h}}":                    "to (1h) is shorter than from (2h) (swap them)",
		"{name: a, detection: {from: 2h}}":                            "set the longest that it took",
		"{name: a, slos: [latencies], detection: {from: 1h, to: 2h}}": `baseline a: the service has no slo "latencies"`,
		"{name: a, slas: [golds], detection: {from: 1h, to: 2h}}":     `baseline a: the service has no sla "golds"`,
		"{name: a, slos: [], detection: {from: 1h, to: 2h}}":          "slos is empty",
		"{name: a, goal: 100, detection: {from: 1h, to: 2h}}":         "goal",
		"{name: a, detection: {from: 1h, until: 2h}}":                 "until",
	} {
		_, ps := Load([]File{{Name: "f", Data: []byte(baselineSpec + "  - " + item + "\n")}})
		require.ErrorContains(t, ps.Err(), want, item)
		require.True(t, strings.HasPrefix(ps.Err().Error(), "f:"), ps.Err())
	}
	_, ps = Load(
		[]File{{Name: "f", Data: []byte(baselineSpec + strings.Repeat("  - {name: a, detection: {from: 1h, to: 2h}}\n", 2))}})
	require.ErrorContains(t, ps.Err(), "baseline")
}
