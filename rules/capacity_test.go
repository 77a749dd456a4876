package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
)

const warehouse = `
version: sloengine/v1
service: warehouse
slos:
  - name: packing
    objective: 99
    group_by: [site]
    indicator:
      throughput: {valid: '{type="parcel"}', at_least: 20, per: 1m, capacity: 120 per 1m}
`

// By hand: two engines count 0.5 and 1 events a second of the north, 1.5 of a capacity of 2. For an hour of the night
// it is twice that. The south, which has no event, uses nothing.
func TestCapacityRules(t *testing.T) {
	for _, names := range []rules.Naming{rules.Own, rules.Sloth} {
		t.Run(string(names), func(t *testing.T) {
			w := rulestest.New(t, monday, coarse(
				recording(t, load(t, warehouse), rules.Options{Names: names, Scrape: time.Minute, Eval: time.Minute}),
				"slo:capacity:per_second", "slo:capacity_utilization:ratio5m", "slo:capacity_utilization:ratio1h",
				"slo:capacity_utilization:ratio1h_max7d"))
			north := [2]float64{1e6, 2e6}
			w.Run(monday.Add(30*time.Hour), time.Minute, func(at time.Time, add func(string, float64)) {
				times := 60.0
				if from := monday.Add(3 * time.Hour); at.After(from) && !at.After(from.Add(time.Hour)) {
					times = 120
				}
				for i, instance := range []string{"a", "b"} {
					north[i] += 0.5 * float64(i+1) * times
					const id = `slo_capacity_events_total{slo_id="warehouse/packing",service="warehouse",slo="packing",instance="`
					add(id+instance+`",site="north"}`, north[i])
					add(id+instance+`",site="south"}`, 0)
				}
			})
			id, all := `slo_id="warehouse/packing"`, `{slo_id="warehouse/packing",service="warehouse",slo="packing"}`
			if names == rules.Sloth {
				id, all = `sloth_id="warehouse-packing"`,
					`{sloth_id="warehouse-packing",sloth_service="warehouse",sloth_slo="packing"}`
			}
			require.InDelta(t, 2, value(t, w, "slo:capacity:per_second"+all), 1e-12)
			require.InDelta(t, 0.75, value(t, w, "slo:capacity_utilization:ratio5m{"+id+`,site="north"}`), 1e-9)
			require.InDelta(t, 0.75, value(t, w, "slo:capacity_utilization:ratio1h{"+id+`,site="north"}`), 1e-9)
			require.InDelta(t, 1.5, value(t, w, "slo:capacity_utilization:ratio1h_max7d{"+id+`,site="north"}`), 0.1,
				"the rates of an hour lag by minutes")
			require.Zero(t, value(t, w, "slo:capacity_utilization:ratio1h_max7d{"+id+`,site="south"}`))
		})
	}
}

// A throughput without a capacity has no such rules.
func TestNoCapacityRules(t *testing.T) {
	for _, g := range recording(t, load(t, strings.Replace(warehouse, ", capacity: 120 per 1m", "", 1)), rules.Options{}) {
		for _, r := range g.Rules {
			require.NotContains(t, r.Record, "capacity")
		}
	}
}
