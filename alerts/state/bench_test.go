package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// testSpec has every kind of SLO and an agreement that chose the whole catalogue.
func testSpec(t testing.TB) rules.Spec {
	up, lat, thr := newSLO(t, "shop/availability", "99.9", "product"), newSLO(t, "shop/latency", "95", "product"),
		newSLO(t, "shop/throughput", "99", "product")
	lat.Indicator = slo.Indicator{Kind: slo.KindLatency, Threshold: time.Minute}
	thr.Indicator = slo.Indicator{Kind: slo.KindThroughput, AtLeast: 10, Per: time.Minute}
	up.Alerting.MinEvents = 20
	up.Alerting.Page.Labels = map[string]string{"severity": "critical", "odd": "{{ x }}"}
	calls := newSLO(t, "shop/integration-latency", "95", "integration")
	calls.Indicator = lat.Indicator
	a := &sla.Agreement{Service: "shop", Name: "gold", GroupBy: []string{"product"}, Window: slo.Window{Rolling: 30 * day},
		AlertWindow: time.Hour, Warning: 95, Critical: 90}
	for _, s := range []*slo.SLO{up, lat, thr} {
		a.Components = append(a.Components, sla.Component{Name: s.ID.Name(), SLO: s.ID, Weight: 1})
	}
	for _, name := range sla.CatalogueNames() {
		a.Catalogue = append(a.Catalogue, sla.CatalogueAlert{Name: name})
	}
	return rules.Spec{SLOs: []*slo.SLO{up, lat, thr, calls}, Agreements: []*sla.Agreement{a},
		Thresholds: []*slo.Threshold{{Service: "shop", Name: "processing", Warning: time.Minute, Critical: 2 * time.Minute}}}
}

// BenchmarkStep is one report of 10,000 groups of 20 SLOs; with alerts, a tenth
// of the groups burn.
func BenchmarkStep(b *testing.B) {
	for _, burning := range []int{0, 1000} {
		b.Run(fmt.Sprintf("groups=10000/burning=%d", burning), func(b *testing.B) {
			m := newMachine(b)
			at := start.Add(40 * day)
			good := stream{rate: 1, from: start}
			bad := stream{rate: 1, from: start, incidents: []incident{{at.Add(-time.Hour), at.Add(time.Hour), 0.5}}}
			r := &sla.Report{Time: at}
			for i := range 20 {
				s := newSLO(b, slo.ID(fmt.Sprintf("shop/slo-%02d", i)), "99.9", "product")
				for g := range 500 {
					tr := good
					if i*500+g < burning {
						tr = bad
					}
					r.SLOs = append(r.SLOs, tr.report(s, slo.Group{fmt.Sprintf("product-%03d", g)}, at))
				}
			}
			m.Step(r)
			require.GreaterOrEqual(b, len(m.View().Active), burning)
			b.ReportAllocs()
			for b.Loop() {
				next := *r
				next.Time = m.last.Add(10 * time.Second)
				m.Step(&next)
			}
		})
	}
}
