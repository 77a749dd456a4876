package collector

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	prom "github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/slo/traces"
)

// labelNames are names that teams give to what they group by, among them every label that our own series and alerts
// have.
func labelNames() []string {
	out := strings.Fields(
		"tier team part ahead quantile bound stage component currency basis kind impact agreement long short job " +
			"instance span http.route http_route http-route rpc.method exported_service service slo sla slot slack_channel le " +
			"window result severity type outcome alertname alertstate __x id time objective le_ _le exported_severity")
	for _, f := range series.All() {
		out = append(out, f.LabelNames()...)
	}
	return append(out, series.LabelTier, series.LabelKind, series.LabelPart)
}

const labelSpec = `version: sloengine/v1
service: shop
types: any
labels: {%[3]s: x}
dimensions: [%[2]s]
slos:
  - {name: events, objective: 99, group_by: [%[1]s], indicator: {events: {bad: '{outcome="failure"}'}},
      cost: {currency: EUR, per_bad: 1}, alerting: {exhausted_soon: {}, page: {labels: {%[3]s: x}}}}
  - {name: ratio, objective: 99, group_by: [%[1]s],
      indicator: {ratio: {numerator: '{type="a"}', denominator: '{type="b"}'}}}
  - {name: many, objective: 99, group_by: [%[1]s],
      indicator: {throughput: {at_least: 10, per: 1m, capacity: 100 per 1m}}}
  - {name: work, objective: 99, group_by: [%[1]s], indicator: {completion: {key: order_id, stage: step, within: 1h,
      started: '{type="a"}', finished: '{type="b"}'}}}
slas:
  - {name: gold, group_by: [%[1]s], score: bands, components: {fast: {slo: events, weight: 100}}, alerts: {warning: 95}}
thresholds:
  - {name: t, match: '{type="a"}', critical: 1s, group_by: [%[1]s]}
`

// TestAnyAcceptedSpecIsScraped: whatever names of groups, dimensions and labels a spec is accepted with, Prometheus
// reads /metrics: no label is there twice, and no two series have the same labels.
func TestAnyAcceptedSpecIsScraped(t *testing.T) {
	names, accepted := labelNames(), map[string]bool{}
	for _, name := range names { // each alone
		accepted[name] = scrapeAccepted(t, name, "a", "b")
		scrapeAccepted(t, "a", name, name)
	}
	for _, name := range strings.Fields(
		"tier team part ahead quantile bound stage component currency basis kind impact agreement long short http.route " +
			"http-route slot type") {
		require.True(t, accepted[name], name)
	}
	for _, name := range strings.Fields(
		"service slo sla le window result severity alertname alertstate __x slo_id slo_tier sla_type id time") {
		require.False(t, accepted[name], name)
	}
	rapid.Check(t, func(t *rapid.T) {
		list := func(label string) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 3).Draw(t, label), ", ")
		}
		scrapeAccepted(t, list("group_by"), list("dimensions"), rapid.SampledFrom(names).Draw(t, "label"))
	})
}

func scrapeAccepted(t require.TestingT, groupBy, dimensions, label string) bool {
	s, problems := spec.Load(
		[]spec.File{{Name: "x.yaml", Data: []byte(fmt.Sprintf(labelSpec, groupBy, dimensions, label))}})
	if len(problems.Errors()) > 0 {
		return false
	}
	rep := fullReport(s)
	failing := tracesOf(rep)
	for _, om := range []bool{false, true} {
		var b bytes.Buffer
		require.NoError(t, writeReport(&b, rep, om, newExemplars(failing)))
		if om {
			b.WriteString("# EOF\n")
		}
		strictly(t, b.Bytes(), om)
	}
	for _, f := range append(Families(rep, failing), gatherAlerts(firing(t, rep))...) {
		seen := map[string]bool{}
		for _, m := range f.Metric {
			for i, l := range m.Label {
				require.True(t, i == 0 || *m.Label[i-1].Name < *l.Name, "%s: %v", *f.Name, m.Label)
			}
			key := fmt.Sprint(m.Label)
			require.False(t, seen[key], "%s twice", key)
			seen[key] = true
		}
	}
	return true
}

// tracesOf has a failing trace for each group of an SLO, and one for each bucket of a histogram.
func tracesOf(rep *sla.Report) (out []traces.Of) {
	for i := range rep.SLOs {
		out = append(out, traces.Of{SLO: rep.SLOs[i].SLO.ID,
			Trace: traces.Trace{ID: traces.ID{byte(i), 1}, Time: rep.Time, Group: rep.SLOs[i].Group, Duration: -1}})
	}
	for i := range rep.Durations {
		d := &rep.Durations[i]
		for k, bound := range append(d.Buckets, time.Hour) {
			out = append(out, traces.Of{Trace: traces.Trace{ID: traces.ID{byte(i), byte(k), 2}, Time: rep.Time, Duration: bound,
				Service: d.Service, Type: d.Type, Outcome: d.Outcome, Dimensions: d.DimensionValues}})
		}
	}
	return out
}

// strictly parses as Prometheus does and refuses what it refuses.
func strictly(t require.TestingT, text []byte, om bool) {
	contentType := "text/plain; version=0.0.4"
	if om {
		contentType = "application/openmetrics-text; version=1.0.0"
	}
	p, err := textparse.New(text, contentType, labels.NewSymbolTable(), textparse.ParserOptions{})
	require.NoError(t, err)
	seen, exemplars := map[string]bool{}, 0
	for {
		entry, err := p.Next()
		if err != nil {
			require.ErrorContains(t, err, "EOF")
			break
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var lset labels.Labels
		p.Labels(&lset)
		name, twice := lset.HasDuplicateLabelNames()
		require.False(t, twice, "label %s twice in %s", name, lset)
		require.False(t, seen[lset.String()], "series %s twice", lset)
		seen[lset.String()] = true
		var e prom.Exemplar
		if p.Exemplar(&e) {
			exemplars++
			require.True(t, e.HasTs)
			require.Len(t, e.Labels.Get("trace_id"), 32)
		}
	}
	require.Greater(t, len(seen), 50)
	require.Equal(t, om, exemplars > 0)
}

// fullReport has two groups of everything in a spec, with all that there can be of each.
func fullReport(s *spec.Spec) *sla.Report {
	rep := &sla.Report{Time: time.Unix(1_800_000_000, 0)}
	groups := func(by []string) (out []slo.Group) {
		for _, v := range []string{"one", "two"} {
			var g slo.Group
			for range by {
				g = append(g, v)
			}
			out = append(out, g)
		}
		return out
	}
	for _, o := range s.SLOs {
		for _, g := range groups(o.GroupBy) {
			r := sla.SLOReport{SLO: o, Group: g, Total: slo.Counts{Good: 9, Bad: 1},
				Backfilled: slo.Counts{Good: 1}, Coverage: 1}
			r.Budget.HasData = true
			r.Burns = []slo.Burn{{Window: 5 * time.Minute, HasData: true}, {Period: true, HasData: true}}
			if n := len(o.Indicator.Kind.PartNames()); n > 0 {
				r.Parts = &sla.PartCounts{Total: make([]uint64, n)}
			}
			r.Outlook = &sla.Outlook{Capacity: &forecast.Capacity{Reached: forecast.ReachedWithin, HasPeak: true}}
			for _, ahead := range []time.Duration{time.Hour, 24 * time.Hour} {
				r.Outlook.Forecast.Points = append(r.Outlook.Forecast.Points, forecast.Point{Ahead: ahead})
			}
			rep.SLOs = append(rep.SLOs, r)
		}
		if o.Indicator.Kind == slo.KindCompletion {
			x := slo.InFlight{SLO: o.ID, GroupBy: o.GroupBy}
			for _, g := range groups(o.GroupBy) {
				x.Groups = append(
					x.Groups, slo.InFlightGroup{Group: g, Stages: []slo.InFlightStage{{Stage: "a", Open: 1}, {Stage: "b", Open: 1}}})
			}
			rep.InFlight = append(rep.InFlight, x)
		}
	}
	for _, a := range s.Agreements {
		for _, g := range groups(a.GroupBy) {
			c := sla.ComponentReport{HasData: true, Bands: []sla.BandTotal{{Threshold: time.Second}, {}}}
			c.Name = "fast"
			rep.SLAs = append(rep.SLAs, sla.SLAReport{SLA: a, Group: g, HasData: true, Components: []sla.ComponentReport{c}})
		}
	}
	for _, l := range s.Thresholds {
		r := sla.ThresholdReport{Threshold: l}
		for _, g := range groups(l.GroupBy) {
			r.Groups = append(r.Groups, sla.ThresholdGroup{Group: g})
		}
		rep.Thresholds = append(rep.Thresholds, r)
	}
	for _, g := range groups(s.Services[0].Dimensions) {
		rep.Traffic = append(rep.Traffic,
			sla.TrafficReport{Service: "shop", Type: "a", Outcome: "success", DimensionNames: s.Services[0].Dimensions,
				DimensionValues: g})
		rep.Durations = append(rep.Durations,
			sla.DurationReport{Service: "shop", Type: "a", Outcome: "success", DimensionNames: s.Services[0].Dimensions,
				DimensionValues: g,
				Buckets:         []time.Duration{time.Second}, Counts: []uint64{1, 1}})
	}
	return rep
}

// firing are the alerts of a spec in two groups, as their rules have them.
func firing(t require.TestingT, rep *sla.Report) (out []state.Alert) {
	in := rules.Spec{}
	for i := range rep.SLOs {
		if i%2 == 0 {
			in.SLOs = append(in.SLOs, rep.SLOs[i].SLO)
		}
	}
	live := alerts.LiveAlerts(in, alerts.Options{})
	require.NotEmpty(t, live)
	for i := range live {
		if live[i].SLO == nil || live[i].Kind == alerts.LiveNoData {
			continue
		}
		for _, v := range []string{"one", "two"} {
			own := map[string]string{series.LabelAlertName: live[i].Alert}
			for k, x := range live[i].Labels {
				own[k] = x
			}
			for _, l := range rules.GroupLabels(live[i].SLO) {
				_, taken := own[l]
				require.False(t, taken, "label %s of the group is one of the alert, too", l)
				own[l] = v
			}
			a := state.Alert{Name: live[i].Alert, State: state.Firing, Service: "shop", Severity: own[series.LabelSeverity]}
			for k, x := range own {
				a.Labels = append(a.Labels, state.Label{Name: k, Value: x})
			}
			out = append(out, a)
		}
	}
	return out
}
